"""The page with the evaluation of one system, with or without a comparison to another system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from transduce.evaluation.groups import Grouping
from transduce.evaluation.system_results import SystemResults, interval_text
from transduce.metrics.base import meaning
from transduce.metrics.calibration import Calibration
from transduce.metrics.confusions import LabelBreakdown
from transduce.metrics.error_breakdown import ErrorBreakdown
from transduce.metrics.units import shown
from transduce.wings.lab.comparison import Comparison
from transduce.wings.lab.reports import comparison, figures, passages
from transduce.wings.lab.reports.summaries import evaluation_summary
from transduce.wings.pages import page
from transduce.wings.pages.markup import Markup, element, table
from transduce.wings.pages.page import document, notes, section
from transduce.wings.pages.signals import shown as shown_signal

STYLE = comparison.STYLE + figures.STYLE + passages.STYLE


def evaluation_page(results: SystemResults, against: Comparison | None = None, source: passages.Source = str) -> str:
    """The text of an HTML page: scores, differences from another system, groups of sources, errors, labels,
    calibration, and examples.

    Parts that ``results`` does not have are left out. ``against`` compares two systems: this one and the other, in this
    order. ``source`` turns the source of an example into text or markup (``signals.shown`` for paths of signals).
    """
    system, examples = results.system, results.examples
    took = "" if system.seconds is None else f", outputs found in {system.seconds:.1f} s"
    ranked = passages.first(system).name
    parts = [_scores(results)]
    if against is not None:
        parts.append(comparison.differences(against))
    if results.groupings:
        drawn = _figures(results.groupings, ranked)
        parts.append(section(f"{ranked} by the source", element("p", BARS, class_="faint"), drawn, *_tables(results)))
    if results.errors:
        parts.append(section("Errors", *map(_errors, results.errors)))
    if results.labels:
        parts.append(section("Labels", *map(_labels, results.labels)))
    if results.calibration is not None:
        parts.append(_calibration(results.calibration))
    if against is not None:
        both, names = against.systems, list(against.display_names.values())
        cards = passages.cards(passages.changed(both[0], both[1]), examples, both, names, source)
        parts.append(section(f"Most changed from {names[1]}", passages.LEGEND, cards))
    kinds = {
        f"Worst by {ranked}": passages.worst(system, examples),
        "At random": passages.drawn(examples, results.resampling.seed),
    }
    for heading, numbers in kinds.items():
        cards = passages.cards(numbers, examples, [system], ["output"], source)
        parts.append(section(heading, passages.LEGEND, cards))
    told = f"{results.corpus}: {len(examples):,} examples{took}"
    summary = evaluation_summary(results, against)
    return document(f"Evaluation of {system.name}", told, *parts, style=STYLE, summary=summary)


BARS = "All bars begin at 0 and are of one scale; the line across the end of a bar is its 95 % interval."


def _scores(results: SystemResults) -> Markup:
    scores, signatures = results.system.scores, results.signatures
    rows = [
        [name, f"{scores[name]:.2f}", interval_text(interval), element("code", signatures[name])]
        for name, interval in results.intervals.items()
    ]
    told = [f"{each.name}: {meaning(each.metric)}" for each in results.system.statistics]
    told.append(f"Intervals hold 95 % of resampled corpora: {results.resampling.signature}.")
    return section("Scores", table(["metric", "score", "95 % interval", "signature"], rows), notes(*told))


def _figures(groupings: Sequence[Grouping], name: str) -> Markup:
    """Bars of the metric ``name`` for each group of sources. All bars have one scale, so that they can be compared."""
    ends = [
        end
        for grouping in groupings
        for each in grouping.bins
        for end in (each.scores[name], *each.intervals.get(name, ()))
        if math.isfinite(end)
    ]
    axis = min([0.0, *ends]), max([0.0, *ends])
    return element("div", *(_grouped(each, name, axis) for each in groupings), class_="figures")


def _grouped(grouping: Grouping, name: str, axis: tuple[float, float]) -> Markup:
    found = grouping.bins
    intervals = [each.intervals.get(name) for each in found]
    values, counts = [each.scores[name] for each in found], [each.examples for each in found]
    return figures.bars(grouping.title, name, grouping.labels, values, intervals, counts, axis)


def _tables(results: SystemResults) -> list[Markup]:
    """One folded element with a table of all metrics for each grouping. An empty list for a single metric, which the
    figures show.
    """
    names = list(results.system.scores)
    if len(names) == 1:
        return []
    tables = [
        table(
            ["group", "examples", *names],
            [
                [label, f"{each.examples:,}", *(f"{each.scores[name]:.2f}" for name in names)]
                for label, each in zip(grouping.labels, grouping.bins, strict=True)
            ],
            grouping.title,
        )
        for grouping in results.groupings
    ]
    return [element("details", element("summary", "all metrics"), *tables)]


def _errors(found: ErrorBreakdown) -> Markup:
    record = found.record(most=10)
    counts = ", ".join(f"{count:,} {name}" for name, count in found.counts.items())
    rows = [
        [f"{shown(each['reference'])} → {shown(each['predicted'])}", f"{each['count']:,}"]
        for each in record["substituted"]
    ]
    rows += [[f"{shown(each['reference'])} → nothing", f"{each['count']:,}"] for each in record["deleted"]]
    rows += [[f"nothing → {shown(each['predicted'])}", f"{each['count']:,}"] for each in record["inserted"]]
    told = element("p", f"{found.metric}: {counts}; the references have {found.length:,} {found.unit}s.")
    frequent = [table(["reference → output", "times"], rows, "the most frequent")] if rows else []
    return element("div", told, *frequent)


def _labels(found: LabelBreakdown) -> Markup:
    head, *rows = found.rows()
    if not found.confusions:
        return table(head, rows)
    summary = element("summary", "which is taken for which")
    told = (
        "A row for each label of the references: how often each label was predicted in its place, right ones in blue."
    )
    confused = element("details", summary, element("p", told, class_="faint"), figures.confusions(found))
    return element("div", table(head, rows), confused)


def _calibration(found: Calibration) -> Markup:
    told = (
        f"The model is {100 * found.confidence:.1f} % sure of its first choice of a token on average, and right in "
        f"{100 * found.accuracy:.1f} % of {found.tokens:,} tokens. "
        f"Expected calibration error, how far the one lies from the other on average: {100 * found.error:.2f} %."
    )
    read = (
        "The larger a point, the more tokens. On the dashed line the model is right as often as it is sure; below the "
        "line it is too sure, above it not sure enough."
    )
    points = element("details", element("summary", "the points as a table"), figures.shares(found))
    curve = element("p", read, class_="faint"), figures.reliability(found)
    return section("Calibration", element("p", told), *curve, points, notes(found.signature))


def write_page(path: Path, results: SystemResults, against: Comparison | None, signals: bool) -> None:
    """Writes the page of an evaluation. If the sources are ``signals``, it shows or plays them."""
    page.write(path, evaluation_page(results, against, shown_signal if signals else str))
