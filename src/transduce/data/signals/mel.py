"""Log-mel energies: how loud each band of pitches is, from window to window, as an ear hears it.

N samples, S frames of W samples, F frequencies, M mel bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpora import DataError

Array = NDArray[np.float32]
QUIET = 1e-8  # added to every energy: below the noise of 16 bits, so that silence has a logarithm
BLOCK = 1024  # frames transformed at once
FINEST = 16  # times the points that a window needs


@dataclass(frozen=True)
class LogMel:
    """Frames of ``window`` samples, every ``hop`` samples, in ``mels`` bands from 0 to half the ``rate``.

    frame(s, n) = hann(n) (x(sh + n) - a x(sh + n - 1)), with the pre-emphasis a (0: none);
    out(s, m) = ln(1e-8 + sum_f T(m, f) |DFT frame(s)|^2(f)),
    where T(m, .) is a triangle that rises from the centre of band m - 1 to 1 at its own and falls to that of m + 1;
    centres lie evenly in mel = 2595 log10(1 + Hz / 700) (Davis and Mermelstein 1980; the mels are O'Shaughnessy's).
    The transform has a power of two of points, enough for every band to hold one of its frequencies. Frames are whole;
    a recording shorter than one is followed by silence. hann is periodic.
    """

    rate: int
    mels: int
    window: int
    hop: int
    emphasis: float = 0.0

    def __call__(self, x_N: Array) -> Array:
        """The log energies [S, M] of samples [N], at least one."""
        emphasised = np.concatenate([x_N[:1] * (1 - self.emphasis), x_N[1:] - self.emphasis * x_N[:-1]])
        padded = np.pad(emphasised, (0, max(0, self.window - len(x_N))))
        frames_SW = np.lib.stride_tricks.sliding_window_view(padded, self.window)[:: self.hop]
        blocks = (frames_SW[start : start + BLOCK] for start in range(0, len(frames_SW), BLOCK))
        return np.concatenate([self._energies(block_SW) for block_SW in blocks])

    def _energies(self, frames_SW: Array) -> Array:
        spectrum_SF = np.fft.rfft(frames_SW * self._hann_W, self.points)
        with np.errstate(over="ignore", invalid="ignore"):  # a file of absurd loudness: whoever reads it looks
            power_SF = spectrum_SF.real**2 + spectrum_SF.imag**2
            return np.log(QUIET + power_SF @ self.bands_MF.T).astype(np.float32)

    @cached_property
    def _hann_W(self) -> Array:
        return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.window) / self.window)).astype(np.float32)

    @cached_property
    def points(self) -> int:
        """Of the Fourier transform."""
        points = least = 1 << (self.window - 1).bit_length()
        while not self._triangles(points).any(1).all():
            points *= 2
            if points > FINEST * least:
                raise DataError(
                    f"mels = {self.mels} are bands too narrow to be told apart in {self.window} samples at a rate of "
                    f"{self.rate}: take fewer, or a longer window"
                )
        return points

    @cached_property
    def bands_MF(self) -> NDArray[np.float64]:
        return self._triangles(self.points)

    def _triangles(self, points: int) -> NDArray[np.float64]:
        hertz_F = np.fft.rfftfreq(points, 1 / self.rate)
        edges = 700 * (10 ** (np.linspace(0, _mel(self.rate / 2), self.mels + 2) / 2595) - 1)
        low_M1, centre_M1, high_M1 = edges[:-2, None], edges[1:-1, None], edges[2:, None]
        rising_MF = (hertz_F - low_M1) / (centre_M1 - low_M1)
        falling_MF = (high_M1 - hertz_F) / (high_M1 - centre_M1)
        return np.maximum(0, np.minimum(rising_MF, falling_MF))


def _mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))
