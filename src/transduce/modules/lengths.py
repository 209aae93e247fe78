"""How long an output will be."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce import tree
from transduce.modules.linear import projection
from transduce.modules.positions import Sinusoidal
from transduce.types import Memory, widened


class LengthClassifier(nn.Module):
    """log p(n | x) [B, max_length + 1] of n = 0 to ``max_length`` tokens: softmax(W [summary; PE(S)] + b).

    The number S of the source's states is given beside the summary, since an average does not tell it; as a sinusoid,
    from which a linear layer reads off numbers near it.
    """

    def __init__(self, summary_widths: tuple[int, ...], max_length: int, width: int = 64) -> None:
        super().__init__()
        self.positions = Sinusoidal(width)
        self.linear = projection(sum(summary_widths) + width, max_length + 1)

    def forward(self, memory: Memory) -> Tensor:
        size_BD = self.positions(memory.states.lengths)
        logits_BL = self.linear(torch.cat([*tree.leaves(memory.summary), size_BD], -1))
        log_probs_BL: Tensor = logits_BL.log_softmax(-1, widened(logits_BL.dtype))
        return log_probs_BL
