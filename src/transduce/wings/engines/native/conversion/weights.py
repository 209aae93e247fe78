"""The tensors of a model for our own engine, by name. O outputs, I inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

MOST_POSITIONS = 2048  # of sinusoids
LARGEST = 127  # of an 8-bit weight


class Weights:
    """The tensors of a model by name. Matrices are 8-bit integers with a scale for each output if ``integers``;
    embeddings, norms and biases stay float32.
    """

    def __init__(self, integers: bool) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.integers = integers
        self._tables: dict[int, str] = {}

    def matrix(self, name: str, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        if bias_O is not None:
            self.floats(f"{name}.bias", bias_O)
        if self.integers:
            self.tensors[f"{name}.weight"], self.tensors[f"{name}.scale"] = quantised(weight_OI)
        else:
            self.floats(f"{name}.weight", weight_OI)

    def norm(self, name: str, norm: Any) -> None:
        self.floats(f"{name}.weight", norm.weight)
        if getattr(norm, "bias", None) is not None:  # an RMS norm has none
            self.floats(f"{name}.bias", norm.bias)

    def embedding(self, side: str, embedding: Any, positions: Any = None) -> dict[str, Any]:
        """Adds an embedding of tokens, and its positions if it has some. Returns the notes for ``Parts.embedding``. A
        table that both sides share is written once.
        """
        name = self._tables.setdefault(id(embedding.weight), f"{side}.embedding")
        self.floats(name, embedding.weight)
        notes = {"embedding": name, "embedding_scale": embedding.scale}
        table_PW = None if positions is None else position_table(positions)
        if table_PW is None:
            return notes
        self.floats(f"{side}.positions", table_PW)
        return notes | {"positions": f"{side}.positions"}

    def include(self, name: str, other: Weights) -> None:
        """Adds all tensors of another model."""
        self.tensors |= {f"{name}.{own}": tensor for own, tensor in other.tensors.items()}

    def counts(self, name: str, model: Any) -> None:
        """Adds all parameters of a counted model, unchanged."""
        for own, parameter in model.named_parameters():
            self.tensors[f"{name}.{own}"] = parameter.detach().clone()

    def floats(self, name: str, tensor: Tensor) -> None:
        self.tensors[name] = tensor.detach().float().clone().contiguous()


def position_table(positions: Any) -> Tensor | None:
    """The vectors [positions, width] of learned or sinusoidal positions; None if there are none."""
    most = getattr(positions, "weight", torch.empty(MOST_POSITIONS, 0)).shape[0]
    found = positions(torch.arange(most)[None])
    return None if isinstance(found, float) else found[0]


def quantised(weight_OI: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix as 8-bit integers [O, I] and the scale of each output [O]: weight = integer * scale, rounded. The
    largest weight of an output becomes 127 or -127.
    """
    weight_OI = weight_OI.float()
    scale_O = weight_OI.abs().amax(1) / LARGEST
    integers_OI = (weight_OI / scale_O.clamp(min=torch.finfo(torch.float32).tiny)[:, None]).round()
    return integers_OI.clamp(-LARGEST, LARGEST).to(torch.int8), scale_O
