"""Writes a model for the native engine, whose texts Python reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.wings.engines.native.content import ids_content
from transduce.wings.engines.native.model import FILE


def write_native(model: Any, settings: Mapping[str, Any], folder: Path, precision: str = "float32") -> dict[str, Any]:
    """Writes model.engine into ``folder``. Returns the notes for export.json, of which there are none. ``convert``
    describes the other arguments and the errors.
    """
    (folder / FILE).write_bytes(ids_content(model, settings, precision))
    return {}
