"""Opens an export for our own engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from transduce.engines.manifest import Manifest
from transduce.engines.native.library import library
from transduce.engines.native.model import NativeTransformer
from transduce.engines.native.stacks import NativeStack, matrix_of

WEIGHTS = "weights.safetensors"


def open_native(folder: Path, manifest: Manifest) -> NativeTransformer:
    """The model of the export in ``folder``. It computes with one thread. Raises MissingPackageError if the library was
    not built.
    """
    return read_model(library(), folder, manifest.graphs)


def read_model(functions: Any, folder: Path, notes: Mapping[str, Any]) -> NativeTransformer:
    """The model of the export in ``folder``, packed for a variant of the library, with the ``notes`` of export.json."""
    tensors = load_file(folder / WEIGHTS)
    stacks = {side: NativeStack(functions, tensors, side, notes[side]) for side in ("encoder", "decoder")}
    project, readout = (matrix_of(functions, tensors, name) for name in ("memory", "readout"))
    return NativeTransformer(functions, stacks["encoder"], project, stacks["decoder"], readout).eval()
