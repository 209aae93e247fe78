"""Beam search, batched. This file tells all of it, over one immutable state.

``Beam.enter`` makes the state of new sources, and ``Beam.step`` makes the next state, until all sources have finished.
Between two steps, sources may leave the batch and others may join it. Each step goes through the same phases:

    read     the model reads the last token of each hypothesis, and filters lower the scores (next_tokens.py)
    choose   the allocation chooses among all continuations of a source (the folder allocation)
    extend   the chosen continuations form the next beam, one token longer
    finish   the continuations that end become finished hypotheses of their source
    stop     a source has finished if none of its active hypotheses can still win
    write    the rows of the model's state follow their hypotheses, and the followers read the new tokens (front.py)

The axes of tensors, in the order of the rows of the model:

    B  sources                          K  active hypotheses of each source: the beam
    N  rows of the model, N = B * K     T  tokens of the hypotheses so far
    V  vocabulary                       C  candidate continuations of each source
    M  candidates of the whole batch that end in this step
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import ClassVar, Generic, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from transduce.compute import choice
from transduce.compute.choice import Extension
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import Hypothesis, Padded
from transduce.search.allocation.best import BestContinuations
from transduce.search.base import (
    AnyAllocation,
    Continuations,
    Expansion,
    Filters,
    Finished,
    Followers,
    Observer,
    Ranking,
    resized,
    staggers,
    to_the_end,
)
from transduce.search.constraints.base import BatchConstraints
from transduce.search.forcing import force
from transduce.search.front import Front, begin, join_fronts, remaining, repeated
from transduce.search.limits import check_length
from transduce.search.next_tokens import Next, advance
from transduce.search.ranking import Average, source_lengths

NEVER = float("-inf")  # the total of an empty place of a beam
SIZES = 4  # of the batch in an octave, as sources leave it: 8, 10, 12, 14, 16


class BeamSource(NamedTuple):
    """A source of a search. Its tokens begin in column ``begin`` of T; earlier columns have no meaning, because older
    sources share the batch. ``finished`` has its finished hypotheses by their tokens. If it is not ``searching``, it
    has finished or was dropped. ``length`` is its own length, for rankings.
    """

    key: int
    length: int
    begin: int
    finished: Mapping[tuple[int, ...], Hypothesis]
    searching: bool = True

    def best(self, count: int) -> list[Hypothesis]:
        return sorted(self.finished.values(), key=lambda hypothesis: -hypothesis.score)[:count]


@dataclass(frozen=True)
class BeamState(Generic[S]):
    """All that a beam search knows between two steps: a ``Group``.

    Totals are sums of scores after the filters, minus infinity at empty places. The ``front`` has the model's state
    and the followers' states, one row for each hypothesis.
    """

    sources: tuple[BeamSource, ...]  # B
    total_BK: Tensor  # float64
    tokens_BKT: Tensor
    log_probs_BKT: Tensor  # float64, the model's own
    front: Front[S]  # N rows

    @property
    def written(self) -> list[int]:
        """The number of tokens of each source's active hypotheses."""
        T = self.tokens_BKT.shape[2]
        return [T - source.begin for source in self.sources]

    @property
    def searching(self) -> list[bool]:
        return [source.searching for source in self.sources]

    @property
    def active(self) -> list[int]:
        return [source.key for source in self.sources if source.searching]

    def without(self, keys: Collection[int]) -> BeamState[S]:
        dropped = (each._replace(searching=False) if each.key in keys else each for each in self.sources)
        return replace(self, sources=tuple(dropped))

    def select(self, rows: list[int]) -> BeamState[S]:
        """The state of the given sources only."""
        if rows == list(range(len(self.sources))):
            return self
        rows_B = torch.tensor(rows, device=self.total_BK.device)
        K = self.total_BK.shape[1]
        rows_N = (rows_B[:, None] * K + torch.arange(K, device=rows_B.device)).reshape(-1)
        hypotheses = tree.select((self.total_BK, self.tokens_BKT, self.log_probs_BKT), rows_B)
        return BeamState(tuple(self.sources[row] for row in rows), *hypotheses, tree.select(self.front, rows_N, rows_B))

    def of_length(self, length: int) -> BeamState[S]:
        """The state with T = ``length``. Columns are added or removed before the tokens."""
        more = length - self.tokens_BKT.shape[2]
        sources = tuple(source._replace(begin=source.begin + more) for source in self.sources)
        tokens_BKT, log_probs_BKT = (pad(each, (more, 0)) for each in (self.tokens_BKT, self.log_probs_BKT))
        return replace(self, sources=sources, tokens_BKT=tokens_BKT, log_probs_BKT=log_probs_BKT)

    def common_prefix(self) -> tuple[int, ...]:
        """The first tokens that are equal in all hypotheses of the only source that may still win."""
        possible_K = self.total_BK[0].isfinite()
        rows = [tuple(tokens) for tokens in self.tokens_BKT[0][possible_K].tolist()]
        rows += [hypothesis.tokens for hypothesis in self.sources[0].best(1)]
        places = zip(*rows, strict=False)
        return tuple(tokens[0] for tokens in takewhile(lambda tokens: len(set(tokens)) == 1, places))


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
    filters: Filters = ()
    allocation: AnyAllocation = field(default_factory=BestContinuations)
    observer: Observer | None = None
    unknown: bool = False

    def __post_init__(self) -> None:
        check_length(self.max_length)
        if not 1 <= self.nbest <= self.size:
            raise UserError(f"nbest = {self.nbest}, size = {self.size}: a beam of n has room for 1 to n hypotheses")
        self.allocation.check(self.size)

    def __call__(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> list[list[Hypothesis]]:
        return to_the_end(self, model, source, prefix)

    def stream(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """Yields for one source, after each step, the first tokens that are equal in all hypotheses that may still win.
        Yields the best output last.
        """
        state, finished = self.enter(model, source, [0], prefix)
        while not finished:
            yield state.common_prefix()
            state, finished = self.step(model, state)
        yield finished[0][1][0].tokens

    # ------------------------------------------------------------ the steps

    @torch.inference_mode()
    def enter(
        self, model: Autoregressive[S], source: Padded, keys: Sequence[int], prefix: Padded | None = None
    ) -> tuple[BeamState[S], Finished]:
        # The model reads the source and the tokens that all prefixes have. A source is still one row: N = B.
        front, begun = begin(model, source, prefix, self._followers, self.max_length)
        B, T = begun.tokens_BT.shape
        following, front = advance(model, self.filters, front, [T], self.max_length, self.unknown)
        # Now a source becomes K equal rows. Only one of its places counts (in diverse beams, one of each group).
        following, front = repeated((following, front), self.size)
        total_BK = torch.full((B, self.size), NEVER, dtype=torch.float64, device=begun.tokens_BT.device)
        total_BK[:, self.allocation.first(self.size)] = begun.log_probs_BT.sum(-1, keepdim=True)
        tokens_BKT = begun.tokens_BT[:, None].expand(B, self.size, T)
        log_probs_BKT = begun.log_probs_BT[:, None].expand(B, self.size, T)
        sources = tuple(BeamSource(*each, 0, {}) for each in zip(keys, source_lengths(source), strict=True))
        return self._next(BeamState(sources, total_BK, tokens_BKT, log_probs_BKT, front), following, begun.tokens_BT)

    @torch.inference_mode()
    def step(self, model: Autoregressive[S], group: BeamState[S]) -> tuple[BeamState[S], Finished]:
        # Read: log-probabilities and scores [N, V] of the token after each hypothesis.
        following, front = advance(model, self.filters, group.front, group.written, self.max_length, self.unknown)
        return self._next(replace(group, front=front), following)

    def _next(
        self, state: BeamState[S], following: Next, begun_BT: Tensor | None = None
    ) -> tuple[BeamState[S], Finished]:
        """The state after the model has read, and the sources that finish. ``begun_BT`` is given in the first step."""
        # Choose: C of the K * V continuations of each source.
        B, K = state.total_BK.shape
        scores_BKV = following.scores_NV.view(B, K, -1)
        candidates = self.allocation(scores_BKV, state.total_BK, state.front.memories[-1])

        # Extend: the next beam, one token longer; and a summary, the numbers that each step reads from the device.
        after = extend(state, candidates, following.log_probs_NV)
        summary = after.summary_BC.tolist()
        if self.observer is not None:
            self.observer(expansion(state, candidates, after.log_prob_BC, begun_BT))

        # Finish: each candidate that ends becomes a hypothesis of its source.
        sources = finish(state, candidates, after.log_prob_BC, summary, self.ranking)

        # Stop: a source has finished if none of its active hypotheses can still win.
        finished: Finished = []
        for b, (source, written, (best_active, *_)) in enumerate(zip(sources, state.written, summary, strict=True)):
            if source.searching and self._is_finished(source, written + 1, best_active):
                sources[b] = source._replace(searching=False)
                finished.append((source.key, source.best(self.nbest)))

        # Write: row n of the next beam continues row rows_N[n] of this one. Not after the last step of all.
        rows_N, front = after.rows_N, state.front
        hypotheses = after.total_BK, after.tokens_BKT, after.log_probs_BKT
        stay, stay_B = remaining([source.searching for source in sources], SIZES), None
        if 0 < len(stay) < B:  # finished sources leave here, where each row is copied anyway
            sources, stay_B = [sources[b] for b in stay], torch.tensor(stay, device=rows_N.device)
            hypotheses, rows_N = tree.select(hypotheses, stay_B), rows_N.view(B, K)[stay_B].view(-1)
        if stay:
            front = front.reorder(rows_N, stay_B).write(hypotheses[1][:, :, -1].reshape(-1, 1), self._followers)
        return BeamState(tuple(sources), *hypotheses, front), finished

    def _is_finished(self, source: BeamSource, written: int, best_active: float) -> bool:
        """True if the search drops the active hypotheses of a source, because none can still enter its n-best list.

        They have ``written`` tokens, and the best of them has the total ``best_active``. It is not enough that ``size``
        hypotheses have finished. If a model is certain, all continuations except one are improbable. Some improbable
        continuations end, and would fill the n-best list before the certain one ends.
        """
        if best_active == NEVER or written == self.max_length:  # no hypothesis is active
            return True
        if len(source.finished) < self.nbest:
            return False
        worst = sorted((hypothesis.score for hypothesis in source.finished.values()), reverse=True)[self.nbest - 1]
        # Totals only fall. So the bound is the score with this total for an end now or as late as possible.
        ends = (written,) if len(source.finished) >= self.size else (written + 1, self.max_length)
        return max(self.ranking(best_active, end, source.length) for end in ends) <= worst

    # ------------------------------------------------------------ between two steps

    @property
    def _followers(self) -> Followers:
        return (*self.filters, self.allocation)

    @property
    def staggered(self) -> bool:
        return self.observer is None and all(map(staggers, self._followers))

    @torch.inference_mode()
    def leave(self, group: BeamState[S]) -> BeamState[S]:
        return group.select(remaining(group.searching, full=max(group.written) >= self.max_length))

    @torch.inference_mode()
    def join(self, groups: Sequence[BeamState[S]]) -> BeamState[S]:
        states = [group.select(remaining(group.searching, full=True)) for group in groups]
        T = max(written for state in states for written in state.written)
        states = [state.of_length(T) for state in states]
        hypotheses = tree.join([(state.total_BK, state.tokens_BKT, state.log_probs_BKT) for state in states])
        sources = tuple(source for state in states for source in state.sources)
        return BeamState(sources, *hypotheses, join_fronts([state.front for state in states], T))

    # ------------------------------------------------------------ other uses and other options

    def force(self, model: Autoregressive[S], source: Padded, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Beam:
        return resized(self, size, nbest)

    def constrained(self, constraints: BatchConstraints) -> Beam:
        filters = constraints.filters(self.filters, self.max_length)
        return replace(self, filters=filters, allocation=constraints.allocation(self.allocation, self.max_length))


# ---------------------------------------------------------------- extend


def extend(state: BeamState[S], candidates: Continuations, log_probs_NV: Tensor) -> Extension:
    """Extends the hypotheses by the candidates that stay. ``log_probs_NV`` are the model's."""
    compiled = choice.extend(state.tokens_BKT, state.log_probs_BKT, candidates.tensors, log_probs_NV)
    if compiled is not None:
        return compiled
    B, K = state.total_BK.shape
    place_BC = candidates.origin_BC * log_probs_NV.shape[1] + candidates.token_BC  # in K * V
    log_prob_BC = log_probs_NV.view(B, -1).gather(1, place_BC).double()
    total_BK = candidates.live_total_BK
    ended_BC = torch.where(candidates.ended_BC, candidates.total_BC, NEVER)
    summary_BC = torch.cat([total_BK.amax(1, keepdim=True), ended_BC], 1)
    # the candidates that stay: place k of the next beam continues hypothesis origin_BK[b, k] of this one
    columns_BC = candidates.origin_BC, candidates.token_BC, log_prob_BC
    origin_BK, token_BK, log_prob_BK = (each_BC.gather(1, candidates.live_BK) for each_BC in columns_BC)
    rows_N = (torch.arange(0, B * K, K, device=origin_BK.device)[:, None] + origin_BK).reshape(-1)
    tokens_BKT, log_probs_BKT = (
        torch.cat([before_BKT.flatten(0, 1).index_select(0, rows_N).view(B, K, -1), new_BK[:, :, None]], 2)
        for before_BKT, new_BK in ((state.tokens_BKT, token_BK), (state.log_probs_BKT, log_prob_BK))
    )
    return Extension(total_BK, tokens_BKT, log_probs_BKT, rows_N, log_prob_BC, summary_BC)


# ---------------------------------------------------------------- finish


def finish(
    state: BeamState[S], candidates: Continuations, log_prob_BC: Tensor, summary: list[list[float]], ranking: Ranking
) -> list[BeamSource]:
    """The sources with the hypotheses that end in this step. If two groups of a beam end with the same tokens, their
    scores are equal, and the first stays. A finished source that is still in the batch gets none.
    """
    sources = list(state.sources)
    ended = [
        (b, c)
        for b, (source, (_, *totals)) in enumerate(zip(sources, summary, strict=True))
        if source.searching and max(totals) > NEVER
        for c, total in enumerate(totals)
        if total > NEVER
    ]
    if not ended:
        return sources
    b_M, c_M = torch.tensor(ended, device=log_prob_BC.device).unbind(1)
    origin_M, token_M, log_prob_M = candidates.origin_BC[b_M, c_M], candidates.token_BC[b_M, c_M], log_prob_BC[b_M, c_M]
    tokens_MT, log_probs_MT = state.tokens_BKT[b_M, origin_M], state.log_probs_BKT[b_M, origin_M]
    columns = (each.tolist() for each in (tokens_MT, log_probs_MT, token_M, log_prob_M))
    found = {b: dict(sources[b].finished) for b in {b for b, _ in ended}}
    for (b, c), tokens_before, log_probs_before, token, log_prob in zip(ended, *columns, strict=True):
        begin, length = sources[b].begin, sources[b].length
        tokens, log_probs = (*tokens_before[begin:], token), (*log_probs_before[begin:], log_prob)
        score = ranking(summary[b][1 + c], len(tokens), length)
        found[b].setdefault(tokens, Hypothesis(tokens, sum(log_probs), score, log_probs))
    return [source._replace(finished=found[b]) if b in found else source for b, source in enumerate(sources)]


def expansion(
    state: BeamState[S], candidates: Continuations, log_prob_BC: Tensor, begun_BT: Tensor | None
) -> Expansion:
    """The step for an observer, without finished sources."""
    rows = [b for b, source in enumerate(state.sources) if source.searching]
    rows_B = torch.tensor(rows, device=log_prob_BC.device)
    candidates, log_prob_BC = tree.select((candidates, log_prob_BC), rows_B)
    keys = [state.sources[b].key for b in rows]
    return Expansion(state.written[rows[0]] + 1, keys, candidates, log_prob_BC, begun_BT)
