"""Recordings and pictures for an engine: from memory by the buffer protocol, and from files without a library.

WAV files (16-bit integers, or float32), PNG files (8 bits, not interlaced), and PGM and PPM files (P5, P6) are read.
"""

from __future__ import annotations

import ctypes
import struct
import zlib
from collections.abc import Callable, Sequence
from ctypes import Structure, c_char, c_int64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce_engine.library import EngineError

BYTES, SHORTS, FLOATS, STEPS = range(4)  # what the numbers are, as in engine.h
FORMATS = {"B": BYTES, "h": SHORTS, "f": FLOATS}
LARGEST = 2**28  # numbers of a signal

if TYPE_CHECKING:
    from typing_extensions import Buffer
else:
    Buffer = object  # with a buffer, such as an array of NumPy


class Described(Structure):
    """A signal as the library has it. ``memory`` keeps its numbers."""

    _fields_ = (
        ("numbers", c_void_p),
        *((name, c_int64) for name in ("type", "rows", "columns", "channels", "rate")),
    )
    memory: object = None


@dataclass(frozen=True)
class Recording:
    """The samples of a recording: 16-bit integers, or float32 of -1 to 1, [N] or [N, channels], ``rate`` a second."""

    samples: Buffer
    rate: int

    def described(self) -> Described:
        view = _view(self.samples)
        if view.format not in ("h", "f") or view.ndim not in (1, 2):
            raise EngineError(
                f"samples of the format {view.format!r} and {view.ndim} axes: 16-bit integers or float32 were "
                "expected, [samples] or [samples, channels]"
            )
        return _described(view, FORMATS[view.format], _shape(view)[0], 1, self.rate)


@dataclass(frozen=True)
class Picture:
    """The pixels of a picture: bytes [height, width], grey, or [height, width, 3], red, green and blue."""

    pixels: Buffer

    def described(self) -> Described:
        view = _view(self.pixels)
        if view.format != "B" or view.ndim not in (2, 3):
            raise EngineError(
                f"pixels of the format {view.format!r} and {view.ndim} axes: bytes were expected, [height, width] or "
                "[height, width, 3]"
            )
        return _described(view, BYTES, *_shape(view)[:2])


@dataclass(frozen=True)
class Steps:
    """The steps of a signal as training made them: float32 [steps, numbers]."""

    numbers: Buffer

    def described(self) -> Described:
        view = _view(self.numbers)
        if view.format != "f" or view.ndim != 2:
            raise EngineError(f"steps of the format {view.format!r} and {view.ndim} axes: float32 with 2 was expected")
        return _described(view, STEPS, *_shape(view)[:2])


Signal = Recording | Picture | Steps
Source = str | Path | Signal | Buffer
"""A text, or for a model of signals the path of a file, a signal, or its samples or pixels."""


def _view(given: Buffer) -> memoryview:
    try:
        view = memoryview(given)
    except TypeError:
        raise EngineError(
            f"an object of the type {type(given).__name__}: the path of a file, or samples or pixels in a buffer were "
            "expected"
        ) from None
    return view if view.c_contiguous else _cast(view.tobytes(), view.format, _shape(view))


def _shape(view: memoryview) -> tuple[int, ...]:
    return view.shape or ()


def _cast(content: bytes, code: str, shape: Sequence[int]) -> memoryview:
    view: Any = memoryview(content)
    found: memoryview = view.cast(code, list(shape))
    return found


def _described(view: memoryview, kind: int, rows: int, columns: int, rate: int = 0) -> Described:
    if not view.nbytes:
        raise EngineError("the signal is empty")
    room, flat = c_char * view.nbytes, view.cast("B")
    memory = room.from_buffer_copy(flat) if flat.readonly else room.from_buffer(flat)
    channels = view.nbytes // view.itemsize // rows // columns
    found = Described(ctypes.addressof(memory), kind, rows, columns, channels, rate)
    found.memory = memory
    return found


# ---------------------------------------------------------------- files


def read_recording(path: Path) -> Recording:
    """The recording in a WAV file of 16-bit integers or float32. Raises EngineError for another file."""
    content = _content(path)
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise EngineError(f"{path} is no WAV file: convert it, such as with ffmpeg -i {path} OUT.wav")
    form, at = (0, 0, 0, 0), 12
    while at + 8 <= len(content):
        name, (size,) = content[at : at + 4], struct.unpack_from("<I", content, at + 4)
        if name == b"fmt " and at + 24 <= len(content):
            kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", content, at + 8)
            if kind == 0xFFFE and at + 34 <= len(content):  # the kind stands in the extension
                (kind,) = struct.unpack_from("<H", content, at + 32)
            form = kind, channels, rate, bits
        elif name == b"data":
            if at + 8 + size > len(content) and size != 0xFFFFFFFF:
                raise EngineError(f"{path} is truncated: it has fewer samples than it says")
            return _samples(path, content[at + 8 : at + 8 + size], *form)
        at += 8 + size + size % 2
    raise EngineError(f"{path} is no WAV file that can be read: it has no samples")


def _samples(path: Path, content: bytes, kind: int, channels: int, rate: int, bits: int) -> Recording:
    code = {(1, 16): "h", (3, 32): "f"}.get((kind, bits))
    if code is None or not channels:
        raise EngineError(
            f"{path} has samples of {bits} bits (kind {kind}): 16-bit integers or float32 were expected; convert it, "
            f"such as with ffmpeg -i {path} -c:a pcm_s16le OUT.wav"
        )
    size = channels * bits // 8
    count = len(content) // size
    if not count:
        raise EngineError(f"{path} has no samples")
    return Recording(_cast(content[: count * size], code, (count, channels)), rate)


def read_picture(path: Path) -> Picture:
    """The picture in a PNG, PGM or PPM file. Raises EngineError for another file."""
    content = _content(path)
    try:
        if content[:8] == b"\x89PNG\r\n\x1a\n":
            return _png(content)
        if content[:2] in (b"P5", b"P6"):
            return _netpbm(content)
        wrong = "is no PNG, PGM or PPM file"
    except EngineError as error:
        wrong = str(error)
    except (ValueError, IndexError, struct.error, zlib.error) as error:
        wrong = f"is damaged: {error}"
    raise EngineError(f"{path} {wrong}: convert it, such as with `convert {path} -alpha remove -depth 8 OUT.png`")


def _netpbm(content: bytes) -> Picture:
    words, at = list[int](), 2
    while len(words) < 3:
        while content[at] in b" \t\r\n":
            at += 1
        if content[at] == ord("#"):
            at = content.index(b"\n", at)
            continue
        end = at
        while content[end] not in b" \t\r\n#":
            end += 1
        words.append(int(content[at:end]))
        at = end
    wide, high, most = words
    channels = 3 if content[1:2] == b"6" else 1
    if most != 255 or min(wide, high) < 1:
        raise EngineError("has pixels of other than 8 bits")
    return _picture(content[at + 1 :], high, wide, channels)


def _picture(pixels: bytes | bytearray, high: int, wide: int, channels: int) -> Picture:
    count = high * wide * channels
    if count > LARGEST or len(pixels) < count:
        raise EngineError("has fewer pixels than it says" if count <= LARGEST else "has too many pixels")
    return Picture(memoryview(pixels)[:count].cast("B", [high, wide, *([3] if channels == 3 else [])]))


def _png(content: bytes) -> Picture:
    wide, high, bits, kind, _, _, interlaced = struct.unpack_from(">IIBBBBB", content, 16)
    parts, palette, at = [], b"", 8
    while at + 12 <= len(content):
        (size,) = struct.unpack_from(">I", content, at)
        name, data = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        if name == b"tRNS":
            raise EngineError("is transparent")
        palette = data if name == b"PLTE" else palette
        if name == b"IDAT":
            parts.append(data)
        at += 12 + size
    samples = {0: 1, 2: 3, 3: 1}.get(kind)
    if samples is None:
        raise EngineError("is transparent")
    if bits != 8 or interlaced:
        raise EngineError("has pixels of other than 8 bits" if bits != 8 else "is interlaced")
    if not 0 < wide * high * samples <= LARGEST:
        raise EngineError("has too many pixels, or none")
    lines = zlib.decompressobj().decompress(b"".join(parts), high * (wide * samples + 1))
    pixels = _unfiltered(lines, high, wide * samples, samples)
    if kind != 3:
        return _picture(pixels, high, wide, samples)
    colours = [palette[3 * n : 3 * n + 3].ljust(3, b"\0") for n in range(256)]
    return _picture(b"".join(map(colours.__getitem__, pixels)), high, wide, 3)


def _unfiltered(lines: bytes, high: int, size: int, back: int) -> bytearray:
    """The bytes of a PNG's lines, each of which has its filter before it. ``back`` bytes belong to a pixel."""
    found, above = bytearray(), bytes(size)
    for number in range(high):
        start = number * (size + 1)
        line = bytearray(lines[start + 1 : start + 1 + size])
        if len(line) < size:
            raise EngineError("has fewer pixels than it says")
        FILTERS[lines[start]](line, above, back)
        found += line
        above = bytes(line)
    return found


def _plain(line: bytearray, above: bytes, back: int) -> None:
    pass


def _left(line: bytearray, above: bytes, back: int) -> None:
    for n in range(back, len(line)):
        line[n] = (line[n] + line[n - back]) & 255


def _up(line: bytearray, above: bytes, back: int) -> None:
    line[:] = bytes((one + two) & 255 for one, two in zip(line, above, strict=True))


def _mean(line: bytearray, above: bytes, back: int) -> None:
    for n in range(len(line)):
        left = line[n - back] if n >= back else 0
        line[n] = (line[n] + (left + above[n]) // 2) & 255


def _paeth(line: bytearray, above: bytes, back: int) -> None:
    for n in range(len(line)):
        left, corner = (line[n - back], above[n - back]) if n >= back else (0, 0)
        near = left + above[n] - corner
        distance = abs(near - left), abs(near - above[n]), abs(near - corner)
        line[n] = (line[n] + (left, above[n], corner)[distance.index(min(distance))]) & 255


FILTERS: tuple[Callable[[bytearray, bytes, int], None], ...] = (_plain, _left, _up, _mean, _paeth)


def _content(path: Path) -> bytes:
    try:
        if path.is_file():
            return path.read_bytes()
        wrong = "is not a file" if path.exists() else "is missing: there is no such file"
    except (OSError, ValueError) as error:
        wrong = f"cannot be opened: {error}"
    raise EngineError(f"{path} {wrong}")
