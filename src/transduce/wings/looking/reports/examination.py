"""The page of an examination: how often a model behaves oddly, with cases to read."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.metrics.significance import LEVEL, holm
from transduce.wings.lab.reports import passages
from transduce.wings.looking.examination.findings import Case, Difference, Examination, Finding
from transduce.wings.pages.markup import Markup, element, joined, table
from transduce.wings.pages.page import document, foreign, notes, section

SHOWN = 10  # cases of each finding


def examination_page(found: Sequence[Examination], apart: Sequence[Difference] = ()) -> str:
    """The text of an HTML page about one model, or about two and their differences ``apart``. Each finding shows at
    most ten cases.
    """
    parts = [_differences(apart, found)] if apart else []
    for each in found:
        heading = each.name if len(found) > 1 else "Findings"
        reasons = [f"{name} is left out: {why}" for name, why in each.left_out.items()]
        parts.append(section(heading, _table(each.findings), notes(*reasons), *map(_cases, each.findings)))
    title = "Examination of " + " and ".join(each.name for each in found)
    told = differing(apart) if apart else " ".join(map(_summary, found))
    return document(title, f"{found[0].examples:,} examples", *parts, style=passages.STYLE, summary=told)


def _summary(found: Examination) -> str:
    """A sentence about the most frequent odd behaviour of a model."""
    odd = [finding for finding in found.findings if finding.cases]
    if not odd:
        return f"Nothing odd was found in {found.name}."
    most = max(odd, key=lambda finding: finding.interval[0])  # few cases show little
    return (
        f"The most frequent finding in {found.name}: {most.name}, in {100 * most.rate:.1f} % of {most.of:,} ("
        f"{most.meaning}). {len(odd)} of {len(found.findings)} kinds of odd behaviour occur."
    )


def differing(apart: Sequence[Difference]) -> str:
    """In which findings two models differ by more than chance. The p-values are corrected for their number (Holm)."""
    adjusted = holm([each.p for each in apart])
    real = [
        f"{each.one.name} ({100 * each.one.rate:.0f} and {100 * each.other.rate:.0f} %)"
        for each, p in zip(apart, adjusted, strict=True)
        if p <= LEVEL
    ]
    if not real:
        return f"No difference between the two is more than chance (Holm, {LEVEL})."
    return f"The two differ by more than chance (Holm, {LEVEL}) in: {', '.join(real)}."


def _table(findings: Sequence[Finding]) -> Markup:
    rows = []
    for finding in findings:
        low, high = finding.interval
        beside = "" if finding.references is None else f"{finding.references:,}"
        rate = f"{100 * finding.rate:.1f} %", f"[{100 * low:.1f}, {100 * high:.1f}]"
        rows.append([f"{finding.name}: {finding.meaning}", f"{len(finding.cases):,}", f"{finding.of:,}", *rate, beside])
    return table(["finding", "cases", "of", "share", "95 % interval", "among references"], rows)


def _differences(apart: Sequence[Difference], found: Sequence[Examination]) -> Markup:
    rows = [
        [
            each.one.name,
            *(f"{100 * side.rate:.1f} %" for side in (each.one, each.other)),
            *(f"{count:,}" for count in (each.only_one, each.only_other)),
            f"{each.p:.3f}",
        ]
        for each in apart
    ]
    names = [each.name for each in found]
    head = ["finding", *names, *(f"only {name}" for name in names), "p"]
    told = "p is McNemar's exact test on the examples that are cases of one model alone; it is not corrected."
    return section("Differences", table(head, rows), notes(told))


def _cases(finding: Finding) -> Markup:
    if not finding.cases:
        return Markup("")
    summary = element("summary", f"{finding.name}: {min(SHOWN, len(finding.cases))} of {len(finding.cases):,} cases")
    return element("details", summary, element("div", *map(_card, finding.cases[:SHOWN]), class_="cards"))


def _card(case: Case) -> Markup:
    rows = [("source", case.source), ("output", case.output)]
    if case.before:
        rows.insert(0, ("output before", case.before))
    body = [joined([element("dt", name), element("dd", foreign(text), dir="auto")]) for name, text in rows]
    return element("article", element("h3", f"example {case.number}"), element("dl", *body), class_="card")
