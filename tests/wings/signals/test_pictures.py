"""Pictures and clips as sequences of columns and frames, and files that cannot be read."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from transduce.data.corpora import DataError
from transduce.data.tokenizers.signal_files import SignalError
from transduce.wings.signals.tokenizers.clip import Clip
from transduce.wings.signals.tokenizers.picture import Picture


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, pixels: np.ndarray, **options) -> str:
    Image.fromarray(pixels).save(path, **options)
    return str(path)


def test_a_step_is_a_column(tmp_path):
    pixels_HWC = noise(4, 7, 3)
    steps_SD = Picture(4, channels=3).read(save(tmp_path / "a.png", pixels_HWC))
    assert steps_SD.shape == (7, 12)
    assert steps_SD.dtype == np.float32
    for x, y, c in ((0, 0, 0), (6, 3, 2), (2, 1, 1)):
        assert steps_SD[x, c * 4 + y] == pytest.approx(pixels_HWC[y, x, c] / 255)
    grey = Picture(4, invert=True).read(save(tmp_path / "b.png", pixels_HWC[..., 0]))
    np.testing.assert_allclose(grey, 1 - pixels_HWC[..., 0].T / 255, atol=1e-6)


@pytest.mark.parametrize(("width", "found"), [(None, 20), (6, 6)])
def test_resized_to_a_height(tmp_path, width, found):
    path = save(tmp_path / "a.png", np.full((16, 40), 51, np.uint8))
    steps_SD = Picture(8, width).read(path)
    assert steps_SD.shape == (found, 8)
    np.testing.assert_allclose(steps_SD, 0.2, atol=1e-6)


def test_transparency_is_white_and_depth_is_kept(tmp_path):
    clear = np.zeros((2, 2, 4), np.uint8)
    clear[0, 0, 3] = 255
    assert Picture(2).read(save(tmp_path / "a.png", clear)).tolist() == [[0, 1], [1, 1]]
    deep = np.array([[0, 32768], [65535, 256]], np.uint16)
    np.testing.assert_allclose(Picture(2).read(save(tmp_path / "b.png", deep)).T, deep / 65535, atol=4e-3)


def test_the_camera_was_held_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    path = save(tmp_path / "a.jpg", noise(4, 8, 3), exif=exif)
    assert Picture(8, channels=3).read(path).shape == (4, 24)


def bomb(path: Path, side: int) -> str:
    """A PNG that says it is large, of a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )
    return str(path)


def truncated(path: Path) -> str:
    save(path, noise(64, 64))
    path.write_bytes(path.read_bytes()[:-2000])
    return str(path)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "empty.png").touch()
    cases = {
        str(tmp_path / "missing.png"): "is missing",
        str(tmp_path / "empty.png"): "is empty",
        str(tmp_path / "text.png"): "is not a picture that can be read",
        truncated(tmp_path / "cut.png"): "is not a picture that can be read",
        bomb(tmp_path / "bomb.png", 30_000): "is not a picture that can be read: Image size",  # Pillow's limit
        bomb(tmp_path / "large.png", 10_000): "has 10000 x 10000 pixels, more than pixels = 16777216",
        save(tmp_path / "line.png", noise(1, 3000)): r"would have 3000\d* x \d+ pixels",
    }
    for path, problem in cases.items():
        unit = Picture(10_000) if "line" in path else Picture()
        with pytest.raises(SignalError, match=problem) as raised:
            unit.read(path)
        assert path in str(raised.value)


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_picture_that_would_be_too_large_is_not_decoded(tmp_path, monkeypatch, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation  # 6: the camera was held sideways
    long = (1, 3000) if orientation == 1 else (3000, 1)
    path = save(tmp_path / "line.png", noise(*long), exif=exif)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(SignalError, match=r"would have 30000000 x 10000 pixels"):
        Picture(10_000).read(path)


def test_options_that_make_no_sense():
    for options in ({"height": 0}, {"width": 0}, {"channels": 2}, {"normalisation": "clip"}):
        with pytest.raises(DataError, match=next(iter(options))):
            Picture(**options)
    for options in ({"every": 0}, {"frames": 0}, {"normalisation": "picture"}, {"channels": 4}):
        with pytest.raises(DataError, match=next(iter(options))):
            Clip(**options)


def test_without_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"'pillow' is not installed: pip install 'transduce\[vision\]'") as raised:
        Picture().read(str(tmp_path))
    assert not isinstance(raised.value, SignalError)


# ----------------------------------------------------------------------- clips


def frames(count: int = 5, height: int = 4, width: int = 6) -> list[Image.Image]:
    return [Image.fromarray(np.full((height, width, 3), 40 * number, np.uint8)) for number in range(count)]


@pytest.mark.parametrize("suffix", ["gif", "png", "webp"])
def test_a_step_is_a_frame(tmp_path, suffix):
    path, (first, *rest) = tmp_path / f"a.{suffix}", frames()
    first.save(
        path, save_all=True, append_images=rest, duration=100, **({"lossless": True} if suffix == "webp" else {})
    )
    steps_SD = Clip(4, 6, channels=3).read(str(path))
    np.testing.assert_allclose(steps_SD, np.arange(5)[:, None] * 40 / 255 * np.ones(72), atol=1e-2)
    assert Clip(2, 2, every=2).read(str(path)).shape == (3, 4)
    assert Clip(every=2).place(2) == "frame 4"
    with pytest.raises(SignalError, match="more frames than frames = 4"):
        Clip(frames=4).read(str(path))


def test_a_folder_of_pictures_is_a_clip(tmp_path):
    pixels_HWC = noise(4, 6, 3)
    (tmp_path / "clip").mkdir()
    for number in (1, 0):
        save(tmp_path / "clip" / f"{number}.png", pixels_HWC // (number + 1))
    steps_SD = Clip(4, 6, channels=3).read(str(tmp_path / "clip"))
    assert steps_SD[0, (2 * 4 + 3) * 6 + 5] == pytest.approx(pixels_HWC[3, 5, 2] / 255)
    assert steps_SD[1].max() <= 0.5
    (tmp_path / "clip" / "2.png").write_text("no picture")
    with pytest.raises(SignalError, match=r"2\.png is not a picture"):
        Clip().read(str(tmp_path / "clip"))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SignalError, match="is a folder without pictures"):
        Clip().read(str(tmp_path / "nothing"))


def test_a_clip_that_breaks_off(tmp_path):
    first, *rest = [Image.fromarray(noise(32, 32, seed=seed)) for seed in range(5)]
    first.save(tmp_path / "a.gif", save_all=True, append_images=rest)
    (tmp_path / "a.gif").write_bytes((tmp_path / "a.gif").read_bytes()[:2500])
    with pytest.raises(SignalError, match=r"a\.gif "):
        Clip().read(str(tmp_path / "a.gif"))
