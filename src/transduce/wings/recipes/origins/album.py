"""Writes pictures and their targets: for each split a folder of files with a manifest.

``pairs.jsonl`` has one line per picture: "source" is its file name beside the manifest; "target" is the text to write,
or an array of texts if several are right; other keys are extra facts. Pictures are arrays of bytes, [H, W] (grey) or
[H, W, 3] (red, green, blue), where 0 is dark. A clip is [F, H, W, 3] and becomes one animated file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from transduce.core.errors import MissingPackageError
from transduce.core.files import make_folder, write_lines
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import Files, Splits

Bytes = NDArray[np.uint8]
MANIFEST = "pairs.jsonl"


@dataclass(frozen=True)
class Entry:
    """An entry of an album: a picture [H, W] or [H, W, 3], or a clip [F, H, W, 3], in ``values``; its target or
    targets; and in ``known`` further keys of its line in the manifest.
    """

    values: Bytes
    target: str | list[str]
    known: Mapping[str, object] = field(default_factory=dict)


def albums(folder: Path, entries: Callable[[Split], Iterable[Entry]]) -> Splits:
    """Writes an album into a folder for each split, unless the folder exists, and returns the manifests. ``entries``
    gives the entries of a split, and is called only for what is written. A folder is complete or absent. Raises
    MissingPackageError as ``pillow`` does.
    """
    return Splits(*(album(folder / split, lambda split=split: entries(split)) for split in SPLITS))  # type: ignore[misc]


def album(folder: Path, entries: Callable[[], Iterable[Entry]]) -> Files:
    """Writes the pictures of ``entries()`` and their manifest into a new ``folder``. Returns the manifest as ``Files``.

    If the folder exists, nothing is written and ``entries`` is not called. Raises MissingPackageError as ``pillow``
    does.
    """
    make_folder(folder, lambda scratch: write_lines(scratch / MANIFEST, _lines(scratch, entries())))
    return Files(path=str(folder / MANIFEST))


def pillow(module: str = "Image") -> ModuleType:
    """The module of Pillow with this name. Without Pillow it raises MissingPackageError, which has the command that
    installs it.
    """
    try:
        return __import__(f"PIL.{module}", fromlist=[module])
    except ImportError as error:
        raise MissingPackageError("pictures need Pillow: pip install 'transduce[vision]'") from error


def _lines(folder: Path, entries: Iterable[Entry]) -> Iterator[str]:
    image = pillow()
    for number, entry in enumerate(entries):
        name = f"{number:06}.png"
        first, *rest = [image.fromarray(each) for each in _frames(entry.values)]
        animation = {"save_all": True, "append_images": rest, "duration": 100} if rest else {}
        first.save(folder / name, **animation)
        yield json.dumps({"source": name, "target": entry.target, **entry.known}, ensure_ascii=False)


def _frames(values: Bytes) -> Iterable[Bytes]:
    return values if values.ndim == 4 else [values]
