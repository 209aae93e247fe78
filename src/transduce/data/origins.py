"""Functions that origins share. An origin writes the splits of a corpus into a folder, once; each file is whole."""

from __future__ import annotations

import importlib.metadata
import random
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal

from transduce.core.files import write_lines
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError, Files, Splits

TRIES = 50  # draws per requested text, before we give up


def tsv_splits(
    folder: Path, lines: Callable[[], Mapping[Split, Iterable[str]]], suffix: Literal["tsv", "txt"] = "tsv"
) -> Splits:
    """Returns one TSV or text file in ``folder`` per split. If one of the three is missing, all are written from
    ``lines()``; otherwise ``lines`` is not called.
    """
    paths = {split: folder / f"{split}.{suffix}" for split in SPLITS}
    if not all(path.exists() for path in paths.values()):
        for split, content in lines().items():
            write_lines(paths[split], content)
    return Splits(*(Files(path=str(path)) for path in paths.values()))


def made_up(
    folder: Path,
    pairs: int,
    seed: int,
    source: Callable[[random.Random], str],
    line: Callable[[str, random.Random], str] | None = None,
) -> Splits:
    """Returns splits of randomly drawn, different sources. If files are missing, they are drawn and written into
    ``folder``.

    ``source`` draws a source. ``line`` turns it into a TSV line and may draw random numbers too. Without ``line`` the
    files have the sources as text, which are a language model's targets. ``pairs`` are for training; valid and test
    have a tenth of that each, at least 100. The same ``seed`` gives the same files. Raises DataError if ``pairs`` is
    less than 1, or if too few different sources are drawn (``different``).
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
    """Draws until there are ``count`` different texts, and returns these in the order of drawing. Raises DataError if
    ``TRIES`` * ``count`` draws give fewer. ``what`` names the texts in that message.
    """
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
    """The number of pairs for valid, and for test: a tenth of the training ``pairs``, at least 100."""
    return max(100, pairs // 10)


def package(name: str, extra: str = "recipes") -> importlib.metadata.Distribution:
    """The metadata of an installed package, by which its files are found. Its code is not run. Raises DataError, which
    names the ``extra`` to install, if the package is not installed.
    """
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise DataError(f"the package {name!r} is not installed: pip install 'transduce[{extra}]'") from None
