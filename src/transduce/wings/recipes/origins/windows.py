"""Windows on a series: the steps to read, the steps to forecast, and the split by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError


@dataclass(frozen=True)
class Windows:
    """A window has ``steps_in`` steps to read and ``steps_out`` steps after them to forecast. In each split one begins
    every ``stride`` steps, as long as it fits.

    Splits are by time: first the steps for training, then those for valid, and last those for test. ``valid`` and
    ``test`` are shares of all steps. A window lies in one split completely, so no step is in two splits. Raises
    DataError for a value that is not allowed.
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
        """The range of the indices (from 0) of each split's steps, in a series of ``steps`` steps."""
        test = steps - round(steps * self.test)
        valid = test - round(steps * self.valid)
        return dict(zip(SPLITS, (range(valid), range(valid, test), range(test, steps)), strict=True))

    def lines(self, source: Sequence[str], target: Sequence[str], what: str) -> dict[Split, list[str]]:
        """One TSV line per window, for each split: the steps to read, a tab, the steps to forecast. ``source`` and
        ``target`` are the series to read and to forecast, equally long; an item of each is the text of one step.

        Raises DataError, which names the series ``what``, if a split is too short for one window.
        """
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
        """The indices of the first step to read and of the first step to forecast, for each window in ``part``."""
        last = part.stop - self.steps_in - self.steps_out
        return ((begin, begin + self.steps_in) for begin in range(part.start, last + 1, self.stride))
