"""Multi-head attention of the Transformer, and its attention to a memory.

Queries may have K times the rows of the memory, for K hypotheses of each source. K is then folded into the query axis.
B sources, N = B * K rows, H heads, T queries, S keys, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from transduce.compute import kernels
from transduce.core.errors import UserError
from transduce.core.types import Memory
from transduce.layers.modules.attention.pruning import keep_inputs, keep_outputs, places
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.linear import linear, projection


class Heads(nn.Module):
    """softmax(q k' / sqrt(D) + bias) v for every head: Vaswani et al. 2017, eq. 1. Queries are [B, H, T, D], keys and
    values [B, H, S, D]; returns [B, H, T, D].

    ``bias`` must broadcast to [B, H, T, S]. ``also`` maps the weights [B, H, T, S], after dropout, to a term [B, H, T,
    D] that is added to the result. A forward hook on the submodule ``weights`` receives the weights before dropout.

    If there is no hook and no ``also``, one kernel computes everything. It is PyTorch's; with gradients on the CPU it
    is our own, up to twice as fast for sentences, where ``kernels.fits_attention`` allows it. Otherwise two products
    and a softmax compute the result.
    """

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.weights = nn.Identity()

    def forward(
        self,
        query_BHTD: Tensor,
        key_BHSD: Tensor,
        value_BHSD: Tensor,
        bias: Tensor,
        also: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        if self.weights._forward_hooks or also is not None:
            return self.read(self.weigh(query_BHTD, key_BHSD, bias), value_BHSD, also)
        p = self.dropout.p if self.training else 0.0
        if query_BHTD.device.type != "cpu" or not torch.is_grad_enabled():
            return nn.functional.scaled_dot_product_attention(
                query_BHTD, key_BHSD, value_BHSD, bias.to(query_BHTD.dtype), dropout_p=p
            )
        if kernels.fits_attention(query_BHTD, key_BHSD, value_BHSD, bias):
            return kernels.attend(query_BHTD, key_BHSD, value_BHSD, bias, p)
        return self.read(self.weigh(query_BHTD, key_BHSD, bias), value_BHSD)

    def weigh(self, query_BHTD: Tensor, key_BHSD: Tensor, bias: Tensor) -> Tensor:
        energy_BHTS = torch.matmul(query_BHTD * query_BHTD.shape[-1] ** -0.5, key_BHSD.transpose(-1, -2))
        weights_BHTS: Tensor = self.weights(torch.softmax(energy_BHTS + bias, -1))
        return weights_BHTS

    def read(self, weights_BHTS: Tensor, value_BHSD: Tensor, also: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        weights_BHTS = self.dropout(weights_BHTS.to(value_BHSD.dtype))
        context_BHTD = torch.matmul(weights_BHTS, value_BHSD)
        return context_BHTD if also is None else context_BHTD + also(weights_BHTS)


def split_heads(x_BTE: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """Splits [B, T, parts * heads * D] into ``parts`` tensors [B, heads, T, D]."""
    if parts > 1 and x_BTE.requires_grad and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        views: tuple[Tensor, ...] = _Split.apply(x_BTE, parts, heads)  # type: ignore[no-untyped-call]
        return views
    return _views(x_BTE, parts, heads)


def _views(x_BTE: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    B, T, E = x_BTE.shape
    return x_BTE.view(B, T, parts, heads, E // parts // heads).permute(2, 0, 3, 1, 4).unbind(0)


class _Split(torch.autograd.Function):
    """Views of the parts. If their gradients lie in memory as the parts do, they are the gradient without a copy."""

    @staticmethod
    def forward(ctx: object, x_BTE: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
        return _views(x_BTE, parts, heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: object, *gradients: Tensor) -> tuple[Tensor, None, None]:
        B, H, T, D = gradients[0].shape
        E = len(gradients) * H * D
        storages = {each.untyped_storage().data_ptr() for each in gradients}
        offsets = [each.storage_offset() - gradients[0].storage_offset() for each in gradients]
        strides = {each.stride() for each in gradients}
        if len(storages) == 1 and offsets == list(range(0, E, H * D)) and strides == {(T * E, D, E, 1)}:
            return gradients[0].as_strided((B, T, E), (T * E, E, 1)), None, None
        return torch.stack(gradients).permute(1, 3, 0, 2, 4).reshape(B, T, E), None, None


def contiguous(parts_BHSD: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The parts, copied to be contiguous in memory. Otherwise each later product would copy them in every step."""
    return tuple(part.contiguous() for part in parts_BHSD)


def merge_heads(x_BHTD: Tensor) -> Tensor:
    return x_BHTD.transpose(1, 2).flatten(2)


def check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise UserError(f"width = {width} does not divide into heads = {heads}: choose a multiple")


@dataclass(frozen=True)
class CrossKeys:
    """A memory's keys and values, [B, H, S, D] each, projected once per sentence."""

    key_BHSD: Tensor
    value_BHSD: Tensor


class CrossAttention(nn.Module):
    """Multi-head attention of a Transformer's decoder to the memory: maps positions [N, T, width] to [N, T, width].

    ``start`` projects the memory once per sentence to ``CrossKeys``. Keys come from the memory's states, values from
    ``Memory.read_BSD``. In a call, ``bias_B11S`` is minus infinity at the memory's padding and 0 elsewhere
    (``mask_bias``). The hypotheses of a source are adjacent rows of x.
    """

    def __init__(self, width: int, memory_width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(width, heads)
        self.count, self.features = heads, width // heads
        self.query = projection(width, width)
        self.project = projection(memory_width, width, 2)
        self.heads = Heads(dropout)
        self.out = projection(width, width)

    def keep(self, heads: Sequence[int]) -> None:
        """Removes all heads but these (``keep_heads``)."""
        keep_outputs(self.query, places(heads, self.features))
        keep_outputs(self.project, places(heads, self.features, 2, self.count))
        keep_inputs(self.out, places(heads, self.features))
        self.count = len(heads)

    def start(self, memory: Memory) -> CrossKeys:
        if memory.values is None:  # keys and values in one product
            return CrossKeys(*contiguous(split_heads(self.project(memory.states.values), 2, self.count)))
        parts = zip(self.project.weight.chunk(2), self.project.bias.chunk(2), strict=True)
        inputs = (memory.states.values, memory.values)
        key_BSE, value_BSE = (linear(x, *part) for x, part in zip(inputs, parts, strict=True))
        return CrossKeys(*contiguous(split_heads(torch.cat([key_BSE, value_BSE], -1), 2, self.count)))

    def forward(self, x_NTD: Tensor, keys: CrossKeys, bias_B11S: Tensor) -> Tensor:
        N, T, _ = x_NTD.shape
        B = keys.key_BHSD.shape[0]
        (query_BHQD,) = split_heads(self.query(x_NTD).reshape(B, N // B * T, -1), 1, self.count)
        read_BHQD = self.heads(query_BHQD, keys.key_BHSD, keys.value_BHSD, bias_B11S)
        y: Tensor = self.out(merge_heads(read_BHQD).view(N, T, -1))
        return y
