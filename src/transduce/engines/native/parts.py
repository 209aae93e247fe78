"""The parts of all families of models: matrices, norms and embeddings of an export, as the library's structures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import Structure, c_float, c_int32, c_void_p
from typing import Any, TypeVar

import torch
from torch import Tensor

from transduce.compute.library import DONE, NO_ROOM
from transduce.engines.native.matrices import Matrix, Readout
from transduce.errors import UserError
from transduce.types import Padded

S = TypeVar("S")
T = TypeVar("T")

ANY_POSITION = 2**31 - 1  # of an embedding without positions


class Norm(Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


class Embedding(Structure):
    _fields_ = (
        ("width", c_int32),
        ("vocabulary", c_int32),
        ("most_positions", c_int32),
        ("scale", c_float),
        ("vectors", c_void_p),
        ("positions", c_void_p),
    )


class Parts:
    """The parts of an export by name. Structures point to memory that the object keeps: keep the object as long.

    ``functions`` is the library, and ``tensors`` has the tensors of the export.
    """

    def __init__(self, functions: Any, tensors: Mapping[str, Tensor]) -> None:
        self.functions, self.tensors = functions, tensors
        self._kept: list[Any] = []

    def matrix(self, name: str) -> Matrix:
        """The matrix of the tensors NAME.weight, NAME.scale (if it is 8-bit) and NAME.bias (if it has one)."""
        return self.keep(Matrix(self.functions, *self._tensors(name)))

    def readout(self, name: str) -> Readout:
        """The same for a model's ``readout``."""
        return self.keep(Readout(self.functions, *self._tensors(name)))

    def _tensors(self, name: str) -> tuple[Tensor, Tensor | None, Tensor | None]:
        return self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.scale"), self.tensors.get(f"{name}.bias")

    def under(self, name: str) -> dict[str, Tensor]:
        """The tensors NAME.OTHER by their other names."""
        return {key[len(name) + 1 :]: value for key, value in self.tensors.items() if key.startswith(f"{name}.")}

    def within(self, name: str) -> Parts:
        """The parts of a model of a mixture, whose tensors are NAME.OTHER."""
        return self.keep(Parts(self.functions, self.under(name)))

    def handle(self, name: str) -> Any:
        """The address of the matrix for the library; None if the export has no such matrix."""
        return self.matrix(name).handle if f"{name}.weight" in self.tensors else None

    def address(self, name: str) -> Any:
        """The address of a tensor in float32; None if the export has no such tensor."""
        tensor = self.tensors.get(name)
        return None if tensor is None else self.keep(tensor.float().contiguous()).data_ptr()

    def norm(self, name: str) -> Norm:
        return Norm(self.address(f"{name}.weight"), self.address(f"{name}.bias"))

    def embedding(self, notes: Mapping[str, Any]) -> Embedding:
        """The embedding that an encoder's or a decoder's notes describe (``conversion.weights``)."""
        vocabulary, width = self.tensors[notes["embedding"]].shape
        positions = self.tensors.get(notes["positions"]) if "positions" in notes else None
        most = notes.get("most_positions", ANY_POSITION) if positions is None else len(positions)
        addresses = self.address(notes["embedding"]), self.address(notes.get("positions", ""))
        return Embedding(width, vocabulary, most, notes["embedding_scale"], *addresses)

    def array(self, kind: Any, items: Sequence[Any]) -> Any:
        """The structures one after the other in memory."""
        return self.keep((kind * len(items))(*items))

    def mean(self, x: Padded) -> Tensor:
        """[B, W]: the mean of x [B, S, W] over each row's real positions."""
        (B, S, W), lengths_B = x.values.shape, x.lengths.contiguous()
        y_BW = torch.empty(B, W)
        self.functions.transduce_mean(x.values.data_ptr(), y_BW.data_ptr(), lengths_B.data_ptr(), B, S, W)
        return y_BW

    def keep(self, value: T) -> T:
        self._kept.append(value)
        return value


def check(found: int, embedding: Embedding, positions: int) -> None:
    """Raises UserError for what the library refused. ``positions`` is the number of positions that the text needs."""
    if found == DONE:
        return
    if found == NO_ROOM:
        raise UserError(
            f"a text of {positions} tokens or more: the export has positions 0 to {embedding.most_positions - 1} only; "
            "cut the input, lower the search's max_length, or use --engine torch if the positions were not learned"
        )
    raise UserError(
        f"id {found} is outside an embedding of {embedding.vocabulary} vectors: encode the text with the tokenizer "
        "that the model was trained with"
    )


def read_tokens(step: Callable[[Tensor, S], tuple[Tensor, S]], tokens_NT: Tensor, state: S) -> tuple[Tensor, S]:
    """Reads tokens [N, T] one after the other by ``step``, which reads one in each row. Returns all features [N, T, W]
    and the last state, as ``Decoder.extend`` does.
    """
    N, T = tokens_NT.shape
    if T == 1:
        output_NW, state = step(tokens_NT.reshape(N).contiguous(), state)
        return output_NW.unsqueeze(1), state
    every = []
    for token_N in tokens_NT.unbind(1):
        output_NW, state = step(token_N.contiguous(), state)
        every.append(output_NW)
    return torch.stack(every, 1), state
