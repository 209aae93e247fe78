"""Writes a model for the native engine, whose texts Python reads and writes."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from transduce.core.config import Table, TableView
from transduce.wings.engines.native.content import ids_content
from transduce.wings.engines.native.model import FILE


def write_native(model: nn.Module, settings: TableView, folder: Path, precision: str = "float32") -> Table:
    """Writes model.engine into ``folder``. Returns the notes for export.json, of which there are none. ``convert``
    describes the other arguments and the errors.
    """
    (folder / FILE).write_bytes(ids_content(model, settings, precision))
    return {}
