"""Prefix beam search, frame by frame. B sources, K prefixes of each, S frames, L tokens, V symbols."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from transduce.compute.memory import check_memory
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, Framewise, S
from transduce.core.types import EOS, PAD, Hypothesis, Padded
from transduce.search.base import EXCLUDED, loaded_model, resized
from transduce.search.largest import first_largest
from transduce.wings.ctc.lattice import NEVER
from transduce.wings.ctc.search.best_path import BestPath, ended
from transduce.wings.ctc.search.companion import Companion
from transduce.wings.ctc.search.compiled import best_prefixes
from transduce.wings.ctc.search.forcing import check_no_prefix, force, scored, writable


@dataclass(frozen=True)
class PrefixBeam:
    """Prefix beam search (Hannun et al. 2014, algorithm 1): keeps the ``size`` best prefixes after each frame and
    returns the ``nbest`` best outputs.

    Each prefix y has two sums over the alignments of the frames so far that give y. One sum is over the alignments that
    end with a blank, and the other is over the rest. Prefixes are ranked by log p(y | x) + ``weight`` log p_lm(y) +
    ``bonus`` |y|, where |y| does not count EOS. After the last frame, p_lm(y) includes EOS. The ``language_model`` is
    any autoregressive model with the same vocabulary, or the path of its run (RUN+RUN for several). It receives the
    same source, which a language model ignores. ``score`` is the ranking over the alignments that the search kept.
    ``log_prob`` is log p(y | x) over all alignments. An output has no ``<unk>``, unless
    ``unknown`` is True. Raises UserError for a prefix that outputs must start with.
    """

    ends_freely: ClassVar[bool] = True

    size: int = 10
    nbest: int = 1
    weight: float = 0.5
    bonus: float = 0.0
    language_model: Path | Autoregressive[object] | None = None
    unknown: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise UserError(f"weight = {self.weight}: 0, which leaves the language model out, or more was expected")
        if not math.isfinite(self.bonus):
            raise UserError(f"bonus = {self.bonus}: a finite number for each token was expected")
        if not 1 <= self.nbest <= self.size:
            raise UserError(f"nbest = {self.nbest}, size = {self.size}: a beam of n has room for 1 to n hypotheses")

    def quick(self) -> BestPath:
        """The quickest relative of this search."""
        return BestPath()

    @torch.inference_mode()
    def __call__(self, model: Framewise, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        check_no_prefix(prefix)
        frames = model.frames(source)
        needed = frames.values[:, 0].numel() * self.size * 8  # bytes, a number for each continuation of each prefix
        check_memory(needed, f"size = {self.size}", frames.values.device)
        language_model = None
        if self.weight and self.language_model is not None:  # 0 times minus infinity is not a number
            language_model = loaded_model(self.language_model)
        found, allowed = None, writable(frames, self.unknown)
        if language_model is None:
            found = best_prefixes(allowed, self.size, self.nbest, self.bonus)
        return _hypotheses(frames, *(found or self.by_operators(allowed, source, language_model)))

    def by_operators(
        self, frames: Padded, source: Padded, language_model: Autoregressive[S] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same as ``compiled.best_prefixes``, on every device and with a language model."""
        companion = Companion.start(language_model, source, self.size, frames.values.shape[-1])
        beam = _Beam.start(frames, self.size)
        for t, log_probs_BV in enumerate(frames.values.double().unbind(1)):
            beam, companion = self._step(beam, companion, log_probs_BV, t < frames.lengths)
        return self._best(beam, companion)

    def force(self, model: Framewise, source: Padded, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> PrefixBeam:
        return resized(self, size, nbest)

    def _step(
        self, beam: _Beam, companion: Companion, log_probs_BV: Tensor, going_B: Tensor
    ) -> tuple[_Beam, Companion]:
        """Returns the beam, and the language model's state, after one more frame. ``going_B`` is False for sources
        without a further frame, which do not change.
        """
        stayed, longer_BKV = beam.after(log_probs_BV, going_B)
        V = log_probs_BV.shape[1]
        outside_BK = self._outside(beam, companion)
        staying_BK = stayed.total_BK + outside_BK
        writing_BKV = longer_BKV + (outside_BK + self.bonus)[..., None] + self.weight * companion.next_BKV
        score_BC = torch.cat([staying_BK, writing_BKV.flatten(1)], 1)
        K = self.size
        place_BK = first_largest(score_BC, K)
        written_BK = place_BK >= K
        place_BK = torch.where(written_BK, place_BK - K, place_BK)
        origin_BK = torch.where(written_BK, place_BK // V, place_BK)
        token_BK = torch.where(written_BK, place_BK % V, PAD)
        beam = stayed.chosen(origin_BK, token_BK, written_BK, longer_BKV)
        return beam, companion.chosen(origin_BK, token_BK, beam.tokens_BKL.shape[2])

    def _outside(self, beam: _Beam, companion: Companion) -> Tensor:
        """The part of the ranking [B, K] that does not depend on alignments: the weighted log-probabilities of the
        language model, and the bonus for the length.
        """
        return self.weight * companion.total_BK + self.bonus * beam.length_BK.double()

    def _best(self, beam: _Beam, companion: Companion) -> tuple[Tensor, Tensor, Tensor]:
        """The ``nbest`` best prefixes as ``compiled.best_prefixes`` returns them. Prefixes that the language model
        excludes are left out, unless it excludes all prefixes of a source.
        """
        language_BK = companion.total_BK + companion.next_BKV[..., EOS]
        possible_BK = beam.total_BK > NEVER
        allowed_BK = possible_BK & (language_BK > EXCLUDED)
        allowed_BK = torch.where(allowed_BK.any(1, keepdim=True), allowed_BK, possible_BK)
        outside_BK = self._outside(beam, companion) + self.weight * companion.next_BKV[..., EOS]
        score_BK = (beam.total_BK + outside_BK).masked_fill(~allowed_BK, NEVER)
        order_BK = first_largest(score_BK, self.nbest)
        tokens_BKL = beam.tokens_BKL.gather(1, order_BK[..., None].expand(-1, -1, beam.tokens_BKL.shape[2]))
        score_BK = score_BK.gather(1, order_BK)
        return tokens_BKL, beam.length_BK.gather(1, order_BK).masked_fill(score_BK == NEVER, -1), score_BK


def _hypotheses(frames: Padded, tokens_BKL: Tensor, length_BK: Tensor, score_BK: Tensor) -> list[list[Hypothesis]]:
    """The outputs as hypotheses, without the places whose length is -1."""
    lengths = length_BK.tolist()
    there = [(b, k, length) for b, row in enumerate(lengths) for k, length in enumerate(row) if length >= 0]
    tokens, scores = tokens_BKL.tolist(), score_BK.tolist()
    outputs = [tuple(tokens[b][k][:length]) for b, k, length in there]
    rows_N = torch.tensor([b for b, _, _ in there], device=score_BK.device)
    found: list[list[Hypothesis]] = [[] for _ in lengths]
    for (b, k, _), own in zip(there, scored(tree.select(frames, rows_N), ended(outputs, rows_N.device)), strict=True):
        found[b].append(replace(own, score=scores[b][k]))
    return found


@dataclass(frozen=True)
class _Beam:
    """Padded prefixes [B, K, L], their lengths, and two log-sums [B, K] over their alignments. ``blank_BK`` is over the
    alignments that end with a blank. ``symbol_BK`` is over the alignments that end with the last token. If both are
    minus infinity, the place is empty.
    """

    tokens_BKL: Tensor
    length_BK: Tensor
    blank_BK: Tensor
    symbol_BK: Tensor

    @staticmethod
    def start(frames: Padded, size: int) -> _Beam:
        none_BK = torch.full((len(frames.lengths), size), NEVER, dtype=torch.float64, device=frames.lengths.device)
        blank_BK = none_BK.clone()
        blank_BK[:, 0] = 0.0
        length_BK = torch.zeros_like(none_BK, dtype=torch.long)
        return _Beam(length_BK[..., None][..., :0], length_BK, blank_BK, none_BK)

    @property
    def total_BK(self) -> Tensor:
        return torch.logaddexp(self.blank_BK, self.symbol_BK)

    @property
    def last_BK(self) -> Tensor:
        """The last token [B, K] of each prefix, PAD if the prefix is empty."""
        if not self.tokens_BKL.shape[2]:
            return torch.zeros_like(self.length_BK)
        return self.tokens_BKL.gather(2, (self.length_BK - 1).clamp(min=0)[..., None])[..., 0]

    def after(self, log_probs_BV: Tensor, going_B: Tensor) -> tuple[_Beam, Tensor]:
        """Returns the same prefixes after one more frame, and the log-sums [B, K, V] of their extensions by one token.

        If an extension equals another prefix of the beam, its alignments are added to that prefix, and the extension
        gets minus infinity. A source whose ``going_B`` is False has no further frame. Its sums do not change, and all
        its extensions get minus infinity.
        """
        total_BK, last_BK = self.total_BK, self.last_BK
        repeat_BK = log_probs_BV.gather(1, last_BK)
        longer_BKV = total_BK[..., None] + log_probs_BV[:, None]
        # an extension by the last symbol again needs a blank before it
        longer_BKV = longer_BKV.scatter(2, last_BK[..., None], (self.blank_BK + repeat_BK)[..., None])
        longer_BKV[..., PAD : EOS + 1] = NEVER
        child_BJK = self._children(total_BK)
        led_BJK = longer_BKV.gather(2, last_BK[:, None].expand_as(child_BJK)).transpose(1, 2)
        led_BJ = led_BJK.masked_fill(~child_BJK, NEVER).amax(2)  # from the prefix that this one extends
        ours_BKV = torch.zeros_like(longer_BKV, dtype=torch.bool)
        place_BKJ = last_BK[:, None].expand_as(child_BJK)
        ours_BKV = ours_BKV.scatter_add(2, place_BKJ, child_BJK.transpose(1, 2))
        longer_BKV = longer_BKV.masked_fill(ours_BKV | ~going_B[:, None, None], NEVER)
        blank_BK = torch.where(going_B[:, None], total_BK + log_probs_BV[:, PAD, None], self.blank_BK)
        symbol_BK = torch.where(going_B[:, None], torch.logaddexp(self.symbol_BK + repeat_BK, led_BJ), self.symbol_BK)
        return replace(self, blank_BK=blank_BK, symbol_BK=symbol_BK), longer_BKV

    def _children(self, total_BK: Tensor) -> Tensor:
        """A mask [B, J, K], J = K: True if prefix j is prefix k plus one token. False at empty places."""
        places_L = torch.arange(self.tokens_BKL.shape[2], device=self.length_BK.device)
        before_BJL = self.tokens_BKL.masked_fill(places_L == self.length_BK[..., None] - 1, PAD)
        alike_BJK = (before_BJL[:, :, None] == self.tokens_BKL[:, None]).all(-1)
        longer_BJK = self.length_BK[:, :, None] == self.length_BK[:, None] + 1
        there_BK = total_BK > NEVER
        return alike_BJK & longer_BJK & there_BK[:, :, None] & there_BK[:, None]

    def chosen(self, origin_BK: Tensor, token_BK: Tensor, written_BK: Tensor, longer_BKV: Tensor) -> _Beam:
        """The prefixes of the next beam. Each is its origin, or its origin with one more token.

        If there are fewer prefixes than places, the remaining places are empty: they have PAD, no length and no sums.
        """
        tokens_BKL = self.tokens_BKL.gather(1, origin_BK[..., None].expand(-1, -1, self.tokens_BKL.shape[2]))
        length_BK = self.length_BK.gather(1, origin_BK)
        tokens_BKL = torch.nn.functional.pad(tokens_BKL, (0, 1), value=PAD)
        tokens_BKL = tokens_BKL.scatter(2, length_BK[..., None], token_BK[..., None])
        length_BK = length_BK + (token_BK != PAD)
        place_BK = origin_BK * longer_BKV.shape[2] + token_BK
        written_to_BK = longer_BKV.flatten(1).gather(1, place_BK)
        return _Beam(
            tokens_BKL[
                ..., : max(1, int(length_BK.max()))
            ],  # otherwise the width would grow with the frames, and the comparisons with its square
            length_BK,
            self.blank_BK.gather(1, origin_BK).masked_fill(written_BK, NEVER),
            torch.where(written_BK, written_to_BK, self.symbol_BK.gather(1, origin_BK)),
        )
