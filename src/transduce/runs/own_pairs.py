"""Pairs that were given from Python: a run keeps them in its folder ``data``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.files import write_lines
from transduce.runs.layout import DATA, OWN_PAIRS


@dataclass(frozen=True)
class OwnPairs:
    """The pairs that a user gave from Python, as lines of JSON. ``lines`` has the split "train" and, if pairs are held
    out, "valid". ``targets_only`` is True if no pair has a source, as for a language model.
    """

    lines: Mapping[str, list[str]]
    targets_only: bool

    @classmethod
    def split(cls, pairs: Iterable[tuple[str, str]], held_out: int | None) -> OwnPairs:
        """Divides pairs (source, target) into the splits train and valid.

        Every ``held_out``-th pair is for valid, all others for train. All are for train if ``held_out`` is None, or if
        there are fewer pairs than that. Raises UserError if there are no pairs, or for a pair that is not two texts.
        """
        given = list(pairs)
        if not given:
            raise UserError("pairs is empty: training needs at least one (source, target)")
        for number, pair in enumerate(given, 1):
            if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(side, str) for side in pair)):
                raise UserError(f"pair {number} = {pair!r}: two texts were expected, (source, target)")
        targets_only = not any(source for source, _ in given)
        sides = ("target",) if targets_only else ("source", "target")
        rows = [json.dumps(dict(zip(sides, pair[-len(sides) :], strict=True)), ensure_ascii=False) for pair in given]
        valid = rows[held_out - 1 :: held_out] if held_out else []
        if not valid or not held_out:
            return cls({"train": rows}, targets_only)
        train = [row for number, row in enumerate(rows, 1) if number % held_out]
        return cls({"train": train, "valid": valid}, targets_only)

    def settings(self, run: Path) -> config.Table:
        """The settings that make ``run`` read these pairs, as keys of the table ``[data]``: the absolute paths of the
        files that ``write(run)`` makes and, if ``targets_only``, their columns.
        """
        columns: config.Table = {"columns": {"target": "target"}} if self.targets_only else {}
        return columns | {split: {"path": str(self._file(run, split))} for split in self.lines}

    def write(self, run: Path) -> None:
        """Writes each split that there is, as train.jsonl or valid.jsonl, into the folder ``data`` of the run's
        directory.
        """
        for split, lines in self.lines.items():
            write_lines(self._file(run, split), lines)

    def _file(self, run: Path, split: str) -> Path:
        return run.resolve() / DATA / OWN_PAIRS[split]
