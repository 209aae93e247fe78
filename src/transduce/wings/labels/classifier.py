"""Classifiers: one label per source. B rows, D features, V labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Encoder, Pooler, memory_widths
from transduce.core.types import Emission, Factory, Memory, Padded
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import Readout
from transduce.layers.modules.pooling import LastState


class AssembledClassifier(nn.Module):
    """p(y | x) = softmax(W pool(encoder(x)) + b), of parts that are given ready. ``pooling`` makes one vector of the
    encoder's memory, and ``projection`` its logits, of ``candidates`` alone if they are given.

    The target is one token before EOS, which has no probability of its own: ``emit`` raises UserError for other
    lengths.
    """

    def __init__(
        self,
        encoder: Callable[[Padded], Memory],
        pooling: Callable[[Memory], Tensor],
        projection: Callable[..., Tensor],
    ) -> None:
        super().__init__()
        self.encoder, self.pooling, self.projection = encoder, pooling, projection

    def start(self, source: Padded) -> Tensor:
        return self.pooling(self.encoder(source))

    def emit(self, state: Tensor, lengths: Tensor | None = None) -> Emission:
        return one_label(state, lengths)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.projection(output, candidates)


def one_label(state: Tensor, lengths: Tensor | None = None) -> Emission:
    """The emission of one position for each row of ``state``. Raises UserError as ``check_one`` does."""
    if lengths is not None:
        check_one(lengths)
    return Emission(state[:, None], torch.ones(len(state), dtype=torch.long, device=state.device))


def check_one(lengths_B: Tensor) -> None:
    """Raises UserError unless all lengths, which do not count EOS, are 1."""
    if bool((lengths_B != 1).any()):
        raise UserError(
            f"a target of {int(lengths_B[lengths_B != 1][0])} tokens, and a classifier writes one: set "
            'data.units.target = "labels", for which a whole line is one label'
        )


class Classifier(AssembledClassifier):
    """p(y | x) = softmax(W pool(encoder(x)) + b). The target is one token before EOS, which has no probability of its
    own.

    ``pooling`` reduces the encoder's memory to one vector. ``dropout`` applies to this vector.
    """

    projection: Readout

    def __init__(
        self,
        target_vocabulary: int,
        encoder: Encoder,
        pooling: Factory[Pooler] = LastState,
        dropout: float = 0.1,
    ) -> None:
        own = pooling(memory=memory_widths(encoder))
        super().__init__(encoder, own, Readout(own.width, target_vocabulary))
        self.dropout = Dropout(dropout)

    def start(self, source: Padded) -> Tensor:
        pooled_BD: Tensor = self.dropout(super().start(source))
        return pooled_BD
