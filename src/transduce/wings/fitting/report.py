"""The report of a ``fit``: the data, the candidates, the choice with its reasons, and the next steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.core.types import Prediction
from transduce.metrics.base import metric
from transduce.metrics.error_breakdown import error_breakdown
from transduce.metrics.error_rates import ErrorRate
from transduce.metrics.significance import Interval
from transduce.metrics.units import columns
from transduce.wings.fitting.growth import Growth
from transduce.wings.fitting.mixtures import Choice, Validation
from transduce.wings.fitting.rounds import Trials
from transduce.wings.pages import drawing
from transduce.wings.pages.drawing import Drawing
from transduce.wings.pages.markup import Markup, element, scrolling, table
from transduce.wings.pages.page import document, section, write
from transduce.wings.pages.placement import Box, label_boxes

MARKDOWN, PAGE = "report.md", "report.html"
LETTER = 6.9  # pixels: the width of a letter
SHOWN = 8  # most frequent errors of a kind


@dataclass(frozen=True)
class Row:
    """A line of the table: a choice with its score, the ends of the interval, and its costs."""

    name: str
    score: float
    interval: Interval
    seconds: float
    minutes: float
    megabytes: float
    why: str

    @property
    def cells(self) -> list[str]:
        return [
            self.name,
            f"{self.score:.2f} ({self.interval.low:.2f} to {self.interval.high:.2f})",
            f"{1000 * self.seconds:.1f}",
            f"{self.minutes:.1f}",
            f"{self.megabytes:.1f}",
        ]


@dataclass(frozen=True)
class Fact:
    """A section of the report: its heading and its lines."""

    heading: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Report:
    """``summary`` is one sentence. ``rows`` are all choices, the chosen one first."""

    title: str
    summary: str
    metric: str
    facts: Sequence[Fact]
    rows: Sequence[Row]
    after: Sequence[Fact]

    @property
    def head(self) -> list[str]:
        return ["model", f"{self.metric} on validation", "ms an output", "minutes of training", "MB"]

    def markdown(self) -> str:
        parts = [f"# {self.title}", self.summary]
        for fact in self.facts:
            parts += [f"## {fact.heading}", "\n".join(f"- {line}" for line in fact.lines)]
        lines = [self.head, ["---"] * len(self.head), *(row.cells for row in self.rows)]
        parts += ["## What was tried", "\n".join(f"| {' | '.join(cells)} |" for cells in lines)]
        parts += ["\n".join(f"- `{row.name}`: {row.why}" for row in self.rows if row.why)]
        for fact in self.after:
            parts += [f"## {fact.heading}", "\n".join(f"- {line}" for line in fact.lines)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def page(self) -> str:
        tried = section(
            "What was tried",
            table(self.head, [row.cells for row in self.rows]),
            *([_picture(self.rows, self.metric)] if len(self.rows) > 1 else []),
            _listed([f"{row.name}: {row.why}" for row in self.rows if row.why]),
        )
        before = [section(fact.heading, _listed(fact.lines)) for fact in self.facts]
        after = [section(fact.heading, _listed(fact.lines)) for fact in self.after]
        return document(self.title, f"chosen by {self.metric}", *before, tried, *after, summary=self.summary)

    def write(self, folder: Path) -> None:
        write(folder / MARKDOWN, self.markdown())
        write(folder / PAGE, self.page())


def rows(trials: Trials, validation: Validation, choices: Sequence[Choice]) -> list[Row]:
    """The rows of the choices, the last choice first: it was chosen."""
    found = []
    for choice in reversed(choices):
        results = [result for member in choice.members for result in trials.results(member) or []]
        whys = [member.why for member in choice.members] if len(choice.members) == 1 else []
        found.append(
            Row(
                choice.name,
                validation.statistics(choice).score,
                validation.interval(choice),
                choice.seconds,
                sum(each.minutes for each in results),
                sum(each.size for each in results) / len(trials.views) / 1e6,
                *(whys or ["the mean of their probabilities"]),
            )
        )
    return [found[0], *sorted(found[1:], key=lambda row: -trials.sign * row.score)]


def chosen_line(chosen: str, metric: str, score: float, interval: Interval, better: Mapping[str, float]) -> str:
    """The sentence about the choice. ``better`` are others with better scores that may be chance: a reader asks why."""
    told = f"{chosen} was chosen: {metric} {score:.2f} ({interval.low:.2f} to {interval.high:.2f}) on validation."
    if better:
        scored = ", ".join(f"{name} ({value:.2f})" for name, value in better.items())
        told += f" It is not surely worse than {scored}: the difference may be chance, and one model is simpler."
    return told


def reasons(validation: Validation, choices: Sequence[Choice]) -> list[str]:
    """How the chosen model differs from each other one, with the paired test on the same examples."""
    chosen, told = choices[-1], []
    for other in reversed(choices[:-1]):
        gain = validation.gain(chosen, other)
        low, high = gain.interval
        sure = "more than chance" if gain.randomisation_p < 0.05 else "may be chance"
        told.append(f"beside {other.name}: {gain.value:+.2f} ({low:+.2f} to {high:+.2f}; {sure})")
    return told


def errors(validation: Validation, choice: Choice) -> list[str]:
    """The errors of the chosen model on validation, by kind."""
    examples, outputs = validation.examples, choice.outputs
    wrong = [
        (example, output) for example, output in zip(examples, outputs, strict=True) if output not in example.references
    ]
    told = [f"{len(wrong):,} of {len(examples):,} outputs differ from every reference"]
    name = validation.trials.task.metric
    measured = metric(name if isinstance(metric(name), ErrorRate) else "cer")
    if validation.trials.task.name in ("labels", "sound-labels", "picture-labels"):
        pairs: dict[tuple[str, str], int] = {}
        for example, output in wrong:
            key = (example.references[0], output)
            pairs[key] = pairs.get(key, 0) + 1
        most = sorted(pairs.items(), key=lambda each: -each[1])[:SHOWN]
        told += [f"{reference} was called {output}: {count}" for (reference, output), count in most]
    elif isinstance(measured, ErrorRate) and validation.trials.task.name not in ("tags", "entities", "trees", "text"):
        found = error_breakdown(measured, [Prediction(output) for output in outputs], examples)
        substituted = ", ".join(f"{one} → {other} ({n})" for (one, other), n in found.substitutions.most_common(SHOWN))
        missing = ", ".join(f"{unit} ({n})" for unit, n in found.deletions.most_common(SHOWN))
        extra = ", ".join(f"{unit} ({n})" for unit, n in found.insertions.most_common(SHOWN))
        told += [
            f"{kind}: {shown}"
            for kind, shown in (("confused", substituted), ("missing", missing), ("extra", extra))
            if shown
        ]
    told += [f"for example {_short(e.source)}: {_short(o)} instead of {_short(e.references[0])}" for e, o in wrong[:5]]
    return told


def growth_lines(found: Growth | None, name: str, score: float, higher: bool) -> list[str]:
    if found is None:
        return ["Not measured: that needs an instant candidate, and at least 160 pairs beside the validation pairs."]
    return found.lines(name, score, higher)


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


def _listed(lines: Sequence[str]) -> Markup:
    return element("ul", *(element("li", line) for line in lines)) if lines else Markup("")


def _picture(found: Sequence[Row], name: str) -> Markup:
    """The score of each model against the time of an output, on a logarithmic axis."""
    width, height, left, bottom = 900.0, 340.0, 60.0, 40.0
    times = [math.log10(max(row.seconds, 1e-6)) for row in found]
    scores = [row.score for row in found]
    ends = (min(times) - 0.2, max(times) + 0.6), (min(scores), max(scores))
    spread = (ends[1][1] - ends[1][0]) or 1.0

    def place(time: float, score: float) -> tuple[float, float]:
        x = left + (time - ends[0][0]) / (ends[0][1] - ends[0][0]) * (width - left - 20)
        y = height - bottom - 20 - (score - ends[1][0]) / spread * (height - bottom - 50)
        return x, y

    parts = [
        drawing.line(left, height - bottom, width - 10, height - bottom),
        drawing.line(left, 10, left, height - bottom),
        drawing.text(width / 2, height - 8, "milliseconds an output: left is faster"),
        drawing.text(left + 6, 12, f"{name} ({'higher' if metric(name).higher_is_better else 'lower'} is better)"),
    ]
    for power in range(math.floor(ends[0][0]), math.ceil(ends[0][1]) + 1):
        for digit in (1, 2, 5):
            time = power + math.log10(digit)
            if ends[0][0] <= time <= ends[0][1]:
                x, _ = place(time, ends[1][0])
                parts.append(drawing.text(x, height - bottom + 16, f"{1000 * digit * 10**power:g}"))
    points = [place(time, row.score) for row, time in zip(found, times, strict=True)]
    names = [f"{row.name} {row.score:.2f}" for row in found]
    page = Box(left, 0, width - left, height - bottom)
    boxes = label_boxes(points, [LETTER * columns(each) for each in names], 14, 8, page)
    for (x, y), name_of, label in zip(points, names, boxes, strict=True):
        dot = drawing.box(x - 4, y - 4, 8, 8, style="fill: var(--blue)")
        parts.append(element("g", element("title", name_of), dot))
        if label is not None:  # it would hide another one; the mouse and the table tell it
            parts.append(drawing.text(label.x, label.y + label.height / 2, name_of))
    about = f"{name} of each model against its time for an output"
    return scrolling(Drawing(width, height, about, parts).inline(), about)
