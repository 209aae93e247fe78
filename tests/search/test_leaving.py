"""Finished rows leave a batch in halves, and the results do not change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from families import FAMILIES, all_lengths, build, sources
from transduce.core import tree
from transduce.core.types import Padded
from transduce.search.base import Expansion
from transduce.search.beam import Beam
from transduce.search.front import batch_size, remaining
from transduce.search.greedy import Greedy
from transduce.search.sampling import Sampling

FAMILY = "luong, general"  # its weights of seed 0 write outputs of many lengths
LENGTHS = all_lengths(FAMILY) * 3


class Counted:
    """A model that notes the number of rows of each step."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.rows: list[int] = []
        self.start, self.readout = model.start, model.readout

    def extend(self, tokens_BT: Tensor, state: Any) -> Any:
        self.rows.append(len(tokens_BT))
        return self.model.extend(tokens_BT, state)


@pytest.fixture(scope="module")
def model() -> Any:
    return build(FAMILIES[FAMILY])


def test_there_is_room_for_a_power_of_two() -> None:
    assert [batch_size(rows) for rows in (0, 1, 2, 3, 4, 5, 64, 65)] == [0, 1, 2, 4, 4, 8, 64, 128]


def test_a_search_that_moves_its_rows_anyway_has_more_sizes() -> None:
    sizes = [batch_size(rows, 4) for rows in range(34)]
    assert sizes == [*range(9), 10, 10, 12, 12, 14, 14, 16, 16, *4 * [20], *4 * [24], *4 * [28], *4 * [32], 40]


def test_all_stay_in_order_or_those_that_go_on_and_as_many_as_there_is_room_for() -> None:
    assert remaining([True, False, True, True]) == [0, 1, 2, 3]
    assert sorted(remaining([True, False, True, False, True, False])) == [0, 1, 2, 4]
    assert remaining([False, False, True]) == [2]
    assert not remaining([False, False])


@pytest.mark.parametrize("search", [Greedy(12), Beam(3, max_length=12), Sampling(3, max_length=12)])
def test_steps_have_few_sizes_and_rows_are_as_alone(model: Any, search: Any) -> None:
    source, counted = sources(LENGTHS), Counted(model)
    together = search(counted, source)
    each = getattr(search, "size", 1)
    assert counted.rows[-1] < len(LENGTHS) * each  # some have left
    if not isinstance(search, Sampling):  # its rows include the samples of a source, whose number halves too
        powers = (len(LENGTHS), 1, 2, 4, 8, 16)
        sizes = (*powers, *range(8), 10, 12, 14, 20, 24, 28) if isinstance(search, Beam) else powers
        assert all(rows // each in sizes for rows in counted.rows[1:])
    for row, found in enumerate(together):
        (alone,) = search(model, tree.select(source, torch.tensor([row])))
        assert [h.tokens for h in found] == [h.tokens for h in alone]
        assert [h.log_prob for h in found] == pytest.approx([h.log_prob for h in alone])


def test_an_observer_sees_no_source_that_is_done(model: Any) -> None:
    """An observer sees the same steps of a source in a batch as of the source alone."""
    source = sources(LENGTHS)
    for row in (0, 4):
        together, alone = _seen(model, source, row), _seen(model, tree.select(source, torch.tensor([row])), 0)
        assert len(together) == len(alone)
        for one, other in zip(together, alone, strict=True):
            torch.testing.assert_close(one, other)


def _seen(model: Any, source: Padded, row: int) -> list[Tensor]:
    seen: list[Tensor] = []

    def observe(step: Expansion) -> None:
        if row in step.source_B:
            seen.append(step.candidates.total_BC[step.source_B.index(row)].clone())

    Beam(3, max_length=12, observer=observe)(model, source)
    return seen
