"""Writes the target of the most similar training source: a baseline that a model of pairs of texts must beat.

    python benchmarks/nearest_example.py RUN > nearest.txt
    transduce compare RUN nearest.txt

Writes a line for each source of a run's test split: the target of the training source with the highest cosine. If
several are equal, it is the first one. A source is the bag of its words in lower case. Words are weighted by their
inverse document frequency in the training sources (tf-idf). Line breaks in a target become spaces.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import transduce
from transduce.core import config
from transduce.data.preparation import examples
from transduce.data.settings import Data
from transduce.runs.run import cache_folder

Bag = Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    data = config.build(transduce.load(run).settings["data"], Data, path="data")
    known, asked = (examples(data, split, cache_folder(data, run)) for split in ("train", "test"))
    nearest = neighbours([each.source for each in asked], [each.source for each in known])
    for index in nearest:
        print(" ".join(known[index].references[0].splitlines()))


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def neighbours(asked: Sequence[str], known: Sequence[str]) -> list[int]:
    """The index of the most similar known text, for each text of ``asked``."""
    counts = [words(text) for text in known]
    documents = Counter(word for each in counts for word in each)
    weight = {word: math.log(len(known) / count) for word, count in documents.items()}
    texts_by_word: dict[str, list[tuple[int, float]]] = {}
    for index, each in enumerate(counts):
        for word, value in normalised(each, weight).items():
            texts_by_word.setdefault(word, []).append((index, value))
    found = []
    for text in asked:
        cosines = [0.0] * len(known)
        for word, value in normalised(words(text), weight).items():
            for index, other in texts_by_word.get(word, ()):
                cosines[index] += value * other
        found.append(max(range(len(known)), key=cosines.__getitem__))
    return found


def normalised(counts: Counter[str], weight: Mapping[str, float]) -> Bag:
    """The tf-idf vector of the words, with length 1. Words without a weight are left out."""
    weighed = {word: count * weight[word] for word, count in counts.items() if word in weight}
    length = math.sqrt(sum(value * value for value in weighed.values())) or 1.0
    return {word: value / length for word, value in weighed.items()}


if __name__ == "__main__":
    main()
