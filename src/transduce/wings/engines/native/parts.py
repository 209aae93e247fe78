"""The parts of all families of models: matrices, norms and embeddings of an export, as the library's structures.

An export may come from a stranger, and the library trusts its pointers. So every tensor is compared with the shape that
the description of the model gives it, and every number of the description has its range, before the library reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from ctypes import Structure, c_float, c_int32, c_void_p
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from transduce.compute.library import DONE, NO_ROOM
from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.wings.engines.native.matrices import Matrix, Readout

S = TypeVar("S")
T = TypeVar("T")

ANY_POSITION = 2**31 - 1  # of an embedding without positions
LARGEST = 2**24  # number in a description
Size = int | None  # of an axis; None allows every size from 1


class MisfitError(UserError):
    """The description of a model has a wrong value, or a tensor has another shape or type than described."""


@dataclass(frozen=True)
class Encoded:
    """The sizes of an encoder that a decoder needs: the width of its states, the width of its summary, and the number
    of ids that it reads.
    """

    width: int
    summary: int
    vocabulary: int


NOTHING = Encoded(0, 0, 0)  # of a language model, which has no encoder


# ------------------------------------------------------------------------ the description


def whole(notes: Mapping[str, Any], name: str, least: int = 0, most: int = LARGEST) -> int:
    """A whole number of the description, from ``least`` to ``most``."""
    value = notes[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _unexpected(name, value, f"a whole number from {least:,} to {most:,}")
    return value


def real(notes: Mapping[str, Any], name: str, least: float = -1e30, most: float = 1e30) -> float:
    """A number of the description, from ``least`` to ``most``."""
    value = notes[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise _unexpected(name, value, f"a number from {least:g} to {most:g}")
    return float(value)


def flag(notes: Mapping[str, Any], name: str) -> bool:
    """A truth value of the description."""
    value = notes[name]
    if not isinstance(value, bool):
        raise _unexpected(name, value, "true or false")
    return value


def choice(notes: Mapping[str, Any], name: str, allowed: Collection[str]) -> str:
    """A name of the description, one of those that are ``allowed``."""
    value = notes[name]
    if not isinstance(value, str) or value not in allowed:
        raise _unexpected(name, value, f"one of {', '.join(allowed)}")
    return value


def table(notes: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of the description that has a name for each value."""
    value = notes[name]
    if not isinstance(value, Mapping):
        raise _unexpected(name, value, "a table")
    return value


def tables(notes: Mapping[str, Any], name: str, count: Size = None) -> list[Mapping[str, Any]]:
    """A list of parts that have a name for each value: ``count`` parts, or at least one."""
    value = notes[name]
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise _unexpected(name, value, "a list of tables")
    if not value or (count is not None and len(value) != count):
        raise _unexpected(name, f"{len(value)} tables", f"{'one or more' if count is None else count}")
    return value


def weights(notes: Mapping[str, Any], name: str, count: int) -> list[float]:
    """The weights of ``count`` models of a mixture."""
    value = notes[name]
    if not isinstance(value, list) or len(value) != count:
        raise _unexpected(name, value, f"a list of {count} numbers")
    return [real({name: each}, name) for each in value]


def _unexpected(name: str, value: Any, expected: str) -> MisfitError:
    shown = repr(value)
    return MisfitError(f"{name} = {shown if len(shown) < 60 else shown[:57] + '...'}: {expected} was expected")


# ------------------------------------------------------------------------ tensors


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

    ``functions`` is the library, and ``tensors`` has the tensors of the export. Methods raise MisfitError for a tensor
    of another shape or type, or with a number that is not finite, and KeyError for a missing one.
    """

    def __init__(self, functions: Any, tensors: Mapping[str, Tensor]) -> None:
        self.functions, self.tensors = functions, tensors
        self.outputs = 0  # of the model's readout: the number of words or labels
        self._kept: list[Any] = []

    def tensor(self, name: str, *shape: Size, kind: torch.dtype = torch.float32) -> Tensor:
        """The tensor ``name``, if it has this shape and type."""
        found = self.tensors[name]
        fits = found.dim() == len(shape) and all(
            have >= 1 if want is None else have == want for have, want in zip(found.shape, shape, strict=True)
        )
        if not fits or found.dtype != kind:
            wanted = [each if each is not None else "any" for each in shape]
            raise MisfitError(
                f"{name} has shape {list(found.shape)} and type {found.dtype}: {wanted} and {kind} were expected"
            )
        if kind.is_floating_point and not found.isfinite().all():
            raise MisfitError(f"{name} has numbers that are not finite")
        return found

    def matrix(self, name: str, outputs: Size, inputs: Size) -> Matrix:
        """The matrix of the tensors NAME.weight, NAME.scale (if it is 8-bit) and NAME.bias (if it has one)."""
        return self.keep(Matrix(self.functions, *self._tensors(name, outputs, inputs)))

    def readout(self, name: str, outputs: Size, inputs: Size) -> Readout:
        """The same for a model's ``readout``. Raises MisfitError if the model has another one of another length."""
        readout = self.keep(Readout(self.functions, *self._tensors(name, outputs, inputs)))
        if self.outputs not in (0, readout.outputs):
            raise MisfitError(f"{name} has {readout.outputs} outputs: {self.outputs} were expected")
        self.outputs = readout.outputs
        return readout

    def _tensors(self, name: str, outputs: Size, inputs: Size) -> tuple[Tensor, Tensor | None, Tensor | None]:
        scaled = f"{name}.scale" in self.tensors
        weight = self.tensor(f"{name}.weight", outputs, inputs, kind=torch.int8 if scaled else torch.float32)
        scale, bias = (
            self.tensor(key, len(weight)) if key in self.tensors else None for key in (f"{name}.scale", f"{name}.bias")
        )
        return weight, scale, bias

    def under(self, name: str) -> dict[str, Tensor]:
        """The tensors NAME.OTHER by their other names."""
        return {key[len(name) + 1 :]: value for key, value in self.tensors.items() if key.startswith(f"{name}.")}

    def within(self, name: str) -> Parts:
        """The parts of a model of a mixture, whose tensors are NAME.OTHER."""
        return self.keep(Parts(self.functions, self.under(name)))

    def handle(self, name: str, outputs: Size, inputs: Size) -> Any:
        """The address of a matrix for the library."""
        return self.matrix(name, outputs, inputs).handle

    def address(self, name: str, *shape: Size) -> Any:
        """The address of a tensor in float32; None if the export has no such tensor."""
        return self.keep(self.tensor(name, *shape).contiguous()).data_ptr() if name in self.tensors else None

    def norm(self, name: str, width: int) -> Norm:
        self.tensor(f"{name}.weight", width)
        return Norm(self.address(f"{name}.weight", width), self.address(f"{name}.bias", width))

    def embedding(self, notes: Mapping[str, Any]) -> Embedding:
        """The embedding that an encoder's or a decoder's notes describe (``conversion.weights``)."""
        name = choice(notes, "embedding", self.tensors)
        vocabulary, width = self.tensor(name, None, None).shape
        positions = choice(notes, "positions", self.tensors) if "positions" in notes else ""
        most = len(self.tensor(positions, None, width)) if positions else ANY_POSITION
        if "most_positions" in notes:
            most = min(most, whole(notes, "most_positions", 1))
        addresses = self.address(name, None, width), self.address(positions, None, width)
        return Embedding(width, vocabulary, most, real(notes, "embedding_scale"), *addresses)

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
