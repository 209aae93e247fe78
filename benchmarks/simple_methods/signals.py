"""Sounds, pictures and series of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from statsmodels.tsa.ar_model import AutoReg

from simple_methods.base import Examples, Splits, outputs, right, sources, targets
from simple_methods.nearest import flat
from transduce.core.types import Prediction
from transduce.wings.signals.tokenizers.sound import samples

Floats = NDArray[np.float64]

# ----------------------------------------------------------------------- sounds

FRAMES, BANDS, CEPSTRA, QUIET = 20, 26, 13, 30.0  # QUIET: decibels below the loudest frame
WARPS = (0.88, 0.94, 1.0, 1.06, 1.12)
STRENGTHS = (1.0, 3.0, 10.0, 30.0)


def spoken(data: Splits) -> list[Prediction]:
    """A support vector machine over 20 frames of 13 mel cepstra and their differences. It learns from five warpings of
    the frequency axis.
    """
    learn = np.stack([sound(path, warp) for warp in WARPS for path in sources(data.train)])
    choose, ask = (np.stack([sound(path) for path in sources(each)]) for each in (data.valid, data.test))
    answers = targets(data.train) * len(WARPS)

    def trained(strength: float) -> SVC:
        return make_pipeline(StandardScaler(), SVC(C=strength)).fit(learn, answers)

    best = max(map(trained, STRENGTHS), key=lambda model: right(model.predict(choose), data.valid))
    return outputs(best.predict(ask))


def sound(path: str, warp: float = 1.0) -> Floats:
    """The cepstra of 20 frames at equal distances, between the first and the last frame that is not quiet."""
    x_N, rate = samples(path, 60.0)
    size, hop = int(0.025 * rate), int(0.01 * rate)
    x_N = np.pad(x_N, (0, max(0, size - len(x_N)))).astype(np.float64)
    frames_SN = np.lib.stride_tricks.sliding_window_view(x_N, size)[::hop] * np.hamming(size)
    power_SF = np.abs(np.fft.rfft(frames_SN, 512 if size <= 512 else size)) ** 2
    energy_S = 10 * np.log10(power_SF.sum(1) + 1e-10)
    loud = np.flatnonzero(energy_S > energy_S.max() - QUIET)
    bands_SM = power_SF[loud[0] : loud[-1] + 1] @ triangles(power_SF.shape[1], rate, warp).T
    cepstra_SC = dct(np.log(bands_SM + 1e-10), norm="ortho")[:, :CEPSTRA]
    cepstra_SC = (cepstra_SC - cepstra_SC.mean(0)) / (cepstra_SC.std(0) + 1e-3)
    places = np.linspace(0, len(cepstra_SC) - 1, FRAMES)
    steps = np.arange(len(cepstra_SC))
    shown = np.stack([np.interp(places, steps, cepstra_SC[:, each]) for each in range(CEPSTRA)])
    return np.concatenate([shown, np.gradient(shown, axis=1)]).ravel()


def triangles(points: int, rate: int, warp: float) -> Floats:
    """Mel bands [M, F] of a frequency axis that is stretched by ``warp``."""
    mels = np.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), BANDS + 2)
    edges = np.minimum(warp * 700 * (10 ** (mels / 2595) - 1), rate / 2 + mels / 1e3)  # still increasing at the end
    hertz = np.linspace(0, rate / 2, points)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    found: Floats = np.maximum(0, np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle)))
    return found


# --------------------------------------------------------------------- pictures


def drawn(data: Splits) -> list[Prediction]:
    """A support vector machine over the pixels, of at most 10,000 pictures. A picture of n letters is cut into n equal
    parts, with a third of a part more on either side.
    """
    length = len(targets(data.train)[0])
    learn, ask = _parts(data, sources(data.train)[:10_000], length), _parts(data, sources(data.test), length)
    answers = [letter for text in targets(data.train)[:10_000] for letter in text]
    found = SVC(C=10).fit(learn, answers).predict(ask)
    return outputs(["".join(found[at : at + length]) for at in range(0, len(found), length)])


def _parts(data: Splits, paths: Sequence[str], length: int) -> Floats:
    width = 28 if length == 1 else 70
    rows = flat(data, paths, width).reshape(len(paths), width, -1)
    part, more = width // length, 0 if length == 1 else width // length // 3
    padded = np.pad(rows, ((0, 0), (more, more), (0, 0)), mode="edge")
    cut = [padded[:, at * part : (at + 1) * part + 2 * more] for at in range(length)]
    return np.stack(cut, 1).reshape(len(paths) * length, -1)


# ----------------------------------------------------------------------- series


def autoregression(data: Splits) -> list[Prediction]:
    """statsmodels' linear autoregression on as many steps as a window reads, with a trend. It is fitted anew for each
    window, on the whole series up to the forecast.
    """
    series, starts = np.zeros(0), []
    for split in (data.train, data.valid, data.test):
        starts.append(len(series))
        series = np.concatenate([series, whole(split)])
    lags, steps = (len(text.split()) for text in (data.test[0].source, targets(data.test)[0]))
    origins = [starts[-1] + window + lags for window in range(len(data.test))]
    return _told([AutoReg(series[:at], lags=lags, trend="ct").fit().forecast(steps) for at in origins])


def whole(examples: Examples) -> Floats:
    """The series behind windows that begin one step after each other."""
    first, *others = (
        f"{source} {target}".split() for source, target in zip(sources(examples), targets(examples), strict=True)
    )
    return np.array([*first, *(line[-1] for line in others)], float)


def _told(rows: Sequence[Floats]) -> list[Prediction]:
    return outputs([" ".join(f"{number:.6g}" for number in row) for row in rows])
