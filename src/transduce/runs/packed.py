"""Packed runs: the files that a run needs for prediction, in one folder or one .zip file, and how they are received.

A packed run may come from a stranger. So only the names in ``ALLOWED`` are read or written, no file may be a link, and
every size has a limit. Nothing here imports torch.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.files import make_folder, needs_writing

PACK, CARD = "pack.json", "README.md"
FORMAT = 1
_CHECKPOINT = r"checkpoints/best/(model\.safetensors|state\.json|checksums\.sha256)"
_RUN = rf"(config\.toml|tokenizers/(source|target)\.json|shortlist\.safetensors|{_CHECKPOINT})"
ALLOWED = re.compile(rf"{re.escape(PACK)}|{re.escape(CARD)}|(language-models/[^/\\:\0]+/|aligner/)?{_RUN}")
"""The names of all files that a packed run may have. Each begins in the folder itself, so none leads out of it."""
NEEDED = (PACK, "config.toml", "tokenizers/source.json", "tokenizers/target.json", "checkpoints/best/model.safetensors")
MIB = 2**20
LARGEST = {".toml": MIB, ".md": 4 * MIB, ".sha256": MIB, ".json": 512 * MIB, ".safetensors": 64 * 1024 * MIB}
MOST_FILES = 200
SUFFIX = ".zip"


def check_names(sizes: Mapping[str, int], origin: str) -> None:
    """Raises UserError unless all names are allowed, the needed ones are there, and no file is too large. ``sizes`` has
    the number of bytes of each file; ``origin`` is for the message.
    """
    if len(sizes) > MOST_FILES:
        raise UserError(f"{origin} has {len(sizes)} files, and a packed run has at most {MOST_FILES}: do not use it")
    for name, size in sizes.items():
        if not ALLOWED.fullmatch(name) or {"", ".", ".."} & set(name.split("/")):
            raise UserError(f"{origin} has a file {name!r}, which no packed run has: do not use it")
        if size > LARGEST[Path(name).suffix]:
            raise UserError(f"{origin}: {name} has {size:,} bytes, more than a packed run may have: do not use it")
    if missing := [name for name in NEEDED if name not in sizes]:
        raise UserError(
            f"{origin} is no packed run: it has no {', '.join(missing)}; make one with `transduce pack RUN --out DIR`"
        )


def is_pack(folder: Path) -> bool:
    """True if the folder has a pack.json."""
    return (folder / PACK).exists()


def check_folder(folder: Path, within: Path | None = None) -> None:
    """Raises UserError for a file in the folder of a packed run that is a link, unless it leads to a place in
    ``within``. So commands that write into the folder cannot be led elsewhere.
    """
    for path in [folder, *folder.rglob("*")]:
        if path.is_symlink() and (within is None or within.resolve() not in path.resolve().parents):
            raise UserError(f"{path} is a link, and a packed run has none: do not use it, or replace the link")


def unpack(file: Path) -> Path:
    """The folder of a packed .zip file in the user's cache. Unpacks the file if it is not there yet.

    Raises UserError if the file is damaged, if it has names, links or sizes that a packed run does not have, or if this
    user may not write the cache.
    """
    folder = cache() / "packs" / digest(file)[:32]
    advice = "set the environment variable XDG_CACHE_HOME to a folder of yours, or unzip the file and name its folder"
    with needs_writing(cache(), f"{file} is unpacked there", advice):
        make_folder(folder, lambda scratch: extract(file, scratch))
    return folder


def cache() -> Path:
    """The folder where packed files are unpacked: ``transduce`` in ``XDG_CACHE_HOME``, which is ~/.cache by default."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "transduce"


def extract(file: Path, folder: Path) -> None:
    """Writes the files of a packed .zip file into an empty folder, and checks their checksums. Raises UserError as
    ``unpack`` does.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            _check_entries(entries, str(file))
            for entry in entries:
                path = folder / entry.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, path.open("xb") as target:
                    shutil.copyfileobj(source, target, MIB)
    except Exception as error:  # the errors of zipfile for strange bytes have no common class
        if isinstance(error, UserError) or (isinstance(error, OSError) and error.errno != errno.EINVAL):
            raise  # EINVAL: a place in the file that there cannot be
        raise UserError(f"{file} is no whole .zip file of a packed run ({error}); copy it again") from error
    check_sums(folder, str(file))


def _check_entries(entries: Iterable[zipfile.ZipInfo], origin: str) -> None:
    sizes: dict[str, int] = {}
    for entry in entries:
        if entry.filename in sizes:
            raise UserError(f"{origin} has {entry.filename!r} twice: do not use it")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise UserError(f"{origin}: {entry.filename} is compressed, and a packed run is not: do not use it")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise UserError(f"{origin}: {entry.filename} is a link, and a packed run has none: do not use it")
        sizes[entry.filename] = entry.file_size
    check_names(sizes, origin)


def check_sums(folder: Path, origin: str) -> None:
    """Compares all files of a packed run with the checksums in its pack.json. Raises UserError if one differs or is not
    listed.
    """
    listed = read_pack(folder)["files"]
    found = _names(folder)
    if found != listed.keys():
        differing = ", ".join(sorted(found ^ listed.keys())[:5])
        raise UserError(f"{origin} has other files than its {PACK} lists ({differing}); copy it again")
    for name, expected in listed.items():
        if digest(folder / name) != expected:
            raise UserError(f"{origin}: {name} is damaged: its checksum is not that of {PACK}; copy it again")


def foreign_files(folder: Path) -> list[str]:
    """The names of files in the folder of a packed run that its pack.json does not list, sorted."""
    return sorted(_names(folder) - read_pack(folder)["files"].keys())


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {PACK}


def read_pack(folder: Path) -> Table:
    """The table in the pack.json of a folder. Raises UserError if it is damaged or of another format."""
    try:
        found = json.loads((folder / PACK).read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise UserError(f"{folder / PACK} has format {found['format']!r}; this version reads {FORMAT}")
        if not isinstance(found["files"], dict):
            raise TypeError("files is no table")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{folder / PACK} is damaged ({error}); copy the packed run again") from error
    return dict(found)


def digest(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(MIB):
            found.update(block)
    return found.hexdigest()
