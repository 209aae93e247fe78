"""Measures the memory and time of counting n-grams in a long synthetic text.

The words are drawn from a Markov chain of order 2 over a skewed vocabulary, in lines of 25. The text is a memory-mapped
file. ``--cutoffs 0,0,1`` leaves rare n-grams out. Prints the number of different n-grams, the seconds, and the peak
memory (resident set size) of the process before counting and after it. Pages of the mapped text count, too, with
2 bytes for each token. The system takes them back when it needs memory.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from report import Report

from transduce.wings.counted.kneser_ney import estimate
from transduce.wings.counted.ngram_counts import Sequences
from transduce.wings.counted.pruning import prune as pruned

LINE = 25
BLOCK = 1_000_000


def write_text(path: Path, tokens: int, words: int, seed: int = 1) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Writes a text of lines of ``LINE`` words. Returns its words and the offsets of its lines."""
    lines = tokens // LINE
    flat = np.lib.format.open_memmap(path, "w+", np.uint16, (lines * LINE,))
    generator = np.random.default_rng(seed)
    share = 1 / np.arange(1, words + 1)
    for first in range(0, lines, BLOCK // LINE):
        block = flat[first * LINE : (first + BLOCK // LINE) * LINE].reshape(-1, LINE)
        drawn = generator.choice(words, block.shape, p=share / share.sum())
        for place in range(2, LINE):  # the two words before determine a third of the words
            depends = generator.random(len(block)) < 1 / 3
            drawn[depends, place] = (7 * drawn[depends, place - 1] + 3 * drawn[depends, place - 2]) % words
        block[:] = drawn
    flat.flush()
    return np.load(path, mmap_mode="r"), np.arange(0, lines * LINE + 1, LINE)


def peak() -> float:
    """The largest resident set of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(
    report: Report,
    *,
    tokens: int = 50_000_000,
    words: int = 40,
    order: int = 5,
    cutoffs: Sequence[int] = (),
    prune: float = 0.0,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        flat, offsets = write_text(Path(folder) / "text.npy", tokens, words)
        before, began = peak(), time.perf_counter()
        found = pruned(estimate(Sequences(flat, offsets), words, order, tuple(cutoffs)), prune)
        seconds = time.perf_counter() - began
        report.tell(f"{tokens:,} tokens, {words:,} words, order {order}, {seconds:.0f} s")
        report.tell(f"n-grams kept: {len(found):,}, by order {found.counts}")
        report.tell(f"peak memory: {before:.0f} MiB before, {peak():.0f} MiB after")
