"""Beam search, batched: B sources, K hypotheses of each, N = B * K rows, T tokens, C candidate continuations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, ClassVar

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive
from transduce.core.types import Hypothesis, Padded
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
from transduce.search.extension import NEVER, Extension, Histories, extend
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


@dataclass(frozen=True)
class Beam:
    """Beam search: keeps the ``size`` most probable prefixes, extends them step by step, and returns the ``nbest``
    finished hypotheses with the highest ``ranking``.

    ``filters`` forbid or penalise tokens. ``allocation`` chooses the continuations that stay in the beam. Its default
    ends an output if its EOS is among the ``size`` best continuations of its source. A source is finished as soon as no
    active hypothesis can overtake its ``nbest`` best finished hypotheses. Once ``size`` hypotheses have finished,
    active hypotheses are compared as if they ended now. Token number ``max_length`` is always EOS. A beam of size 1 is
    greedy search. An output has no ``<unk>``, unless ``unknown`` is True. ``observer`` receives each step.
    """

    ends_freely: ClassVar[bool] = True

    size: int = 5
    nbest: int = 1
    max_length: int = 200
    ranking: Ranking = field(default_factory=Average)
    filters: tuple[Filter[Any], ...] = ()
    allocation: Allocation[Any] = field(default_factory=BestContinuations)
    observer: Observer | None = None
    unknown: bool = False

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
        """Yields for one source, after each step, the first tokens that are equal in all hypotheses that may still win.
        Yields the best output last.
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
        following, front = self._advance(model, front, [begun.tokens_BT.shape[1]])
        following, front = repeated((following, front), self.size)  # so far, a source's hypotheses are the same
        named = zip(keys, source_lengths(source), strict=True)
        sources = [_Source(key, length, begun.tokens_BT.shape[1]) for key, length in named]
        return self._chosen(
            BeamRows.start(begun, self.size, self.allocation.first(self.size), sources, front), following, begun
        )

    @torch.inference_mode()
    def step(self, model: Autoregressive[Any], group: BeamRows) -> tuple[BeamRows, Finished]:
        places = [source.written for source in group.sources]
        following, front = self._advance(model, group.front, places)
        return self._chosen(replace(group, front=front), following)

    @torch.inference_mode()
    def leave(self, group: BeamRows) -> BeamRows:
        stay = remaining([source.searching for source in group.sources])
        if any(source.written >= self.max_length for source in group.sources):  # the model must not read further
            stay = [row for row in stay if group.sources[row].searching]
        return group.select(stay)

    @torch.inference_mode()
    def join(self, groups: Sequence[BeamRows]) -> BeamRows:
        groups = [
            group.select([row for row, source in enumerate(group.sources) if source.searching]) for group in groups
        ]
        sources = [source for group in groups for source in group.sources]
        longest = max(source.written for source in sources)
        histories = tree.join([group.histories.of_length(longest) for group in groups])
        return BeamRows(histories, sources, join_fronts([group.front for group in groups], longest))

    def _advance(self, model: Autoregressive[Any], front: Front[Any], places: Sequence[int]) -> tuple[Next, Front[Any]]:
        return advance(model, self.filters, front, places, self.max_length, self.unknown)

    def _chosen(self, beam: BeamRows, following: Next, begun: Begun | None = None) -> tuple[BeamRows, Finished]:
        """Chooses the continuations of each source after the model has read. ``begun`` is given in the first step."""
        total_BK = beam.histories.total_BK
        scores_BKV = following.scores_NV.view(*total_BK.shape, -1)
        candidates = self.allocation(scores_BKV, total_BK, beam.front.memories[-1])
        extension = extend(beam.histories, candidates, following.log_probs_NV)
        log_prob_BC = extension.log_prob_BC
        if self.observer is not None:
            self.observer(beam.expansion(candidates, log_prob_BC, None if begun is None else begun.tokens_BT))
        beam.add(candidates, log_prob_BC, _ended(beam.sources, extension.news), self.ranking)
        finished: Finished = []
        for source, (best, *_) in zip(beam.sources, extension.news, strict=True):
            source.written += 1
            if source.searching and self._is_finished(source, best):
                source.searching = False
                finished.append((source.key, source.best(self.nbest)))
        return (beam.extended(extension, self._followers) if beam.active else beam), finished

    def _is_finished(self, source: _Source, best_active: float) -> bool:
        """True if the search drops the active hypotheses of a source, because none can still enter its n-best list.

        The best active hypothesis has the total ``best_active``. It is not enough that ``size`` hypotheses have
        finished. If a model is certain, all continuations except one are improbable. Some improbable continuations end,
        and would fill the n-best list before the certain one ends.
        """
        if best_active == NEVER or source.written == self.max_length:  # no hypothesis is active
            return True
        if len(source.found) < self.nbest:
            return False
        worst = sorted((h.score for h in source.found.values()), reverse=True)[self.nbest - 1]
        # Totals only fall. So the bound is the score with this total for an end now or as late as possible.
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


def _ended(sources: Sequence[_Source], news: list[list[float]]) -> list[tuple[int, int, float]]:
    """The ended candidates as (row b, candidate c, total), from ``Extension.news``. A finished source that is still in
    the batch has no ended candidates.
    """
    return [
        (b, c, total)
        for b, (source, (_, *totals)) in enumerate(zip(sources, news, strict=True))
        if source.searching and max(totals) > NEVER
        for c, total in enumerate(totals)
        if total > NEVER
    ]


@dataclass
class _Source:
    """A source in the search. It changes from step to step.

    ``length`` is the source's length for rankings. ``written`` is the number of tokens of its active hypotheses, and
    ``found`` has its finished hypotheses by their tokens. If it is not ``searching``, it has finished or was dropped.
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

    Only the last ``written`` tokens of each source count in ``histories``. Totals are sums of scores after the filters,
    minus infinity at empty places. ``front`` has B * K rows.
    """

    histories: Histories
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
        return BeamRows(Histories(total_BK, tokens_BKT, log_probs_BKT), sources, front)

    @property
    def active(self) -> list[int]:
        return [source.key for source in self.sources if source.searching]

    def without(self, keys: Collection[int]) -> BeamRows:
        for source in self.sources:
            source.searching = source.searching and source.key not in keys
        return self

    def expansion(self, candidates: Continuations, log_prob_BC: Tensor, begun_BT: Tensor | None) -> Expansion:
        """The step for an observer: its candidates, without the candidates of finished sources."""
        rows = [b for b, source in enumerate(self.sources) if source.searching]
        keep_B = torch.tensor(rows, device=log_prob_BC.device)
        candidates, log_prob_BC = tree.select((candidates, log_prob_BC), keep_B)
        sources = [self.sources[b] for b in rows]
        keys = [source.key for source in sources]
        return Expansion(sources[0].written + 1, keys, candidates, log_prob_BC, begun_BT)

    def add(
        self, candidates: Continuations, log_prob_BC: Tensor, ended: list[tuple[int, int, float]], ranking: Ranking
    ) -> None:
        """Adds the candidates that end at this step to their sources. They are given as (row b, candidate c, total). If
        two groups of a beam end with the same tokens, the better one stays.
        """
        if not ended:
            return
        b_M, c_M = torch.tensor([each[:2] for each in ended], device=log_prob_BC.device).unbind(1)
        origin_M = candidates.origin_BC[b_M, c_M]
        columns = (
            self.histories.tokens_BKT[b_M, origin_M],
            self.histories.log_probs_BKT[b_M, origin_M],
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
        """The longest common prefix of the best finished hypothesis, if there is one, and all active hypotheses of the
        first source. For streaming, which has one source.
        """
        possible_K = self.histories.total_BK[0].isfinite()
        rows = [tuple(tokens) for tokens in self.histories.tokens_BKT[0][possible_K].tolist()]
        rows += [hypothesis.tokens for hypothesis in self.sources[0].best(1)]
        places = zip(*rows, strict=False)
        return tuple(tokens[0] for tokens in takewhile(lambda tokens: len(set(tokens)) == 1, places))

    def extended(self, extension: Extension, followers: Sequence[Follower[Any]]) -> BeamRows:
        """The hypotheses after this step, one token longer."""
        histories = extension.histories
        token_N1 = histories.tokens_BKT[:, :, -1].reshape(-1, 1)
        return BeamRows(histories, self.sources, self.front.reorder(extension.rows_N).write(token_N1, followers))

    def select(self, rows: list[int]) -> BeamRows:
        """The group with the given sources only."""
        if rows == list(range(len(self.sources))):
            return self
        rows_B = torch.tensor(rows, device=self.histories.total_BK.device)
        K = self.histories.total_BK.shape[1]
        rows_N = (rows_B[:, None] * K + torch.arange(K, device=rows_B.device)).reshape(-1)
        sources = [self.sources[row] for row in rows]
        return BeamRows(tree.select(self.histories, rows_B), sources, tree.select(self.front, rows_N, rows_B))
