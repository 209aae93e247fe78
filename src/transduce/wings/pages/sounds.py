"""Recordings inside a page: small, and embedded in the HTML file."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from types import ModuleType
from typing import Any

from transduce.wings.pages.markup import Markup, element

LARGEST = 2**17  # bytes; smaller files of KINDS are embedded unchanged
SECONDS = 20  # how much of any other file is embedded, compressed
KINDS = {
    "WAV": "audio/wav",
    "FLAC": "audio/flac",
    "MP3": "audio/mpeg",
}  # formats that browsers play, as soundfile names them


def sound(path: str | Path) -> Markup | None:
    """An audio element with a recording inside.

    A WAV, FLAC or MP3 file of at most ``LARGEST`` bytes is embedded unchanged. Any other recording is reduced to its
    first ``SECONDS`` seconds, as mono MP3. Returns None if the file is no readable recording or soundfile is not
    installed.
    """
    try:
        import soundfile  # type: ignore[import-untyped]
    except (ImportError, OSError):  # OSError: the wrapped library is missing
        return None
    try:
        with soundfile.SoundFile(path) as found:
            whole = found.format in KINDS and Path(path).stat().st_size <= LARGEST
            kind, file = (found.format, Path(path).read_bytes()) if whole else ("MP3", _compressed(soundfile, found))
    except Exception:  # a decoder may raise anything for a broken file
        return None
    data = f"data:{KINDS[kind]};base64,{base64.b64encode(file).decode()}"
    return element("audio", controls="", preload="metadata", src=data, aria_label=str(path))


def _compressed(library: ModuleType, found: Any) -> bytes:
    """The first ``SECONDS`` seconds of the open recording ``found`` as the bytes of a mono MP3 file: channels are
    averaged.
    """
    x_NC = found.read(SECONDS * found.samplerate, dtype="float32", always_2d=True)
    file = io.BytesIO()
    library.write(file, x_NC.mean(1), found.samplerate, format="MP3")
    return file.getvalue()
