"""Stack decoding for a batch of sources. All hypotheses of one stack are extended together.

B sources, S source positions, H hypotheses of a stack, E expansions, U expansions that differ after recombination, A
arcs. A row is the index of a source.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from transduce.core.types import EOS
from transduce.wings.counted.phrases.search.tables import Column, Tables, orientation

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

BITS = 62  # positions in one integer


@dataclass(frozen=True)
class Pruning:
    """The limits of a stack search; None means no limit. They apply to each source separately.

    ``threshold`` first drops expansions whose score plus guess is more than this below the best of the stack (natural
    logarithm). Then the best ``pool`` expansions are scored by the language models, and the stack keeps the best
    ``size`` hypotheses. ``distortion`` is the largest jump, in source tokens. Some hypotheses have the same scores for
    all later steps. If ``recombination`` is True, only the best of them is extended.
    """

    size: int | None
    pool: int | None
    threshold: float | None
    distortion: int | None
    recombination: bool


@dataclass(frozen=True)
class Arcs:
    """Phrases that were added to hypotheses. A hypothesis is a node with a number.

    Arc a leads from node ``parent_A`` to node ``node_A`` by the phrase option ``option_A``; -1 is the end of the
    sentence. ``score_A`` is the score of the best derivation that ends with this arc. ``language_A`` is the
    log-probability of the phrase's tokens by the model's own language model. ``outside_A`` is the weighted
    log-probability by a second language model, 0 without one.
    """

    node_A: Ids
    parent_A: Ids
    option_A: Ids
    score_A: Numbers
    language_A: Numbers
    outside_A: Numbers

    @classmethod
    def joined(cls, parts: list[Arcs]) -> Arcs:
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


@dataclass(frozen=True)
class Stack:
    """Hypotheses that cover the same number of source positions, sorted by row.

    ``node_H`` has their numbers among all hypotheses, and ``row_H`` their sources. ``covered_HS`` is True at the
    covered positions. ``option_H`` is the last phrase option, -1 if there is none. ``language_H2`` has the states of
    both language models. ``future_H`` is the best guess of the score that the uncovered positions will add.
    """

    tables: Tables
    node_H: Ids
    row_H: Ids
    covered_HS: Mask
    option_H: Ids
    language_H2: Ids
    score_H: Numbers
    future_H: Numbers

    @property
    def start_H(self) -> Ids:
        return self.tables.start_O[self.option_H]

    @property
    def end_H(self) -> Ids:
        return self.tables.end_O[self.option_H]

    @cached_property
    def next_HS(self) -> Ids:
        """The first covered position at or after each position [H, S]. It is the source's length if there is none."""
        length_H1 = self.tables.lengths_B[self.row_H][:, None]
        places = np.where(self.covered_HS, np.arange(self.covered_HS.shape[1]), length_H1)
        return np.minimum.accumulate(places[:, ::-1], 1)[:, ::-1]

    @cached_property
    def free_HS(self) -> Ids:
        """For each uncovered position, the first position of the run of uncovered positions that contains it [H, S].
        Values at covered positions have no meaning.
        """
        places = np.where(self.covered_HS, np.arange(self.covered_HS.shape[1]) + 1, 0)
        return np.maximum.accumulate(places, 1)

    @cached_property
    def gap_H(self) -> Ids:
        """The first uncovered position [H]. It is the source's length if all its positions are covered."""
        ended = np.pad(self.covered_HS, ((0, 0), (0, 1)))
        gap_H: Ids = ended.argmin(1)
        return gap_H


@dataclass(frozen=True)
class Expansions:
    """E pairs of a hypothesis of one stack and a source span that it may cover next.

    ``parent_E`` is the index of the hypothesis in the stack. ``start_E`` and ``end_E`` (exclusive) are the span.
    ``kind_E`` is its ``orientation`` to the hypothesis' last phrase. ``score_E`` is the hypothesis' score, plus the
    weighted distortion and the weighted log-probability of the orientation by the last phrase. ``future_E`` is the
    guess for the positions that stay uncovered.
    """

    stack: Stack
    parent_E: Ids
    start_E: Ids
    end_E: Ids
    kind_E: Ids
    score_E: Numbers
    future_E: Numbers


@dataclass(frozen=True)
class Growth:
    """E expansions that the language models scored, of all sources. They lead to hypotheses that cover ``covered``
    source tokens.

    Expansion e adds the phrase option ``option_E`` to node ``parent_E`` of source ``row_E``; -1 is the end of the
    sentence. ``score_E`` is its score, and ``total_E`` adds the guess for the uncovered positions. ``node_E`` is the
    resulting node, -1 if the expansion was pruned. Several expansions can have the same node, by recombination.
    ``best_E`` is True for the best of them. For ends of sentences it is always True, and the node is the goal.
    """

    covered: int
    row_E: Ids
    parent_E: Ids
    option_E: Ids
    score_E: Numbers
    total_E: Numbers
    node_E: Ids
    best_E: Mask


class Observer(Protocol):
    """Receives the growth of each stack, from one covered token on, and then the ends of the sentences of each stack.
    ``tables`` are the tables of the search.
    """

    def __call__(self, tables: Tables, growth: Growth) -> None: ...


def decoded(tables: Tables, pruning: Pruning, observer: Observer | None = None) -> tuple[Arcs, Ids]:
    """All arcs of the search, and the number of each source's goal [B]. The goal is the node that all complete
    derivations of a source lead to. ``observer``, if given, receives each stack.
    """
    B, S = tables.lengths_B.shape[0], tables.positions
    begun = Stack(
        tables,
        np.arange(B),
        np.arange(B),
        np.zeros((B, S), bool),
        np.full(B, -1, np.int64),
        tables.language_start(),
        np.zeros(B),
        tables.future[np.arange(B), 0, tables.lengths_B],
    )
    stacks, arcs, nodes = [begun], list[Arcs](), B
    for covered in range(1, int(tables.lengths_B.max(initial=0)) + 1):
        reachable = range(max(0, covered - tables.longest), covered)
        spans = [_spans(stacks[number], covered - number, pruning) for number in reachable]
        stack, found, growth = _grown(tables, spans, nodes, pruning)
        if tables.companion is not None:
            tables.companion.keep(stack.language_H2[:, 1])
        if observer is not None:
            observer(tables, replace(growth, covered=covered))
        nodes += len(stack.node_H)
        stacks.append(stack)
        arcs.append(found)
    goal_B = nodes + np.arange(B)
    for covered, stack in enumerate(stacks):
        ended, row_E = _ended(stack, tables.lengths_B[stack.row_H] == covered, goal_B)
        arcs.append(ended)
        if observer is not None:
            ends = (ended.parent_A, ended.option_A, ended.score_A, ended.score_A, ended.node_A)
            observer(tables, Growth(covered, row_E, *ends, np.ones(len(row_E), bool)))
    return Arcs.joined(arcs), goal_B


# --------------------------------------------------------------------- details


def _spans(stack: Stack, length: int, pruning: Pruning) -> Expansions:
    """The expansions by all uncovered spans of ``length`` tokens that have phrase options and lie within the distortion
    limit.
    """
    tables, starts = stack.tables, np.arange(max(0, stack.tables.positions - length + 1))
    possible = tables.count[stack.row_H][:, : len(starts), length - 1] > 0
    possible &= stack.next_HS[:, : len(starts)] >= starts + length
    possible &= ~stack.covered_HS[:, : len(starts)]
    if pruning.distortion is not None:
        gap_H1 = stack.gap_H[:, None]
        possible &= np.abs(starts - stack.end_H[:, None]) <= pruning.distortion
        possible &= (starts == gap_H1) | (starts + length - gap_H1 <= pruning.distortion)
    parent_E, start_E = np.nonzero(possible)
    end_E, row_E = start_E + length, stack.row_H[parent_E]
    free_E, next_E = stack.free_HS[parent_E, start_E], stack.next_HS[parent_E, start_E]
    future_E = (
        stack.future_H[parent_E]
        + tables.future[row_E, free_E, start_E]
        + tables.future[row_E, end_E, next_E]
        - tables.future[row_E, free_E, next_E]
    )
    jump_E = np.abs(start_E - stack.end_H[parent_E])
    kind_E = orientation(start_E, end_E, stack.start_H[parent_E], stack.end_H[parent_E])
    score_E = stack.score_H[parent_E] - tables.distortion_weight * jump_E + _after(stack, parent_E, kind_E)
    return Expansions(stack, parent_E, start_E, end_E, kind_E, score_E, future_E)


def _after(stack: Stack, parent_E: Ids, kind_E: Ids) -> Numbers:
    """The weighted log-probability [E] of the orientation ``kind_E`` by the earlier phrase. It is 0 if there is no
    earlier phrase.
    """
    tables = stack.tables
    return tables.after_weights[kind_E] * tables.orientation_O6[stack.option_H[parent_E], 3 + kind_E]


def _grown(tables: Tables, spans: list[Expansions], nodes: int, pruning: Pruning) -> tuple[Stack, Arcs, Growth]:
    """The next stack, the arcs that lead to it, and its growth. Its hypotheses are numbered from ``nodes`` on. The
    growth's number of covered tokens is not set.
    """
    columns = {
        "stack": np.repeat(np.arange(len(spans)), [len(each.parent_E) for each in spans]),
        "row": np.concatenate([each.stack.row_H[each.parent_E] for each in spans]),
        **{
            name: np.concatenate([getattr(each, name) for each in spans])
            for name in ("parent_E", "start_E", "end_E", "kind_E", "score_E", "future_E")
        },
    }
    order = np.argsort(columns["row"], kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    if pruning.threshold is not None:
        length_E = columns["end_E"] - columns["start_E"]
        bound_E = columns["score_E"] + columns["future_E"]
        bound_E = bound_E + tables.best_guess[columns["row"], columns["start_E"], length_E - 1]
        best_B = np.full(len(tables.lengths_B), -np.inf)
        np.maximum.at(best_B, columns["row"], bound_E)
        kept = bound_E >= best_B[columns["row"]] - pruning.threshold
        columns = {name: values[kept] for name, values in columns.items()}
    span_E, option_E = _options(tables, columns["row"], columns["start_E"], columns["end_E"])
    kind_E = columns["kind_E"][span_E]
    before_E = tables.before_weights[kind_E] * tables.orientation_O6[option_E, kind_E]
    guess_E = columns["score_E"][span_E] + columns["future_E"][span_E] + before_E + tables.guess_O[option_E]
    kept = _largest(columns["row"][span_E], guess_E, pruning.pool, len(tables.lengths_B))
    span_E, option_E, before_E = span_E[kept], option_E[kept], before_E[kept]
    columns = {name: values[span_E] for name, values in columns.items()}
    return _chosen(tables, spans, columns, option_E, before_E, nodes, pruning)


def _chosen(
    tables: Tables,
    spans: list[Expansions],
    columns: dict[str, Column],
    option_E: Ids,
    before_E: Numbers,
    nodes: int,
    pruning: Pruning,
) -> tuple[Stack, Arcs, Growth]:
    """Scores the expansions exactly, recombines them, and keeps the best."""

    def of_parents(name: str) -> Column:
        """For each expansion, the value of the attribute ``name`` of its parent's stack."""
        bounds = np.cumsum([0, *(len(each.stack.row_H) for each in spans)])
        whole = np.concatenate([getattr(each.stack, name) for each in spans])
        column_E: Column = whole[bounds[columns["stack"]] + columns["parent_E"]]
        return column_E

    (language_E, outside_E), state_E2 = _written(tables, of_parents("language_H2"), option_E)
    score_E = columns["score_E"] + before_E + tables.own_O[option_E] + tables.language_weight * language_E + outside_E
    places = np.arange(tables.positions)
    covered_ES = of_parents("covered_HS") | (
        (places >= columns["start_E"][:, None]) & (places < columns["end_E"][:, None])
    )
    same_E = np.arange(len(option_E))
    if pruning.recombination:
        same_E = _indistinguishable(tables, columns["row"], covered_ES, state_E2, option_E)
    order = np.argsort(-score_E, kind="stable")
    _, at, number = np.unique(same_E[order], return_index=True, return_inverse=True)
    winner_U = order[at]
    group_E = np.empty_like(number)
    group_E[order] = number
    total_U = score_E[winner_U] + columns["future_E"][winner_U]
    kept_U = _largest_anywhere(columns["row"][winner_U], total_U, pruning.size)
    kept_U = kept_U[np.argsort(columns["row"][winner_U[kept_U]], kind="stable")]
    node_U = np.full(len(winner_U), -1, np.int64)
    node_U[kept_U] = nodes + np.arange(len(kept_U))
    best = winner_U[kept_U]
    stack = Stack(
        tables,
        node_U[kept_U],
        columns["row"][best],
        covered_ES[best],
        option_E[best],
        state_E2[best],
        score_E[best],
        columns["future_E"][best],
    )
    node_E, parents = node_U[group_E], of_parents("node_H")
    best_E = np.zeros(len(node_E), bool)
    best_E[winner_U] = True
    growth = Growth(0, columns["row"], parents, option_E, score_E, score_E + columns["future_E"], node_E, best_E)
    live_E = node_E >= 0
    arcs = Arcs(node_E, parents, option_E, score_E, language_E, outside_E)
    return stack, Arcs(*(getattr(arcs, field.name)[live_E] for field in fields(arcs))), growth


def _options(tables: Tables, row_E: Ids, start_E: Ids, end_E: Ids) -> tuple[Ids, Ids]:
    """Two arrays with an entry for each phrase option of the E spans: the index of its span (0 to E - 1), and the
    option's number.
    """
    count_E = tables.count[row_E, start_E, end_E - start_E - 1]
    span = np.repeat(np.arange(len(row_E)), count_E)
    within = np.arange(len(span)) - np.repeat(np.cumsum(count_E) - count_E, count_E)
    return span, tables.first[row_E, start_E, end_E - start_E - 1][span] + within


def _written(tables: Tables, state_E2: Ids, option_E: Ids) -> tuple[Numbers, Ids]:
    """Scores the tokens of options by both language models, from the states ``state_E2`` on, which are not changed.

    Returns [2, E]: the log-probability by the model's own language model, and the weighted log-probability by the
    second. Also returns the states after the tokens [E, 2].
    """
    language_E2, state_E2 = np.zeros((len(option_E), 2)), state_E2.copy()
    length_E = tables.length_O[option_E]
    for place in range(int(length_E.max(initial=0))):
        open_O = np.flatnonzero(length_E > place)
        tokens_O = tables.tokens_OP[option_E[open_O], place]
        step_O2, state_E2[open_O] = tables.language_step(state_E2[open_O], tokens_O)
        language_E2[open_O] += step_O2
    return language_E2.T, state_E2


def _indistinguishable(tables: Tables, row_E: Ids, covered_ES: Mask, state_E2: Ids, option_E: Ids) -> Ids:
    """Equal numbers [E] for hypotheses with the same scores for all later steps."""
    same_E = row_E
    for first in range(0, covered_ES.shape[1], BITS):
        part = covered_ES[:, first : first + BITS]
        same_E = _paired(same_E, part @ (1 << np.arange(part.shape[1], dtype=np.int64)))
    same_E = _paired(same_E, state_E2[:, 0])
    if tables.companion is not None:
        same_E = _paired(same_E, tables.companion.merged(state_E2[:, 1]))
    same_E = _paired(same_E, tables.end_O[option_E])
    if not (tables.after_weights.any() or tables.before_weights.any()):
        return same_E
    return _paired(_paired(same_E, tables.start_O[option_E]), tables.orientation_kind_O[option_E])


def _paired(one_E: Ids, other_E: Ids) -> Ids:
    """A number for each pair of values [E]. Equal pairs have equal numbers, and different pairs different ones."""
    _, other_E = np.unique(other_E, return_inverse=True)
    return np.unique(one_E * (1 + other_E.max(initial=0)) + other_E, return_inverse=True)[1].astype(np.int64)


def _largest(row_E: Ids, value_E: Numbers, count: int | None, rows: int) -> Ids:
    """The indices of the ``count`` largest values of each row, ascending; all indices if ``count`` is None. ``row_E``
    must ascend.

    The first of equal values is chosen, so that the choice does not depend on other rows.
    """
    if count is None:
        return np.arange(len(row_E))
    first_B = np.searchsorted(row_E, np.arange(rows))
    size_B = np.searchsorted(row_E, np.arange(rows), side="right") - first_B
    if size_B.max(initial=0) <= count:
        return np.arange(len(row_E))
    within_E = np.arange(len(row_E)) - first_B[row_E]
    padded = np.full((rows, int(size_B.max())), -np.inf)
    padded[row_E, within_E] = value_E
    least_B1 = np.partition(padded, -count, axis=1)[:, -count, None]
    above, equal = padded > least_B1, (padded == least_B1) & (np.arange(padded.shape[1]) < size_B[:, None])
    chosen = above | (equal & (np.cumsum(equal, 1) <= count - above.sum(1, keepdims=True)))
    return np.flatnonzero(chosen[row_E, within_E])


def _largest_anywhere(row_U: Ids, value_U: Numbers, count: int | None) -> Ids:
    """Like ``_largest``, for rows in any order. Returns the indices sorted by row, then by value, largest first."""
    order = np.lexsort((-value_U, row_U))
    if count is None:
        return order
    ordered = row_U[order]
    return order[np.arange(len(order)) - np.searchsorted(ordered, ordered) < count]


def _ended(stack: Stack, complete_H: Mask, goal_B: Ids) -> tuple[Arcs, Ids]:
    """The arcs from the hypotheses where ``complete_H`` is True to their goals, and the source of each arc [A]. The
    arcs add EOS by the language models, and the orientation of the last phrase to the end of the source.
    """
    tables, at = stack.tables, np.flatnonzero(complete_H)
    length = tables.lengths_B[stack.row_H[at]]
    language, outside = tables.language_step(stack.language_H2[at], np.full(len(at), EOS, np.int64))[0].T
    kind = np.where(stack.end_H[at] == length, 0, 2)
    score = stack.score_H[at] + _after(stack, at, kind) + tables.language_weight * language + outside
    ended = np.full(len(at), -1, np.int64)
    return Arcs(goal_B[stack.row_H[at]], stack.node_H[at], ended, score, language, outside), stack.row_H[at]
