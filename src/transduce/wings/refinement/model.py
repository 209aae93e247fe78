"""The model of mask-predict."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.protocols import Encoder, InstantDecoder, S
from transduce.core.types import Factory
from transduce.models.instant import Instant, InstantState
from transduce.wings.refinement.base import ObservingDecoder


class MaskPredicting(Instant):
    """p(y | x) = p(n | x) prod_t p(y_t | t, n, x), and p(y_t | some words of y, t, n, x): a conditional masked language
    model (Ghazvininejad et al. 2019). The search "mask-predict" uses the second distribution.

    ``tie`` "all" makes the encoder's embedding and the readout one parameter, which needs a joint vocabulary. Raises
    UserError for a decoder that cannot observe words.
    """

    def __init__(
        self, encoder: Encoder, decoder: Factory[InstantDecoder[S]], tie: Literal["none", "all"] = "none"
    ) -> None:
        super().__init__(encoder, decoder, tie)
        if not hasattr(self.decoder, "observe"):
            raise UserError(
                f"model.decoder: {type(self.decoder).__name__} reads no words of its output, which mask-predict needs; "
                'set model.decoder.type = "masked-transformer"'
            )

    def observe(self, state: InstantState, tokens_NT: Tensor) -> InstantState:
        decoder = cast(ObservingDecoder[object], self.decoder)
        return replace(state, decoder=decoder.observe(state.decoder, tokens_NT))
