"""The file export.json of an export: which engine runs it, what it was made from, and the checksum of each file.

Nothing here imports torch, because some exports run where it is not installed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

from transduce.core.config import Table
from transduce.core.errors import UserError

MANIFEST = "export.json"
FORMAT = 1
ENGINES = ("torch", "native", "onnx", "ctranslate2")
EXPORTS = ("native", "onnx", "ctranslate2", "marian")
FOLDER = "exports"  # in a run directory: a folder for each format


@dataclass(frozen=True)
class Manifest:
    """The content of export.json. ``engine`` runs the export, and ``precision`` is the type of its numbers.

    ``checkpoint`` is the name of the checkpoint that was exported, and ``weights`` is the SHA-256 of this checkpoint's
    file. ``graphs`` describes the model to the engine. ``parity`` is the result of the check against PyTorch. ``files``
    has the SHA-256 of each file except export.json, by its path in the folder; ``write`` computes it. ``format`` is the
    version of export.json.
    """

    engine: str
    precision: str
    weights: str
    checkpoint: str
    graphs: Table = field(default_factory=dict)
    parity: Table = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Writes export.json into the folder, with the checksums of the other files that the folder has now, instead of
        ``files``.
        """
        files = {str(path.relative_to(folder)): checksum(path) for path in _files(folder)}
        record = asdict(self) | {"files": files}
        (folder / MANIFEST).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path, checked: bool = True) -> Manifest:
        """Reads a folder's export.json and, if ``checked``, compares the checksums of all files that it lists.

        Raises FileNotFoundError if the folder has no export.json, and UserError if this file or a listed one is
        damaged, if a listed one is missing, or if this version does not read the format.
        """
        path = folder / MANIFEST
        if not path.exists():
            raise FileNotFoundError(f"{folder} is no export: it has no {MANIFEST}; make one with `transduce export`")
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            found = record["format"]
            if found != FORMAT:
                raise UserError(f"{path} has format {found}, and this version reads {FORMAT}: export the run again")
            manifest = cls(**record)
            if manifest.engine not in EXPORTS or not isinstance(manifest.files, dict):
                raise TypeError(f"engine {manifest.engine!r}")
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is damaged ({error}): export the run again") from error
        if checked:
            manifest._check(folder)
        return manifest

    def _check(self, folder: Path) -> None:
        for name, expected in self.files.items():
            path = folder / name
            if not path.is_file():
                raise UserError(f"{folder} is incomplete: {name} is missing; copy the whole folder, or export again")
            if checksum(path) != expected:
                raise UserError(f"{path} is damaged: its checksum is not that of {MANIFEST}; copy it, or export again")


def checksum(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _digest(file)


def _digest(file: BinaryIO) -> str:  # Python 3.10
    found = hashlib.sha256()
    while block := file.read(1 << 20):
        found.update(block)
    return found.hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)


def foreign_files(folder: Path) -> list[str]:
    """The paths in the folder of an export that its export.json does not list, sorted."""
    listed = Manifest.read(folder, checked=False).files
    return [name for path in _files(folder) if (name := str(path.relative_to(folder))) not in listed]


def is_export(folder: Path) -> bool:
    """True if the folder has an export.json. Reads no file."""
    return (folder / MANIFEST).exists()


def find_export(run: Path, engine: str | None, precision: str = "float32") -> Path | None:
    """The folder of the export to predict with. None if the weights of the run are used.

    ``run`` is a run directory or the folder of an export. If ``engine`` is None, an export runs with its own engine,
    and a run with PyTorch. Our own engine needs no export, and with ``precision`` int8 it uses none of a run. Raises
    UserError if ``engine`` is unknown, if it is not the engine of the given export, if that export is for Hugging
    Face's transformers or its export.json is damaged, or if the run has no export for another engine. Checks no
    checksums.
    """
    if engine is not None and engine not in ENGINES:
        raise UserError(f"engine {engine!r}: {', '.join(ENGINES)} were expected")
    if is_export(run):
        own = _engine(run / MANIFEST)
        if own == "marian":
            raise UserError(f"{run} is an export for Hugging Face's transformers: load it with MarianMTModel")
        if engine not in (None, own):
            raise UserError(f"{run} is an export for {own}: leave --engine {engine} out, or name the run itself")
        return run
    if engine in (None, "torch") or precision == "int8":
        return None
    folder = run / FOLDER / str(engine)
    if not is_export(folder):
        if engine == "native":
            return None
        raise UserError(f"{run} has no export for {engine}: make it with `transduce export {run} --to {engine}`")
    return folder


def _engine(path: Path) -> str:
    """The engine that an export.json names. Raises UserError if the file is damaged."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["engine"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}): export the run again") from error
