"""A Marian model of Hugging Face's transformers, which an import and an export are compared with."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn

from transduce.core.errors import MissingPackageError
from transduce.core.types import Padded
from transduce.wings.engines.foreign.marian import HUGGING_FACE, Numerics


class Original:
    """The model in ``folder`` as transformers computes it, on the CPU and in float32. Runs no code of the folder.

    ``numerics`` are the constants to compute with; the default has Hugging Face's own. Raises MissingPackageError if
    transformers is not installed.
    """

    def __init__(self, folder: Path, numerics: Numerics = HUGGING_FACE) -> None:
        try:
            from transformers import MarianMTModel
            from transformers.utils import logging
        except ImportError as error:
            raise MissingPackageError(
                "the comparison with Hugging Face's model needs transformers, which is not installed: pip install "
                "'transduce[marian]'"
            ) from error
        logging.disable_progress_bar()
        self.model = MarianMTModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
        for module in self.model.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = numerics.eps
        if numerics.exponents == "inclusive":
            for side in (self.model.model.encoder, self.model.model.decoder):
                side.embed_positions.weight.data = _inclusive(*side.embed_positions.weight.shape)

    def logits(self, source: Padded, targets_BT: Tensor) -> Tensor:
        """The logits [B, T, V] after each of the targets [B, T], which begin with the token that starts a decoder."""
        with torch.inference_mode():
            found: Tensor = self.model(
                input_ids=source.values, attention_mask=source.mask.long(), decoder_input_ids=targets_BT
            ).logits
        return found


def _inclusive(positions: int, width: int) -> Tensor:
    """Marian's own vectors of positions [positions, width]: sines of all frequencies, then cosines."""
    frequency_F = torch.exp(-math.log(10000.0) * torch.arange(width // 2) / (width // 2 - 1))
    angle_PF = torch.arange(positions)[:, None] * frequency_F
    return torch.cat([angle_PF.sin(), angle_PF.cos()], -1)
