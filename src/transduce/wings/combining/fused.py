"""A decoder that learns to use a language model: cold and deep fusion around any other decoder.

B rows of the source, N rows of hypotheses, T positions, D and L features of the decoder and of the language model, V
vocabulary, H hidden units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import AnyDecoder, Decoder, S, Table, empty_memory
from transduce.core.types import Factory, Memory, MemoryWidths
from transduce.layers.modules.linear import projection


@dataclass(frozen=True)
class FusedState:
    """The state of ``FusedDecoder``: of the inner decoder, and of the language model."""

    decoder: object
    language: object


@dataclass(frozen=True)
class FusedOutput:
    """The features [..., D] of the inner decoder, and the output of the language model (a tree, such as features
    [..., L]) at the same positions.
    """

    features: Tensor
    language: Any


class FusedDecoder(nn.Module):
    """A decoder of any kind, and a language model that it learns to use. The language model is another decoder, which
    reads only the target's words. It is never trained here: start it from a run (``init.parts`` with ``into =
    "decoder.language"`` and ``part = "decoder"``). Without that its weights are random.

    s [D] are the inner ``decoder``'s features of a position, and the inner decoder also reads out the result r [D].
    ``fusion`` = "cold" (Sriram et al. 2018, eq. 4) uses the language model's log-probabilities l [V], minus their
    largest. Then h = relu(W1 l + b1), g = sigmoid(W2 [s; h] + b2) and r = relu(W3 [s; g h] + b3). h and g have
    ``hidden`` numbers. The decoder learns from the beginning with the language model, so train all of it.
    ``fusion`` = "deep" (Gulcehre et al. 2015, section 4.2) uses the language model's features m [L]: g = sigmoid(v m +
    b), one number, and r = s + W (g m). W starts at 0, so that a trained decoder starts as it was. The paper then
    trains only v, b, W and the readout: freeze the rest. ``hidden`` changes nothing here.

    Raises UserError when a batch is read if the features of the inner decoder are not one tensor, as in a pointer. For
    "deep", the features of the language model must be one tensor, too.
    """

    def __init__(
        self,
        memory: MemoryWidths,
        decoder: Factory[Decoder[S]],
        language: Factory[Decoder[S]],
        fusion: Literal["cold", "deep"] = "cold",
        hidden: int = 128,
    ) -> None:
        super().__init__()
        self.decoder: AnyDecoder = decoder(memory=memory)
        self.width = D = self.decoder.width
        reader: Any = language(memory=MemoryWidths(0, (0,)))
        self.language: AnyDecoder = reader.requires_grad_(False)
        self.fusion = fusion
        if fusion == "cold":
            self.read = projection(len(self.language.projection.weight), hidden)
            self.gate = projection(D + hidden, hidden)
            self.mix = projection(D + hidden, D)
        else:
            self.gate = projection(self.language.width, 1)
            self.mix = projection(self.language.width, D, bias=False)
            nn.init.zeros_(self.mix.weight)

    @property
    def embedding(self) -> Table:
        return self.decoder.embedding

    @property
    def projection(self) -> Table:
        return self.decoder.projection

    def train(self, mode: bool = True) -> FusedDecoder:
        """Switches to training mode; the language model stays as in prediction, without dropout."""
        super().train(mode)
        self.get_submodule("language").train(False)
        return self

    def start(self, memory: Memory) -> FusedState:
        rows, like = len(memory.states.lengths), self.language.embedding.weight
        nothing = empty_memory(rows, like, memory.source)
        return FusedState(self.decoder.start(memory), self.language.start(nothing))

    def extend(self, tokens_NT: Tensor, state: FusedState) -> tuple[FusedOutput, FusedState]:
        features_NTD, decoder = self.decoder.extend(tokens_NT, state.decoder)
        with torch.no_grad():
            known, language = self.language.extend(tokens_NT, state.language)
        _check_features(features_NTD, "decoder.decoder")
        if self.fusion == "deep":
            _check_features(known, "decoder.language")
        return FusedOutput(features_NTD, known), FusedState(decoder, language)

    def readout(self, output: FusedOutput, candidates: Tensor | None = None) -> Tensor:
        mixed = self._cold(output) if self.fusion == "cold" else self._deep(output)
        return self.decoder.readout(mixed, candidates)

    def _cold(self, output: FusedOutput) -> Tensor:
        with torch.no_grad():
            logits_V = self.language.readout(output.language)
            # logits minus the largest are log-probabilities minus the largest; softmax's constant cancels
            known_V = (logits_V - logits_V.amax(-1, keepdim=True)).to(output.features.dtype)
        hidden_H = self.read(known_V).relu()
        gate_H = torch.sigmoid(self.gate(torch.cat([output.features, hidden_H], -1)))
        mixed: Tensor = self.mix(torch.cat([output.features, gate_H * hidden_H], -1)).relu()
        return mixed

    def _deep(self, output: FusedOutput) -> Tensor:
        mixed: Tensor = output.features + self.mix(torch.sigmoid(self.gate(output.language)) * output.language)
        return mixed


def _check_features(output: object, key: str) -> None:
    if not torch.is_tensor(output):
        raise UserError(
            f"model.{key}: its output is {type(output).__name__} and not one tensor of features, so it cannot be fused "
            "with a language model: choose a recurrent, a convs2s or a Transformer decoder"
        )
