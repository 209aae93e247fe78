"""An embedding of clips, one vector per frame.

B clips, S frames, D numbers a frame, F real frames of all clips, N cells of a picture.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Embedding
from transduce.core.types import Factory, Padded
from transduce.layers.modules.pooling import pool
from transduce.wings.signals.modules.grid import boxes, steps


class ClipEmbedding(nn.Module):
    """An embedding of clips: embeds each frame with a picture ``embedding`` and pools the frame's cells by mean or
    maximum.

    Maps [B, S, D] to [B, S, width]. Venugopalan et al. 2015, section 3.1, also average over the frames. ``columns`` is
    the width of the frames in pixels. The picture ``embedding`` is made for columns of D / ``columns`` numbers. Raises
    UserError if ``columns`` does not divide the D numbers of a frame, or for another ``pooling``.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        scaled: bool,
        columns: int,
        embedding: Factory[Embedding],
        pooling: Literal["mean", "max"] = "mean",
    ) -> None:
        super().__init__()
        if columns < 1 or vocabulary % columns:
            raise UserError(
                f"columns = {columns}: a frame of {vocabulary} numbers does not divide into so many columns; say how "
                "many pixels wide the clip is"
            )
        if pooling not in ("mean", "max"):
            raise UserError(f'pooling = "{pooling}": "mean" or "max" was expected')
        self.width, self.columns, self.pooling = width, columns, pooling
        self.embedding = embedding(vocabulary=vocabulary // columns, width=width, scaled=scaled)

    def embed(self, source: Padded) -> Padded:
        """Embeds the real frames only. A graph for another engine embeds the padding too: it has no shapes that follow
        from lengths.
        """
        frames_BSD, mask_BS = steps(source), source.mask
        if torch.compiler.is_compiling():
            vectors_BSD = self._embedded(frames_BSD.flatten(0, 1)).view(*mask_BS.shape, self.width)
            return Padded(vectors_BSD, source.lengths)  # readers pass over padding
        vectors_FD = self._embedded(frames_BSD[mask_BS])
        nothing_BSD = vectors_FD.new_zeros(*mask_BS.shape, self.width)
        return Padded(nothing_BSD.index_put((mask_BS,), vectors_FD), source.lengths)

    def _embedded(self, frames_FD: Tensor) -> Tensor:
        """One vector [F, width] of each frame."""
        pictures_FWH = torch.unflatten(frames_FD, 1, (-1, self.columns)).transpose(1, 2)
        widths_F = torch.full(pictures_FWH.shape[:1], self.columns, device=pictures_FWH.device)
        return pool(self.embedding.embed(Padded(pictures_FWH, widths_F)), self.pooling)

    def boxes(self, source: Padded) -> Tensor:
        """[B, S, 4]: each frame's interval of time, over the whole height, as in ``Placed``."""
        return boxes((1, 1), 1, source.lengths)
