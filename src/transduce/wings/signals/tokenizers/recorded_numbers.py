"""The base class of tokenizers whose rows are numbers."""

from __future__ import annotations

from abc import abstractmethod

from transduce.data.tokenizers.json_records import Recorded


class RecordedNumbers(Recorded):
    """The base class of tokenizers whose rows are numbers, ``factors`` of them in each step. Its entries have
    no text.
    """

    numeric = True
    labels = 0

    @property
    @abstractmethod
    def factors(self) -> int:
        """The count of numbers in a step."""

    def __len__(self) -> int:
        return self.factors

    @property
    def entries(self) -> tuple[int, ...]:
        return tuple(range(self.factors))

    @property
    def pieces(self) -> tuple[str, ...]:
        """Empty texts: no number adds text."""
        return ("",) * self.factors
