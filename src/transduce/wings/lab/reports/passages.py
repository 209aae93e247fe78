"""Cards of examples to read: the worst ones, random ones, and those that changed most."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from rapidfuzz.distance import Levenshtein

from transduce.core.types import Example
from transduce.evaluation.systems import System
from transduce.metrics.labels import LabelMetric
from transduce.metrics.statistics import Floats, Statistics
from transduce.wings.lab.reports.differences import compared
from transduce.wings.pages.markup import Markup, element, joined

SHOWN = 10  # cards of each kind
Source = Callable[[str], str]  # how a card shows a source: the text itself, or the signal in a file

STYLE = """
.card { background: var(--card); border-radius: 6px; padding: .7rem 1rem; }
.card h3 { font-size: .85rem; font-weight: 400; margin: 0; color: var(--faint); }
.card dl { display: grid; grid-template-columns: fit-content(11rem) minmax(0, 1fr); gap: .15rem 1rem; margin: 0; }
@media (max-width: 40rem) { .card dl { grid-template-columns: fit-content(5.5rem) minmax(0, 1fr); } }
.card dt { color: var(--faint); } .card dd { margin: 0; white-space: pre-wrap; justify-self: start; max-width: 100%; }
.card .own { margin-inline-start: .8em; white-space: nowrap; }
mark, del { color: inherit; border-radius: 3px; padding: 0 .12em; }
mark { background: var(--blue-wash); } del { background: var(--orange-wash); text-decoration-color: var(--faint); }
"""

LEGEND = element(
    "p",
    element("mark", "marked"),
    " is not in the nearest reference, ",
    element("del", "struck"),
    " is missing from the output; the number is the example's own score.",
    class_="faint",
)


def worst(system: System, examples: Sequence[Example], shown: int = SHOWN) -> list[int]:
    """The indices of at most ``shown`` examples with the worst scores, worst first. The score is the metric of
    ``first(system)``.

    Ties go to the output with the larger distance from its nearest reference. Outputs that equal a reference are left
    out.
    """
    statistics = first(system)
    badness = -_goodness(statistics)
    far = [
        _distance(prediction.text, example) for prediction, example in zip(system.predictions, examples, strict=True)
    ]
    order = sorted(range(len(examples)), key=lambda n: (-badness[n], -far[n], n))
    return [n for n in order if far[n] > 0][:shown]


def changed(one: System, other: System, shown: int = SHOWN) -> list[int]:
    """The indices of at most ``shown`` examples whose scores differ most, the largest difference first. The score is
    the metric of ``first(one)``, which both systems must have.

    Ties go to the larger distance between the two outputs. Examples with equal outputs are left out.
    """
    ours, theirs = _goodness(first(one)), _goodness(_named(other, first(one).name))
    far = [
        Levenshtein.normalized_distance(a.text, b.text) for a, b in zip(one.predictions, other.predictions, strict=True)
    ]
    order = sorted(range(len(far)), key=lambda n: (-abs(ours[n] - theirs[n]), -far[n], n))
    return [n for n in order if far[n] > 0][:shown]


def drawn(examples: Sequence[Example], seed: int, shown: int = SHOWN) -> list[int]:
    """The indices of ``shown`` examples (of all, if there are fewer) drawn at random without replacement, in the order
    of the corpus. The same ``seed`` draws the same.
    """
    return sorted(random.Random(seed).sample(range(len(examples)), min(shown, len(examples))))


def first(system: System) -> Statistics:
    """The statistics by which examples are sorted: of the system's first metric that reads outputs. If no metric reads
    outputs, of its first metric.
    """
    return next((each for each in system.statistics if not each.metric.needs_forcing), system.statistics[0])


def cards(
    numbers: Iterable[int],
    examples: Sequence[Example],
    systems: Sequence[System],
    names: Sequence[str],
    source: Source = str,
) -> Markup:
    """A card for each example: source, references, and each system's output with its own score.

    ``numbers`` are indices of examples. ``names`` are the labels of ``systems``, in the same order. An output shows its
    differences from the nearest reference; labels differ as a whole. All scores are by the metric of
    ``first(systems[0])``.
    """
    statistics = [_named(system, first(systems[0]).name) for system in systems]
    whole = isinstance(statistics[0].metric, LabelMetric)
    made = []
    for number in numbers:
        example = examples[number]
        rows = [_row("source", source(example.source)), *(_row("reference", text) for text in example.references)]
        for name, system, each in zip(names, systems, statistics, strict=True):
            text = system.predictions[number].text
            score = f"{each.name} {each.of([number]).each()[0]:.1f}"
            nearest = min(example.references, key=lambda wanted: Levenshtein.distance(text, wanted), default=text)
            own = element("small", element("bdi", score), class_="faint own")
            rows.append(_row(name, joined([compared(text, nearest, whole), own])))
        heading = element("h3", f"example {number + 1}")
        made.append(element("article", heading, element("dl", *rows), class_="card"))
    return element("div", *made, class_="cards")


def _row(name: str, text: str) -> Markup:
    """A term and its description in a card. ``text`` may have any language and writing direction."""
    return joined([element("dt", name), element("dd", text, dir="auto", lang="")])


def _goodness(statistics: Statistics) -> Floats:
    """[N]: each example's own score, negated if less of the metric is better, so that higher is always better."""
    return statistics.each() if statistics.metric.higher_is_better else -statistics.each()


def _named(system: System, name: str) -> Statistics:
    return next(each for each in system.statistics if each.name == name)


def _distance(text: str, example: Example) -> float:
    """The edit distance to the nearest reference, divided by the longer text's length; 0 without references."""
    return min((Levenshtein.normalized_distance(text, wanted) for wanted in example.references), default=0.0)
