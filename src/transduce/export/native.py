"""Writes a Transformer for our own engine, from its settings and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from transduce.engines.native.library import library
from transduce.engines.native.matrices import quantised
from transduce.engines.native.opening import WEIGHTS
from transduce.export.transformers import activation, check_transformer, epsilon, kind

MOST_POSITIONS = 2048  # of sinusoids


def write_native(model: Any, settings: Mapping[str, Any], folder: Path, precision: str = "float32") -> dict[str, Any]:
    """Writes weights.safetensors into ``folder``. Returns the notes for export.json.

    ``settings`` is the table ``model`` of the run, with all defaults. With ``precision`` int8, matrices are 8-bit
    integers with a scale for each output; embeddings and norms stay float32. Raises UserError for a model that the
    engine does not have, and MissingPackageError if the engine was not built.
    """
    library()
    check_transformer(settings, "the native engine", ("sinusoidal", "learned", "none"), ("pre", "post"))
    found = _Weights(precision == "int8")
    with torch.no_grad():
        notes = {side: found.stack(side, getattr(model, side), settings[side]) for side in ("encoder", "decoder")}
        if model.encoder.embedding.weight is model.decoder.embedding.weight:
            del found.tensors["decoder.embedding"]
            notes["decoder"]["embedding"] = "encoder.embedding"
        projections = [layer.memory.project for layer in model.decoder.layers]
        weight, bias = (torch.cat([getattr(each, part) for each in projections]) for part in ("weight", "bias"))
        found.matrix("memory", weight, bias)
        found.matrix("readout", model.decoder.projection.weight, model.decoder.projection.bias)
    save_file(found.tensors, folder / WEIGHTS)
    return {"model": "transformer", **notes}


class _Weights:
    """The tensors of an export by name. Matrices are 8-bit integers if ``integers``."""

    def __init__(self, integers: bool) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.integers = integers

    def stack(self, side: str, stack: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Adds an encoder's or a decoder's tensors. Returns the notes that describe it."""
        self._float(f"{side}.embedding", stack.embedding.weight)
        self._float(f"{side}.positions", positions(stack))
        for number, layer in enumerate(stack.layers):
            self._layer(f"{side}.{number}", layer)
        pre_norm = kind(settings["norm"]) == "pre"
        if pre_norm:
            self._norm(f"{side}.norm", stack.norm)
        return {
            "embedding": f"{side}.embedding",
            "embedding_scale": stack.embedding.scale,
            "layers": len(stack.layers),
            "heads": settings["heads"],
            "pre_norm": int(pre_norm),
            "activation": activation(settings),
            "eps": epsilon(settings),
        }

    def _layer(self, name: str, layer: Any) -> None:
        parts = {"project": layer.mixer.project, "out": layer.mixer.out}
        norms = {"mixer_norm": layer.mixer_residual.norm, "feedforward_norm": layer.feedforward_residual.norm}
        if hasattr(layer, "memory"):
            parts |= {"query": layer.memory.query, "read_out": layer.memory.out}
            norms["memory_norm"] = layer.memory_residual.norm
        parts |= {"widen": layer.feedforward.widen, "narrow": layer.feedforward.narrow}
        for each, part in parts.items():
            self.matrix(f"{name}.{each}", part.weight, part.bias)
        for each, norm in norms.items():
            self._norm(f"{name}.{each}", norm)

    def matrix(self, name: str, weight_OI: Tensor, bias_O: Tensor) -> None:
        self._float(f"{name}.bias", bias_O)
        if self.integers:
            self.tensors[f"{name}.weight"], self.tensors[f"{name}.scale"] = quantised(weight_OI)
        else:
            self._float(f"{name}.weight", weight_OI)

    def _norm(self, name: str, norm: Any) -> None:
        self._float(f"{name}.weight", norm.weight)
        self._float(f"{name}.bias", norm.bias)

    def _float(self, name: str, tensor: Tensor) -> None:
        self.tensors[name] = tensor.detach().float().clone().contiguous()


def positions(stack: Any) -> Tensor:
    """The table of position vectors [positions, width] of an encoder or a decoder; zeros if it has none."""
    most = getattr(stack.positions, "weight", torch.empty(MOST_POSITIONS, 0)).shape[0]
    found = stack.positions(torch.arange(most)[None])
    return torch.zeros(most, stack.width) if isinstance(found, float) else found[0]
