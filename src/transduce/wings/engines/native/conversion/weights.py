"""The tensors of a model for our own engine, by name. O outputs, I inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.protocols import Positions
from transduce.layers.modules.embedding import TokenEmbedding

MOST_POSITIONS = 2048  # of sinusoids
LARGEST = 127  # sum of the absolute values of two neighbouring 8-bit weights
Notes = dict[str, object]  # what the file says about a part, as JSON


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

    def product(self, name: str, layer: nn.Module) -> None:
        """Adds the matrix of a linear layer or a readout, and its bias if it has one."""
        own = dict(layer.named_parameters(recurse=False))
        self.matrix(name, own["weight"], own.get("bias"))

    def norm(self, name: str, norm: nn.Module) -> None:
        for own, parameter in norm.named_parameters():
            self.floats(f"{name}.{own}", parameter)

    def embedding(self, side: str, embedding: TokenEmbedding, positions: Positions | None = None) -> Notes:
        """Adds an embedding of tokens, and its positions if it has some. Returns the notes for ``Parts.embedding``. A
        table that both sides share is written once.
        """
        name = self._tables.setdefault(id(embedding.weight), f"{side}.embedding")
        self.floats(name, embedding.weight)
        notes: Notes = {"embedding": name, "embedding_scale": embedding.scale}
        table_PW = None if positions is None else position_table(positions)
        if table_PW is None:
            return notes
        self.floats(f"{side}.positions", table_PW)
        return notes | {"positions": f"{side}.positions"}

    def include(self, name: str, other: Weights) -> None:
        """Adds all tensors of another model."""
        self.tensors |= {f"{name}.{own}": tensor for own, tensor in other.tensors.items()}

    def counts(self, name: str, model: nn.Module) -> None:
        """Adds all parameters of a counted model, unchanged."""
        for own, parameter in model.named_parameters():
            self.tensors[f"{name}.{own}"] = parameter.detach().clone()

    def floats(self, name: str, tensor: Tensor) -> None:
        self.tensors[name] = tensor.detach().float().clone().contiguous()


def position_table(positions: Positions) -> Tensor | None:
    """The vectors [positions, width] of learned or sinusoidal positions; None if there are none."""
    most = getattr(positions, "weight", torch.empty(MOST_POSITIONS, 0)).shape[0]
    found = positions(torch.arange(most)[None])
    return None if isinstance(found, float) else found[0]


def quantised(weight_OI: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix as 8-bit integers [O, I] and the scale of each output [O]: weight = integer * scale, rounded.

    The absolute values of two neighbouring integers of an output, 2i and 2i + 1, sum to at most 128: the largest sum
    becomes 127, and rounding adds at most 1. So products are 1.5 times as fast with AVX2 (kernels/matrix.h).
    """
    weight_OI = weight_OI.float()
    sizes_OI = nn.functional.pad(weight_OI.abs(), (0, weight_OI.shape[1] % 2))
    scale_O = (sizes_OI[:, ::2] + sizes_OI[:, 1::2]).amax(1) / LARGEST
    integers_OI = (weight_OI / scale_O.clamp(min=torch.finfo(torch.float32).tiny)[:, None]).round()
    return integers_OI.clamp(-LARGEST, LARGEST).to(torch.int8), scale_O
