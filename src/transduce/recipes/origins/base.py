"""What an origin is: it writes the splits of a corpus into a folder, each file whole or not at all, and only once."""

from __future__ import annotations

import hashlib
import importlib.metadata
import random
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal

from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError, Files, Splits
from transduce.files import write

TRIES = 50  # for each text that has not been there yet


def hashed_split(key: str) -> Split:
    """The split of a key, the same everywhere and for ever: SHA-1 modulo 100, below 90, below 95, the rest."""
    hundredth = int(hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(), 16) % 100
    return "train" if hundredth < 90 else "valid" if hundredth < 95 else "test"


def tsv_splits(
    folder: Path, lines: Callable[[], Mapping[Split, Iterable[str]]], suffix: Literal["tsv", "txt"] = "tsv"
) -> Splits:
    """One TSV (or text) file for each split; ``lines`` is asked for theirs only where a file is missing."""
    paths = {split: folder / f"{split}.{suffix}" for split in SPLITS}
    if not all(path.exists() for path in paths.values()):
        for split, content in lines().items():
            write(paths[split], content)
    return Splits(*(Files(path=str(path)) for path in paths.values()))


def made_up(
    folder: Path,
    pairs: int,
    seed: int,
    source: Callable[[random.Random], str],
    line: Callable[[str, random.Random], str] | None = None,
) -> Splits:
    """TSV splits, a ``line`` for each of so many different drawn sources; it may draw by chance too. Without ``line``
    text files of the sources, which to a language model are targets.

    ``pairs`` are for training; a tenth of that, at least 100, for each of valid and test.
    """
    if pairs < 1:
        raise DataError(f"pairs = {pairs}: at least one is needed to learn from")

    def lines() -> dict[Split, list[str]]:
        draw = random.Random(seed)
        following = iter(different(pairs + 2 * held_out(pairs), "texts", lambda: source(draw)))
        sizes = zip(SPLITS, (pairs, held_out(pairs), held_out(pairs)), strict=True)
        taken = {split: list(islice(following, size)) for split, size in sizes}
        return taken if line is None else {split: [line(each, draw) for each in taken[split]] for split in SPLITS}

    return tsv_splits(folder, lines, "txt" if line is None else "tsv")


def different(count: int, what: str, draw: Callable[[], str]) -> list[str]:
    """So many drawn texts, no two alike, in the order in which they were met; DataError where there are hardly as
    many."""
    found: dict[str, None] = {}
    for _ in range(TRIES * count):
        found[draw()] = None
        if len(found) == count:
            return list(found)
    raise DataError(
        f"{count} different {what} were wanted, and {len(found)} found: ask for fewer, or let the options of "
        "data.origin allow more"
    )


def held_out(pairs: int) -> int:
    """How many pairs ``made_up`` draws for each of valid and test."""
    return max(100, pairs // 10)


def package(name: str, extra: str = "recipes") -> importlib.metadata.Distribution:
    """An installed package, whose files may be read without running code of it; DataError names the extra it is in."""
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise DataError(f"the package {name!r} is not installed: pip install 'transduce[{extra}]'") from None
