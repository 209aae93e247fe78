"""Writes a Marian model in Hugging Face's format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from transduce.core.config import Table
from transduce.models.weights import save_tensors


def write_original(folder: Path, config: Table, tensors: Mapping[str, Tensor]) -> None:
    """Writes config.json and model.safetensors into the folder, which must exist. ``tensors`` share no memory."""
    (folder / "config.json").write_text(json.dumps(dict(config), indent=1) + "\n", encoding="utf-8")
    save_tensors(tensors, folder / "model.safetensors", {"format": "pt"})
