"""Writes the caption of the nearest training picture: a baseline that a captioning model must beat.

    python benchmarks/nearest_picture.py RUN > nearest.txt
    transduce compare RUN nearest.txt

Writes a line for each picture of a run's test split. The line is the caption of the training picture with the least sum
of squared differences of pixels. If several are equally near, it is the first one. All pictures have the same size.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import transduce
from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.types import Example
from transduce.data.preparation import examples
from transduce.data.settings import Data
from transduce.runs.run import cache_folder


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
    """The pixels [N, P] of the pictures as the model reads them, row after row."""
    rows = [np.asarray(row, np.float32).ravel() for row in transducer.source_tokenizer.encode([e.source for e in of])]
    if len({len(row) for row in rows}) > 1:
        raise SystemExit("the pictures differ in size: give the unit a width")
    return np.stack(rows)


def neighbours(asked_NP: NDArray[np.float32], known_MP: NDArray[np.float32]) -> list[int]:
    """The index of the nearest of M pictures, for each of N pictures."""
    squares_M = (known_MP**2).sum(1)
    return [int((squares_M - 2 * known_MP @ one_P).argmin()) for one_P in asked_NP]


if __name__ == "__main__":
    main()
