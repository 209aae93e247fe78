"""The page that compares several systems on the same examples."""

from __future__ import annotations

from transduce.evaluation.system_results import interval_text
from transduce.metrics.base import meaning
from transduce.metrics.significance import LEVEL
from transduce.wings.lab.comparison import Comparison
from transduce.wings.lab.reports import passages
from transduce.wings.lab.reports.summaries import comparison_summary
from transduce.wings.pages.markup import Markup, element, table
from transduce.wings.pages.page import document, notes, section

STYLE = """
.real, .unreal { display: inline-block; min-width: 8rem; white-space: normal; color: var(--faint); }
.real { color: var(--blue); font-weight: 600; }
"""


def comparison_page(found: Comparison, source: passages.Source = str) -> str:
    """The text of an HTML page: scores, differences, and for each tested pair of systems the examples whose scores
    changed most.

    ``source`` turns the source of an example into text or markup (``signals.shown`` for paths of signals).
    """
    title = "Comparison of " + ", ".join(found.display_names.values())
    parts = [_scores(found), differences(found)]
    systems = {system.name: system for system in found.systems}
    for tested in dict.fromkeys((pair.one, pair.other) for pair in found.pairs):
        pair, names = [systems[name] for name in tested], [found.display_names[name] for name in tested]
        cards = passages.cards(passages.changed(pair[0], pair[1]), found.examples, pair, names, source)
        parts.append(section(f"Most changed between {names[0]} and {names[1]}", passages.LEGEND, cards))
    about, style = f"{found.corpus}: {len(found.examples):,} examples", STYLE + passages.STYLE
    return document(title, about, *parts, style=style, summary=comparison_summary(found))


def differences(found: Comparison) -> Markup:
    """A section with a table: one row for each pair of systems and each metric, with both significance tests."""
    rows, short = [], found.display_names
    for pair in found.pairs:
        p = pair.difference.bootstrap_p, pair.difference.randomisation_p, pair.adjusted_p
        verdict = element("span", found.verdict(pair), class_="real" if pair.real else "unreal")
        of = [
            f"{pair.difference.value:+.2f}",
            interval_text(pair.difference.interval, "+"),
            *(f"{each:.4f}" for each in p),
        ]
        rows.append([f"{pair.metric}: {short[pair.one]} − {short[pair.other]}", *of, verdict])
    head = [
        "metric: one − other",
        "difference",
        "95 % interval",
        "p bootstrap",
        "p randomised",
        "p Holm",
        f"real at {LEVEL}?",
    ]
    told = [
        f"A difference is real where p of the randomisation test, corrected for the number of pairs (Holm), is at most "
        f"{LEVEL}; {found.resampling.signature}.",
        *(f"Not compared: {name}, {why}." for name, why in found.omitted.items()),
    ]
    return section("Differences", table(head, rows), notes(*told))


def _scores(found: Comparison) -> Markup:
    rows = [[found.display_names[system.name], *found.score_cells(system)] for system in found.systems]
    meanings = {each.name: meaning(each.metric) for each in found.systems[0].statistics}
    told = [f"{name}: {meanings[name]} {signature}" for name, signature in found.signatures.items()]
    told.append("In brackets what 95 % of resampled corpora would score.")
    if any(system.seeds for system in found.systems):
        told.append(
            "The scores of several seeds are their means; the outputs on this page are those of the first seed."
        )
    return section("Scores", table(["system", *found.metrics], rows), notes(*told))
