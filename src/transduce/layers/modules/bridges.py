"""Bridges: they make a recurrent decoder's first state from an encoder's summary.

They take and return lists of [B, D] tensors: the leaves of ``Memory.summary``, and the leaves of the decoder's state.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.layers.modules.linear import projection


class LinearBridge(nn.Module):
    """A bridge with a linear layer: tanh(W s + b), where s concatenates the leaves of the summary (Bahdanau et al.
    2015, appendix A.2.2).

    The result is split into the leaves of the state. The widths of summary and state may differ. Raises UserError if
    the summary has no features, as in a language model.
    """

    def __init__(self, summary_widths: tuple[int, ...], state_widths: tuple[int, ...]) -> None:
        super().__init__()
        if not sum(summary_widths):
            raise UserError("bridge 'linear': there is no source to start from (a language model's starts at 'zero')")
        self.widths = list(state_widths)
        self.linear = projection(sum(summary_widths), sum(state_widths))

    def forward(self, summary: Sequence[Tensor]) -> Sequence[Tensor]:
        return torch.split(torch.tanh(self.linear(torch.cat(list(summary), -1))), self.widths, -1)


class CopyBridge(nn.Module):
    """A bridge that makes the leaves of the summary, unchanged, the leaves of the decoder's first state (Sutskever et
    al. 2014). The summary of a recurrent encoder has its last states.

    Raises UserError unless the summary and the state have equally many leaves, with the same widths in the same order.
    """

    def __init__(self, summary_widths: tuple[int, ...], state_widths: tuple[int, ...]) -> None:
        super().__init__()
        if summary_widths != state_widths:
            raise UserError(
                f"bridge 'copy': the encoder leaves states of widths {summary_widths}, the decoder starts from "
                f"{state_widths}; make cells, layers and widths agree (an encoder that reads in both directions "
                "leaves twice as many), or take the bridge 'linear'"
            )

    def forward(self, summary: Sequence[Tensor]) -> Sequence[Tensor]:
        return summary


class ZeroBridge(nn.Module):
    """A bridge that ignores the values of the summary: all leaves of the decoder's first state are zeros."""

    def __init__(self, summary_widths: tuple[int, ...], state_widths: tuple[int, ...]) -> None:
        super().__init__()
        self.widths = state_widths

    def forward(self, summary: Sequence[Tensor]) -> Sequence[Tensor]:
        return [summary[0].new_zeros(summary[0].shape[0], width) for width in self.widths]
