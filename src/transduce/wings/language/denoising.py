"""The objective of denoising autoencoders: an encoder-decoder reads a text with noise, and writes the text without it.

B rows, T positions of the text (with EOS and padding), N = 2T slots for gaps and tokens.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, Carry, S
from transduce.core.types import BOS, EOS, PAD, Batch, Loss, Padded
from transduce.objectives.cross_entropy import CrossEntropy, check_smoothing
from transduce.wings.language.spans import Decode, beginning, check_same_text, covered, lengths, no_decoder, uniform

Noise = Literal["infilling", "masking", "deletion"]
SENTENCE_ENDS = (".", "!", "?")
LONGEST = 32  # tokens of a span; longer ones are practically impossible
SPANS, LENGTHS, ORDER = 1, 2, 3  # salts for the random numbers of a text: see ``uniform``


@dataclass(frozen=True)
class Denoising:
    """The objective of denoising autoencoders: cross-entropy of a text, given the text with noise (BART, Lewis et al.
    2020, section 2.2). The source of each pair is its target, a text.

    The ``noise`` "infilling" replaces each chosen span of tokens by one gap. The lengths of spans have a Poisson
    distribution with mean ``span``; a span of length 0 inserts a gap. Chosen spans that touch or overlap become one.
    The ``noise`` "masking" replaces each chosen token by a gap, and "deletion" removes the chosen tokens. ``share`` is
    the expected share of chosen tokens. A gap is BOS. ``permute`` also changes the order of the sentences at random. A
    sentence ends after a token whose text ends with ".", "!" or "?", or with the text. The objective "cross-entropy"
    explains ``smoothing``.

    Training draws new noise for each batch. Validation gives a text the same noise each time. Raises UserError for a
    ``share`` outside 0 to 1 or too large for the spans, and for a ``span`` below 1 or above 8. Also raises it for a
    batch whose two sides differ.
    """

    noise: Noise = "infilling"
    share: float = 0.3
    span: float = 3.0
    permute: bool = False
    smoothing: float = 0.0
    decode: Decode = field(default_factory=lambda: no_decoder, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)
        if not 0 < self.share < 1:
            raise UserError(f"share = {self.share}: more than 0 and less than 1 was expected")
        if not 1 <= self.span <= 8:
            raise UserError(f"span = {self.span}: from 1 to 8 tokens were expected")
        if self.noise == "infilling":
            beginning(self.share, poisson(self.span))  # raises UserError if the spans are too short for this share

    def reading(self, decode: Decode) -> Denoising:
        own = copy(self)
        object.__setattr__(own, "decode", decode)
        return own

    def __call__(
        self, model: Autoregressive[S], batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        check_same_text(batch)
        noisy = self.noisy(batch.target, model.training)
        return CrossEntropy(self.smoothing)(model, replace(batch, source=noisy), progress, carry)

    def noisy(self, text: Padded, training: bool) -> Padded:
        """The text with noise. In ``training`` the noise is random; otherwise it depends only on a row's ids."""
        ids_BT, lengths_B = text.values, text.lengths
        if self.permute:
            ids_BT = self._permuted(ids_BT, lengths_B, training)
        real_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) < (lengths_B - 1)[:, None]  # without EOS
        gone_BT, gap_BT = self._chosen(ids_BT, training)
        gone_BT = gone_BT & real_BT
        gap_BT = gap_BT & real_BT
        # Two slots for each position: a gap before its token, and the token. The slots that stay move to the left.
        gaps_BT = torch.full_like(ids_BT, BOS)
        slots_BN = torch.stack([gaps_BT, ids_BT], -1).flatten(1)
        kept_BN = torch.stack([gap_BT, ~gone_BT & text.mask], -1).flatten(1)
        order_BN = (~kept_BN).to(torch.uint8).argsort(dim=1, stable=True)
        left_B = kept_BN.sum(1)
        read_BN = slots_BN.gather(1, order_BN)[:, : int(left_B.max())]
        mask_BN = torch.arange(read_BN.shape[1], device=ids_BT.device) < left_B[:, None]
        return Padded(read_BN.masked_fill(~mask_BN, PAD), left_B)

    def _chosen(self, ids_BT: Tensor, training: bool) -> tuple[Tensor, Tensor]:
        """Two masks [B, T]: the tokens that the model does not read, and the positions with a gap before the token."""
        draw_BT = uniform(ids_BT, training, SPANS)
        if self.noise != "infilling":
            gone_BT = draw_BT < self.share
            return gone_BT, gone_BT if self.noise == "masking" else torch.zeros_like(gone_BT)
        cumulative_K = poisson(self.span)
        begins_BT = draw_BT < beginning(self.share, cumulative_K)
        length_BT = lengths(uniform(ids_BT, training, LENGTHS), cumulative_K)
        gone_BT = covered(begins_BT, length_BT)
        first_BT = gone_BT & ~torch.cat([torch.zeros_like(gone_BT[:, :1]), gone_BT[:, :-1]], 1)
        empty_BT = begins_BT & (length_BT == 0) & ~gone_BT
        return gone_BT, first_BT | empty_BT

    def _permuted(self, ids_BT: Tensor, lengths_B: Tensor, training: bool) -> Tensor:
        """The ids [B, T] with the sentences of each text in another order. EOS and padding keep their positions."""
        known_U, place_BT = torch.unique(ids_BT, return_inverse=True)
        last_U = [self.decode([token]).rstrip().endswith(SENTENCE_ENDS) for token in known_U.tolist()]
        ends_BT = torch.tensor(last_U, device=ids_BT.device)[place_BT] & (ids_BT != EOS)
        sentence_BT = ends_BT.long().cumsum(1) - ends_BT.long()
        key_BT = uniform(ids_BT, training, ORDER).gather(1, sentence_BT)  # one number for each sentence
        tail_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) >= (lengths_B - 1)[:, None]
        order_BT = key_BT.masked_fill(tail_BT, 2.0).argsort(dim=1, stable=True)
        return ids_BT.gather(1, order_BT)


@lru_cache
def poisson(mean: float) -> tuple[float, ...]:
    """The cumulative probabilities of a length: at most 0, 1, 2, ... tokens, up to ``LONGEST``."""
    probability = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(LONGEST)]
    return tuple(sum(probability[: k + 1]) for k in range(LONGEST))
