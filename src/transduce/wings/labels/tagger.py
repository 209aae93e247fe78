"""Taggers: one label per source token. B rows, T tokens, D features, V labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.core.chain import Trellis, check_lengths
from transduce.core.protocols import Encoder
from transduce.core.types import Emission, Memory, Padded, widened
from transduce.layers.modules.embedding import Readout


class AssembledTagger(nn.Module):
    """p(y | x) = prod_t p(y_t | x), of an encoder and a projection of its states to logits, which are given ready."""

    def __init__(self, encoder: Callable[[Padded], Memory], projection: Callable[..., Tensor]) -> None:
        super().__init__()
        self.encoder, self.projection = encoder, projection

    def start(self, source: Padded) -> Padded:
        return tokens(self.encoder(source))

    def emit(self, state: Padded, lengths: Tensor | None = None) -> Emission:
        return label_each(state, lengths)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.projection(output, candidates)


def label_each(state: Padded, lengths: Tensor | None = None) -> Emission:
    """The emission of one label for each token of ``state``. Raises UserError if ``lengths`` are others."""
    check_lengths(state.lengths, lengths)
    if torch.compiler.is_compiling():  # a graph cannot read the longest length; the positions after it are padding
        return Emission(state.values, state.lengths)
    longest = int(state.lengths.max())
    return Emission(state.values[:, : max(1, longest)], state.lengths)


class Tagger(AssembledTagger):
    """p(y | x) = prod_t p(y_t | x): a softmax over labels for the encoder's state of each token.

    A row has as many labels as tokens, without EOS.
    """

    projection: Readout

    def __init__(self, target_vocabulary: int, encoder: Encoder) -> None:
        super().__init__(encoder, Readout(encoder.width, target_vocabulary))


class AssembledConditionalRandomField(nn.Module):
    """A linear chain of parts that are given ready: ``transition`` [V, V], and ``ends`` [2, V] before the first label
    and after the last.
    """

    def __init__(
        self, encoder: Callable[[Padded], Memory], projection: Callable[..., Tensor], transition: Tensor, ends: Tensor
    ) -> None:
        super().__init__()
        self.encoder, self.projection = encoder, projection
        self.transition, self.ends = transition, ends

    def trellis(self, source: Padded) -> Trellis:
        states = tokens(self.encoder(source))
        logits_BTV: Tensor = self.projection(states.values)
        # sums over all sequences lose too much precision in 16 bits
        wide = widened(logits_BTV.dtype)
        start_V, end_V = self.ends.to(wide)
        return Trellis(logits_BTV.to(wide), states.lengths, self.transition.to(wide), start_V, end_V)


class ConditionalRandomField(AssembledConditionalRandomField):
    """A linear chain over an encoder's states: p(y | x) = exp(sum_t W_{y_t} h_t + b_{y_t} + A_{y_t-1, y_t}) / Z(x).

    Two more vectors score the first and the last label (Lafferty et al. 2001; on a recurrent encoder Huang et al.
    2015). They and A start near zero, so an untrained chain behaves like ``Tagger``.
    """

    projection: Readout

    def __init__(self, target_vocabulary: int, encoder: Encoder) -> None:
        projection = Readout(encoder.width, target_vocabulary)
        transition = nn.Parameter(torch.empty(target_vocabulary, target_vocabulary))
        ends = nn.Parameter(torch.empty(2, target_vocabulary))
        for table in (transition, ends):
            nn.init.uniform_(table, -0.1, 0.1)
        super().__init__(encoder, projection, transition, ends)


def tokens(memory: Memory) -> Padded:
    """The memory's values [B, S, D] with lengths that are one less, so that they do not count the state of EOS.

    The tensor is not cut: the state of EOS becomes padding.
    """
    return Padded(memory.read_BSD, memory.states.lengths - 1)
