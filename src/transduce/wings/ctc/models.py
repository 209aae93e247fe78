"""Models of alignments: connectionist temporal classification, alone and beside a decoder with attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import AnyDecoder, Decoder, Encoder, Model, S, memory_widths
from transduce.core.types import Factory, Memory, Padded
from transduce.models.autoregressive import AssembledEncoderDecoder
from transduce.models.mixtures import Fusion
from transduce.wings.ctc.decoder import CTCDecoder


class AssembledCTC(AssembledEncoderDecoder):
    """An encoder, and a decoder of frames (``CTCDecoder``), which are given ready."""

    def frames(self, source: Padded) -> Padded:
        frames: Padded = self.decoder.frames(self.encoder(source))
        return frames


class CTC(AssembledCTC):
    """p(y | x): the sum over all alignments of y with the states of an encoder (Graves et al. 2006).

    Each state gives ``stretch`` frames. An output can have at most as many symbols as there are frames, minus one for
    each symbol that repeats the symbol before it. Token by token (``start``, ``extend``, ``readout``), the model gives
    p(y) as a product of conditional probabilities (``ctc.prefixes``).
    """

    decoder: CTCDecoder

    def __init__(self, encoder: Encoder, target_vocabulary: int, stretch: int = 1, dropout: float = 0.0) -> None:
        super().__init__(encoder, CTCDecoder(encoder.width, target_vocabulary, stretch, dropout))


class AssembledJointCTC(nn.Module):
    """An encoder, and a mixture of a decoder and a decoder of frames, which are given ready."""

    def __init__(self, encoder: Callable[[Padded], Memory], mixture: Fusion) -> None:
        super().__init__()
        self.encoder, self.mixture = encoder, mixture

    def frames(self, source: Padded) -> Padded:
        return self.aligned.frames(self.encoder(source))

    @property
    def weights(self) -> tuple[float, ...]:
        return self.mixture.weights

    def parts(self, source: Padded) -> tuple[Padded, AnyDecoder, object]:
        memory, decoder = self.encoder(source), self.decoder
        return self.aligned.frames(memory), decoder, decoder.start(memory)

    def start(self, source: Padded) -> object:
        return self.mixture.start(self.encoder(source))

    def extend(self, tokens_BT: Tensor, state: tuple[object, ...]) -> tuple[object, object]:
        return self.mixture.extend(tokens_BT, state)

    def readout(self, output: tuple[object, ...], candidates: Tensor | None = None) -> Tensor:
        return self.mixture.readout(output, candidates)

    @property
    def decoder(self) -> AnyDecoder:
        return cast(AnyDecoder, self.mixture.models[0])

    @property
    def aligned(self) -> CTCDecoder:
        return cast(CTCDecoder, self.mixture.models[1])


class JointCTC(AssembledJointCTC):
    """CTC and a decoder over one encoder (Watanabe et al. 2017).

    The score of an output is w log p_ctc(y | x) + (1 - w) log p_decoder(y | x), where w is ``weight``. It is summed
    token by token as in ``Fusion``, without renormalisation: PAD has the rest of the probability. Any search for
    autoregressive models works: a beam is the one-pass joint decoding of the paper's section IV-B. ``stretch`` and
    ``dropout`` belong to the frames as in ``CTC``. Raises UserError unless ``weight`` is from 0 to 1.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Factory[Decoder[S]],
        target_vocabulary: int,
        weight: float = 0.3,
        stretch: int = 1,
        dropout: float = 0.0,
    ) -> None:
        if not 0 <= weight <= 1:
            raise UserError(f"weight = {weight}: the share of CTC in the score, 0 to 1, was expected")
        own = cast(Model, decoder(memory=memory_widths(encoder)))
        aligned = CTCDecoder(encoder.width, target_vocabulary, stretch, dropout)
        super().__init__(encoder, Fusion([own, aligned], [1 - weight, weight], renormalise=False))
