"""Series of numbers: "3.1 2.7 4" are three steps of one channel, "3.1,0 2.7,1" are two steps of two channels.

White space separates steps, and a comma separates channels. Each step has the same number of channels. The numbers of a
step are adjacent in a row, and scaled: z = (x - mean) / scale. The unit learns mean and scale on the training set. EOS
ends each row. If missing numbers are allowed, "nan" stands for one: "3.1 nan 2.7". Numbers are written back to about a
millionth of their scale, the precision of a float32 model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transduce.core.config.errors import Table
from transduce.core.finite import LARGEST, first_wrong
from transduce.core.types import EOS, SPECIALS, Hypothesis
from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.base import Tokenizer, divided
from transduce.wings.signals.tokenizers.recorded_numbers import RecordedNumbers

Array = NDArray[np.float64]
MISSING = "nan"  # how a line writes a missing number
DIGITS = 6  # digits to write after the first digit of the scale


class NumbersTokenizer(RecordedNumbers):
    """Converts lines of numbers to scaled numbers and back.

    ``mean`` and ``scale`` have a value for each channel, in the units of the lines. ``missing`` allows "nan" for a
    missing number, which is NaN in a row.
    """

    kind = "numbers"
    signal = False

    def __init__(self, mean: Sequence[float], scale: Sequence[float], missing: bool = False) -> None:
        self._mean, self._scale, self._missing = tuple(mean), tuple(scale), missing
        self._decimals = [DIGITS - math.floor(math.log10(each)) for each in self._scale]

    @property
    def factors(self) -> int:
        return len(self._mean)

    def encode(self, texts: Sequence[str]) -> list[list[float]]:
        """The scaled numbers of each line, and EOS as a number. Raises LineError as ``steps`` does, and if a
        scaled number is too large for float32.
        """
        rows = []
        for line in texts:
            with np.errstate(over="ignore"):  # checked below
                scaled_SC = (steps(line, self.factors, self._missing) - self._mean) / self._scale
            if (wrong := first_wrong(np.nan_to_num(scaled_SC, nan=0.0, posinf=np.inf, neginf=-np.inf))) is not None:
                step, channel = divmod(wrong, self.factors)
                raise LineError(
                    line,
                    f"has a number for step {step + 1}, channel {channel + 1} that is {scaled_SC.flat[wrong]:.3g} "
                    f"after scaling: at most {LARGEST:g} was expected, far from the training set; mend the line",
                )
            rows.append([*map(float, scaled_SC.flat), float(EOS)])
        return rows

    def decode(self, ids: Sequence[float]) -> str:
        """The line, in raw units, of a row from ``encode`` or from a model. The row's last value stands for EOS and is
        left out.
        """
        numbers = self._written(ids)
        return " ".join(",".join(numbers[at : at + self.factors]) for at in range(0, len(numbers), self.factors))

    def tokens(self, ids: Sequence[float]) -> list[str]:
        """The numbers in raw units as text for people, one per item of the row; the last item is shown as "</s>"."""
        return [*self._written(ids), SPECIALS[EOS]]

    def length(self, ids: Sequence[float]) -> int:
        """The number of complete steps, without EOS."""
        return (len(ids) - 1) // self.factors

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each number in the line. EOS has an empty span at the end."""
        return divided(text, ",")

    def normalize(self, text: str) -> str:
        """Returns ``decode(encode(text))``. Raises LineError as ``steps`` does."""
        return self.decode(self.encode([text])[0])

    def extended(self, other: Tokenizer) -> NumbersTokenizer:
        """Returns this tokenizer itself: numbers have no vocabulary to extend. Raises DataError unless ``other`` has
        numbers with as many channels.
        """
        if not other.numeric or other.factors != self.factors:
            raise DataError(
                f"numbers in {self.factors} channels are not extended by {other.factors}, nor by text; use the same "
                'units, or set init.vocabulary = "own"'
            )
        return self

    def as_json(self) -> Table:
        return {"mean": self._mean, "scale": self._scale, **({"missing": True} if self._missing else {})}

    @classmethod
    def from_json(cls, record: Table) -> NumbersTokenizer:
        return cls(record["mean"], record["scale"], record.get("missing", False))

    def in_units(self, hypothesis: Hypothesis) -> Hypothesis:
        """The hypothesis with its deviations and log-densities in the units of the lines. ``log_prob`` and ``score``
        become the sum of these log-densities. Its tokens stay scaled. A hypothesis without log-densities keeps both.
        """
        scales = list(islice(cycle(self._scale), len(hypothesis.tokens) - 1))
        deviations = tuple(s * scale for s, scale in zip(hypothesis.deviations, scales, strict=False))
        if not hypothesis.token_log_probs:
            return replace(hypothesis, deviations=deviations)
        log_scales = [0.0 if math.isnan(z) else math.log(s) for z, s in zip(hypothesis.tokens, scales, strict=False)]
        each = tuple(p - log for p, log in zip(hypothesis.token_log_probs, [*log_scales, 0.0], strict=True))
        return replace(hypothesis, log_prob=sum(each), score=sum(each), token_log_probs=each, deviations=deviations)

    def _written(self, row: Sequence[float]) -> list[str]:
        """The numbers of a row in raw units as text, without its last value."""
        channels = cycle(zip(self._mean, self._scale, self._decimals, strict=True))
        return [
            _text(mean + scale * number, decimals)
            for number, (mean, scale, decimals) in zip(row[:-1], channels, strict=False)
        ]


def _text(number: float, decimals: int) -> str:
    return f"{round(number, decimals) + 0.0:.15g}"  # + 0.0 turns -0 into 0


def steps(line: str, channels: int | None = None, missing: bool = False) -> Array:
    """The numbers of a line, [S, C], unscaled. Without ``channels``, the first step determines C. If ``missing`` is
    True, "nan" is allowed and becomes NaN.

    Raises LineError if the line has no numbers, if a step has more or fewer than C, or if one is not a finite number.
    """
    written = [step.split(",") for step in line.split()]
    if not written:
        raise LineError(line, "has no numbers: expected steps separated by spaces, their channels by commas")
    channels = channels or len(written[0])
    for number, step in enumerate(written, 1):
        if len(step) != channels:
            raise LineError(
                line,
                f"has {','.join(step)!r} for step {number}, expected {channels} "
                f"{'number' if channels == 1 else 'numbers, separated by commas'}; mend the line",
            )
    numbered = [(f"step {s}, channel {c}", text) for s, step in enumerate(written, 1) for c, text in enumerate(step, 1)]
    return np.array([_number(line, text, place, missing) for place, text in numbered]).reshape(-1, channels)


def _number(line: str, text: str, place: str, missing: bool) -> float:
    if missing and text.lower() == MISSING:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        hint = (
            f'a number or "{MISSING}" was expected'
            if missing
            else f'a number was expected; fill in what is missing, or allow "{MISSING}" (data.units.joint = '
            '{type="numbers", missing=true}, for a model that reads gaps)'
        )
        raise LineError(line, f"has {text!r} for {place}: {hint}, or leave the line out")
    return number


class Moments:
    """Mean and standard deviation of each of C channels over all added rows, in one pass.

    Sums of squares would lose digits; this update does not (Chan, Golub and LeVeque 1983).
    """

    def __init__(self) -> None:
        self.count_C: NDArray[np.int64] = np.zeros(1, np.int64)
        self.mean_C: Array = np.zeros(1)
        self._squares_C: Array = np.zeros(1)  # sum of squared distances from the mean

    def add(self, x_NC: NDArray[np.floating]) -> None:
        """Adds the rows ``x_NC``, at least one, in place. Missing numbers (NaN) are left out."""
        known_NC = ~np.isnan(x_NC)
        own_count_C, before_C = known_NC.sum(0), self.count_C
        own_C = np.where(known_NC, x_NC, 0).sum(0, dtype=np.float64) / np.maximum(own_count_C, 1)
        self.count_C = before_C + own_count_C
        apart_C, weight_C = own_C - self.mean_C, own_count_C / np.maximum(self.count_C, 1)
        squares_C = np.where(known_NC, (x_NC - own_C) ** 2, 0).sum(0)
        self._squares_C = self._squares_C + squares_C + apart_C**2 * before_C * weight_C
        self.mean_C = self.mean_C + apart_C * weight_C

    @property
    def deviation_C(self) -> Array:
        """The standard deviation of the numbers of each channel (sum of squares divided by their count); 0 for a
        channel without numbers.
        """
        return np.sqrt(self._squares_C / np.maximum(self.count_C, 1))


@dataclass(frozen=True)
class Numbers:
    """Numbers, with spaces between steps and commas between channels: "3.1,0 2.7,1" is two steps of two channels.

    They are shifted and scaled so that the training set has mean 0 and standard deviation 1. "channel" does this for
    each channel separately. "global" uses one mean and one scale for all, so that channels stay comparable. "none"
    reads numbers unchanged. Numbers that are all equal are shifted and not scaled. Inputs and outputs are raw numbers.
    Lengths in the data's limits count numbers, not steps. If ``missing`` is True, "nan" is a missing number; only some
    models read it.
    """

    scaling: Literal["channel", "global", "none"] = "channel"
    missing: bool = False

    def __post_init__(self) -> None:
        if self.scaling not in ("channel", "global", "none"):
            raise DataError(f'scaling = "{self.scaling}": numbers are scaled by "channel", "global" or "none"')

    signal = False
    tokenizer = NumbersTokenizer

    def learn(self, texts: Iterable[str]) -> NumbersTokenizer:
        moments, channels = Moments(), None
        for line in texts:
            x_SC = steps(line, channels, self.missing)
            channels = x_SC.shape[1]
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                moments.add(x_SC.reshape(-1, 1) if self.scaling == "global" else x_SC)
            if not np.isfinite(moments.deviation_C).all():
                raise LineError(
                    line, "has numbers too large for a spread to be computed: expected less than 1e150; mend the line"
                )
        if channels is None:
            raise DataError("there are no numbers to learn a scale from: the training set is empty")
        if self.scaling == "none":
            return NumbersTokenizer([0.0] * channels, [1.0] * channels, self.missing)
        mean_C, scale_C = moments.mean_C, moments.deviation_C
        constant_C = scale_C <= 1e-12 * np.abs(mean_C)  # except for rounding errors
        scale_C = np.where(constant_C, 1.0, scale_C)
        mean, scale = (np.broadcast_to(each, channels).tolist() for each in (mean_C, scale_C))
        return NumbersTokenizer(mean, scale, self.missing)
