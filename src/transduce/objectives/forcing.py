"""What a decoder reads while it learns to write a target: the target itself, or here and there its own words, or
nothing.

Rows B, target positions T, N of them, V vocabulary. Position t of what is read is BOS, or the word before word t.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, Protocol, TypeVar

import torch
from torch import Tensor

from transduce import tree
from transduce.compute.precision import unrecorded
from transduce.errors import UserError
from transduce.objectives.chunks import chunks
from transduce.objectives.probability import Probability
from transduce.protocols import Autoregressive
from transduce.search.forcing import shifted
from transduce.search.step import forbid_specials
from transduce.types import EOS, UNK, Padded, widened

S = TypeVar("S")


class Forcing(Protocol):
    """Ids [B, T] to read for a target [B, T], by a model whose ``state`` is what ``start`` gave; the state is left as
    it is. ``progress`` in [0, 1] is for schedules."""

    def __call__(self, model: Autoregressive[S], state: S, target: Padded, progress: float) -> Tensor: ...


@dataclass(frozen=True)
class TeacherForcing:
    """The target's own words (Williams and Zipser 1989)."""

    def __call__(self, model: Autoregressive[S], state: S, target: Padded, progress: float) -> Tensor:
        return shifted(target)


@dataclass(frozen=True)
class WordDropout:
    """The target's words, of which a ``share`` is not told: the unknown word is read in their place (Bowman et al.
    2016, section 3.1). What is left to the decoder is the source, and it learns less of which words go together."""

    share: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UserError(f"share = {self.share}: a share of the words, from 0 to 1, was expected")

    def __call__(self, model: Autoregressive[S], state: S, target: Padded, progress: float) -> Tensor:
        gold_BT = shifted(target)
        untold_BT = target.mask & (torch.rand(gold_BT.shape, device=gold_BT.device) < self.share)
        untold_BT[:, 0] = False
        return gold_BT.masked_fill(untold_BT, UNK)


@dataclass(frozen=True)
class ScheduledSampling:
    """Each of the target's words with ``probability`` p, else the model's own, chosen after all that it read before
    (Bengio et al. 2015), token by token.

    ``choose`` "sample" draws the model's word from its distribution, "argmax" takes the most probable one: any word
    that a search could go on from, so no padding, beginning or end. Gradients do not go through the choice. Where
    p = 1 nothing is drawn, and training is plain teacher forcing to the last bit.
    """

    probability: Probability
    choose: Literal["sample", "argmax"] = "sample"

    def __post_init__(self) -> None:
        if self.choose not in ("sample", "argmax"):
            raise UserError(f'choose = "{self.choose}": "sample" or "argmax" was expected')

    def __call__(self, model: Autoregressive[S], state: S, target: Padded, progress: float) -> Tensor:
        gold_BT, mask_BT = shifted(target), target.mask
        p = self.probability(progress)
        if p >= 1:
            return gold_BT
        own_BT = mask_BT & (torch.rand(gold_BT.shape, device=gold_BT.device) >= p)
        own_BT[:, 0] = False
        return self.mix(model, state, gold_BT, own_BT, torch.rand(gold_BT.shape, device=gold_BT.device))

    @unrecorded()
    def mix(self, model: Autoregressive[S], state: S, gold_BT: Tensor, own_BT: Tensor, quantile_BT: Tensor) -> Tensor:
        """``gold_BT`` with the model's word where ``own_BT``: the one at that quantile of its distribution."""
        state = tree.reserve(tree.fork(state), gold_BT.shape[1])
        mixed_BT, read = gold_BT.clone(), 0
        for t in own_BT.any(0).nonzero()[:, 0].tolist():
            output, state = model.extend(mixed_BT[:, read:t], state)
            rows_N = own_BT[:, t].nonzero()[:, 0]
            last = tree.select(tree.map(lambda leaf: leaf[:, -1], output), rows_N)
            mixed_BT[rows_N, t] = self._choice(model.readout(last), quantile_BT[rows_N, t])
            read = t
        return mixed_BT

    def _choice(self, logits_NV: Tensor, quantile_N: Tensor) -> Tensor:
        forbid_specials(logits_NV)[:, EOS] = float("-inf")
        return logits_NV.argmax(-1) if self.choose == "argmax" else at_quantile(logits_NV, quantile_N)


@dataclass(frozen=True)
class ParallelScheduledSampling(ScheduledSampling):
    """Scheduled sampling for models that read a whole target at once (Mihaylova and Martins 2019, Duckworth et al.
    2019): all words are chosen together, after what was read in the pass before, at first the target.

    After n ``passes`` the first n words after BOS are those of token-by-token sampling with the same draws, and after
    as many as the target has words all of them are. One pass is the two-pass form: it chooses, training is the other.
    """

    passes: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < 1:
            raise UserError(f'passes = {self.passes}: at least 1 was expected; for none, forcing = "teacher"')

    @unrecorded()
    def mix(self, model: Autoregressive[S], state: S, gold_BT: Tensor, own_BT: Tensor, quantile_BT: Tensor) -> Tensor:
        mixed_BT = gold_BT
        if not own_BT.any():
            return mixed_BT
        before_BT = own_BT[:, 1:]  # the positions that choose what is read at the next
        for _ in range(self.passes):
            output, _ = model.extend(mixed_BT[:, :-1], tree.fork(state))
            features = tree.map(lambda leaf: leaf[before_BT], output)
            choices = [
                self._choice(model.readout(tree.map(itemgetter(part), features)), quantile_BT[own_BT][part])
                for part in chunks(model, features)
            ]
            last_BT, mixed_BT = mixed_BT, gold_BT.masked_scatter(own_BT, torch.cat(choices))
            if torch.equal(mixed_BT, last_BT):
                break  # every further pass would read, and so choose, the same
        return mixed_BT


def at_quantile(logits_NV: Tensor, quantile_N: Tensor) -> Tensor:
    """The first word below and with which lies more than ``quantile_N`` in [0, 1) of the distribution.

    For uniform quantiles a sample (by inversion: one random number a word, where Gumbel noise takes V of them), and
    one that can be drawn again: the same quantile of the same distribution is the same word.
    """
    wide = widened(logits_NV.dtype)
    below_NV = torch.softmax(logits_NV, -1, wide).cumsum(-1)
    sought_N = quantile_N * below_NV[:, -1]  # of a sum that is 1 but for rounding
    return torch.searchsorted(below_NV, sought_N[:, None], right=True)[:, 0]
