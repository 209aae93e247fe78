"""An embedding with an end vector."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from transduce.core.protocols import Embedding
from transduce.core.types import Factory, Padded
from transduce.wings.signals.modules.base import Placed


class EndedEmbedding(nn.Module):
    """An embedding around another ``embedding`` of signals: appends one learned vector after each row's last, like EOS
    after a text.

    Taggers need it, because their last state belongs to the end. It can also summarise the whole row (Devlin et al.
    2019).
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, embedding: Factory[Embedding]) -> None:
        super().__init__()
        self.embedding = embedding(vocabulary=vocabulary, width=width, scaled=scaled)
        self.end = nn.Parameter(torch.randn(width))

    def embed(self, source: Padded) -> Padded:
        x = self.embedding.embed(source)
        return Padded(closed(x.values, x.lengths, self.end), x.lengths + 1)

    def boxes(self, source: Padded) -> Tensor:
        """[B, S' + 1, 4]: the boxes of the inner ``embedding``, then the whole signal as the box of the end vector."""
        boxes_BS4 = cast(Placed, self.embedding).boxes(source)
        lengths_B = (boxes_BS4[..., 2] > 0).sum(1)
        return closed(boxes_BS4, lengths_B, boxes_BS4.new_tensor([0.0, 0.0, 1.0, 1.0]))


def closed(x_BSD: Tensor, lengths_B: Tensor, end_D: Tensor) -> Tensor:
    """[B, S + 1, D]: the rows of ``x_BSD``, each with ``end_D`` after its ``lengths_B`` real vectors."""
    longer_BSD = nn.functional.pad(x_BSD, (0, 0, 0, 1))
    places_S = torch.arange(longer_BSD.shape[1], device=x_BSD.device)
    return torch.where((places_S == lengths_B[:, None])[..., None], end_D.to(x_BSD.dtype), longer_BSD)
