"""Greedy search: the most probable token at each step. N rows, V vocabulary."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch

from transduce.core import tree
from transduce.core.protocols import Autoregressive, S, Search
from transduce.core.types import EOS, Hypothesis, Padded
from transduce.search.base import Filters, Finished, staggers, to_the_end
from transduce.search.beam import Beam
from transduce.search.constraints.base import BatchConstraints
from transduce.search.exact import Exact
from transduce.search.forcing import force
from transduce.search.front import Front, begin, join_fronts, remaining
from transduce.search.length_beam import LengthBeam
from transduce.search.limits import check_length
from transduce.search.next_tokens import advance_highest
from transduce.search.sampling import Sampling

M = TypeVar("M")  # a model
M_contra = TypeVar("M_contra", contravariant=True)


@dataclass(frozen=True)
class Greedy:
    """At each step, writes the token with the highest log-probability after ``filters``, until EOS. Filters may forbid
    or penalise tokens. Token number ``max_length`` is always EOS. An output has no ``<unk>``, unless ``unknown`` is
    True.
    """

    ends_freely: ClassVar[bool] = True

    max_length: int = 200
    filters: Filters = ()
    unknown: bool = False

    def __post_init__(self) -> None:
        check_length(self.max_length)

    def __call__(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> list[list[Hypothesis]]:
        return to_the_end(self, model, source, prefix)

    def stream(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """Yields the output of one source so far, after each token. It also yields after each token of a prefix."""
        state, finished = self.enter(model, source, [0], prefix)
        begun = state.sources[0].tokens
        yield from (begun[:length] for length in range(1, len(begun) + 1))
        while not finished:
            state, finished = self.step(model, state)
            yield state.sources[0].tokens

    @property
    def staggered(self) -> bool:
        return all(map(staggers, self.filters))

    @torch.inference_mode()
    def enter(
        self, model: Autoregressive[S], source: Padded, keys: Sequence[int], prefix: Padded | None = None
    ) -> tuple[GreedyState[S], Finished]:
        front, begun = begin(model, source, prefix, self.filters, self.max_length)
        written = zip(keys, begun.tokens_BT.tolist(), begun.log_probs_BT.tolist(), strict=True)
        sources = tuple(GreedySource(key, tuple(tokens), tuple(log_probs)) for key, tokens, log_probs in written)
        return self.step(model, GreedyState(sources, front))

    @torch.inference_mode()
    def step(self, model: Autoregressive[S], group: GreedyState[S]) -> tuple[GreedyState[S], Finished]:
        token_N, read, front = advance_highest(
            model, self.filters, group.front, group.written, self.max_length, self.unknown
        )
        sources = tuple([source.longer(*each) for source, each in zip(group.sources, read, strict=True)])
        ends = [each for each, before in zip(sources, group.sources, strict=True) if before.searching > each.searching]
        if any(source.searching for source in sources):
            front = front.write(token_N[:, None], self.filters)
        return GreedyState(sources, front), [(source.key, [source.hypothesis()]) for source in ends]

    @torch.inference_mode()
    def leave(self, group: GreedyState[S]) -> GreedyState[S]:
        return group.select(remaining(group.searching, full=max(group.written) >= self.max_length))

    @torch.inference_mode()
    def join(self, groups: Sequence[GreedyState[S]]) -> GreedyState[S]:
        states = [group.select(remaining(group.searching, full=True)) for group in groups]
        sources = tuple(source for state in states for source in state.sources)
        T = max(written for state in states for written in state.written)
        return GreedyState(sources, join_fronts([state.front for state in states], T))

    def force(self, model: Autoregressive[S], source: Padded, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Greedy | Beam:
        """A beam with the same options, or this search if neither number is given."""
        if size is None and nbest is None:
            return self
        return Beam(max_length=self.max_length, filters=self.filters, unknown=self.unknown).resized(size, nbest)

    def constrained(self, constraints: BatchConstraints) -> Greedy:
        constraints.check_nothing_required(type(self).__name__)
        return replace(self, filters=constraints.filters(self.filters, self.max_length))


class GreedySource(NamedTuple):
    """A source of a search: its tokens so far, and their log-probabilities. If it is not ``searching``, it has finished
    or was dropped, and later tokens do not count.
    """

    key: int
    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    searching: bool = True

    def longer(self, token: int, log_prob: float) -> GreedySource:
        return GreedySource(
            self.key, (*self.tokens, token), (*self.log_probs, log_prob), self.searching and token != EOS
        )

    def hypothesis(self) -> Hypothesis:
        total = sum(self.log_probs)
        return Hypothesis(self.tokens, total, total, self.log_probs)


@dataclass(frozen=True)
class GreedyState(Generic[S]):
    """All that greedy search knows between two steps, a ``Group``: a source for each of the N rows of the ``front``."""

    sources: tuple[GreedySource, ...]
    front: Front[S]

    @property
    def written(self) -> list[int]:
        """The number of tokens of each source."""
        return [len(source.tokens) for source in self.sources]

    @property
    def searching(self) -> list[bool]:
        return [source.searching for source in self.sources]

    @property
    def active(self) -> list[int]:
        return [source.key for source in self.sources if source.searching]

    def without(self, keys: Collection[int]) -> GreedyState[S]:
        dropped = (each._replace(searching=False) if each.key in keys else each for each in self.sources)
        return GreedyState(tuple(dropped), self.front)

    def select(self, rows: list[int]) -> GreedyState[S]:
        """The state of the given sources only."""
        if rows == list(range(len(self.sources))):
            return self
        rows_N = torch.tensor(rows, device=self.front.token_N.device)
        return GreedyState(tuple(self.sources[row] for row in rows), tree.select(self.front, rows_N))


# ---------------------------------------------------------------- for validation during training


@runtime_checkable
class Quickened(Protocol[M_contra]):
    """A search of a wing that knows its own quickest relative."""

    def quick(self) -> Search[M_contra]: ...


def quickest(search: Search[M]) -> Search[M]:
    """The quickest search with the limits of another search: ``Greedy`` with the same ``max_length`` and ``filters``
    for a search that goes token by token, one length for a length beam, and ``quick()`` of a search that has it, such
    as the best path for a search among alignments. Other searches, also a user's own, are returned unchanged.
    """
    if isinstance(search, Quickened):
        return search.quick()
    if isinstance(search, Beam | Exact | Sampling):
        return Greedy(search.max_length, search.filters)
    return search.resized(1) if isinstance(search, LengthBeam) else search
