"""Greedy search: the most probable token at each step. N rows, V vocabulary."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from transduce.core import tree
from transduce.core.protocols import Autoregressive
from transduce.core.types import EOS, Hypothesis, Padded
from transduce.search.base import Filter, Finished, staggers, to_the_end
from transduce.search.beam import Beam
from transduce.search.constraints.base import BatchConstraints
from transduce.search.forcing import force
from transduce.search.step import Front, advance_highest, begin, check_length, join_fronts, remaining


@dataclass(frozen=True)
class Greedy:
    """At each step, writes the token with the highest log-probability after ``filters``, until EOS. Filters may forbid
    or penalise tokens. Token number ``max_length`` is always EOS. An output has no ``<unk>``, unless ``unknown`` is
    True.
    """

    ends_freely: ClassVar[bool] = True

    max_length: int = 200
    filters: tuple[Filter[Any], ...] = ()
    unknown: bool = False

    def __post_init__(self) -> None:
        check_length(self.max_length)

    def __call__(self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        return to_the_end(self, model, source, prefix)

    def stream(
        self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """Yields the output of one source so far, after each token. It also yields after each token of a prefix."""
        rows, finished = self.enter(model, source, [0], prefix)
        begun = rows.outputs[0].tokens
        yield from (tuple(begun[:length]) for length in range(1, len(begun) + 1))
        while not finished:
            rows, finished = self.step(model, rows)
            yield tuple(rows.outputs[0].tokens)

    @property
    def staggered(self) -> bool:
        return all(map(staggers, self.filters))

    @torch.inference_mode()
    def enter(
        self, model: Autoregressive[Any], source: Any, keys: Sequence[int], prefix: Padded | None = None
    ) -> tuple[GreedyRows, Finished]:
        front, begun = begin(model, source, prefix, self.filters, self.max_length)
        written = zip(keys, begun.tokens_BT.tolist(), begun.log_probs_BT.tolist(), strict=True)
        return self.step(model, GreedyRows(front, [_Output(*each) for each in written]))

    @torch.inference_mode()
    def step(self, model: Autoregressive[Any], group: GreedyRows) -> tuple[GreedyRows, Finished]:
        places = [len(output.tokens) for output in group.outputs]
        token_N, read, front = advance_highest(model, self.filters, group.front, places, self.max_length, self.unknown)
        finished: Finished = []
        for output, (token, log_prob) in zip(group.outputs, read, strict=True):
            output.tokens.append(token)
            output.log_probs.append(log_prob)
            if output.active and token == EOS:
                output.active = False
                finished.append((output.key, [output.hypothesis()]))
        if any(output.active for output in group.outputs):
            front = front.write(token_N[:, None], self.filters)
        return GreedyRows(front, group.outputs), finished

    @torch.inference_mode()
    def leave(self, group: GreedyRows) -> GreedyRows:
        stay = remaining([output.active for output in group.outputs])
        if any(len(output.tokens) >= self.max_length for output in group.outputs):  # the model must not read further
            stay = [row for row in stay if group.outputs[row].active]
        return group.select(stay)

    @torch.inference_mode()
    def join(self, groups: Sequence[GreedyRows]) -> GreedyRows:
        groups = [group.select([row for row, output in enumerate(group.outputs) if output.active]) for group in groups]
        outputs = [output for group in groups for output in group.outputs]
        positions = max(len(output.tokens) for output in outputs)
        return GreedyRows(join_fronts([group.front for group in groups], positions), outputs)

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Greedy | Beam:
        """A beam with the same options, or this search if neither number is given."""
        if size is None and nbest is None:
            return self
        return Beam(max_length=self.max_length, filters=self.filters, unknown=self.unknown).resized(size, nbest)

    def constrained(self, constraints: BatchConstraints) -> Greedy:
        constraints.check_nothing_required(type(self).__name__)
        return replace(self, filters=constraints.filters(self.filters, self.max_length))


@dataclass
class _Output:
    """The tokens of one source so far, and their log-probabilities. It grows step by step. If it is not ``active``, it
    has ended or was dropped, and later tokens do not count.
    """

    key: int
    tokens: list[int]
    log_probs: list[float]
    active: bool = True

    def hypothesis(self) -> Hypothesis:
        total = sum(self.log_probs)
        return Hypothesis(tuple(self.tokens), total, total, tuple(self.log_probs))


@dataclass(frozen=True)
class GreedyRows:
    """A ``Group`` of greedy search: the front and the output of each row."""

    front: Front[Any]
    outputs: list[_Output]

    @property
    def active(self) -> list[int]:
        return [output.key for output in self.outputs if output.active]

    def without(self, keys: Collection[int]) -> GreedyRows:
        for output in self.outputs:
            output.active = output.active and output.key not in keys
        return self

    def select(self, rows: list[int]) -> GreedyRows:
        """The group with the given rows only."""
        if rows == list(range(len(self.outputs))):
            return self
        rows_N = torch.tensor(rows, device=self.front.token_N.device)
        return GreedyRows(tree.select(self.front, rows_N), [self.outputs[row] for row in rows])
