"""Models whose parts our library computes, by the package's protocols."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from transduce.protocols import Decoder, Encoder
from transduce.types import Padded


class NativeEncoderDecoder(nn.Module):
    """``Autoregressive``: a decoder that starts from an encoder's memory."""

    def __init__(self, encoder: Encoder, decoder: Decoder[Any]) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def start(self, source: Padded) -> Any:
        return self.decoder.start(self.encoder(source))

    def extend(self, tokens_NT: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.decoder.extend(tokens_NT, state)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.decoder.readout(output, candidates)
