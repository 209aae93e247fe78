"""Log-mel energies: the loudness of each frequency band in each window, on a scale like the ear's.

N samples, S frames of W samples, F frequencies, M mel bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpora import DataError

Array = NDArray[np.float32]
QUIET = 1e-8  # added to each energy, below the noise of 16 bits, so that silence has a finite logarithm
BLOCK = 1024  # frames per transform
FINEST = 16  # most points, as a multiple of the window's


@dataclass(frozen=True)
class LogMel:
    """Computes log-mel energies of a recording: frames of ``window`` samples, every ``hop`` samples, in ``mels``
    frequency bands from 0 to half the ``rate`` (samples a second).

    x are the samples, s is a frame, n a sample of a frame, m a band, and a the pre-``emphasis`` (0: none):

    frame(s, n) = hann(n) (x(s hop + n) - a x(s hop + n - 1)), out(s, m) = ln(1e-8 + sum_f T(m, f) |DFT frame(s)|^2(f)).

    T(m, .) is a triangle over the frequencies f. It rises from 0 at the centre of band m - 1 to 1 at its own centre and
    falls to 0 at the centre of band m + 1. Centres are evenly spaced in mel = 2595 log10(1 + Hz / 700) (Davis and
    Mermelstein 1980; O'Shaughnessy's mel scale). The number of points of the transform is a power of two, at least the
    window, and large enough that each band has a frequency. hann is periodic, and x(-1) = x(0). Only whole frames are
    used; a recording shorter than one frame is padded with silence. The transform has double precision, so that every
    version of NumPy, and the engine in C++, find the same numbers.
    """

    rate: int
    mels: int
    window: int
    hop: int
    emphasis: float = 0.0

    def __call__(self, x_N: Array) -> Array:
        """The log energies [S, M], float32, of samples [N]; N is at least 1. They may be infinite or NaN for an
        extremely loud recording. Raises DataError as ``points`` does.
        """
        emphasised = np.concatenate([x_N[:1] * (1 - self.emphasis), x_N[1:] - self.emphasis * x_N[:-1]])
        padded = np.pad(emphasised, (0, max(0, self.window - len(x_N))))
        frames_SW = np.lib.stride_tricks.sliding_window_view(padded, self.window)[:: self.hop]
        blocks = (frames_SW[start : start + BLOCK] for start in range(0, len(frames_SW), BLOCK))
        return np.concatenate([self._energies(block_SW) for block_SW in blocks])

    def _energies(self, frames_SW: Array) -> Array:
        spectrum_SF = np.fft.rfft(frames_SW * self._hann_W, self.points)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # an extremely loud file may overflow; the caller checks the result
            power_SF = spectrum_SF.real**2 + spectrum_SF.imag**2
            return np.log(QUIET + power_SF @ self.bands_MF.T).astype(np.float32)

    @cached_property
    def _hann_W(self) -> NDArray[np.float64]:
        hann_W: NDArray[np.float64] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.window) / self.window)
        return hann_W

    @cached_property
    def points(self) -> int:
        """The number of points of the Fourier transform. Raises DataError if the bands are so narrow that 16 times the
        usual number would not be enough.
        """
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
