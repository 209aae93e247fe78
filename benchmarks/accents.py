"""Compares trained runs that restore accents with two systems without a model, and measures the speed of the runs.

The runs are of the recipe ``accents``, or of another recipe with its data. The system "unchanged" copies the source.
The system "most frequent form" replaces each word by its most frequent form in the training targets. It keeps the words
that training does not have. Spaces and punctuation separate words.

The table has the percentages of right characters (100 minus the character error rate) and of right sentences.
Parentheses have 95 % intervals by bootstrap over the sentences. The speed is sentences per second of processor time.
Each run uses its own search and batches of 64. The runs take turns, and the table has the median of the rounds.
"""

from __future__ import annotations

import re
import statistics as numbers
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from report import Report, columns, titled

import transduce
from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import statistics
from transduce.runs.run import Run

WORD = re.compile(r"\w+")


def frequent_forms(pairs: Iterable[Example]) -> dict[str, str]:
    """For each word without accents, its most frequent form; of equally frequent forms the first."""
    counts = defaultdict[str, Counter[str]](Counter)
    for pair in pairs:
        for word, form in zip(WORD.findall(pair.source), WORD.findall(pair.references[0]), strict=True):
            counts[word][form] += 1
    return {word: forms.most_common(1)[0][0] for word, forms in counts.items()}


def row(name: str, outputs: Sequence[str], examples: Sequence[Example], speed: str) -> str:
    """A line of the table."""
    found = statistics([metric("cer"), metric("exact")], [Prediction(output) for output in outputs], examples)
    (errors, exact), bounds = found, [Resampling().interval(each) for each in found]
    (least, most), (low, high) = bounds
    right = f"{100 - errors.score:.2f} ({100 - most:.2f} to {100 - least:.2f})"
    return f"| {name} | {right} | {exact.score:.1f} ({low:.1f} to {high:.1f}) | {speed} |"


def sentences_a_second(transducer: transduce.Transducer, sources: Sequence[str]) -> float:
    began = time.process_time()
    list(transducer.predict(sources))
    return len(sources) / (time.process_time() - began)


def main(
    report: Report,
    runs: Sequence[Path],
    *,
    split: str = "test",
    rounds: int = 5,
    sentences: Annotated[int, "how many of the split each round answers"] = 200,
) -> None:
    examples = list(Run.open(runs[0]).examples(split))
    forms = frequent_forms(Run.open(runs[0]).examples("train"))
    sources = [example.source for example in examples]
    changed = [WORD.sub(lambda found: forms.get(found[0], found[0]), source) for source in sources]
    loaded = {path: transduce.load(path, device="cpu") for path in runs}
    speeds = defaultdict[Path, list[float]](list)
    for _ in range(rounds):
        for path, transducer in loaded.items():
            speeds[path].append(sentences_a_second(transducer, sources[:sentences]))
    report.split = split
    report.tell(*titled("Accents"), *columns("| system | characters right | sentences right | sentences a second |"))
    report.tell(row("unchanged", sources, examples, ""), row("most frequent form", changed, examples, ""))
    for path, transducer in loaded.items():
        outputs = [outputs[0].text for outputs in transducer.predict(sources)]
        report.tell(row(path.name, outputs, examples, f"{numbers.median(speeds[path]):,.0f}"), runs=[path])
