"""Exact search: the most probable output of all, proven so. B sources, N rows, V vocabulary."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.protocols import Autoregressive
from transduce.search.beam import Beam
from transduce.search.forcing import force
from transduce.search.ranking import LogProbability
from transduce.search.step import begin, check_length, forbid_specials, step
from transduce.types import EOS, Hypothesis, Padded

log = logging.getLogger("transduce")

ROWS = 64  # prefixes expanded at a time, of several sources
ROUNDING = 1e-4  # continuations this little below the bound are looked at again, in float64


@dataclass(frozen=True)
class Exploration:
    """What exact search knows of a source in the end: its best hypotheses, by log-probability, how many prefixes were
    extended, and whether that were all that had to be (``finished``): otherwise there may be better ones."""

    hypotheses: list[Hypothesis]
    expansions: int
    finished: bool

    @property
    def empty_wins(self) -> bool:
        """Whether nothing at all is the most probable output."""
        return self.hypotheses[0].tokens == (EOS,)


@dataclass(frozen=True)
class Exact:
    """The ``nbest`` most probable outputs of at most ``max_length`` tokens: depth first, without what is already less
    probable than the ``nbest`` best so far, as no continuation makes it more probable (Stahlberg and Byrne 2019).

    A beam of ``beam`` hypotheses gives the first bound. A source that has taken ``expansions`` steps is left with the
    best so far, and a warning; ``explore`` tells which. ``together`` prefixes of a source are extended at a time, some
    of them in vain where the bound rises. Ranked by log-probability: with length normalisation no prefix could be left
    out.
    """

    nbest: int = 1
    max_length: int = 200
    expansions: int = 10_000
    beam: int = 5
    together: int = 8

    def __post_init__(self) -> None:
        check_length(self.max_length)
        for name in ("nbest", "expansions", "beam", "together"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: at least 1 was expected")

    def __call__(self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        explored = self.explore(model, source, prefix)
        if left := sum(not exploration.finished for exploration in explored):
            log.warning(
                "exact search left %d of %d sources after expansions = %d: of these the best output so far is given",
                left,
                len(explored),
                self.expansions,
            )
        return [exploration.hypotheses for exploration in explored]

    @torch.inference_mode()
    def explore(self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None) -> list[Exploration]:
        """What there is to say of each source."""
        seeds = Beam(max(self.beam, self.nbest), self.nbest, self.max_length, LogProbability())(model, source, prefix)
        forced = [()] * len(seeds) if prefix is None else _rows(prefix)
        descents = [_Descent(self, found, beginning) for found, beginning in zip(seeds, forced, strict=True)]
        front, begun = begin(model, source, prefix, (), self.max_length)
        rows = zip(descents, begun.tokens_BT.tolist(), begun.log_probs_BT.tolist(), strict=True)
        roots = [_Prefix(descent, tuple(tokens), tuple(log_probs)) for descent, tokens, log_probs in rows]
        _extend(model, roots, front.token_N, front.state)
        waiting, active = list(reversed(descents)), list[_Descent]()
        while True:
            active = [descent for descent in active if descent.open]
            while waiting and len(active) * self.together < ROWS:
                active.append(waiting.pop())
            following = [each for descent in active for each in descent.following()]
            if following:
                prefixes, states = zip(*following, strict=True)
                token_N = torch.tensor([prefix.tokens[-1] for prefix in prefixes], device=front.token_N.device)
                _extend(model, prefixes, token_N, tree.join(states))
            elif not waiting:
                return [descent.exploration() for descent in descents]

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int = 1) -> Exact:
        return replace(self, beam=self.beam if size is None else size, nbest=nbest)


@dataclass(frozen=True)
class _Prefix:
    """A beginning of an output of a source, its tokens and their log-probabilities."""

    descent: _Descent
    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]

    @property
    def total(self) -> float:
        return sum(self.log_probs)

    def longer(self, token: int, log_prob: float) -> _Prefix:
        return _Prefix(self.descent, (*self.tokens, token), (*self.log_probs, log_prob))


@dataclass
class _Branching:
    """A prefix that the model has read, with its continuations, of which the last is the next: the most probable."""

    prefix: _Prefix
    state: Any
    continuations: list[tuple[int, float]]

    @property
    def best(self) -> float:
        """The log-probability of the most probable prefix that is one longer and not looked at yet."""
        return self.prefix.total + self.continuations[-1][1] if self.continuations else float("-inf")


class _Descent:
    """The search in the tree of one source: what is found, and the way back to what is still to be looked at."""

    def __init__(self, search: Exact, found: Sequence[Hypothesis], forced: tuple[int, ...]) -> None:
        self.search = search
        self.forced = forced
        self.found = {h.tokens: replace(h, score=h.log_prob) for h in found}
        self.branchings: list[_Branching] = []
        self.expansions = 0

    @property
    def bound(self) -> float:
        """What a hypothesis must exceed."""
        nbest = self.search.nbest
        return sorted(h.log_prob for h in self.found.values())[-nbest] if len(self.found) >= nbest else float("-inf")

    @property
    def finished(self) -> bool:
        bound = self.bound
        return not any(branching.best > bound for branching in self.branchings)

    @property
    def open(self) -> bool:
        return not self.finished and self.expansions < self.search.expansions

    def following(self) -> list[tuple[_Prefix, Any]]:
        """The next prefixes to extend, the most probable of the deepest last, each with the state to read its last
        token from."""
        found: list[tuple[_Prefix, Any]] = []
        bound, room = self.bound, min(self.search.together, self.search.expansions - self.expansions)
        while self.branchings and len(found) < room:
            deepest = self.branchings[-1]
            if deepest.best > bound:
                found.append((deepest.prefix.longer(*deepest.continuations.pop()), deepest.state))
            else:
                self.branchings.pop()
        return found[::-1]

    def finish(self, prefix: _Prefix) -> None:
        """Note an output that ended."""
        if prefix.total > self.bound:
            self.found[prefix.tokens] = Hypothesis(prefix.tokens, prefix.total, prefix.total, prefix.log_probs)

    def exploration(self) -> Exploration:
        best = sorted(self.found.values(), key=lambda h: -h.log_prob)[: self.search.nbest]
        return Exploration(best, self.expansions, self.finished)


def _extend(model: Autoregressive[Any], prefixes: Sequence[_Prefix], token_N: Tensor, state: Any) -> None:
    """The model reads the last token of each prefix; each of their descents learns what comes after it."""
    log_probs_NV, state = step(model, token_N, state)
    ends_N = log_probs_NV[:, EOS].tolist()
    for prefix, end in zip(prefixes, ends_N, strict=True):
        prefix.descent.expansions += 1
        if len(prefix.tokens) >= len(prefix.descent.forced):
            prefix.descent.finish(prefix.longer(EOS, end))
    forbid_specials(log_probs_NV)[:, EOS] = float("-inf")
    for row, (prefix, continuations) in enumerate(zip(prefixes, _continuations(prefixes, log_probs_NV), strict=True)):
        if continuations:
            alone = tree.select(state, torch.tensor([row], device=token_N.device))
            prefix.descent.branchings.append(_Branching(prefix, alone, continuations))


def _continuations(prefixes: Sequence[_Prefix], log_probs_NV: Tensor) -> list[list[tuple[int, float]]]:
    """Tokens that do not end, with their log-probabilities, the most probable last: those above the bound."""
    least = []
    for row, prefix in enumerate(prefixes):
        descent, length = prefix.descent, len(prefix.tokens)
        last = length + 1 >= descent.search.max_length
        least.append(float("inf") if last else descent.bound - prefix.total)
        if length < len(descent.forced):
            token = descent.forced[length]
            log_prob = log_probs_NV[row, token].clone()
            log_probs_NV[row] = float("-inf")
            log_probs_NV[row, token] = log_prob
    least_N = torch.tensor(least, dtype=torch.float64, device=log_probs_NV.device) - ROUNDING
    row_M, token_M = (log_probs_NV > least_N.to(log_probs_NV.dtype)[:, None]).nonzero(as_tuple=True)
    log_prob_M = log_probs_NV[row_M, token_M].double()
    order_M = log_prob_M.argsort(stable=True)
    order_M = order_M[row_M[order_M].argsort(stable=True)]
    pairs = iter(zip(token_M[order_M].tolist(), log_prob_M[order_M].tolist(), strict=True))
    return [[next(pairs) for _ in range(count)] for count in row_M.bincount(minlength=len(prefixes)).tolist()]


def _rows(prefix: Padded) -> list[tuple[int, ...]]:
    return [tuple(row[:n]) for row, n in zip(prefix.values.tolist(), prefix.lengths.tolist(), strict=True)]
