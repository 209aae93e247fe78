"""A run where it can be read: a run directory as it is, a packed .zip file unpacked, a run of the hub downloaded."""

from __future__ import annotations

import logging
from pathlib import Path

from transduce.core.files import current_folder
from transduce.runs.hub import Address, download, is_address
from transduce.runs.packed import SUFFIX, check_folder, is_pack, unpack

log = logging.getLogger("transduce")


def received(run: str | Path) -> Path:
    """The directory of a run. ``run`` is a directory (``~`` is the home directory), the .zip file of a packed run, or
    "hf:owner/name".

    A directory need not exist. If the replacement of a packed run or of an export was interrupted, the earlier one is
    read, with a warning. Raises UserError for a packed run with names, links or sizes that a packed run does not
    have, and if a run of the hub cannot be read.
    """
    if is_address(run):
        return download(Address.of(str(run)))
    path = current_folder(given := Path(run).expanduser())
    if path != given:
        log.warning("%s is missing; %s is read, the earlier one: a replacement was interrupted", given, path)
    if path.suffix == SUFFIX and path.is_file():
        return unpack(path)
    if is_pack(path):
        check_folder(path, _cache_of(path))
    return path


def _cache_of(folder: Path) -> Path | None:
    """The folder of huggingface_hub's cache that the links of a downloaded run lead into; None for any other run."""
    place = folder.absolute().parent
    return place.parent if place.name == "snapshots" and place.parent.name.startswith("models--") else None
