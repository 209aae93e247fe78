"""Writes a model for our own engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.models.weights import save_tensors
from transduce.wings.engines.native.conversion.converting import convert
from transduce.wings.engines.native.opening import WEIGHTS


def write_native(model: Any, settings: Mapping[str, Any], folder: Path, precision: str = "float32") -> dict[str, Any]:
    """Writes weights.safetensors into ``folder``. Returns the notes for export.json. ``convert`` describes the other
    arguments and the errors.
    """
    tensors, notes = convert(model, settings, precision)
    save_tensors(tensors, folder / WEIGHTS)
    return notes
