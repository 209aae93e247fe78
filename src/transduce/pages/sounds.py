"""Recordings inside a page, to be listened to: small, and part of the file, so that nothing is fetched."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

from transduce.pages.markup import Markup, element

LARGEST = 2**17  # bytes of a file that goes into a page as it is
SECONDS = 20  # of a larger one, compressed
KINDS = {"WAV": "audio/wav", "FLAC": "audio/flac", "MP3": "audio/mpeg"}  # what browsers play, by soundfile's names


def sound(path: str | Path) -> Markup | None:
    """A player of the recording at a path, or of the beginning of a long one.

    None where there is none that can be read, or no soundfile to read it.
    """
    try:
        import soundfile  # type: ignore[import-untyped]
    except (ImportError, OSError):  # OSError: the library that it wraps is not there
        return None
    try:
        with soundfile.SoundFile(path) as found:
            whole = found.format in KINDS and Path(path).stat().st_size <= LARGEST
            kind, file = (found.format, Path(path).read_bytes()) if whole else ("MP3", _compressed(soundfile, found))
    except Exception:  # what broken files make of a decoder is anybody's guess
        return None
    data = f"data:{KINDS[kind]};base64,{base64.b64encode(file).decode()}"
    return element("audio", controls="", preload="metadata", src=data, aria_label=str(path))


def _compressed(library: Any, found: Any) -> bytes:
    """The first seconds, channels averaged."""
    x_NC = found.read(SECONDS * found.samplerate, dtype="float32", always_2d=True)
    file = io.BytesIO()
    library.write(file, x_NC.mean(1), found.samplerate, format="MP3")
    return file.getvalue()
