"""What is said of the nearest picture of training: what a model of captions must beat.

    python benchmarks/nearest_picture.py RUN > nearest.txt
    transduce compare RUN nearest.txt

For each picture of a run's test split a line: the caption of the training picture whose pixels are nearest (the sum of
squared differences), the first of those that are equally near. All pictures are of one size.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import transduce
from transduce import config
from transduce.data.preparation import examples
from transduce.data.settings import Data
from transduce.runs.run import cache_folder
from transduce.transducer import Transducer
from transduce.types import Example


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    transducer = transduce.load(run)
    data = config.build(transducer.settings["data"], Data, path="data")
    known, asked = (examples(data, split, cache_folder(data, run)) for split in ("train", "test"))
    for nearest in neighbours(pixels(transducer, asked), pixels(transducer, known)):
        print(known[nearest].references[0])


def pixels(transducer: Transducer, of: Sequence[Example]) -> NDArray[np.float32]:
    """[N, P]: the pictures as the model sees them, row after row."""
    rows = [np.asarray(row, np.float32).ravel() for row in transducer.source_tokenizer.encode([e.source for e in of])]
    if len({len(row) for row in rows}) > 1:
        raise SystemExit("the pictures differ in size: give the unit a width")
    return np.stack(rows)


def neighbours(asked_NP: NDArray[np.float32], known_MP: NDArray[np.float32]) -> list[int]:
    """[N]: the nearest of M pictures."""
    squares_M = (known_MP**2).sum(1)
    return [int((squares_M - 2 * known_MP @ one_P).argmin()) for one_P in asked_NP]


if __name__ == "__main__":
    main()
