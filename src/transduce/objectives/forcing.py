"""The words that a decoder reads in training: the target's, its own, or unknown words.

B rows, T target positions, V vocabulary, N rows or positions that were selected. Position 0 of the ids that the decoder
reads is BOS. Position t is the word before word t.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, Protocol

import torch
from torch import Tensor

from transduce.compute.precision import unrecorded
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S
from transduce.core.schedules import Probability
from transduce.core.types import EOS, UNK, Padded, widened
from transduce.objectives.readout import chunk_slices
from transduce.search.forcing import shifted
from transduce.search.reading import forbid_specials


class Forcing(Protocol):
    """The choice of the words that a model reads in training. Returns ids [B, T] for a target [B, T]: BOS, then the
    target's words, some of which may be replaced.

    ``state`` is the model's start state, which the call does not change. ``progress`` in [0, 1] is the share of the
    training budget that is used, for schedules.
    """

    def __call__(self, model: Autoregressive[S], state: S, target: Padded, progress: float) -> Tensor: ...


@dataclass(frozen=True)
class TeacherForcing:
    """The model reads the target's words (Williams and Zipser 1989)."""

    def __call__(self, model: Autoregressive[S], state: S, target: Padded, progress: float) -> Tensor:
        return shifted(target)


@dataclass(frozen=True)
class WordDropout:
    """The model reads the target's words. Each is replaced by the unknown word with probability ``share`` (Bowman et
    al. 2016, section 3.1). BOS stays. The decoder then relies more on the source and less on the words before.
    """

    share: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UserError(f"share = {self.share}: a share of the words, from 0 to 1, was expected")

    def __call__(self, model: Autoregressive[S], state: S, target: Padded, progress: float) -> Tensor:
        gold_BT = shifted(target)
        dropped_BT = target.mask & (torch.rand(gold_BT.shape, device=gold_BT.device) < self.share)
        dropped_BT[:, 0] = False
        return gold_BT.masked_fill(dropped_BT, UNK)


@dataclass(frozen=True)
class ScheduledSampling:
    """The model reads each of the target's words with probability p, and otherwise the word that it chooses itself
    (Bengio et al. 2015). ``probability`` gives p from the used share of the budget. The model chooses word by word,
    given all words that it has read before.

    If ``choose`` is "sample", the word is drawn from the model's distribution. If it is "argmax", it is the most
    probable word. Padding, BOS and EOS are never chosen. The choice has no gradient. If p = 1, no random number is
    drawn, and training equals teacher forcing bit for bit.
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
        """Returns a copy of the ids ``gold_BT`` with the model's own word wherever ``own_BT`` is True.

        For "sample" it is the word at the quantile ``quantile_BT``, in [0, 1), of the model's distribution.
        """
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
    2019). The first pass reads the target. Each pass chooses all words together, given the words of the previous pass.

    After n ``passes``, the first n words after BOS equal the words of ``ScheduledSampling`` with the same random
    numbers. One pass is the papers' two-pass form, because they count the training step as the second pass.
    """

    passes: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < 1:
            raise UserError(f'passes = {self.passes}: at least 1 was expected; for no pass set forcing = "teacher"')

    @unrecorded()
    def mix(self, model: Autoregressive[S], state: S, gold_BT: Tensor, own_BT: Tensor, quantile_BT: Tensor) -> Tensor:
        mixed_BT = gold_BT
        if not own_BT.any():
            return mixed_BT
        choosing_BT = own_BT[:, 1:]  # position t chooses the word that the model reads at t + 1
        for _ in range(self.passes):
            output, _ = model.extend(mixed_BT[:, :-1], tree.fork(state))
            features = tree.map(lambda leaf: leaf[choosing_BT], output)
            choices = [
                self._choice(model.readout(tree.map(itemgetter(part), features)), quantile_BT[own_BT][part])
                for part in chunk_slices(model, features)
            ]
            last_BT, mixed_BT = mixed_BT, gold_BT.masked_scatter(own_BT, torch.cat(choices))
            if torch.equal(mixed_BT, last_BT):
                break  # every further pass would read, and therefore choose, the same words
        return mixed_BT


def at_quantile(logits_NV: Tensor, quantile_N: Tensor) -> Tensor:
    """The first word [N] of each row whose cumulative probability is more than ``quantile_N``, in [0, 1).

    Uniform quantiles give samples (inverse transform sampling). This needs one random number for each row, and Gumbel
    noise would need V. The same quantile of the same distribution always gives the same word.
    """
    wide = widened(logits_NV.dtype)
    below_NV = torch.softmax(logits_NV, -1, wide).cumsum(-1)
    threshold_N = quantile_N * below_NV[:, -1]  # the sum is 1 except for rounding
    return torch.searchsorted(below_NV, threshold_N[:, None], right=True)[:, 0]
