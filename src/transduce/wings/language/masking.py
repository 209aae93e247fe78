"""The objective of masked language models: tokens of the text are hidden, and the model predicts them.

B rows, T tokens, N hidden tokens, V vocabulary.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Carry, Parallel, S
from transduce.core.types import BOS, Batch, Loss
from transduce.objectives.cross_entropy import check_smoothing, cross_entropy
from transduce.wings.language.spans import (
    Decode,
    beginning,
    check_same_text,
    covered,
    lengths,
    no_decoder,
    uniform,
    word_indices,
)

LONGEST = 10  # most tokens or words of a run whose length is drawn


@dataclass(frozen=True)
class MaskedCrossEntropy:
    """The objective of masked language models: cross-entropy of hidden tokens, given the others (Devlin et al. 2019,
    section 3.1). The source of each pair is its target, a text.

    A ``share`` of the tokens is chosen at random, in runs of ``span`` tokens, which may touch. If ``drawn`` is True,
    the lengths of runs come from a geometric distribution with mean ``span``, cut at 10 (SpanBERT, Joshi et al. 2020,
    section 3.1, has mean 5). If ``words`` is True, runs and the share count whole words: all tokens of a word are
    chosen, or none. The model predicts only the chosen tokens. It reads a gap in place of a share ``hidden`` of them,
    and another token of the batch in place of a share ``random``. It reads the rest unchanged. The objective
    "cross-entropy" explains ``smoothing``. Validation hides the same tokens of a text each time, and all become gaps.

    Raises UserError for shares outside 0 to 1, for a span below 1, and if the two sides of a batch differ.
    """

    share: float = 0.15
    hidden: float = 0.8
    random: float = 0.1
    span: int = 1
    smoothing: float = 0.0
    words: bool = False
    drawn: bool = False
    decode: Decode = field(default_factory=lambda: no_decoder, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)
        if not 0 < self.share < 1:
            raise UserError(f"share = {self.share}: more than 0 and less than 1 was expected")
        if not (self.hidden >= 0 and self.random >= 0 and self.hidden + self.random <= 1):
            raise UserError(
                f"hidden = {self.hidden}, random = {self.random}: two shares of at most 1 together were expected"
            )
        if self.span < 1:
            raise UserError(f"span = {self.span}: at least one token was expected")

    def reading(self, decode: Decode) -> MaskedCrossEntropy:
        own = copy(self)
        object.__setattr__(own, "decode", decode)
        return own

    def __call__(
        self, model: Parallel[S], batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        ids_BT, lengths_B = batch.target.values, batch.target.lengths
        check_same_text(batch)
        real_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) < (lengths_B - 1)[:, None]  # without EOS
        chosen_BT = self._chosen(ids_BT, model.training) & real_BT
        if not bool(chosen_BT.any()):  # possible in a batch of few short texts: hide their first tokens
            chosen_BT = real_BT & (torch.arange(ids_BT.shape[1], device=ids_BT.device) == 0)
        read_BT = self._changed(ids_BT, chosen_BT, real_BT) if model.training else ids_BT.masked_fill(chosen_BT, BOS)
        emission = model.emit(model.start(replace(batch.source, values=read_BT)), lengths_B - 1)
        picked_BT = chosen_BT[:, : emission.mask.shape[1]]
        features = tree.map(lambda leaf: leaf[picked_BT], emission.output)
        total, nll = cross_entropy(model, features, ids_BT[chosen_BT], self.smoothing)
        return Loss(total, int(chosen_BT.sum()), {"nll": nll}), carry

    def _chosen(self, ids_BT: Tensor, training: bool) -> Tensor:
        """The mask [B, T] of the chosen tokens. Outside of training it depends only on the text."""
        chosen_BT = self._runs(ids_BT, training)
        if not self.words:
            return chosen_BT
        return chosen_BT.gather(1, word_indices(ids_BT, self.decode))  # column k decided about word k

    def _runs(self, ids_BT: Tensor, training: bool) -> Tensor:
        """The mask [B, T] of the positions in a run. Validation chooses single positions instead of runs. They are
        equally hard for every setting, so losses can be compared.
        """
        draw_BT = uniform(ids_BT, training)
        if not training or self.span == 1:
            return draw_BT < self.share
        if not self.drawn:
            # A position is chosen if it or one of the ``span`` - 1 before it begins a run: 1 - (1 - q)^span = share.
            begins_BT = draw_BT < 1 - (1 - self.share) ** (1 / self.span)
            return covered(begins_BT, torch.full_like(ids_BT, self.span))
        cumulative_K = geometric(self.span)
        begins_BT = draw_BT < beginning(self.share, cumulative_K)
        return covered(begins_BT, lengths(uniform(ids_BT, training), cumulative_K))

    def _changed(self, ids_BT: Tensor, chosen_BT: Tensor, real_BT: Tensor) -> Tensor:
        """The ids [B, T] that the model reads in training. Random tokens are drawn from the tokens of the batch."""
        draw_BT = torch.rand(ids_BT.shape, device=ids_BT.device)
        gaps_BT = chosen_BT & (draw_BT < self.hidden)
        other_BT = chosen_BT & ~gaps_BT & (draw_BT < self.hidden + self.random)
        pool_N = ids_BT[real_BT]
        drawn_BT = pool_N[torch.randint(len(pool_N), ids_BT.shape, device=ids_BT.device)]
        return torch.where(other_BT, drawn_BT, ids_BT.masked_fill(gaps_BT, BOS))


@lru_cache
def geometric(mean: float) -> tuple[float, ...]:
    """The cumulative probabilities of a run's length: at most 0, 1, 2, ... positions. It is from 1 to ``LONGEST``."""
    return (*(1 - (1 - 1 / mean) ** k for k in range(LONGEST)), 1.0)
