"""Do the replies of a model differ by their speaker? For runs of ``replies-plays``.

Each of the first test sources is answered once as each of the most frequent speakers, so that only the label differs.
A classifier that learned the training replies of these speakers then names the speaker of each reply: TF-IDF of words
and letters and a logistic regression, as in the benchmark ``simple``. A guess is right for one reply in SPEAKERS.
The last row has the test replies of the plays themselves, where some speakers speak more than others.

"samples" are drawn at ``--temperature``. "samples, by speaker" takes one of ``--samples``: the one that the label makes
more probable than no known label does, by log p(reply | speaker, source) - log p(reply | unknown, source). The beam is
that of the recipe `replies`. Parentheses have 95 % intervals by bootstrap over the sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from report import Report, columns, machine, row, titled
from simple_methods.base import Splits
from simple_methods.labels import of_texts

import transduce
from transduce.answers.transducer import Transducer
from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics, statistics
from transduce.runs.run import Run

NOBODY = "nobody at all"  # a label that no play has
Replies = list[dict[str, str]]
"""For each source, the reply of each speaker."""


def frequent(examples: Sequence[Example], most: int) -> list[str]:
    """The ``most`` speakers with the most replies, the first one first."""
    return [name for name, _ in Counter(speaker(each) for each in examples).most_common(most)]


def speaker(example: Example) -> str:
    return example.source.split("\t", 1)[0]


def named(examples: Sequence[Example], speakers: Sequence[str]) -> list[Example]:
    """The replies of these speakers as texts with a label: what the classifier learns."""
    return [Example(each.references[0], (speaker(each),)) for each in examples if speaker(each) in speakers]


def replies(model: Transducer, texts: Sequence[str], speakers: Sequence[str]) -> Replies:
    """The first output for each text and speaker."""
    asked = [f"{name}\t{text}" for text in texts for name in speakers]
    found = iter([outputs[0].text for outputs in model.predict(asked)])
    return [{name: next(found) for name in speakers} for _ in texts]


def chosen(model: Transducer, texts: Sequence[str], speakers: Sequence[str]) -> Replies:
    """Of the model's samples for each text and speaker, the one that the speaker makes most probable."""
    best: Replies = []
    for text in texts:
        sampled = {
            name: [output.text for output in outputs]
            for name, outputs in zip(speakers, model.predict([f"{name}\t{text}" for name in speakers]), strict=True)
        }
        best.append({name: _most_typical(model, text, name, some) for name, some in sampled.items()})
    return best


def _most_typical(model: Transducer, text: str, name: str, some: Sequence[str]) -> str:
    own, other = (
        [output.score for output in model.score((f"{label}\t{text}", reply) for reply in some)]
        for label in (name, NOBODY)
    )
    gains = [mine - theirs for mine, theirs in zip(own, other, strict=True)]
    return some[gains.index(max(gains))]


def recognised(found: Replies, data: Splits) -> Statistics:
    """In how many replies to each source the classifier names the right speaker. ``data.test`` has other replies."""
    asked = [Example(reply, (name,)) for each in found for name, reply in each.items()]
    answers = iter(of_texts(Splits(data.train, data.valid, asked)))
    counts = [(float(sum(next(answers).text == name for name in each)), float(len(each))) for each in found]
    return Statistics(metric("accuracy"), np.array(counts))


def shown(system: str, texts: Sequence[str], right: Statistics) -> str:
    found = statistics(
        [metric(name) for name in ("distinct2", "mean_length")],
        [Prediction(text) for text in texts],
        [Example("", (text,)) for text in texts],
    )
    low, high = Resampling().interval(right)
    accuracy = f"{right.score:.1f} ({low:.1f} to {high:.1f})"
    return row([system, f"{len(texts):,}", *(f"{each.score:.1f}" for each in found), accuracy])


def main(
    report: Report,
    run: Path,
    *,
    speakers: int = 10,
    sources: int = 100,
    samples: int = 8,
    temperature: float = 0.8,
) -> None:
    model = transduce.load(run, device="cpu")
    data = {split: Run.open(run).examples(split) for split in ("train", "valid", "test")}
    names = frequent(data["train"], speakers)
    learned = Splits(named(data["train"], names), named(data["valid"], names), named(data["test"], names))
    texts = [*dict.fromkeys(each.source.split("\t", 1)[1] for each in data["test"])][:sources]
    length = model.settings["search"]["max_length"]
    beam = model.changed({"search.type": "beam", "search.size": 10, "search.max_length": length})
    drawn = model.changed({"search.type": "sampling", "search.temperature": temperature, "search.max_length": length})
    systems = {
        "beam": replies(beam, texts, names),
        "samples": replies(drawn, texts, names),
        "samples, by speaker": chosen(drawn.changed({"search.size": samples}), texts, names),
    }
    report.tell(
        *titled("Replies by speaker"),
        f"{len(texts)} sources, answered as {', '.join(names)}. Temperature {temperature}, {samples} samples.",
        machine(),
        "",
        *columns("| replies | lines | distinct2 | mean_length | speaker recognised, % |"),
        runs=[run],
    )
    for system, found in systems.items():
        report.tell(shown(system, [reply for each in found for reply in each.values()], recognised(found, learned)))
    own = [{each.references[0]: each.source} for each in learned.test]
    report.tell(shown("the plays", [text for each in own for text in each.values()], recognised(own, learned)))
    print("", *(f"{name}: {reply}" for name, reply in systems["samples, by speaker"][0].items()), sep="\n")
