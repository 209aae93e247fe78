"""Autoregressive models: one token after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from torch import Tensor, nn

from transduce.core import tree
from transduce.core.protocols import AnyDecoder, Decoder, EmbedsTokens, Encoder, S, empty_memory, memory_widths
from transduce.core.types import Factory, Memory, MemoryWidths, Padded
from transduce.layers.modules.attention.pruning import keep_heads
from transduce.layers.modules.embedding import share


class AssembledEncoderDecoder(nn.Module):
    """p(y | x): a decoder that starts from an encoder's memory of x. Both are given ready.

    ``encoder`` and ``decoder`` need not be modules: they may be parts of another engine.
    """

    def __init__(self, encoder: Callable[..., Memory], decoder: Any) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def start(self, source: Padded) -> object:
        return self.decoder.start(self.encoder(source))

    def extend(self, tokens_BT: Tensor, state: object) -> tuple[object, object]:
        output, state = self.decoder.extend(tokens_BT, state)
        return output, state

    def readout(self, output: object, candidates: Tensor | None = None) -> Tensor:
        logits: Tensor = self.decoder.readout(output, candidates)
        return logits


class EncoderDecoder(AssembledEncoderDecoder):
    """p(y | x): a decoder that starts from an encoder's memory of x.

    ``tie`` shares tables. "target" makes the decoder's embedding and readout one parameter (Press and Wolf 2017).
    "embeddings" makes the encoder's and the decoder's embedding one parameter, and "all" all three. Both need a joint
    vocabulary. ``kept_heads`` are the heads of a pruned Transformer (``keep_heads``), as ``transduce heads --save``
    writes them: the name of an attention with the numbers of its heads that stay. Other attentions keep all. Raises
    UserError if a part has no table to share, if the tables' shapes differ, or for heads that are not there.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Factory[Decoder[S]],
        tie: Literal["none", "target", "embeddings", "all"] = "none",
        kept_heads: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        super().__init__(encoder, decoder(memory=memory_widths(encoder)))
        if tie in ("target", "all"):
            share(self.decoder.projection, self.decoder.embedding, "the target embedding with the readout")
        if tie in ("embeddings", "all"):
            share(
                cast(EmbedsTokens, encoder).embedding, self.decoder.embedding, "the source embedding with the target's"
            )
        keep_heads(self, kept_heads or {})


class LanguageModel(nn.Module):
    """p(y) = prod_t p(y_t | y_<t): a decoder without a source. The source only gives the number of rows.

    The decoder receives a memory without states, of width 0. It must work without attention to a source: a recurrent
    one with the wiring ``plain``, a Transformer or ConvS2S. ``tie`` "target" makes its embedding and its readout one
    parameter. ``kept_heads`` are the heads of a pruned Transformer, as for ``EncoderDecoder``.
    """

    def __init__(
        self,
        decoder: Factory[Decoder[S]],
        tie: Literal["none", "target"] = "none",
        kept_heads: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        self.decoder: AnyDecoder = decoder(memory=MemoryWidths(0, (0,)))
        if tie == "target":
            share(self.decoder.projection, self.decoder.embedding, "the embedding with the readout")
        keep_heads(self, kept_heads or {})

    def start(self, source: Padded) -> object:
        rows, like = tree.rows(source), self.decoder.embedding.weight
        return self.decoder.start(empty_memory(rows, like, source))

    def extend(self, tokens_BT: Tensor, state: object) -> tuple[object, object]:
        output, state = self.decoder.extend(tokens_BT, state)
        return output, state

    def readout(self, output: object, candidates: Tensor | None = None) -> Tensor:
        return self.decoder.readout(output, candidates)
