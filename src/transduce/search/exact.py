"""Exact search, which proves that its output is the most probable. B sources, N rows, T tokens, V vocabulary."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import ClassVar, Generic

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import EOS, PAD, Hypothesis, Padded
from transduce.search.base import Filters
from transduce.search.beam import Beam
from transduce.search.forcing import force
from transduce.search.front import begin
from transduce.search.limits import check_length
from transduce.search.ranking import LogProbability
from transduce.search.reading import capacity, forbid_specials, forbid_unknown, read

log = logging.getLogger("transduce")

ROWS = 64  # prefixes of all sources that are extended together; also sources that start together
ROUNDING = 1e-4  # continuations that miss the bound by less are compared again in float64


@dataclass(frozen=True)
class Exploration:
    """The result of exact search for one source: its best hypotheses by log-probability, and the number of prefixes
    that were extended.

    If it is not ``finished``, it has reached the limit of expansions, and better hypotheses may exist.
    """

    hypotheses: list[Hypothesis]
    expansions: int
    finished: bool

    @property
    def empty_wins(self) -> bool:
        """True if the empty output is the most probable output that was found."""
        return self.hypotheses[0].tokens == (EOS,)


@dataclass(frozen=True)
class Exact:
    """Depth-first search for the ``nbest`` most probable outputs of at most ``max_length`` tokens (Stahlberg and Byrne
    2019).

    It skips every prefix that is not more probable than the n-th best output so far, where n is ``nbest``. This is
    correct because no continuation makes a prefix more probable. A beam of ``beam`` hypotheses gives the first bound.
    An expansion is a prefix that the model extends. A source that needs more than ``expansions`` of them keeps its best
    outputs so far, and the search logs a warning. ``explore`` tells which sources these are. Each step extends up to
    ``together`` prefixes of a source. Some of them are extended in vain, because the bound rises meanwhile. Outputs are
    ranked by log-probability, because with length normalisation no prefix could be skipped. An output has no ``<unk>``,
    unless ``unknown`` is True.

    Memory does not grow with the number of sources or of ``expansions`` (benchmarks/results/exact-memory.md). Each
    source keeps at most ``states`` + 1 model states: the first one and the ``states`` deepest ones. If the state of a
    prefix was dropped, the model reads the prefix again from the first state. This does not count as an expansion. Each
    source also keeps the tokens of at most ``together`` * ``max_length`` prefixes, and 12 bytes for each continuation
    that may be better. The search explores 64 / ``together`` sources at a time, and at most 64 wait.
    """

    ends_freely: ClassVar[bool] = True

    nbest: int = 1
    max_length: int = 200
    expansions: int = 10_000
    beam: int = 5
    together: int = 8
    states: int = 32
    unknown: bool = False

    def __post_init__(self) -> None:
        check_length(self.max_length)
        for name in ("nbest", "expansions", "beam", "together", "states"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} = {getattr(self, name)}: at least 1 was expected")

    def __call__(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> list[list[Hypothesis]]:
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
    def explore(self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None) -> list[Exploration]:
        """Returns for each source, in order, its best hypotheses, the number of expansions, and whether the search was
        exhaustive. It logs no warning.
        """
        descents = enumerate(self._descents(model, source, prefix))
        active: dict[int, _Descent[S]] = {}
        explored: dict[int, Exploration] = {}
        while True:
            for number in [number for number, descent in active.items() if not descent.open]:
                explored[number] = active.pop(number).exploration()
            active.update(islice(descents, -(-ROWS // self.together) - len(active)))
            if not active:
                return [explored[number] for number in sorted(explored)]
            _extend(model, [each for descent in active.values() for each in descent.following()])

    def force(self, model: Autoregressive[S], source: Padded, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Exact:
        return replace(self, beam=self.beam if size is None else size, nbest=self.nbest if nbest is None else nbest)

    @property
    def filters(self) -> Filters:
        """None: this search has no filters."""
        return ()

    def _descents(self, model: Autoregressive[S], source: Padded, prefix: Padded | None) -> Iterator[_Descent[S]]:
        """Yields one descent per source, in order. Up to ``ROWS`` sources start together."""
        beam = Beam(max(self.beam, self.nbest), self.nbest, self.max_length, LogProbability(), unknown=self.unknown)
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
    """The first tokens of an output, and their log-probabilities."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]

    @property
    def total(self) -> float:
        return sum(self.log_probs)

    def longer(self, token: int, log_prob: float) -> _Prefix:
        return _Prefix((*self.tokens, token), (*self.log_probs, log_prob))


@dataclass
class _Branching(Generic[S]):
    """A prefix that the model has read, with its unexplored continuations. These may be better than the best outputs at
    the time of reading. ``tokens`` and ``log_probs`` describe them, the most probable one last.

    ``state`` is the model's state after the prefix, or None if it is not kept.
    """

    prefix: _Prefix
    state: S | None
    tokens: array[int]
    log_probs: array[float]

    @property
    def best(self) -> float:
        """The log-probability of the prefix with its most probable unexplored continuation; minus infinity if none is
        left.
        """
        return self.prefix.total + self.log_probs[-1] if self.tokens else float("-inf")

    def pop(self) -> _Prefix:
        return self.prefix.longer(self.tokens.pop(), self.log_probs.pop())


@dataclass(frozen=True)
class _Unread(Generic[S]):
    """A prefix to extend. When the model in ``state`` has read ``tokens``, it has read the whole prefix."""

    descent: _Descent[S]
    prefix: _Prefix
    tokens: tuple[int, ...]
    state: S


class _Descent(Generic[S]):
    """The search for one source: the outputs found, and the prefixes that still have unexplored continuations.

    ``root`` are the tokens that ``begin`` wrote, and ``token`` is the last of them, or BOS if there are none. ``first``
    is the model's state before ``token``. The model reads ``token`` from there on, and then the tokens that a prefix
    has in addition to ``root``. ``forced`` are all tokens that outputs must start with.
    """

    def __init__(
        self, search: Exact, found: Sequence[Hypothesis], forced: tuple[int, ...], token: int, root: _Prefix, first: S
    ) -> None:
        self.search = search
        self.forced = forced
        self.token = token
        self.root = root
        self.first = first
        self.found = {h.tokens: replace(h, score=h.log_prob) for h in found}
        self.branchings: list[_Branching[S]] = []  # the deepest last; branchings of one depth come from a single step
        self.expansions = 0

    def forced_token(self, place: int) -> int:
        """The token that outputs must have at this place; PAD if it is free."""
        return self.forced[place] if place < len(self.forced) else PAD

    @property
    def bound(self) -> float:
        """The log-probability that a new hypothesis must exceed: the n-th best so far, where n is ``nbest``. It is
        minus infinity if there are fewer hypotheses.
        """
        best = self._best()
        return best[-1].log_prob if len(best) == self.search.nbest else float("-inf")

    @property
    def finished(self) -> bool:
        bound = self.bound
        return self.expansions > 0 and not any(branching.best > bound for branching in self.branchings)

    @property
    def open(self) -> bool:
        return not self.finished and self.expansions < self.search.expansions

    def following(self) -> list[_Unread[S]]:
        """Removes the next prefixes to extend from the deepest branchings, and returns them. Their number is at most
        ``together``, and at most the number of expansions that are left. The most probable prefix of the deepest
        branching comes last. The first call returns only the root.
        """
        if not self.expansions:
            return [self._unread(self.root, None)]
        found: list[_Unread[S]] = []
        bound, room = self.bound, min(self.search.together, self.search.expansions - self.expansions)
        while self.branchings and len(found) < room:
            deepest = self.branchings[-1]
            if deepest.best > bound:
                found.append(self._unread(deepest.pop(), deepest.state))
            else:
                self.branchings.pop()
        return found[::-1]

    def _unread(self, prefix: _Prefix, state: S | None) -> _Unread[S]:
        """The prefix with the tokens that the model must read next.

        ``state`` is the model's state before the prefix's last token, so the model reads only that token. It is None
        for the root and for a prefix whose state was dropped. Then the model starts from ``first``. It reads ``token``,
        and then the tokens that the prefix has after ``root``.
        """
        if state is not None:
            return _Unread(self, prefix, prefix.tokens[-1:], state)
        return _Unread(self, prefix, (self.token, *prefix.tokens[len(self.root.tokens) :]), self.first)

    def finish(self, prefix: _Prefix) -> None:
        """Adds a finished output if it is more probable than the bound. Keeps only the ``nbest`` best outputs."""
        if prefix.total > self.bound:
            self.found[prefix.tokens] = Hypothesis(prefix.tokens, prefix.total, prefix.total, prefix.log_probs)
            self.found = {hypothesis.tokens: hypothesis for hypothesis in self._best()}

    def branch(self, branching: _Branching[S]) -> None:
        """Adds a prefix that was read. If there are too many states, the state of the shallowest prefix is dropped."""
        self.branchings.append(branching)
        if len(self.branchings) > self.search.states:
            self.branchings[-1 - self.search.states].state = None

    def exploration(self) -> Exploration:
        return Exploration(self._best(), self.expansions, self.finished)

    def _best(self) -> list[Hypothesis]:
        return sorted(self.found.values(), key=lambda h: -h.log_prob)[: self.search.nbest]


def _extend(model: Autoregressive[S], unread: Sequence[_Unread[S]]) -> None:
    """Extends each prefix: the model reads it, and its descent gets the outputs and the continuations.

    All prefixes of a batch have the same number of tokens to read. Either all of them are read from a first state, or
    none is. Batches of prefixes from a first state come before the others, which are deeper.
    """
    for _, group in groupby(sorted(unread, key=_order), key=_order):
        _read(model, list(group))


def _order(each: _Unread[S]) -> tuple[bool, int]:
    again = each.state is each.descent.first
    return not again, len(each.tokens)


def _read(model: Autoregressive[S], unread: Sequence[_Unread[S]]) -> None:
    positions = 1 + max(len(each.prefix.tokens) for each in unread)  # with BOS
    state = tree.reserve(tree.join([each.state for each in unread]), capacity(positions))
    device = tree.leaves(state)[0].device
    tokens_NT = torch.tensor([each.tokens for each in unread], device=device)
    log_probs_NV, state = read(model, tokens_NT, state)
    for each, end in zip(unread, log_probs_NV[:, EOS].tolist(), strict=True):
        each.descent.expansions += 1
        if len(each.prefix.tokens) >= len(each.descent.forced):
            each.descent.finish(each.prefix.longer(EOS, end))
    forbid_specials(log_probs_NV, unknown=True)[:, EOS] = float("-inf")
    if not unread[0].descent.search.unknown:
        forced_N = torch.tensor([each.descent.forced_token(len(each.prefix.tokens)) for each in unread], device=device)
        forbid_unknown(log_probs_NV, forced_N)
    for row, (each, (tokens, log_probs)) in enumerate(zip(unread, _continuations(unread, log_probs_NV), strict=True)):
        if tokens:
            alone = tree.select(state, torch.tensor([row], device=device))
            each.descent.branch(_Branching(each.prefix, alone, tokens, log_probs))


def _continuations(unread: Sequence[_Unread[S]], log_probs_NV: Tensor) -> Iterator[tuple[array[int], array[float]]]:
    """Yields for each prefix the tokens whose continuation exceeds the bound, or misses it by less than ``ROUNDING``.
    Also yields their log-probabilities. The most probable token is last.

    The caller excludes EOS. If only EOS may follow a prefix, the prefix has no continuations. If a token is forced
    after a prefix, it is the only possible continuation.
    """
    least = []
    for row, each in enumerate(unread):
        descent, length = each.descent, len(each.prefix.tokens)
        last = length + 1 >= descent.search.max_length
        least.append(float("inf") if last else descent.bound - each.prefix.total)
        if (token := descent.forced_token(length)) != PAD:
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
