"""Turns paths of signals into rows of steps: the part that sound, pictures and clips share.

S steps of D numbers. C channels are normalised separately and have P adjacent numbers each: D = C * P.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from transduce.core import config, registry
from transduce.core.config.errors import Table
from transduce.core.finite import first_wrong
from transduce.data.corpora import DataError
from transduce.data.tokenizers.base import Tokenizer, Unit
from transduce.data.tokenizers.signal_files import Signal, SignalError, Steps
from transduce.wings.signals.tokenizers.numbers import Moments
from transduce.wings.signals.tokenizers.recorded_numbers import RecordedNumbers

HALF = float(np.finfo(np.float16).max)
FLOOR = 1e-3  # smallest divisor, so that silence and blank paper are not amplified


class SignalTokenizer(RecordedNumbers):
    """The tokenizer of signals: turns the paths of files into their normalised steps [S, D].

    If the unit's normalisation is "corpus", ``mean`` and ``scale`` have a number for each channel, learned on the
    training set. Otherwise they are not used, and are empty.
    """

    kind = "signal"
    signal = True

    def __init__(self, unit: Signal, mean: Sequence[float] = (), scale: Sequence[float] = ()) -> None:
        self._unit, self._mean, self._scale = unit, tuple(mean), tuple(scale)

    @property
    def factors(self) -> int:
        """D, the count of numbers in a step."""
        return self._unit.channels * self._unit.size

    @property
    def spectral(self) -> bool:
        return self._unit.spectral

    @property
    def bands(self) -> bool:
        return self._unit.bands

    @property
    def rate(self) -> int | None:
        """The samples a second of a recording; None for other signals."""
        return getattr(self._unit, "rate", None)

    @property
    def inverted(self) -> bool:
        """True if the unit makes dark pixels bright, because its pictures have dark ink on bright paper."""
        return bool(getattr(self._unit, "invert", False))

    def encode(self, texts: Sequence[str]) -> list[Steps]:
        """The normalised steps [S, D] of each file, float32. Raises SignalError if a file cannot be read, or
        if a value is too large.

        Values are rounded to half precision, as on the disk, so that training and use see the same numbers.
        """
        return [self._rounded(path) for path in texts]

    def decode(self, ids: Sequence[object]) -> str:
        raise DataError("a signal is read and not written: there is no text of its steps")

    def tokens(self, ids: Sequence[object]) -> list[str]:
        """The place of each step as text for people, such as "0.35 s" or "frame 4"."""
        return [self._unit.place(step) for step in range(len(ids))]

    def length(self, ids: Sequence[object]) -> int:
        return len(ids)

    def spans(self, text: str) -> list[tuple[int, int]]:
        raise DataError(f"{text} is a signal, whose steps stand nowhere in a text")

    def normalize(self, text: str) -> str:
        return text

    def extended(self, other: Tokenizer) -> SignalTokenizer:
        """Returns this tokenizer itself: numbers have no vocabulary to extend. Raises DataError unless ``other`` is of
        a signal with D numbers in a step.
        """
        if not other.signal or other.factors != self.factors:
            raise DataError(
                f"a signal of {self.factors} numbers a step is not extended by one of {other.factors}, nor by text; "
                'use the same units, or set init.vocabulary = "own"'
            )
        return self

    def as_json(self) -> Table:
        unit: Any = self._unit
        options = {key: value for key, value in asdict(unit).items() if value is not None}
        return {
            "signal": {"type": registry.name_of("Unit", type(unit)), **options},
            "mean": list(self._mean),
            "scale": list(self._scale),
        }

    @classmethod
    def from_json(cls, record: Table) -> SignalTokenizer:
        unit: Any = config.build(record["signal"], Unit, path="signal")
        return cls(unit, record["mean"], record["scale"])

    def _rounded(self, path: str) -> Steps:
        """The normalised steps of a file, rounded to half precision."""
        x_SD = self._normalised(self._unit, path)
        if (wrong := first_wrong(x_SD, HALF)) is not None:
            step = self._unit.place(wrong // x_SD.shape[1])
            raise SignalError(
                path,
                f"has the value {x_SD.flat[wrong]:g} at {step} after normalisation, too large for half precision: it "
                "differs too much from the training set; mend the file, or choose another normalisation",
            )
        return x_SD.astype(np.float16).astype(np.float32)

    def _normalised(self, unit: Signal, path: str) -> Steps:
        """The steps [S, D] of a file: each channel minus its mean, divided by its deviation, which counts as at least
        ``FLOOR``.
        """
        x_SCP = channelled(unit, path)
        if unit.normalisation == "none":
            return x_SCP.reshape(len(x_SCP), -1)
        if unit.normalisation == "corpus":
            mean_C, scale_C = np.array(self._mean), np.array(self._scale)
        else:
            mean_C = x_SCP.mean((0, 2), dtype=np.float64)
            scale_C = np.maximum(x_SCP.std((0, 2), dtype=np.float64), FLOOR)
        normalised: Steps = (x_SCP - mean_C[:, None]) / scale_C[:, None]
        return normalised.reshape(len(x_SCP), -1)


def learned(unit: Signal, paths: Iterable[str]) -> SignalTokenizer:
    """The tokenizer of a unit. Reads the files only for the normalisation "corpus".

    An unreadable file is skipped here; encoding reports or refuses it. Raises DataError if there are files to read and
    none of them can be read.
    """
    if unit.normalisation != "corpus":
        return SignalTokenizer(unit)
    moments, bad = Moments(), SignalError("", "")
    for path in paths:
        try:
            x_SCP = channelled(unit, path)
        except SignalError as error:
            bad = error
        else:
            moments.add(x_SCP.transpose(0, 2, 1).reshape(-1, unit.channels))
    if not moments.count_C.any():
        raise DataError(f"there is no file to learn a mean from{f', as {bad}' if bad.line else ''}")
    return SignalTokenizer(unit, moments.mean_C.tolist(), np.maximum(moments.deviation_C, FLOOR).tolist())


def channelled(unit: Signal, path: str) -> Steps:
    """Reads the file at ``path`` by its unit, as steps [S, C, P]. Raises SignalError if the file cannot be read, or if
    a value is not a finite number.
    """
    x_SD = unit.read(path)
    if (wrong := first_wrong(x_SD)) is not None:
        step = unit.place(wrong // x_SD.shape[1])
        raise SignalError(path, f"has the value {x_SD.flat[wrong]:g} at {step}, which is not finite, or too large")
    return x_SD.reshape(len(x_SD), unit.channels, unit.size)
