"""Multi-head attention to a memory, for any query.

B sources, N = B * hypotheses rows, H heads, T queries, S positions.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from transduce.core.tree import Shared
from transduce.core.types import Memory
from transduce.layers.modules.attention.energies import mask_bias
from transduce.layers.modules.attention.heads import Heads, check_heads, contiguous, merge_heads, split_heads
from transduce.layers.modules.linear import projection


@dataclass(frozen=True)
class HeadKeys:
    """A memory's keys and values, [B, H, S, D] each, and the mask of its real states [B, S].

    Keys and values are projected once per sentence.
    """

    key_BHSD: Tensor
    value_BHSD: Tensor
    mask_BS: Tensor


class MultiHeadAttention(nn.Module):
    """Multi-head attention to a memory, for any decoder (Vaswani et al. 2017, section 3.2.2):

    W_o [r_1; ...; r_H] with r_h = softmax(W_q q (W_k m)' / sqrt(D)) W_v v for head h. q is a query, m are the memory's
    states, v is ``Memory.read_BSD``, D is the width of a head, and all four products have biases. The returned context
    is [N, T, query_width]. The returned weights [N, T, S] are the mean of the heads' weights, before ``dropout``. A
    forward hook on ``heads.weights`` receives the weights of each head, [B, H, (N / B) * T, S]. The state is not
    changed.
    """

    def __init__(self, query_width: int, memory_width: int, heads: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(query_width, heads)
        self.width = query_width
        self.count = heads
        self.query = projection(query_width, query_width)
        self.key = projection(memory_width, query_width)
        self.value = projection(memory_width, query_width)
        self.heads = Heads(dropout)
        self.out = projection(query_width, query_width)

    def start(self, memory: Memory) -> Shared[HeadKeys]:
        states_BSD = memory.states.values
        (key_BHSD,) = contiguous(split_heads(self.key(states_BSD), 1, self.count))
        (value_BHSD,) = contiguous(split_heads(self.value(memory.read_BSD), 1, self.count))
        return Shared(HeadKeys(key_BHSD, value_BHSD, memory.states.mask))

    def forward(self, query_NTD: Tensor, state: Shared[HeadKeys]) -> tuple[Tensor, Tensor, Shared[HeadKeys]]:
        N, T, D = query_NTD.shape
        keys = state.value
        B = len(keys.key_BHSD)
        (query_BHQD,) = split_heads(self.query(query_NTD).reshape(B, N // B * T, D), 1, self.count)
        bias_B11S = mask_bias(keys.mask_BS, query_NTD.dtype)[:, None, None]
        weights_BHQS = self.heads.weigh(query_BHQD, keys.key_BHSD, bias_B11S)
        context_NTD = self.out(merge_heads(self.heads.read(weights_BHQS, keys.value_BHSD)).view(N, T, D))
        return context_NTD, weights_BHQS.mean(1).view(N, T, -1), state
