"""Scores two baselines of compression by deletion: keeping all words, and dropping the words that are dropped most.

Each line of a file has a sentence and an easier one, separated by a tab. Words and punctuation marks are divided. A
pair is a compression if the easier sentence is the other one without some of its words. A pair that occurs several
times counts once. Training pairs that share a sentence with a validation or test pair are left out. ``--pairs`` writes
the compressions to FOLDER as train.tsv, valid.tsv and test.tsv, with one space between words. `transduce train
compression` reads these files.

The second system drops a word if it was dropped in most of the training pairs that have it. The smallest share that
counts as "most" and the smallest number of times are the best ones on the validation pairs.

The last table tells how far two editors agree, which no model can be expected to pass. It has all sentences of the
files that have several easier versions. The words that one version keeps are the output, and the words that another
version keeps are the reference. The versions of OneStopEnglish are not independent: the easiest one was often made
from the middle one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Annotated

from report import Report, columns, titled

from transduce.core.types import Example, Prediction
from transduce.data.corpora import lines
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import statistics
from transduce.wings.labels.spans import KEPT, kept, word_marks

METRICS = ("kept_f1", "sari", "exact")
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
HEAD = "| split | system | F1 of kept words | SARI | exact | words | pairs |"
SHARES, TIMES = (0.5, 0.6, 0.7, 0.8, 0.9), (2, 3, 5, 10)

Pair = tuple[str, str]


def read(paths: Iterable[Path]) -> list[Pair]:
    """The different pairs of the files, in order, with one space between words and punctuation marks."""
    texts = (line.decode().split("\t") for path in paths for line in lines(path))
    return [*dict.fromkeys((divided(harder), divided(easier)) for harder, easier in texts)]


def divided(text: str) -> str:
    return " ".join(WORD.findall(text))


def compressions(files: Mapping[str, Sequence[Path]]) -> dict[str, list[Pair]]:
    """The compressions of each split. Training pairs that share a sentence with another split are left out."""
    found = {split: read(paths) for split, paths in files.items()}
    held_out = {text for split in ("valid", "test") for pair in found[split] for text in pair}
    found["train"] = [pair for pair in found["train"] if not held_out.intersection(pair)]
    return {split: [*filter(is_compression, pairs)] for split, pairs in found.items()}


def is_compression(pair: Pair) -> bool:
    """True if the second sentence of a pair is the first one without some of its words, at least one."""
    following = iter(pair[0].split())
    return pair[0] != pair[1] and all(word in following for word in pair[1].split())


def dropped_shares(pairs: Sequence[Pair]) -> dict[str, tuple[int, int]]:
    """For each word, how often it was dropped and how often it occurs."""
    seen, dropped = Counter[str](), Counter[str]()
    for harder, easier in pairs:
        words = harder.split()
        seen.update(words)
        marks = word_marks(words, easier.split())
        dropped.update(word for word, mark in zip(words, marks, strict=True) if mark != KEPT)
    return {word: (dropped[word], times) for word, times in seen.items()}


def shortened(text: str, dropped: dict[str, tuple[int, int]], share: float, times: int) -> str:
    """The text without the words that were dropped in at least ``share`` of at least ``times`` occurrences."""
    rare = (0, 0)
    return " ".join(
        word for word in text.split() if (found := dropped.get(word, rare))[1] < times or found[0] < share * found[1]
    )


def editors(pairs: Iterable[Pair]) -> list[tuple[str, str, str]]:
    """Each sentence with what two easier versions keep of it, in both orders. Versions that keep all or none of its
    words are left out.
    """
    versions: dict[str, dict[str, None]] = {}  # in their order
    for harder, easier in pairs:
        words = harder.split()
        if (short := kept(words, word_marks(words, easier.split()))) and short != harder:
            versions.setdefault(harder, {})[short] = None
    return [(harder, *two) for harder, some in versions.items() for two in permutations(some, 2)]


def f1(outputs: Sequence[str], pairs: Sequence[Pair]) -> float:
    (found,) = statistics([metric("kept_f1")], [Prediction(each) for each in outputs], examples(pairs))
    return found.score


def examples(pairs: Sequence[Pair]) -> list[Example]:
    return [Example(harder, (easier,)) for harder, easier in pairs]


def row(name: str, system: str, outputs: Sequence[str], pairs: Sequence[Pair]) -> str:
    found = statistics([metric(each) for each in METRICS], [Prediction(each) for each in outputs], examples(pairs))
    bounds = [Resampling().interval(each) for each in found]
    cells = [f"{each.score:.2f} ({low:.2f} to {high:.2f})" for each, (low, high) in zip(found, bounds, strict=True)]
    words = sum(len(output.split()) for output in outputs) / len(outputs)
    return f"| {' | '.join([name, system, *cells, f'{words:.1f}', f'{len(pairs):,}'])} |"


def main(
    report: Report,
    *,
    train: Sequence[Path],
    valid: Sequence[Path],
    test: Sequence[Path],
    pairs: Annotated[Path | None, "a folder for the compressions"] = None,
) -> None:
    files: dict[str, Sequence[Path]] = {"train": train, "valid": valid, "test": test}
    found, short = {split: read(paths) for split, paths in files.items()}, compressions(files)
    if pairs:
        pairs.mkdir(parents=True, exist_ok=True)
        for split, some in short.items():
            (pairs / f"{split}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in some), encoding="utf-8")
    dropped = dropped_shares(short["train"])

    def drop(split: str, share: float, times: int) -> list[str]:
        return [shortened(text, dropped, share, times) for text, _ in short[split]]

    share, times = max(product(SHARES, TIMES), key=lambda each: f1(drop("valid", *each), short["valid"]))
    counts = ", ".join(f"{len(short[split]):,} of {len(found[split]):,} for {split}" for split in short)
    report.split = "valid and test"
    report.tell(*titled("Compression without a model"), f"Pairs that are compressions: {counts}.", "")
    report.tell(*columns(HEAD))
    for split in ("valid", "test"):
        report.tell(row(split, "all words kept", [text for text, _ in short[split]], short[split]))
        name = f"words dropped in at least {share:.0%} of at least {times} cases"
        report.tell(row(split, name, drop(split, share, times), short[split]))
    agreement = editors(pair for some in found.values() for pair in some)
    if agreement:
        sources, outputs, references = zip(*agreement, strict=True)
        report.tell("", "## Two editors of a sentence", "", *columns(HEAD))
        for system, texts in (("all words kept", sources), ("the other editor", outputs)):
            report.tell(row("all", system, texts, [*zip(sources, references, strict=True)]))
