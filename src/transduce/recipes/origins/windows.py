"""Windows on a series: what is read, what is to be forecast, and which of them are for training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError


@dataclass(frozen=True)
class Windows:
    """``steps_in`` steps and the ``steps_out`` after them, a window every ``stride`` steps.

    Splits are by time: the last ``test`` of the steps, the ``valid`` before these, and the rest, which comes first, for
    training. A window lies in one of them whole, its source too, so that no step is in two.
    """

    steps_in: int
    steps_out: int
    stride: int = 1
    valid: float = 0.15
    test: float = 0.15

    def __post_init__(self) -> None:
        for name in ("steps_in", "steps_out", "stride"):
            if getattr(self, name) < 1:
                raise DataError(f"windows.{name} = {getattr(self, name)}: at least one step was expected")
        if not (self.valid > 0 and self.test > 0 and self.valid + self.test < 1):
            raise DataError(
                f"windows.valid = {self.valid}, windows.test = {self.test}: shares of the steps were expected, more "
                "than 0, that leave some for training"
            )

    def parts(self, steps: int) -> dict[Split, range]:
        """The steps of each split."""
        test = steps - round(steps * self.test)
        valid = test - round(steps * self.valid)
        return dict(zip(SPLITS, (range(valid), range(valid, test), range(test, steps)), strict=True))

    def lines(self, source: Sequence[str], target: Sequence[str], what: str) -> dict[Split, list[str]]:
        """A TSV line for each window of each split, given the series step by step, as it is read and as it is forecast;
        DataError, naming ``what``, where a split is too short for one."""
        found: dict[Split, list[str]] = {}
        for split, part in self.parts(len(source)).items():
            found[split] = [
                " ".join(source[begin:now]) + "\t" + " ".join(target[now : now + self.steps_out])
                for begin, now in self._places(part)
            ]
            if not found[split]:
                raise DataError(
                    f"{what} has {len(source)} steps, {len(part)} of them for {split}, which hold no window of "
                    f"steps_in + steps_out = {self.steps_in + self.steps_out}: choose shorter windows, or "
                    "other shares of data.origin.windows"
                )
        return found

    def _places(self, part: range) -> Iterator[tuple[int, int]]:
        """Where the source of each window begins, and where its target."""
        last = part.stop - self.steps_in - self.steps_out
        return ((begin, begin + self.steps_in) for begin in range(part.start, last + 1, self.stride))
