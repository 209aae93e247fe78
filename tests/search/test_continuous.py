"""Continuous batching: sources enter and leave the batch, and each has the hypotheses that it has alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_prefix import prefixes

from continuously import search_continuously
from families import FAMILIES, all_lengths, build, sources, transformer
from selection import mostly_slow
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.search.allocation.groups import Groups
from transduce.search.beam import Beam
from transduce.search.continuous import ContinuousBatch
from transduce.search.filters.lengths import LengthLimit
from transduce.search.filters.ngrams import NoRepeat
from transduce.search.greedy import Greedy
from transduce.search.ranking import Wu

FAMILY = "luong, general"  # its weights of seed 0 write outputs of many lengths
LENGTHS = all_lengths(FAMILY) * 3
SEARCHES: dict[str, Any] = {
    "greedy": Greedy(12),
    "limited": Greedy(12, filters=(LengthLimit(minimum=2, maximum=4, maximum_ratio=1.0),)),
    "beam": Beam(3, 2, max_length=12, ranking=Wu()),
    "groups": Beam(4, 4, max_length=12, allocation=Groups(2)),
}


@pytest.fixture(scope="module")
def model() -> Any:
    return build(FAMILIES[FAMILY])


class Counted:
    """A model that notes the number of rows of each step."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.rows: list[int] = []
        self.start, self.readout = model.start, model.readout

    def extend(self, tokens_BT: torch.Tensor, state: Any) -> Any:
        self.rows.append(len(tokens_BT))
        return self.model.extend(tokens_BT, state)


def padded(some: list[tuple[Padded, list[int]]]) -> tuple[Padded, Padded | None]:
    rows, beginnings = zip(*some, strict=True)
    values = [source.values[0, : source.lengths[0]] for source in rows]
    return Padded.of(values), prefixes(list(beginnings)) if any(beginnings) else None


def alone(search: Any, model: Any, source: Padded, prefix: list[int]) -> Any:
    return search(model, source, prefixes([prefix]) if prefix else None)[0]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("size", mostly_slow([1, 4, 5, 64], fast=[4]))
def test_each_source_is_as_alone(model: Any, search: Any, prefixed: bool, size: int) -> None:
    """Some sources have a prefix. They enter after the sources without a prefix."""
    together = sources(LENGTHS)
    rows = [tree.select(together, torch.tensor([row])) for row in range(len(LENGTHS))]
    beginnings = [[5, 4, 7][: row % 4] if prefixed and row > 5 else [] for row in range(len(LENGTHS))]
    found = dict(search_continuously(search, model, zip(rows, beginnings, strict=True), size, padded))
    assert sorted(found) == list(range(len(LENGTHS)))
    for row, (source, prefix) in enumerate(zip(rows, beginnings, strict=True)):
        expected = alone(search, model, source, prefix)
        assert [h.tokens for h in found[row]] == [h.tokens for h in expected]
        for one, other in zip(found[row], expected, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-9)
            assert one.score == pytest.approx(other.score, abs=1e-9)


def test_new_sources_enter_before_the_last_one_has_finished(model: Any) -> None:
    """They enter when at most an eighth of the batch is active."""
    batch = ContinuousBatch(Greedy(12), model, 16)
    batch.enter(sources(LENGTHS[:3]), range(3))
    assert not batch.has_room
    batch.drop([0])
    assert batch.has_room
    assert batch.active == [1, 2]


def test_many_new_sources_are_a_group_of_their_own(model: Any) -> None:
    """A few new sources join the older group. Many form their own group, and all older sources form one group."""
    counted = Counted(model)
    batch = ContinuousBatch(Beam(3, max_length=40, filters=(LengthLimit(minimum=40),)), counted, 32)
    for new, groups in ((2, [2]), (3, [2, 3]), (1, [6]), (7, [6, 7]), (14, [13, 14])):
        first = len(batch.active)
        batch.enter(sources(LENGTHS[:new]), range(first, first + new))
        counted.rows.clear()
        batch.step()
        assert counted.rows == [3 * count for count in groups]


@pytest.mark.parametrize("prefixed", [False, True])
def test_many_sources_of_different_lengths_are_encoded_in_parts(model: Any, prefixed: bool) -> None:
    """The encoder reads less padding, and each source has the outputs that it has alone."""
    lengths, read = (LENGTHS * 2)[:40], list[int]()
    counted, search = Counted(model), Beam(3, 2, max_length=12)
    counted.start = lambda source: (read.append(source.values.numel()), model.start(source))[1]
    source = sources(lengths)
    beginnings = [[5, 4, 7][: row % 4] if prefixed else [] for row in range(40)]
    batch = ContinuousBatch(search, counted, 64)
    told = dict(batch.enter(source, range(40), prefixes(beginnings) if prefixed else None))
    assert len(read) == 3
    assert sum(read) < source.values.numel() * 0.8
    while batch.active:
        told |= dict(batch.step())
    for row, prefix in enumerate(beginnings):
        expected = alone(search, model, tree.select(source, torch.tensor([row])), prefix)
        assert [h.tokens for h in told[row]] == [h.tokens for h in expected]
        assert [h.score for h in told[row]] == pytest.approx([h.score for h in expected], abs=1e-9)


def test_sources_are_read_when_there_is_room(model: Any) -> None:
    together, read = sources(LENGTHS), list[int]()
    rows = (
        (tree.select(together, torch.tensor([row])), read.append(row) or list[int]()) for row in range(len(LENGTHS))
    )
    for finished, _ in enumerate(search_continuously(Greedy(12), model, rows, 4, padded), 1):
        assert len(read) <= finished + 4 + 3  # sources that finish in the same step are yielded one by one


def test_a_source_that_is_dropped_is_not_told(model: Any) -> None:
    for search in (Greedy(12), Beam(3, max_length=12)):
        batch = ContinuousBatch(search, model, 8)
        source = sources(LENGTHS[:6])
        told = batch.enter(source, range(10, 16))
        assert batch.free == 8 - len(batch.active)
        dropped = batch.active[0]
        batch.drop([dropped])
        assert dropped not in batch.active
        while batch.active:
            told += batch.step()
        assert sorted(key for key, _ in told) == sorted(set(range(10, 16)) - {dropped})
        assert batch.step() == []


def _to_the_end(search: Any, model: Any, state: Any) -> Any:
    found = []
    while state.active:
        state, finished = search.step(model, search.leave(state))
        found += finished
    return found


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_state_does_not_change(model: Any, search: Any) -> None:
    """A search goes on from an old state as it did before, also after others have dropped sources and joined it."""
    state, _ = search.enter(model, sources(LENGTHS[:7]), range(7))
    for _ in range(2):
        state, _ = search.step(model, state)
    expected = _to_the_end(search, model, state)
    assert expected
    other, _ = search.enter(model, sources(LENGTHS[7:10]), range(7, 10))
    _to_the_end(search, model, search.join([state, other]))
    assert state.without(state.active).active == []
    assert _to_the_end(search, model, state) == expected


def test_old_rows_do_not_read_past_the_last_position() -> None:
    """Learned positions end at ``max_length``. Finished rows leave before they would read a later position."""
    table = transformer()
    table = table | {"decoder": table["decoder"] | {"positions": {"type": "learned", "length": 12}}}
    model, together = build(table), sources([3, 5, 7, 1, 2] * 4)
    rows = [(tree.select(together, torch.tensor([row])), list[int]()) for row in range(20)]
    limits = (LengthLimit(minimum_ratio=2.0, maximum_ratio=2.0),)
    for search in (Greedy(12, limits), Beam(2, max_length=12, filters=limits)):
        found = dict(search_continuously(search, model, rows, 8, padded))
        assert [len(found[row][0].tokens) for row in range(20)] == [6, 10, 12, 2, 4] * 4


def test_what_cannot_be_continuous_is_refused(model: Any) -> None:
    for search in (Greedy(filters=(NoRepeat(2),)), Beam(2, observer=lambda expansion: None)):
        assert not search.staggered
        with pytest.raises(UserError, match="sources cannot enter and leave a batch of this search"):
            ContinuousBatch(search, model, 4)
    with pytest.raises(UserError, match="batch_size = 0"):
        ContinuousBatch(Greedy(), model, 0)
    with pytest.raises(UserError, match="6 sources cannot enter a batch with 4 free places"):
        ContinuousBatch(Greedy(), model, 4).enter(sources(LENGTHS[:6]), range(6))
