"""Exact search: the most probable output of all, proven so. B sources, N rows, T tokens, V vocabulary."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.errors import UserError
from transduce.protocols import Autoregressive
from transduce.search.beam import Beam
from transduce.search.forcing import force
from transduce.search.ranking import LogProbability
from transduce.search.step import begin, capacity, check_length, forbid_specials, read
from transduce.types import EOS, Hypothesis, Padded

log = logging.getLogger("transduce")

ROWS = 64  # prefixes expanded at a time, of several sources; sources begun at a time
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

    Of a source at most ``states`` states of the model are kept, those of the deepest prefixes, and the one that it
    starts from, from which the continuations of the others, the short ones, are read again (which is no step); and of
    ``together`` x ``max_length`` prefixes at most the tokens, with 12 bytes for each continuation that may be better.
    64 / ``together`` sources are explored at a time, and at most 64 wait: memory does not grow with the sources, nor
    with ``expansions`` (benchmarks/results/exact-memory.md).
    """

    nbest: int = 1
    max_length: int = 200
    expansions: int = 10_000
    beam: int = 5
    together: int = 8
    states: int = 32

    def __post_init__(self) -> None:
        check_length(self.max_length)
        for name in ("nbest", "expansions", "beam", "together", "states"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} = {getattr(self, name)}: at least 1 was expected")

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
        descents = enumerate(self._descents(model, source, prefix))
        active: dict[int, _Descent] = {}
        explored: dict[int, Exploration] = {}
        while True:
            for number in [number for number, descent in active.items() if not descent.open]:
                explored[number] = active.pop(number).exploration()
            active.update(islice(descents, -(-ROWS // self.together) - len(active)))
            if not active:
                return [explored[number] for number in sorted(explored)]
            _extend(model, [each for descent in active.values() for each in descent.following()])

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Exact:
        return replace(self, beam=self.beam if size is None else size, nbest=self.nbest if nbest is None else nbest)

    def _descents(self, model: Autoregressive[Any], source: Any, prefix: Padded | None) -> Iterator[_Descent]:
        """One for each source, some sources begun at a time."""
        beam = Beam(max(self.beam, self.nbest), self.nbest, self.max_length, LogProbability())
        device = tree.leaves(source)[0].device
        for row_B in torch.split(torch.arange(tree.rows(source), device=device), ROWS):
            part, beginning = tree.select((source, prefix), row_B)
            seeds = beam(model, part, beginning)
            forced = [()] * len(seeds) if beginning is None else _rows(beginning)
            front, begun = begin(model, part, beginning, (), self.max_length)
            written = zip(front.token_N.tolist(), begun.tokens_BT.tolist(), begun.log_probs_BT.tolist(), strict=True)
            for row, (token, tokens, log_probs) in enumerate(written):
                first = tree.select(front.state, torch.tensor([row], device=device))
                yield _Descent(self, seeds[row], forced[row], token, _Prefix(tuple(tokens), tuple(log_probs)), first)


@dataclass(frozen=True)
class _Prefix:
    """A beginning of an output, its tokens and their log-probabilities."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]

    @property
    def total(self) -> float:
        return sum(self.log_probs)

    def longer(self, token: int, log_prob: float) -> _Prefix:
        return _Prefix((*self.tokens, token), (*self.log_probs, log_prob))


@dataclass
class _Branching:
    """A prefix that the model has read, with its continuations, of which the last is the next: the most probable.

    ``state`` is the model's after it, None where that is not kept.
    """

    prefix: _Prefix
    state: Any
    tokens: array[int]
    log_probs: array[float]

    @property
    def best(self) -> float:
        """The log-probability of the most probable prefix that is one longer and not looked at yet."""
        return self.prefix.total + self.log_probs[-1] if self.tokens else float("-inf")

    def pop(self) -> _Prefix:
        return self.prefix.longer(self.tokens.pop(), self.log_probs.pop())


@dataclass(frozen=True)
class _Unread:
    """A prefix to extend: its last tokens, which the model reads from a state that may be used once more."""

    descent: _Descent
    prefix: _Prefix
    tokens: tuple[int, ...]
    state: Any


class _Descent:
    """The search in the tree of one source: what is found, and the way back to what is still to be looked at.

    The model starts from the state ``first``, to read ``token`` and what is longer than ``root``.
    """

    def __init__(
        self, search: Exact, found: Sequence[Hypothesis], forced: tuple[int, ...], token: int, root: _Prefix, first: Any
    ) -> None:
        self.search = search
        self.forced = forced
        self.token = token
        self.root = root
        self.first = first
        self.found = {h.tokens: replace(h, score=h.log_prob) for h in found}
        self.branchings: list[_Branching] = []  # the deeper, the later; of each depth those of one step at most
        self.expansions = 0

    @property
    def bound(self) -> float:
        """What a hypothesis must exceed."""
        best = self._best()
        return best[-1].log_prob if len(best) == self.search.nbest else float("-inf")

    @property
    def finished(self) -> bool:
        bound = self.bound
        return self.expansions > 0 and not any(branching.best > bound for branching in self.branchings)

    @property
    def open(self) -> bool:
        return not self.finished and self.expansions < self.search.expansions

    def following(self) -> list[_Unread]:
        """The next prefixes to extend, the most probable of the deepest last."""
        if not self.expansions:
            return [self._unread(self.root, None)]
        found: list[_Unread] = []
        bound, room = self.bound, min(self.search.together, self.search.expansions - self.expansions)
        while self.branchings and len(found) < room:
            deepest = self.branchings[-1]
            if deepest.best > bound:
                found.append(self._unread(deepest.pop(), deepest.state))
            else:
                self.branchings.pop()
        return found[::-1]

    def _unread(self, prefix: _Prefix, state: Any) -> _Unread:
        """To be read from the state before its last token, or from the first."""
        if state is not None:
            return _Unread(self, prefix, prefix.tokens[-1:], state)
        return _Unread(self, prefix, (self.token, *prefix.tokens[len(self.root.tokens) :]), self.first)

    def finish(self, prefix: _Prefix) -> None:
        """Note an output that ended."""
        if prefix.total > self.bound:
            self.found[prefix.tokens] = Hypothesis(prefix.tokens, prefix.total, prefix.total, prefix.log_probs)
            self.found = {hypothesis.tokens: hypothesis for hypothesis in self._best()}

    def branch(self, branching: _Branching) -> None:
        """Go deeper; the shallowest state is given up where there are too many."""
        self.branchings.append(branching)
        if len(self.branchings) > self.search.states:
            self.branchings[-1 - self.search.states].state = None

    def exploration(self) -> Exploration:
        return Exploration(self._best(), self.expansions, self.finished)

    def _best(self) -> list[Hypothesis]:
        return sorted(self.found.values(), key=lambda h: -h.log_prob)[: self.search.nbest]


def _extend(model: Autoregressive[Any], unread: Sequence[_Unread]) -> None:
    """The model reads each prefix, as many at once as have as many tokens to read; each of their descents learns what
    comes after it, the deepest, which have a state to be read from and so the fewest, last."""
    for _, group in groupby(sorted(unread, key=_order), key=_order):
        _read(model, list(group))


def _order(each: _Unread) -> tuple[bool, int]:
    again = each.state is each.descent.first
    return not again, len(each.tokens)


def _read(model: Autoregressive[Any], unread: Sequence[_Unread]) -> None:
    positions = 1 + max(len(each.prefix.tokens) for each in unread)  # with BOS
    state = tree.reserve(tree.join([each.state for each in unread]), capacity(positions))
    device = tree.leaves(state)[0].device
    tokens_NT = torch.tensor([each.tokens for each in unread], device=device)
    log_probs_NV, state = read(model, tokens_NT, state)
    for each, end in zip(unread, log_probs_NV[:, EOS].tolist(), strict=True):
        each.descent.expansions += 1
        if len(each.prefix.tokens) >= len(each.descent.forced):
            each.descent.finish(each.prefix.longer(EOS, end))
    forbid_specials(log_probs_NV)[:, EOS] = float("-inf")
    for row, (each, (tokens, log_probs)) in enumerate(zip(unread, _continuations(unread, log_probs_NV), strict=True)):
        if tokens:
            alone = tree.select(state, torch.tensor([row], device=device))
            each.descent.branch(_Branching(each.prefix, alone, tokens, log_probs))


def _continuations(unread: Sequence[_Unread], log_probs_NV: Tensor) -> Iterator[tuple[array[int], array[float]]]:
    """Tokens that do not end, with their log-probabilities, the most probable last: those above the bound."""
    least = []
    for row, each in enumerate(unread):
        descent, length = each.descent, len(each.prefix.tokens)
        last = length + 1 >= descent.search.max_length
        least.append(float("inf") if last else descent.bound - each.prefix.total)
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
    tokens, log_probs = iter(token_M[order_M].tolist()), iter(log_prob_M[order_M].tolist())
    for count in row_M.bincount(minlength=len(unread)).tolist():
        yield array("i", islice(tokens, count)), array("d", islice(log_probs, count))


def _rows(prefix: Padded) -> list[tuple[int, ...]]:
    return [tuple(row[:n]) for row, n in zip(prefix.values.tolist(), prefix.lengths.tolist(), strict=True)]
