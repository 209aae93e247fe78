"""Tokenizers that are what their record says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


class Recorded:
    """A tokenizer that is saved as its record, and told apart by it."""

    @property
    def words(self) -> int:
        """No id stands for a whole word that others spell."""
        return 0

    @property
    def columns(self) -> int:
        """A tab is text."""
        return 1

    def as_json(self) -> Any:
        """What ``save`` writes."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the record: equal for tokenizers that agree on everything."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        Path(path).write_text(json.dumps(self.as_json(), ensure_ascii=False, indent=1), encoding="utf-8")


class RecordedNumbers(Recorded):
    """One whose ids are numbers, ``factors`` of them a step: its entries have no text of their own."""

    numeric = True
    labels = 0

    @property
    def factors(self) -> int:
        """Numbers of a step."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.factors

    @property
    def entries(self) -> tuple[int, ...]:
        return tuple(range(self.factors))

    @property
    def pieces(self) -> tuple[str, ...]:
        """No number adds a text of its own."""
        return ("",) * self.factors
