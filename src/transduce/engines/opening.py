"""Opens the model of an export with the engine that it was made for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transduce.engines.ctranslate2 import open_ctranslate2
from transduce.engines.manifest import Manifest
from transduce.engines.onnx import open_onnx


def open_model(folder: Path, manifest: Manifest) -> Any:
    """The model of the export in ``folder``: by onnxruntime if the engine is "onnx", otherwise by CTranslate2. Raises
    MissingPackageError if the package is not installed. Checks no checksums (``Manifest.read`` does).
    """
    return open_onnx(folder, manifest) if manifest.engine == "onnx" else open_ctranslate2(folder, manifest)
