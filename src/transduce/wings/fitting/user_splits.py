"""The splits that a user gives: training, validation and test pairs, without leaks if the user wishes so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from transduce.core.errors import UserError
from transduce.wings.fitting.given import Columns, Given, Pair, given
from transduce.wings.fitting.splits import View, held_out, without_sources
from transduce.wings.fitting.survey import SMALL

Asked = str | Path | Sequence[str | Path] | Iterable[tuple[str, str]]  # a split as ``fit`` takes it
SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True)
class Data:
    """The user's splits. ``told`` are lines about what was held out or left out."""

    train: Given
    valid: Given | None
    test: Given | None
    told: list[str] = field(default_factory=list)

    @classmethod
    def read(
        cls, train: Asked, valid: Asked | None, test: Asked | None, columns: Columns, drop_shared: bool = False
    ) -> Data:
        """Reads the splits; None is no split. A ``test`` such as "10%" holds all pairs of this share of the sources out
        of ``train``. ``drop_shared`` leaves pairs out of training whose source is in ``valid`` or ``test``, and out of
        ``valid`` those whose source is in ``test``.

        Raises UserError without training pairs, and for a share that is no share.
        """
        first = _split(train, columns)
        if first is None:
            raise UserError("no training pairs: a table, two files, a folder or a list of pairs was expected")
        share = _share(test)
        found = cls(first, _alike(first, valid, columns), None if share else _alike(first, test, columns))
        if share:
            found = found._held_out(share)
        return found._dropped() if drop_shared else found

    def _held_out(self, share: float) -> Data:
        rest, held = held_out(self.train.pairs, share)
        if not rest or not held:
            raise UserError(f"--test {100 * share:g}% of {len(self.train.pairs):,} pairs leaves no pair on one side")
        line = f"test: all {len(held):,} pairs of {100 * share:g} % of the sources are held out, in every call the same"
        return replace(self, train=replace(self.train, pairs=rest), test=Given(held, self.train.form), told=[line])

    def _dropped(self) -> Data:
        found = self
        for name, after in (("valid", ["test"]), ("train", ["valid", "test"])):
            split, later = found.split(name), [each for each in after if found.split(each) is not None]
            shared = {source or target for each in later for source, target in found.pairs.get(each, ())}
            if split is None or not shared:
                continue
            kept = without_sources(split.pairs, shared)
            if not kept:
                raise UserError(f"--drop-shared leaves no pair in {name}: every source is also in {' or '.join(later)}")
            if count := len(split.pairs) - len(kept):
                line = f"{count:,} pairs are left out of {name}: their sources are also in {' or '.join(later)}"
                fewer, told = replace(split, pairs=kept), [*found.told, line]
                found = (
                    replace(found, train=fewer, told=told)
                    if name == "train"
                    else replace(found, valid=fewer, told=told)
                )
        return found

    def split(self, name: str) -> Given | None:
        return {"train": self.train, "valid": self.valid, "test": self.test}[name]

    @property
    def pairs(self) -> dict[str, list[Pair]]:
        splits = {name: self.split(name) for name in ("train", "valid", "test")}
        return {name: split.pairs for name, split in splits.items() if split is not None}

    @property
    def notes(self) -> list[str]:
        read = [note for split in (self.train, self.valid, self.test) if split is not None for note in split.notes]
        return [*dict.fromkeys(read), *self.told]

    def division(self, parts: Sequence[View]) -> str:
        """How many pairs teach, choose and test, for people."""
        tested = (
            f"; {len(self.test.pairs):,} for the test at the end"
            if self.test
            else "; no test split, so all scores are of the pairs that choose, and a little too good: --test 10% holds "
            "out a tenth of the sources for a test"
        )
        if len(parts) > 1:
            return (
                f"fewer than {SMALL} pairs: {len(parts)} times, a part of the sources is held out to choose by{tested}"
            )
        view = parts[0]
        held = "given" if self.valid is not None else "held out, by source"
        return f"{len(view.train):,} pairs to learn from, {len(view.valid):,} to choose by ({held}){tested}"


def _share(test: Asked | None) -> float | None:
    """The share that a test such as "10%" asks for; None for another test. Raises UserError above one half."""
    words = list(test) if isinstance(test, list | tuple) and len(test) == 1 else [test]
    found = SHARE.fullmatch(words[0]) if isinstance(words[0], str) else None
    if found is None:
        return None
    share = float(found[1]) / 100
    if not 0 < share <= 0.5:
        raise UserError(f"--test {words[0]}: more than 0% and at most 50% was expected, such as 10%")
    return share


def _alike(first: Given, asked: Asked | None, columns: Columns) -> Given | None:
    """A further split, with the columns of the training pairs: few lines may not show which column has the labels."""
    found = _split(asked, columns)
    if found is None or columns or first.columns is None or found.columns in (None, first.columns):
        return found
    numbers = [*first.columns.values(), *found.columns.values()]
    if any(isinstance(each, str) for each in numbers):  # a header names its columns itself
        return found
    labels = first.columns.get("labels", ())
    assert isinstance(labels, tuple)
    same = Columns(str(first.columns["source"]), str(first.columns["target"]), tuple(map(str, labels)))
    return _split(asked, same)


def _split(asked: Any, columns: Columns) -> Given | None:
    """A split as pairs: read from its paths, or given from Python."""
    if asked is None:
        return None
    if isinstance(asked, str | Path):
        return given([str(asked)], columns)
    items = list(asked)
    if items and all(isinstance(each, str | Path) for each in items):
        return given([str(each) for each in items], columns)
    for number, pair in enumerate(items, 1):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(side, str) for side in pair)):
            raise UserError(f"pair {number} = {pair!r}: two texts were expected, (source, target)")
    pairs = [(source, target) for source, target in items if target.strip()]
    if not pairs:
        raise UserError("no pairs: training needs at least some (source, target)")
    return Given(pairs, "features" if all("\t" in source for source, _ in pairs) else "text")
