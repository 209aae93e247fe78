"""Recordings in pages: a page embeds a small one unchanged, and only the compressed beginning of a long one."""

from __future__ import annotations

import base64
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from transduce.core.types import Example
from transduce.evaluation.systems import evaluate_file
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.wings.lab.comparison import compare
from transduce.wings.lab.reports.comparison import comparison_page
from transduce.wings.pages import sounds
from transduce.wings.pages.signals import shown

soundfile = pytest.importorskip("soundfile", reason="needs the extra audio")
RATE = 8000


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Half a second of a tone."""
    soundfile.write(tmp_path / "<a>.wav", np.sin(np.arange(RATE // 2) / 3).astype("float32"), RATE)
    return tmp_path / "<a>.wav"


def played(markup: str) -> tuple[str, bytes]:
    """The kind and the bytes of the one sound in it."""
    ((kind, data),) = re.findall(r'src="data:(audio/\w+);base64,([^"]*)"', markup)
    return kind, base64.b64decode(data)


def test_a_small_recording_is_the_file_itself(recording: Path) -> None:
    markup = shown(str(recording))
    assert played(markup) == ("audio/wav", recording.read_bytes())
    assert "&lt;a&gt;.wav</figcaption>" in markup
    assert re.search(r"<audio controls[^>]* aria-label=", markup)


def test_a_long_one_is_its_beginning_compressed(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, (30 * RATE, 2)).astype("float32")
    soundfile.write(tmp_path / "long.flac", noise, RATE)
    kind, content = played(shown(str(tmp_path / "long.flac")))
    assert kind == "audio/mpeg"
    assert len(content) < (tmp_path / "long.flac").stat().st_size / 3
    with soundfile.SoundFile(io.BytesIO(content)) as heard:
        assert heard.channels == 1
        assert heard.frames / heard.samplerate == pytest.approx(sounds.SECONDS, abs=0.2)


@pytest.mark.parametrize("content", [b"", b"RIFF....WAVEbroken", b"text"])
def test_what_is_no_sound_is_its_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.wav").write_bytes(content)
    assert shown(str(tmp_path / "x.wav")).startswith("<small")
    assert sounds.sound(tmp_path / "missing.wav") is None


def test_without_soundfile_there_are_names(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert shown(str(recording)).startswith("<small")


def test_a_comparison_shows_sources_as_it_is_told_to(recording: Path, tmp_path: Path) -> None:
    examples = [Example(str(recording), ("one two",)), Example("missing.wav", ("three",))]
    for name, lines in {"a": "one two\nthree\n", "b": "one\nfour\n"}.items():
        (tmp_path / name).write_text(lines)
    both = [evaluate_file(tmp_path / name, examples, [metric("wer")]) for name in ("a", "b")]
    found = compare(both, examples, "test", Resampling(resamples=20, trials=20))
    page = comparison_page(found, shown)
    assert played(page)[1] == recording.read_bytes()
    assert '<small class="faint">missing.wav</small>' in page
    assert "<audio" not in comparison_page(found)
