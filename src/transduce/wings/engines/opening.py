"""Opens the model of an export with the engine that it was made for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from transduce.runs.manifest import Manifest
from transduce.wings.engines.ctranslate2 import open_ctranslate2
from transduce.wings.engines.native.model import open_native
from transduce.wings.engines.onnx import open_onnx

OPENERS: dict[str, Callable[[Path, Manifest], nn.Module]] = {
    "native": open_native,
    "onnx": open_onnx,
    "ctranslate2": open_ctranslate2,
}


def open_model(folder: Path, manifest: Manifest) -> nn.Module:
    """The model of the export in ``folder``, by the engine that the manifest names. Raises MissingPackageError if the
    engine is not installed. Checks no checksums (``Manifest.read`` does).
    """
    return OPENERS[manifest.engine](folder, manifest)
