"""Instant models: they write all tokens at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import EmbedsTokens, Encoder, InstantDecoder, S, memory_widths
from transduce.core.types import Emission, Factory, Memory, Padded, widened
from transduce.layers.modules.embedding import share
from transduce.layers.modules.linear import projection
from transduce.layers.modules.positions import Sinusoidal


class LengthClassifier(nn.Module):
    """log p(n | x) [B, max_length + 1] for n = 0 to ``max_length`` tokens: log_softmax(W [summary; PE(S)] + b).

    ``summary`` is the memory's, and S is the number of a row's real states. S is given because a summary may be an
    average, which does not contain it. As a sinusoid, S lets a linear layer prefer lengths near S.
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


@dataclass(frozen=True)
class InstantState:
    """The decoder's state, and log p(n | x) [B, L] for n = 0 to L - 1, where L - 1 is the decoder's ``max_length``."""

    decoder: object
    length_log_probs: Tensor


class AssembledInstant(nn.Module):
    """p(y | x) = p(n | x) prod_t p(y_t | t, n, x): an encoder, a decoder and a classifier of the length (``length``, of
    the encoder's memory), which are given ready. They need not be modules.

    Given x and the length n, the words are independent of each other.
    """

    def __init__(self, encoder: Callable[[Padded], Memory], decoder: Any, length: Callable[[Memory], Tensor]) -> None:
        super().__init__()
        self.encoder, self.decoder, self.length = encoder, decoder, length

    def start(self, source: Padded) -> InstantState:
        memory = self.encoder(source)
        return InstantState(self.decoder.start(memory), self.length(memory))

    def emit(self, state: InstantState, lengths: Tensor | None = None) -> Emission:
        if lengths is None:
            lengths = state.length_log_probs.argmax(-1)
        longest, most = int(lengths.max()), self.decoder.max_length
        if longest > most:
            raise UserError(
                f"an output of {longest} tokens: this model writes at most max_length = {most}; train with a larger "
                f"model.decoder.max_length, or on data.lines.max_target_length = {most + 1} (EOS counts there)"
            )
        return Emission(self.write(state, lengths, max(1, longest)), lengths, state.length_log_probs)

    def write(self, state: InstantState, lengths: Tensor, positions: int) -> object:
        """The features [N, ``positions``, ...] of outputs of these ``lengths`` [N]; The work of ``emit``, without its
        check.
        """
        return self.decoder(state.decoder, lengths, positions)

    def readout(self, output: object, candidates: Tensor | None = None) -> Tensor:
        logits: Tensor = self.decoder.readout(output, candidates)
        return logits


class Instant(AssembledInstant):
    """p(y | x) = p(n | x) prod_t p(y_t | t, n, x): an encoder, a classifier of the length, and a decoder.

    Given x and the length n, the words are independent of each other. ``tie`` "all" makes the encoder's embedding and
    the readout one parameter, which needs a joint vocabulary.
    """

    length: LengthClassifier

    def __init__(
        self, encoder: Encoder, decoder: Factory[InstantDecoder[S]], tie: Literal["none", "all"] = "none"
    ) -> None:
        own = decoder(memory=memory_widths(encoder))
        super().__init__(encoder, own, LengthClassifier(encoder.summary_widths, own.max_length))
        if tie == "all":
            share(own.projection, cast(EmbedsTokens, encoder).embedding, "the readout with the source embedding")
