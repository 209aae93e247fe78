"""Recordings, frame by frame. N samples, S frames, M mel bands: a step has D = M numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from transduce.core.finite import first_wrong
from transduce.data.corpora import DataError
from transduce.data.tokenizers.signal_files import SignalError, Steps, lacking, regular
from transduce.wings.signals.tokenizers.cepstra import cepstra, decibels, with_differences, without_silence
from transduce.wings.signals.tokenizers.mel import LogMel
from transduce.wings.signals.tokenizers.tokenizer import SignalTokenizer, learned

LOUDEST = 2**31  # largest floating-point sample: the size of integers of 32 bits, which some files hold
MOST_DIFFERENCES = 2
LONGEST = 2**20  # most samples of a window; a spectrum still fits in memory

Samples = NDArray[np.float32]
Normalisation = Literal["utterance", "mean", "loudness", "corpus", "none"]


@dataclass(frozen=True)
class Sound:
    """Recordings (WAV, FLAC, OGG, ...) as sequences of log-mel energies.

    There are ``mels`` bands for a ``window`` in seconds, every ``hop`` seconds, after a pre-``emphasis`` of high
    frequencies (0.97 is usual, 0 means none). Recordings have ``rate`` samples a second. A recording with another rate
    is unreadable, or is converted with ``resample``. Channels are averaged. ``range`` is a number of decibels. Energies
    that are more than this below the loudest energy of the recording are raised to this distance. This hides the noise
    of a microphone. None keeps all energies. ``trim`` cuts the silence off both ends: the recording begins and ends
    with a frame whose power is at most ``trim`` decibels below the loudest frame. None cuts nothing.

    A step has the energies of the bands. With ``cepstra`` it has this number of mel-frequency cepstral coefficients
    instead. ``differences`` appends their first differences over time (1), or also the second (2).

    ``normalisation`` gives the numbers mean 0 and standard deviation 1. "utterance" does so for each band (or
    coefficient) of a recording, and "corpus" for each of the training set. "mean" gives each band of a recording mean
    0, and all bands together one deviation: a microphone that favours a band does not matter, and quiet bands stay
    quiet. "loudness" has one mean for all bands, too. "none" changes nothing. It divides by at least 0.001. Lengths
    count frames. A recording longer than ``seconds`` is unreadable, and is not decoded. Raises DataError for a value
    that is not allowed.
    """

    rate: int = 16000
    mels: int = 40
    window: float = 0.025
    hop: float = 0.01
    emphasis: float = 0.0
    normalisation: Normalisation = "utterance"
    resample: bool = False
    seconds: float = 60.0
    range: float | None = None
    trim: float | None = None
    cepstra: int | None = None
    differences: int = 0

    signal = True
    tokenizer = SignalTokenizer
    spectral = True

    def __post_init__(self) -> None:
        if self.normalisation not in (known := get_args(Normalisation)):
            raise DataError(f'normalisation = "{self.normalisation}": expected one of {", ".join(known)}')
        for name in ("range", "trim"):
            if (below := getattr(self, name)) is not None and not below > 0:
                raise DataError(f"{name} = {below}: expected decibels, more than 0, or nothing to keep all energies")
        if self.cepstra is not None and not 1 <= self.cepstra <= self.mels:
            raise DataError(f"cepstra = {self.cepstra}: expected 1 to mels = {self.mels}")
        if not 0 <= self.differences <= MOST_DIFFERENCES:
            raise DataError(f"differences = {self.differences}: expected 0, 1 or {MOST_DIFFERENCES}")
        for name in ("rate", "mels", "seconds"):
            if not getattr(self, name) > 0:  # False for nan
                raise DataError(f"{name} = {getattr(self, name)}: expected more than 0")
        for name in ("window", "hop"):
            if not 2 <= getattr(self, name) * self.rate <= LONGEST:
                raise DataError(
                    f"{name} = {getattr(self, name)}: expected seconds, of two samples at least, at most {LONGEST}"
                )
        if not 0 <= self.emphasis <= 1:
            raise DataError(f"emphasis = {self.emphasis}: expected 0 to 1")

    def learn(self, texts: Iterable[str]) -> SignalTokenizer:
        return learned(self, texts)

    @property
    def bands(self) -> bool:
        return self.cepstra is None and not self.differences

    @property
    def channels(self) -> int:
        return 1 if self.normalisation in ("loudness", "mean") else self._numbers

    @property
    def size(self) -> int:
        return self._numbers // self.channels

    @property
    def _numbers(self) -> int:
        return (self.cepstra or self.mels) * (1 + self.differences)

    def read(self, path: str) -> Steps:
        """The log-mel energies of the recording in a file, [S, M], or what the unit makes of them, not normalised.
        Raises SignalError if the file is unreadable.
        """
        x_N, rate = samples(path, self.seconds)
        if rate != self.rate and not self.resample:
            raise SignalError(
                path,
                f"has {rate} samples a second, and rate = {self.rate} of the unit was expected: set that, or resample "
                "= true",
            )
        x_SM = self._mel(resampled(x_N, self.rate / rate))
        if self.range is not None:
            x_SM = np.maximum(x_SM, np.float32(x_SM.max() - decibels(self.range)))
        if self.trim is not None:
            x_SM = without_silence(x_SM, self.trim)
        x_SK = with_differences(x_SM if self.cepstra is None else cepstra(x_SM, self.cepstra), self.differences)
        return x_SK - x_SK.mean(0) if self.normalisation == "mean" else x_SK

    def place(self, step: int) -> str:
        return f"{step * self.hop:.2f} s"

    @cached_property
    def _mel(self) -> LogMel:
        return LogMel(self.rate, self.mels, round(self.window * self.rate), round(self.hop * self.rate), self.emphasis)


def samples(path: str, seconds: float) -> tuple[Samples, int]:
    """The samples [N] of a recording with averaged channels, and its samples a second. They are -1 to 1, but a file of
    floating-point samples may exceed that.

    Raises SignalError if the file cannot be read completely, is longer than ``seconds``, has no samples, or has a
    sample that is not finite or larger than ``LOUDEST``. Raises DataError if the library soundfile is not installed.
    """
    library = soundfile()
    file = regular(path)
    try:
        with library.SoundFile(file) as sound:
            rate, frames = sound.samplerate, sound.frames
            if frames > seconds * rate:
                raise SignalError(path, f"has {frames / rate:.1f} seconds, more than seconds = {seconds:g} of the unit")
            x_NC = sound.read(dtype="float32", always_2d=True)
    except (library.SoundFileError, TypeError, OSError) as error:
        raise SignalError(path, f"is not a sound file that can be read: {error}") from error
    if len(x_NC) < frames or _missing(file):
        raise SignalError(path, "is truncated: it has fewer samples than it says")
    if not len(x_NC):
        raise SignalError(path, "has no samples")
    if (wrong := first_wrong(x_NC, LOUDEST)) is not None:
        place = wrong // x_NC.shape[1]
        raise SignalError(
            path,
            f"has the sample {x_NC.flat[wrong]:g} at {place / rate:.3f} s (number {place}): a finite number of size "
            f"{LOUDEST:,} at most was expected; mend the recording",
        )
    return x_NC.mean(1), rate


def soundfile() -> ModuleType:
    """Imports and returns the library soundfile. Without it raises DataError, which names the extra to install."""
    try:
        return import_module("soundfile")
    except (ImportError, OSError) as error:  # OSError: the wrapped library is missing
        raise lacking("soundfile", "audio") from error


def _missing(file: Path) -> bool:
    """Returns True if a WAV file is shorter than its header says. The library would read it as if it were complete.
    Other files, and WAV files whose header gives no length, give False.
    """
    with file.open("rb") as opened:
        head = opened.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return False
    promised = int.from_bytes(head[4:8], "little")
    there = file.stat().st_size - 8 + 1  # many programs leave out the byte that makes an odd length even
    return promised not in (0, 0xFFFFFFFF) and there < promised  # the length of a stream is unknown


def resampled(x_N: Samples, ratio: float) -> Samples:
    """Resamples N samples by libsoxr, without aliasing, to ``ratio`` samples for each input sample. Ratio 1 returns the
    samples themselves.

    Raises DataError if the library is needed and not installed.

    A recording at 16 kHz with ratio 0.5 becomes one at 8 kHz. Played at the old rate, ratio 0.9 is faster (and higher)
    by a ninth.
    """
    if ratio == 1:
        return x_N
    if len(x_N) * ratio < 1:  # the library would return no sample
        x_N = np.pad(x_N, (0, math.ceil(1 / ratio) - len(x_N)))
    y_M: Samples = _soxr().resample(x_N, 1.0, ratio)
    return y_M


def _soxr() -> ModuleType:
    try:
        return import_module("soxr")
    except ImportError as error:
        raise lacking("soxr", "audio") from error
