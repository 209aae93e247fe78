"""Recordings: samples, resampling, log-mel energies, and files that cannot be read."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.data.corpora import DataError
from transduce.data.tokenizers.signal_files import SignalError
from transduce.wings.signals.tokenizers.mel import QUIET, LogMel
from transduce.wings.signals.tokenizers.sound import Sound, resampled

RATE = 8000
HEARD = -6.0  # below lie what 16 bits, and the edges of a window, leave of a tone


def tone(hertz: float, seconds: float = 0.2, rate: int = RATE) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def record(path: Path, samples: np.ndarray, rate: int = RATE, **options) -> str:
    soundfile.write(path, samples, rate, **options)
    return str(path)


# -------------------------------------------------------------------- log-mel


def test_log_mel_is_its_formula(tmp_path):
    """Written out frame by frame, frequency by frequency."""
    mel = LogMel(RATE, mels=5, window=16, hop=10, emphasis=0.9)
    x_N = np.random.default_rng(0).normal(size=40).astype(np.float32)
    edges = [700 * (10 ** (k * 2595 * math.log10(1 + 4000 / 700) / 6 / 2595) - 1) for k in range(7)]
    expected = []
    for start in (0, 10, 20):
        frame = [
            (0.5 - 0.5 * math.cos(2 * math.pi * n / 16)) * (x_N[start + n] - 0.9 * x_N[max(0, start + n - 1)])
            for n in range(16)
        ]
        row = []
        for low, centre, high in zip(edges, edges[1:], edges[2:], strict=False):
            energy = 0.0
            for f in range(mel.points // 2 + 1):
                hertz = f * RATE / mel.points
                bin_f = sum(frame[n] * np.exp(-2j * math.pi * f * n / mel.points) for n in range(16))
                energy += (
                    max(0.0, min((hertz - low) / (centre - low), (high - hertz) / (high - centre))) * abs(bin_f) ** 2
                )
            row.append(math.log(QUIET + energy))
        expected.append(row)
    np.testing.assert_allclose(mel(x_N), expected, rtol=1e-4, atol=1e-4)


def test_a_tone_is_in_its_band():
    mel = LogMel(RATE, mels=20, window=200, hop=80)
    loudest = [int(mel(tone(hertz)).mean(0).argmax()) for hertz in (150, 400, 900, 1800, 3500)]
    assert loudest == sorted(set(loudest))


@pytest.mark.parametrize(("rate", "mels", "window"), [(8000, 40, 200), (16000, 80, 400), (16000, 128, 400)])
def test_no_band_is_deaf(rate, mels, window):
    assert LogMel(rate, mels, window, 80).bands_MF.any(1).all()


def test_too_many_bands():
    with pytest.raises(DataError, match="mels = 2000 are bands too narrow to be told apart in 200 samples"):
        _ = LogMel(8000, 2000, 200, 80).points


@given(length=st.integers(1, 500), window=st.integers(2, 100), hop=st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_frames_are_whole(length, window, hop):
    frames = len(LogMel(RATE, 3, window, hop)(np.zeros(length, np.float32)))
    assert frames == max(0, length - window) // hop + 1


# ------------------------------------------------------------------ resampling


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.1, 2.0])
def test_a_tone_resampled_is_the_tone_at_the_other_rate(ratio):
    rate = round(RATE * ratio)
    found = resampled(tone(700), ratio)
    expected = tone(700, rate=rate)
    assert abs(len(found) - len(expected)) <= 1
    inner = slice(100, min(len(found), len(expected)) - 100)
    np.testing.assert_allclose(found[inner], expected[inner], atol=2e-3)


def test_what_cannot_be_at_the_lower_rate_is_gone():
    assert np.abs(resampled(tone(3500), 0.5)[100:-100]).max() < 0.01


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 2.0])
def test_something_is_left_of_a_single_sample(ratio):
    assert len(resampled(np.ones(1, np.float32), ratio)) >= 1


def test_without_the_library_for_other_rates(monkeypatch):
    monkeypatch.setitem(sys.modules, "soxr", None)
    assert len(resampled(tone(700), 1)) == len(tone(700))
    with pytest.raises(DataError, match=r"'soxr' is not installed: pip install 'transduce\[audio\]'"):
        resampled(tone(700), 0.5)


# ------------------------------------------------------------------------ unit


def test_energies_far_below_the_loudest_are_raised(tmp_path):
    loud_then_silent = np.concatenate([tone(500), np.zeros(2000, np.float32)])
    path = record(tmp_path / "a.wav", loud_then_silent)
    every, near = Sound(RATE, mels=20).read(path), Sound(RATE, mels=20, range=30.0).read(path)
    least = every.max() - 3 * math.log(10)  # 30 decibels are three powers of ten
    assert every.min() < least - 1
    np.testing.assert_allclose(near, np.maximum(every, least), rtol=1e-6)


def test_loudness_has_one_scale_for_all_bands(tmp_path):
    path = record(tmp_path / "a.wav", tone(500))
    energies, (found,) = (
        Sound(RATE, mels=20).read(path),
        Sound(RATE, mels=20, normalisation="loudness").learn([]).encode([path]),
    )
    np.testing.assert_allclose(found, (energies - energies.mean()) / energies.std(), atol=2e-3)


def test_the_mean_of_each_band_goes_and_the_deviation_is_one_for_all(tmp_path):
    path = record(tmp_path / "a.wav", np.concatenate([tone(500), tone(900)]))
    energies = Sound(RATE, mels=20).read(path)
    (found,) = Sound(RATE, mels=20, normalisation="mean").learn([]).encode([path])
    apart = energies - energies.mean(0)
    np.testing.assert_allclose(found, apart / apart.std(), atol=2e-3)


def test_silence_at_both_ends_is_cut(tmp_path):
    silence = np.zeros(4000, np.float32)
    path = record(tmp_path / "a.wav", np.concatenate([silence, tone(500), silence[:1000], tone(700), silence]))
    every, cut = Sound(RATE, mels=20).read(path), Sound(RATE, mels=20, trim=30.0).read(path)
    power = np.exp(every.astype(np.float64)).sum(1)
    loud = np.flatnonzero(power >= power.max() / 1000)
    np.testing.assert_allclose(cut, every[loud[0] : loud[-1] + 1])
    assert len(cut) < len(every) - 80  # 0.5 s at either end have 98 frames; the silence between stays
    quiet = record(tmp_path / "b.wav", silence)
    assert len(Sound(RATE, trim=30.0).read(quiet)) == len(Sound(RATE).read(quiet))


def test_cepstra_and_their_differences(tmp_path):
    path = record(tmp_path / "a.wav", np.concatenate([tone(500), tone(900)]))
    energies = Sound(RATE, mels=20).read(path)
    found = Sound(RATE, mels=20, cepstra=13, differences=1).read(path)
    for k in range(13):
        wave = [math.cos(math.pi * k * (m + 0.5) / 20) for m in range(20)]
        np.testing.assert_allclose(found[:, k], energies @ wave / math.hypot(*wave), atol=1e-4)
    padded = np.concatenate([found[:1, :13]] * 2 + [found[:, :13]] + [found[-1:, :13]] * 2)
    slopes = [np.polyfit(np.arange(5), padded[s : s + 5], 1)[0] for s in range(len(found))]
    np.testing.assert_allclose(found[:, 13:], slopes, atol=1e-4)
    unit = Sound(RATE, mels=20, cepstra=5, differences=2)
    assert unit.read(path).shape[1] == unit.learn([]).factors == 15


def test_recordings_are_read(tmp_path):
    unit = Sound(RATE, mels=20)
    for name, options in (("a.wav", {}), ("a.flac", {}), ("b.wav", {"subtype": "FLOAT"})):
        steps_SD = unit.read(record(tmp_path / name, tone(500), **options))
        assert steps_SD.shape == (18, 20)
        expected = LogMel(RATE, 20, 200, 80)(tone(500))
        np.testing.assert_allclose(np.maximum(steps_SD, HEARD), np.maximum(expected, HEARD), atol=0.1)
    assert unit.place(7) == "0.07 s"


def test_channels_are_averaged(tmp_path):
    both = np.stack([tone(500), -tone(500)], 1)
    np.testing.assert_allclose(
        Sound(RATE).read(record(tmp_path / "a.wav", both, subtype="FLOAT")), math.log(QUIET), atol=1e-5
    )


def test_normalised_by_the_recording(tmp_path):
    path = record(tmp_path / "a.wav", np.random.default_rng(0).normal(size=4000) * 0.1)
    (row_SD,) = Sound(RATE, mels=8).learn([]).encode([path])
    np.testing.assert_allclose(row_SD.mean(0), 0, atol=1e-2)
    np.testing.assert_allclose(row_SD.std(0), 1, atol=1e-2)
    silence = record(tmp_path / "b.wav", np.zeros(4000))
    assert not Sound(RATE, mels=8).learn([]).encode([silence])[0].any()


def test_another_rate_is_refused_or_resampled(tmp_path):
    path = record(tmp_path / "a.wav", tone(500, rate=11025), 11025)
    with pytest.raises(
        SignalError, match=r"a\.wav has 11025 samples a second, and rate = 8000 of the unit was expected"
    ):
        Sound(RATE).read(path)
    found = Sound(RATE, mels=20, resample=True).read(path)
    expected = LogMel(RATE, 20, 200, 80)(tone(500))
    np.testing.assert_allclose(np.maximum(found, HEARD)[2:-2], np.maximum(expected, HEARD)[2:-2], atol=0.1)


def bad(folder: Path, kind: str) -> str:
    path = folder / f"{kind}.wav"
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "noise":
        path.write_bytes(b"RIFFno sound at all" * 20)
    elif kind == "silent":
        record(path, np.zeros(0))
    elif kind == "truncated":
        record(path, tone(500))
        path.write_bytes(path.read_bytes()[:-500])
    elif kind == "nan":
        record(path, np.array([0.1, np.nan, 0.2]), subtype="FLOAT")
    elif kind == "long":
        record(path, np.zeros(RATE * 3), RATE)
    elif kind == "folder":
        path.mkdir()
    return str(path)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("missing", "is missing"),
        ("empty", "is empty"),
        ("noise", "is not a sound file that can be read"),
        ("silent", "has no samples"),
        ("truncated", "is truncated"),
        ("nan", r"has the sample nan at \d\.\d+ s \(number \d+\)"),
        ("long", r"has 3\.0 seconds, more than seconds = 2 of the unit"),
        ("folder", "is not a file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, kind, problem):
    path = bad(tmp_path, kind)
    with pytest.raises(SignalError, match=rf"{kind}\.wav {problem}"):
        Sound(RATE, seconds=2).read(path)


def test_a_truncated_flac(tmp_path):
    path = Path(record(tmp_path / "a.flac", np.random.default_rng(0).normal(size=20000) * 0.1))
    path.write_bytes(path.read_bytes()[:-9000])
    with pytest.raises(SignalError, match=r"a\.flac is (truncated|not a sound file)"):
        Sound(RATE).read(str(path))


def test_a_file_of_absurd_loudness(tmp_path):
    path = record(tmp_path / "a.wav", tone(500) * np.float32(1e30), subtype="FLOAT")
    with pytest.raises(SignalError, match=r"has the sample .*e\+\d+ at 0\.\d+ s .* size 2,147,483,648 at most"):
        Sound(RATE).learn([]).encode([path])
    one = tone(500)
    one[40] = 1e30  # the energies of this one would be infinite, and those of a range NaN
    path = record(tmp_path / "b.wav", one, subtype="FLOAT")
    with pytest.raises(SignalError, match=r"has the sample 1e\+30 at 0\.00\d s \(number 40\)"):
        Sound(RATE, range=40).read(path)
    integers = record(tmp_path / "c.wav", tone(500) * np.float32(2**31), subtype="FLOAT")
    assert np.isfinite(Sound(RATE).learn([]).encode([integers])[0]).all()


def test_a_value_that_half_precision_cannot_hold_is_refused(tmp_path):
    silence = record(tmp_path / "a.wav", tone(500) * 0)
    loud = record(tmp_path / "b.wav", tone(500) * np.float32(2**31), subtype="FLOAT")
    unit = Sound(RATE, normalisation="corpus").learn([silence])
    with pytest.raises(SignalError, match=r"has the value .* at \d.* after normalisation, too large"):
        unit.encode([loud])


def test_a_path_that_is_none():
    with pytest.raises(SignalError, match="cannot be opened"):
        Sound().read("a\0b.wav")
    with pytest.raises(SignalError, match="cannot be opened"):
        Sound().read("a" * 5000)


def test_without_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(DataError, match=r"'soundfile' is not installed: pip install 'transduce\[audio\]'") as raised:
        Sound().read(str(tmp_path))
    assert not isinstance(raised.value, SignalError)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"normalisation": "corpse"}, 'normalisation = "corpse"'),
        ({"mels": 0}, "mels = 0"),
        ({"hop": 0.0}, "hop = 0.0"),
        ({"hop": math.inf}, "hop = inf: expected seconds"),
        ({"window": 1e9}, "window = 1000000000.0: expected seconds"),
        ({"seconds": math.nan}, "seconds = nan"),
        ({"emphasis": 2}, "emphasis = 2"),
        ({"range": 0.0}, "range = 0.0: expected decibels"),
        ({"trim": math.nan}, "trim = nan: expected decibels"),
        ({"cepstra": 41}, "cepstra = 41: expected 1 to mels = 40"),
        ({"cepstra": 0}, "cepstra = 0: expected 1 to mels"),
        ({"differences": 3}, "differences = 3: expected 0, 1 or 2"),
    ],
)
def test_options_that_make_no_sense(options, problem):
    with pytest.raises(DataError, match=problem):
        Sound(**options)
