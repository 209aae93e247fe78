"""Beam search, batched: B sources, K hypotheses of each, N = B * K rows, T tokens, C candidate continuations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from transduce import tree
from transduce.errors import UserError
from transduce.protocols import Autoregressive
from transduce.search.allocation.best import BestContinuations
from transduce.search.base import (
    Allocation,
    Continuations,
    Expansion,
    Filter,
    Finished,
    Follower,
    Observer,
    Ranking,
    resized,
    staggers,
    to_the_end,
)
from transduce.search.constraints.base import BatchConstraints
from transduce.search.forcing import force
from transduce.search.ranking import Average
from transduce.search.step import (
    Begun,
    Front,
    Next,
    advance,
    begin,
    check_length,
    join_fronts,
    remaining,
    repeated,
    source_lengths,
)
from transduce.types import Hypothesis, Padded

NEVER = float("-inf")


@dataclass(frozen=True)
class Beam:
    """Beam search: keeps the ``size`` most probable prefixes, extends them step by step, and returns the ``nbest``
    finished hypotheses with the highest ``ranking``.

    ``filters`` forbid or penalise tokens. ``allocation`` chooses the continuations that stay in the beam. With the
    default, an output ends if its EOS is among the ``size`` best continuations of its source. A source is finished as
    soon as no active hypothesis can overtake its ``nbest`` best finished ones. Once ``size`` hypotheses have finished,
    active ones are compared as if they ended now. Token number ``max_length`` is always EOS. A beam of size 1 is greedy
    search. ``observer`` receives each step.
    """

    size: int = 5
    nbest: int = 1
    max_length: int = 200
    ranking: Ranking = field(default_factory=Average)
    filters: tuple[Filter[Any], ...] = ()
    allocation: Allocation[Any] = field(default_factory=BestContinuations)
    observer: Observer | None = None

    def __post_init__(self) -> None:
        check_length(self.max_length)
        if not 1 <= self.nbest <= self.size:
            raise UserError(f"nbest = {self.nbest}, size = {self.size}: a beam of n has room for 1 to n hypotheses")
        self.allocation.check(self.size)

    def __call__(self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        return to_the_end(self, model, source, prefix)

    def stream(
        self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """For one source: yields the first tokens on which all hypotheses that may still win agree, after each step; at
        last the best output.
        """
        rows, finished = self.enter(model, source, [0], prefix)
        while not finished:
            yield rows.common_prefix()
            rows, finished = self.step(model, rows)
        yield finished[0][1][0].tokens

    @property
    def staggered(self) -> bool:
        return self.observer is None and all(map(staggers, self._followers))

    @property
    def _followers(self) -> tuple[Follower[Any], ...]:
        return (*self.filters, self.allocation)

    @torch.inference_mode()
    def enter(
        self, model: Autoregressive[Any], source: Any, keys: Sequence[int], prefix: Padded | None = None
    ) -> tuple[BeamRows, Finished]:
        front, begun = begin(model, source, prefix, self._followers, self.max_length)
        following, front = advance(model, self.filters, front, [begun.tokens_BT.shape[1]], self.max_length)
        following, front = repeated((following, front), self.size)  # until here a source's hypotheses are the same
        named = zip(keys, source_lengths(source), strict=True)
        sources = [_Source(key, length, begun.tokens_BT.shape[1]) for key, length in named]
        return self._chosen(
            BeamRows.start(begun, self.size, self.allocation.first(self.size), sources, front), following, begun
        )

    @torch.inference_mode()
    def step(self, model: Autoregressive[Any], group: BeamRows) -> tuple[BeamRows, Finished]:
        places = [source.written for source in group.sources]
        following, front = advance(model, self.filters, group.front, places, self.max_length)
        return self._chosen(replace(group, front=front), following)

    @torch.inference_mode()
    def leave(self, group: BeamRows) -> BeamRows:
        stay = remaining([source.searching for source in group.sources])
        if any(source.written >= self.max_length for source in group.sources):  # no model reads further
            stay = [row for row in stay if group.sources[row].searching]
        return group.select(stay)

    @torch.inference_mode()
    def join(self, groups: Sequence[BeamRows]) -> BeamRows:
        groups = [
            group.select([row for row, source in enumerate(group.sources) if source.searching]) for group in groups
        ]
        sources = [source for group in groups for source in group.sources]
        longest = max(source.written for source in sources)
        total_BK = torch.cat([group.total_BK for group in groups])
        tokens_BKT, log_probs_BKT = (
            torch.cat([_of_length(each_BKT, longest) for each_BKT in several])
            for several in zip(*((group.tokens_BKT, group.log_probs_BKT) for group in groups), strict=True)
        )
        front = join_fronts([group.front for group in groups], longest)
        return BeamRows(total_BK, tokens_BKT, log_probs_BKT, sources, front)

    def _chosen(self, beam: BeamRows, following: Next, begun: Begun | None = None) -> tuple[BeamRows, Finished]:
        """Chooses the continuations of each source after the model has read. ``begun`` is given in the first step."""
        scores_BKV = following.scores_NV.view(*beam.total_BK.shape, -1)
        candidates = self.allocation(scores_BKV, beam.total_BK, beam.front.memories[-1])
        log_prob_BC = beam.log_probs(following, candidates)
        if self.observer is not None:
            self.observer(beam.expansion(candidates, log_prob_BC, None if begun is None else begun.tokens_BT))
        best_B, ended = _read(beam, candidates)
        beam.add(candidates, log_prob_BC, ended, self.ranking)
        finished: Finished = []
        for source, best in zip(beam.sources, best_B, strict=True):
            source.written += 1
            if source.searching and self._is_finished(source, best):
                source.searching = False
                finished.append((source.key, source.best(self.nbest)))
        if not beam.active:
            return beam, finished
        return beam.extend(candidates, log_prob_BC, self._followers), finished

    def _is_finished(self, source: _Source, best_active: float) -> bool:
        """True if the search gives up the active hypotheses of a source: none may still enter its n-best list.

        The best active one has the total ``best_active``. It is not enough that ``size`` hypotheses have finished. If a
        model is certain, all continuations except one are improbable. Some of these end, and fill the beam before the
        certain one ends.
        """
        if best_active == NEVER or source.written == self.max_length:  # no hypothesis is active
            return True
        if len(source.found) < self.nbest:
            return False
        worst = sorted((h.score for h in source.found.values()), reverse=True)[self.nbest - 1]
        # Totals only fall. The bound is the score of a hypothesis that ends now with this total, or as late as it can.
        now = source.written
        ends = (now,) if len(source.found) >= self.size else (now + 1, self.max_length)
        return max(self.ranking(best_active, end, source.length) for end in ends) <= worst

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Beam:
        return resized(self, size, nbest)

    def constrained(self, constraints: BatchConstraints) -> Beam:
        filters = constraints.filters(self.filters, self.max_length)
        return replace(self, filters=filters, allocation=constraints.allocation(self.allocation, self.max_length))


def _read(beam: BeamRows, candidates: Continuations) -> tuple[list[float], list[tuple[int, int, float]]]:
    """Reads the results of a step from the device, in one copy.

    Returns the best active total of each row, a list of length B, and the ended candidates as (row b, candidate c,
    total). A finished source that is still in the batch has no ended candidates.
    """
    ended_BC = torch.where(candidates.ended_BC, candidates.total_BC, NEVER)
    rows = torch.cat([candidates.live_total_BK.amax(1, keepdim=True), ended_BC], 1).tolist()
    ended = [
        (b, c, total)
        for b, (source, (_, *totals)) in enumerate(zip(beam.sources, rows, strict=True))
        if source.searching and max(totals) > NEVER
        for c, total in enumerate(totals)
        if total > NEVER
    ]
    return [best for best, *_ in rows], ended


def _first_rows(values_BK: Tensor) -> Tensor:
    """The number [B, 1] of the first of the B * K rows that belongs to each source."""
    B, K = values_BK.shape
    return torch.arange(0, B * K, K, device=values_BK.device)[:, None]


def _of_length(values_BKT: Tensor, length: int) -> Tensor:
    """The last ``length`` of each row; zeros stand before shorter rows."""
    missing = length - values_BKT.shape[2]
    return nn.functional.pad(values_BKT, (missing, 0)) if missing > 0 else values_BKT[:, :, -missing:]


@dataclass
class _Source:
    """A source under search. It changes from step to step.

    ``length`` is the source's length as rankings count it, ``written`` the number of tokens of its hypotheses, and
    ``found`` its finished hypotheses by their tokens. If it is not ``searching``, it has finished or was given up.
    """

    key: int
    length: int
    written: int
    found: dict[tuple[int, ...], Hypothesis] = field(default_factory=dict)
    searching: bool = True

    def best(self, count: int) -> list[Hypothesis]:
        return sorted(self.found.values(), key=lambda h: -h.score)[:count]


@dataclass(frozen=True)
class BeamRows:
    """A ``Group`` of beam search: the active hypotheses of each of B sources.

    ``total_BK`` are their totals (sums of scores after the filters), minus infinity at empty places. ``tokens_BKT`` and
    ``log_probs_BKT`` [B, K, T] end with the tokens and log-probabilities that the hypotheses have so far: the last
    ``written`` of each source count. ``front`` has B * K rows.
    """

    total_BK: Tensor
    tokens_BKT: Tensor
    log_probs_BKT: Tensor
    sources: list[_Source]
    front: Front[Any]

    @staticmethod
    def start(begun: Begun, size: int, first: list[int], sources: list[_Source], front: Front[Any]) -> BeamRows:
        B, K = len(begun.tokens_BT), size
        total_BK = torch.full((B, K), NEVER, dtype=torch.float64, device=begun.tokens_BT.device)
        total_BK[:, first] = begun.log_probs_BT.sum(-1, keepdim=True)
        tokens_BKT, log_probs_BKT = (
            each_BT[:, None].expand(-1, K, -1) for each_BT in (begun.tokens_BT, begun.log_probs_BT)
        )
        return BeamRows(total_BK, tokens_BKT, log_probs_BKT, sources, front)

    @property
    def active(self) -> list[int]:
        return [source.key for source in self.sources if source.searching]

    def without(self, keys: Collection[int]) -> BeamRows:
        for source in self.sources:
            source.searching = source.searching and source.key not in keys
        return self

    def log_probs(self, following: Next, candidates: Continuations) -> Tensor:
        """[B, C]: for each candidate, the model's log-probability of its token after its own hypothesis, in float64."""
        log_probs_NV = following.log_probs_NV
        place_BC = candidates.origin_BC * log_probs_NV.shape[1] + candidates.token_BC
        return log_probs_NV.view(len(place_BC), -1).gather(1, place_BC).double()

    def expansion(self, candidates: Continuations, log_prob_BC: Tensor, begun_BT: Tensor | None) -> Expansion:
        """What an observer sees of a step: its candidates, without those of finished sources."""
        rows = [b for b, source in enumerate(self.sources) if source.searching]
        keep_B = torch.tensor(rows, device=self.total_BK.device)
        candidates, log_prob_BC = tree.select((candidates, log_prob_BC), keep_B)
        sources = [self.sources[b] for b in rows]
        keys = [source.key for source in sources]
        return Expansion(sources[0].written + 1, keys, candidates, log_prob_BC, begun_BT)

    def add(
        self, candidates: Continuations, log_prob_BC: Tensor, ended: list[tuple[int, int, float]], ranking: Ranking
    ) -> None:
        """Adds the candidates that end at this step to their sources, given as (row b, candidate c, total). If two of
        one source have the same tokens, from two groups of a beam, the better one stays.
        """
        if not ended:
            return
        b_M, c_M = torch.tensor([each[:2] for each in ended], device=log_prob_BC.device).unbind(1)
        origin_M = candidates.origin_BC[b_M, c_M]
        columns = (
            self.tokens_BKT[b_M, origin_M],
            self.log_probs_BKT[b_M, origin_M],
            candidates.token_BC[b_M, c_M],
            log_prob_BC[b_M, c_M],
        )
        every = zip(ended, *(column.tolist() for column in columns), strict=True)
        for (b, _, total), before, log_probs_before, token, log_prob in every:
            source = self.sources[b]
            first = len(before) - source.written
            tokens, each = (*before[first:], token), (*log_probs_before[first:], log_prob)
            score = ranking(total, len(tokens), source.length)
            other = source.found.get(tokens)
            if other is None or other.score < score:
                source.found[tokens] = Hypothesis(tokens, sum(each), score, each)

    def common_prefix(self) -> tuple[int, ...]:
        """The tokens that the best finished hypothesis, if there is one, and all active hypotheses of the first source
        have in common, from the start. For streaming, which has one source.
        """
        rows = [tuple(tokens) for tokens in self.tokens_BKT[0][self.total_BK[0].isfinite()].tolist()]
        rows += [hypothesis.tokens for hypothesis in self.sources[0].best(1)]
        places = zip(*rows, strict=False)
        return tuple(tokens[0] for tokens in takewhile(lambda tokens: len(set(tokens)) == 1, places))

    def extend(self, candidates: Continuations, log_prob_BC: Tensor, followers: Sequence[Follower[Any]]) -> BeamRows:
        """The hypotheses after this step, one token longer."""
        B, K = self.total_BK.shape
        origin_BK, token_BK, log_prob_BK = (
            whole_BC.gather(1, candidates.live_BK)
            for whole_BC in (candidates.origin_BC, candidates.token_BC, log_prob_BC)
        )
        rows_N = origin_BK[0] if B == 1 else (_first_rows(origin_BK) + origin_BK).reshape(-1)
        front = tree.reorder(self.front, rows_N).write(token_BK.reshape(-1, 1), followers)
        tokens_BKT, log_probs_BKT = (
            torch.cat([kept_BKT.flatten(0, 1).index_select(0, rows_N).view(B, K, -1), new_BK[:, :, None]], 2)
            for kept_BKT, new_BK in ((self.tokens_BKT, token_BK), (self.log_probs_BKT, log_prob_BK))
        )
        return BeamRows(candidates.live_total_BK, tokens_BKT, log_probs_BKT, self.sources, front)

    def select(self, rows: list[int]) -> BeamRows:
        """The group with the given sources only."""
        if rows == list(range(len(self.sources))):
            return self
        rows_B = torch.tensor(rows, device=self.total_BK.device)
        K = self.total_BK.shape[1]
        rows_N = (rows_B[:, None] * K + torch.arange(K, device=rows_B.device)).reshape(-1)
        values = (self.total_BK[rows_B], self.tokens_BKT[rows_B], self.log_probs_BKT[rows_B])
        return BeamRows(*values, [self.sources[row] for row in rows], tree.select(self.front, rows_N, rows_B))
