"""The readout of connectionist temporal classification, which is also a decoder. B rows, S states, V symbols."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, Memory, Padded, widened
from transduce.layers.modules.embedding import Readout
from transduce.layers.modules.linear import projection
from transduce.wings.ctc.prefixes import Prefixes

BARRED = -1e4  # finite, because minus infinity makes the gradient of torch's loss nan


class CTCDecoder(nn.Module):
    """The output layer of a CTC model: softmax(W h + b) gives the probability of each symbol and of the blank in each
    frame. It can also be used as a decoder, token by token.

    h is a state of the memory. If ``stretch`` is more than 1, each state gives as many frames, and each h is another
    linear projection of the state, for sources that are shorter than their outputs (Libovický and Helcl 2018, section
    3). PAD is the blank. BOS and EOS have almost probability 0 in each frame. As a decoder, its features are log
    p(token | tokens before it, source) [N, T, V] of the token after each one that it reads, from sums over all
    alignments (``Prefixes``); ``readout`` only picks candidates. Raises UserError if ``stretch`` is less than 1.
    """

    def __init__(self, memory_width: int, target_vocabulary: int, stretch: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        if stretch < 1:
            raise UserError(f"stretch = {stretch}: each state of the encoder gives at least 1 frame")
        self.stretch = stretch
        self.split = projection(memory_width, memory_width, parts=stretch) if stretch > 1 else None
        self.projection = Readout(memory_width, target_vocabulary, dropout)
        never_V = torch.zeros(target_vocabulary, dtype=torch.bool)
        never_V[[BOS, EOS]] = True
        self.register_buffer("never", never_V, persistent=False)

    def frames(self, memory: Memory) -> Padded:
        """Log-probabilities [B, S * stretch, V] of the symbols in each frame, in float32 or wider. A row has
        ``stretch`` times as many real frames as the memory has real states.
        """
        states_BSD = memory.states.values
        if self.split is not None:
            states_BSD = self.split(states_BSD).view(states_BSD.shape[0], -1, states_BSD.shape[-1])
        logits_BSV = self.projection(states_BSD)
        logits_BSV = logits_BSV.to(widened(logits_BSV.dtype)).masked_fill(self.never, BARRED)
        return Padded(logits_BSV.log_softmax(-1), memory.states.lengths * self.stretch)

    def start(self, memory: Memory) -> Prefixes:
        return Prefixes.start(self.frames(memory))

    def extend(self, tokens_BT: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        return state.extend(tokens_BT)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)
