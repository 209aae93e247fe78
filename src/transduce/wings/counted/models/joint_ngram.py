"""Joint n-gram models: p(x, y) as an n-gram model of units that have a source piece and a target piece.

N rows, T tokens, V target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.data.pairs import Pairs
from transduce.models.tables import check, check_range
from transduce.training.counted import check_tokens, empty
from transduce.wings.counted.kneser_ney import estimate
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.readings import compiled
from transduce.wings.counted.readings.lattice import JointState, begin, log_probs, written
from transduce.wings.counted.readings.reader import Reader
from transduce.wings.counted.segmentation import Cut, cut
from transduce.wings.counted.unit_learning import Cosegmentation


class JointNgram(nn.Module):
    """p(y | x) = p(x, y) / p(x), where p(x, y) is the sum over all segmentations of the pair into units u.

    A segmentation has the probability prod_k p(u_k | u_k-n+1 ... u_k-1), and n is the ``order`` (Bisani and Ney 2008).

    A unit has one source token and up to ``target_tokens`` target tokens or none, or up to ``source_tokens`` source
    tokens and one target token. A pair cannot be cut if it has no source token, or more than ``target_tokens`` target
    tokens for each source token. Counting stops with an error if more than the share ``uncut`` of the pairs cannot be
    cut.

    Counted, not trained: expectation maximisation finds the units (Jiampojamarn et al. 2007), and modified Kneser-Ney
    smooths the n-grams of the best segmentations. Two limits prune the segmentations of a source. ``beam`` removes
    those whose log-probability (natural logarithm) is more than this below the best at the same place or at the end.
    ``width`` keeps that many of the best at each place. ``escape`` is the probability that the next token is in no
    segmentation. All tokens except PAD and BOS are then equally probable, so that none of them is impossible; these two
    have minus infinity. ``readout`` returns log p.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        source_factors: int,
        order: int = 8,
        beam: float = 8.0,
        width: int = 100,
        escape: float = 1e-5,
        source_tokens: int = 2,
        target_tokens: int = 2,
        uncut: float = 0.05,
    ) -> None:
        super().__init__()
        if source_factors > 1:
            raise UserError(
                f"a joint n-gram model reads one id a token, and each step of the source has {source_factors}: set "
                "data.units.source to units of text without factors, such as characters"
            )
        for name, value, least in (
            ("order", order, 1),
            ("beam", beam, 0),
            ("width", width, 1),
            ("source_tokens", source_tokens, 1),
            ("target_tokens", target_tokens, 1),
        ):
            if not value >= least:
                raise UserError(f"{name} = {value}: at least {least} was expected")
        if not 0 < escape < 1:
            raise UserError(f"escape = {escape}: more than 0 and less than 1 was expected")
        if not 0 <= uncut <= 1:
            raise UserError(f"uncut = {uncut}: a share of the pairs was expected, from 0 to 1")
        self.order, self.beam, self.width, self.escape = order, beam, width, escape
        self.longest, self.uncut = (source_tokens, target_tokens), uncut
        self.source_vocabulary, self.target_vocabulary = source_vocabulary, target_vocabulary
        self.units = empty(torch.long, source_tokens + target_tokens)
        self.ngrams = NgramLookup()

    def counts(self, pairs: Pairs) -> JointCounts:
        return JointCounts(self, pairs)

    def check_tables(self) -> None:
        S = self.longest[0]
        check(len(self.units) == (self.ngrams.end if len(self.ngrams) else 0), "units", "one unit for each word")
        check_range("units", self.units[:, :S], 0, self.source_vocabulary - 1)
        check_range("units", self.units[:, S:], 0, self.target_vocabulary - 1)
        change_U = (self.units[1:] - self.units[:-1]).sign()
        first_U = change_U.gather(1, (change_U != 0).int().argmax(1, keepdim=True))
        check(bool((first_U > 0).all()), "units", "ascending rows")

    def start(self, source: Padded) -> JointState:
        if not len(self.units):
            raise UserError(
                "this joint n-gram model has not been counted: train it by itself, then mix it with others (RUN+RUN)"
            )
        return begin(Reader(self.units, self.longest[0], self.ngrams, self.beam, self.width)(source))

    def extend(self, tokens_BT: Tensor, state: JointState) -> tuple[Tensor, JointState]:
        outputs = []
        for token_N in tokens_BT.unbind(1):
            output_NV, state = self._step(token_N, state)
            outputs.append(output_NV)
        return torch.stack(outputs, 1), state

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)

    def cut(self, source: Sequence[int], target: Sequence[int]) -> Cut | None:
        return cut(self.units, self.longest[0], self.ngrams, source, target)

    def _step(self, token_N: Tensor, state: JointState) -> tuple[Tensor, JointState]:
        """The log-probabilities [N, V] of the token after this one, and the state after this one."""
        if compiled.fits(self.ngrams.log_prob):
            return compiled.step(token_N, state, self.target_vocabulary, self.escape)
        state = written(token_N, state)
        return log_probs(state, self.target_vocabulary, self.escape).to(self.ngrams.log_prob.dtype), state


class JointCounts:
    """Counts of a joint n-gram model: expectation maximisation, then n-grams of the best segmentations, in ``store``.

    Raises UserError for numbers, for vocabularies that are too large (``Cosegmentation``), if more than the share
    ``model.uncut`` of the pairs cannot be cut into units, or if none can.
    """

    def __init__(self, model: JointNgram, pairs: Pairs) -> None:
        check_tokens("a joint n-gram model", pairs.source, pairs.target)
        self.model = model
        self.ways = Cosegmentation(pairs, model.longest)
        uncut = len(self.ways.uncut)
        problem = (
            f"{uncut:,} of {len(pairs):,} pairs cannot be cut into units: they have no source, or more than "
            f"model.target_tokens = {model.longest[1]} target tokens for each source token"
        )
        if uncut == len(pairs) or uncut > model.uncut * len(pairs):
            raise UserError(
                f"{problem}; at most {model.uncut:.0%} are allowed (model.uncut). {_remedy(pairs, model.uncut)}"
            )
        self.tokens = int(pairs.target_lengths.sum() - pairs.target_lengths[self.ways.uncut].sum())
        self.report: tuple[str, ...] = (f"{problem}, and are not counted",) if uncut else ()

    def reestimate(self) -> float:
        return self.ways.reestimate()

    def store(self) -> None:
        best = self.ways.best()
        used, words = np.unique(np.concatenate(best), return_inverse=True)
        bounds = np.cumsum([len(row) for row in best])[:-1]
        self.model.units.data = torch.from_numpy(self.ways.units[used]).to(self.model.units)
        self.model.ngrams.learn(estimate(np.split(words.ravel(), bounds), len(used), self.model.order))


def _remedy(pairs: Pairs, uncut: float) -> str:
    """Advice for the user, so that enough pairs can be cut: remove pairs without a source, or allow longer units, or
    choose other tokens.
    """
    S_N, T_N = (lengths.astype(np.int64) - 1 for lengths in (pairs.source_lengths, pairs.target_lengths))
    other = "choose a unit with longer tokens for data.units.target, or one with shorter tokens for data.units.source"
    needed = np.sort(-(-T_N[S_N > 0] // S_N[S_N > 0]))
    cuttable = math.ceil((1 - uncut) * len(pairs))
    if not len(needed) or len(needed) < cuttable:
        return f"{len(pairs) - len(needed):,} pairs have no source: remove them"
    return f"Set model.target_tokens = {needed[max(cuttable, 1) - 1]}, or {other}"
