"""Keeps a packed run off the network: its settings may not make this program fetch files or runs.

A packed run may come from a stranger, and a request tells the stranger's machine who opened the run, and when.
"""

from __future__ import annotations

from pathlib import Path

from transduce.core import config
from transduce.core.errors import UserError
from transduce.data.base import SPLITS
from transduce.data.corpora import DataError
from transduce.data.preparation import origin_folder
from transduce.data.settings import Data
from transduce.runs.hub import is_address
from transduce.runs.layout import CONFIG
from transduce.runs.packed import is_pack

WAY_OUT = (
    "name the examples with --source and --target, or with --pairs; or, if you trust its author, copy it with "
    "`transduce pull --trust` and use the copy"
)


def is_foreign(folder: Path) -> bool:
    """True for the folder of a packed run, and for the folder of a run inside it: a language model, an aligner."""
    return any(map(is_pack, (folder, folder.parent, folder.parent.parent)))


def check_runs(settings: config.Table, folder: Path) -> None:
    """Raises UserError if the settings of the packed run in ``folder`` name a run of the hub, outside the data.
    ``transduce pack`` never writes such a name.
    """
    others = [value for key, value in settings.items() if key != "data"]
    for text in strings(others):
        if any(map(is_address, text.split("+"))):
            raise UserError(f"{folder / CONFIG} names the run {text!r}, and a packed run names none: do not use it")


def check_data(data: Data, table: config.Table, folder: Path, cache: Path) -> None:
    """Raises DataError if reading the data of the packed run in ``folder`` would reach the network. ``table`` is
    ``data`` of its settings, as it was read. Files that were downloaded into ``cache`` before may be read.
    """
    named = [table.get(key, {}) for key in (*SPLITS, "cluster")]
    addresses = [text for text in strings(named) if "://" in text]
    if addresses:
        raise DataError(f"{folder} is a packed run, and its data are at {addresses[0]!r}, on the network: {WAY_OUT}")
    downloads = getattr(data.origin, "folder", "") is None  # every origin that downloads has this field
    if data.origin is not None and downloads and not origin_folder(data.origin, cache).is_dir():
        name = f"data.origin.type = {table['origin']['type']!r}"
        raise DataError(f"{folder} is a packed run, and its data ({name}) would be downloaded: {WAY_OUT}")


def strings(value: object) -> list[str]:
    """All values in nested tables and arrays, each as a string."""
    if isinstance(value, dict):
        value = list(value.values())
    return [text for each in value for text in strings(each)] if isinstance(value, list) else [str(value)]
