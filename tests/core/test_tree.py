"""State as a value: what the functions of ``tree`` do to any tree of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from transduce.core import tree
from transduce.core.tree import Buffer, Shared


@dataclass(frozen=True)
class Node:
    left: Any
    right: Any
    filled: int = 0


def rows_of(rows: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


law = settings(max_examples=50, deadline=None)  # a busy machine is no failure
ROWS = 4
tensors = st.builds(rows_of, st.just(ROWS), st.integers(1, 3), st.integers(0, 99))
trees = st.recursive(
    tensors | st.none() | st.integers(0, 9) | tensors.map(Shared),
    lambda branches: st.builds(Node, branches, branches, st.integers(0, 9)) | st.lists(branches, max_size=3).map(tuple),
    max_leaves=6,
)


def skeleton(value: Any) -> Any:
    """The tree without what its tensors hold."""
    if isinstance(value, Tensor):
        return "tensor"
    if isinstance(value, Shared):
        return "shared", skeleton(value.value)
    if isinstance(value, Node):
        return "node", skeleton(value.left), skeleton(value.right), value.filled
    return tuple(skeleton(branch) for branch in value) if isinstance(value, tuple) else value


@law
@given(trees)
def test_leaves_and_fill_are_inverse(value: Any) -> None:
    leaves = tree.leaves(value)
    again = tree.fill(value, leaves)
    assert skeleton(again) == skeleton(value)
    assert all(one is other for one, other in zip(tree.leaves(again), leaves, strict=True))


@law
@given(trees)
def test_map_touches_every_leaf_and_nothing_else(value: Any) -> None:
    before = [leaf.clone() for leaf in tree.leaves(value)]
    doubled = tree.map(lambda leaf: 2 * leaf, value)
    assert skeleton(doubled) == skeleton(value)
    assert_close(tree.leaves(doubled), [2 * leaf for leaf in before])
    assert_close(tree.leaves(value), before)


@law
@given(trees, st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=6), st.data())
def test_selecting_twice_is_selecting_once(value: Any, first: list[int], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.integers(0, len(first) - 1), min_size=1, max_size=6))
    twice = tree.select(tree.select(value, torch.tensor(first)), torch.tensor(second))
    once = tree.select(value, torch.tensor([first[n] for n in second]))
    assert skeleton(once) == skeleton(value)
    assert_close(tree.leaves(twice), tree.leaves(once))


@law
@given(trees, st.data())
def test_joining_what_was_taken_apart(value: Any, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, ROWS - 1))
    parts = [tree.select(value, torch.arange(*span)) for span in ((0, cut), (cut, ROWS))]
    joined = tree.join(parts)
    assert skeleton(joined) == skeleton(value)
    assert_close(tree.leaves(joined), tree.leaves(value))


def state(sources: int = 2, hypotheses: int = 3) -> Node:
    """A state of a search over K hypotheses: one leaf of B * K rows, and one of B."""
    return Node(rows_of(sources * hypotheses, 2), Shared((rows_of(sources, 3, 1), None)), 7)


def test_select_takes_sources_apart_from_hypotheses() -> None:
    before = state()
    after = tree.select(before, torch.tensor([3, 5, 3]), torch.tensor([1]))
    assert_close(after.left, before.left[[3, 5, 3]])
    assert_close(after.right.value[0], before.right.value[0][[1]])
    assert after.right.value[1] is None
    assert after.filled == 7


def test_reorder_and_repeat_leave_what_is_shared() -> None:
    before = state()
    order = torch.tensor([2, 0, 0, 5, 4, 3])
    reordered, repeated = tree.reorder(before, order), tree.repeat(before, 2)
    assert_close(reordered.left, before.left[order])
    assert_close(repeated.left, before.left[[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]])
    for after in (reordered, repeated):
        assert after.right.value[0] is before.right.value[0]  # not even copied
        assert after.filled == 7


def test_map_may_treat_what_is_shared_in_its_own_way() -> None:
    after = tree.map(lambda leaf: leaf + 1, state(), lambda leaf: leaf - 1)
    assert_close(after.left, state().left + 1)
    assert_close(after.right.value[0], state().right.value[0] - 1)


def test_fork_shares_no_memory() -> None:
    before = state()
    after = tree.fork(before)
    for leaf in tree.leaves(after):
        leaf.zero_()
    assert_close(tree.leaves(before), tree.leaves(state()))


def test_join_fills_up_shorter_buffers_and_takes_the_largest_integer() -> None:
    short, long = Node(torch.ones(1, 2, 3), None, 2), Node(torch.full((2, 4, 3), 2.0), None, 4)
    joined = tree.join([short, long])
    assert joined.filled == 4
    assert joined.right is None
    assert joined.left.shape == (3, 4, 3)
    assert joined.left[0].sum(-1).tolist() == [3, 3, 0, 0]
    assert (joined.left[1:] == 2).all()


def test_a_tree_alone_is_joined_to_itself() -> None:
    joined = tree.join([state()])
    assert skeleton(joined) == skeleton(state())
    assert_close(tree.leaves(joined), tree.leaves(state()))


def test_rows_are_the_first_leafs() -> None:
    assert tree.rows(state()) == 6
    assert tree.rows((None, 3, Shared(torch.zeros(5, 1)))) == 5


@pytest.mark.parametrize("leaf", [[torch.zeros(1)], {"a": torch.zeros(1)}, 1.5, "text", Node], ids=repr)
def test_what_is_no_state_is_refused(leaf: Any) -> None:
    with pytest.raises(TypeError, match=f"a state holds tensors.*, not {type(leaf).__name__}"):
        tree.map(torch.clone, (torch.zeros(1), leaf))


# ------------------------------------------------------------------ buffers


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("reserved", [None, 8])
@pytest.mark.parametrize("grad", [True, False])
def test_a_buffer_holds_each_row_at_its_own_places(grad: bool, reserved: int | None) -> None:
    """Row 0 has 2 positions, row 1 has 1. Both are extended step by step."""
    first = randn(2, 1, 2, 3, seed=1)
    places = torch.tensor([2, 1])
    with torch.set_grad_enabled(grad):
        buffer = Buffer(first.clone())
        if reserved is not None:
            buffer = tree.reserve(buffer, reserved)
        expected = [[first[0, 0, 0], first[0, 0, 1]], [first[1, 0, 0]]]
        for t in range(5):
            new = randn(2, 1, 1, 3, seed=10 + t)
            buffer = buffer.write(new, places[:, None])
            places = places + 1
            for row in range(2):
                expected[row].append(new[row, 0, 0])
                assert_close(buffer.values[row, 0, : places[row]], torch.stack(expected[row]))
        assert buffer.capacity == (reserved or 7)


def test_each_write_adds_room_for_its_positions() -> None:
    first, new = randn(1, 2, 4, 5), randn(1, 2, 3, 5, seed=1)
    with torch.no_grad():
        buffer = Buffer(first.clone()).write(new, torch.tensor([[4, 5, 6]]))
    assert_close(buffer.values, torch.cat([first, new], 2))


def test_a_reserved_buffer_is_written_in_place_and_keeps_its_shape() -> None:
    with torch.no_grad():
        buffer = tree.reserve(Buffer(randn(1, 1, 0, 2)), 6)
        memory = buffer.values.data_ptr()
        for place in range(6):
            buffer = buffer.write(randn(1, 1, 1, 2), torch.tensor([[place]]))
        assert (buffer.values.data_ptr(), buffer.capacity) == (memory, 6)


def test_under_grad_a_buffer_is_left_as_it_was_and_learns() -> None:
    key = randn(1, 1, 2, 3).requires_grad_()
    new = randn(1, 1, 1, 3, seed=5).requires_grad_()
    for buffer in (Buffer(key), tree.reserve(Buffer(key), 4)):
        key.grad = new.grad = None
        before = buffer.values.detach().clone()
        after = buffer.write(new, torch.tensor([[2]]))
        assert_close(buffer.values.detach(), before)
        after.values.sum().backward()
        assert_close(key.grad, torch.ones_like(key))
        assert_close(new.grad, torch.ones_like(new))


def test_a_buffer_takes_the_type_of_what_is_written() -> None:
    """The keys of a model in autocast are narrower than its states."""
    with torch.no_grad():
        buffer = tree.reserve(Buffer(torch.zeros(1, 1, 0, 2)), 4)
        assert buffer.write(torch.ones(1, 1, 1, 2, dtype=torch.bfloat16), torch.tensor([[0]])).values.dtype == (
            torch.bfloat16
        )


def test_reserve_changes_buffers_alone_and_join_takes_the_largest_capacity() -> None:
    before = Node(rows_of(2, 3), (Buffer(randn(2, 1, 2, 3)), Shared(rows_of(1, 2))))
    after = tree.reserve(before, 5)
    assert after.left is before.left
    assert after.right[1].value is before.right[1].value
    assert_close(after.right[0].values[:, :, :2], before.right[0].values)
    assert tree.reserve(after, 2).right[0].capacity == 2
    joined = tree.join([after, tree.reserve(before, 3)])
    assert (joined.right[0].capacity, joined.right[0].reserved) == (5, True)
    assert not tree.join([after, before]).right[0].reserved
    smaller = tree.reserve(after, 2).right[0].values
    assert smaller.data_ptr() == after.right[0].values.data_ptr(), "a larger buffer becomes a view"


@pytest.mark.parametrize(
    "other", [(torch.zeros(1, 2),), (torch.zeros(1, 2), torch.zeros(1, 2, 3))], ids=["short", "axes"]
)
def test_trees_of_other_structure_are_not_joined(other: Any) -> None:
    with pytest.raises(ValueError, match="argument"):
        tree.join([(torch.zeros(1, 2), torch.zeros(1, 2)), other])


@law
@given(st.data())
def test_any_order_of_fork_select_reorder_repeat_and_join(data: st.DataObject) -> None:
    """A model in lists: the source of each hypothesis, and what each hypothesis has read."""

    def made(hypotheses: list[tuple[int, int]], sources: list[int]) -> Node:
        left = torch.tensor(hypotheses).reshape(-1, 2)
        return Node(left, Shared((torch.tensor(sources), None)), len(sources))

    hypotheses, sources, size = [(source, 10 * source) for source in range(3)], [0, 1, 2], 1
    value = made(hypotheses, sources)
    for _ in range(data.draw(st.integers(1, 8))):
        what = data.draw(st.sampled_from(["fork", "select", "reorder", "repeat", "join"]))
        count = len(sources)
        if what == "fork":
            other = tree.fork(value)
            for leaf in tree.leaves(other):
                leaf.fill_(-1)
        elif what == "select":
            kept = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4))
            rows = [row for source in kept for row in range(size * source, size * (source + 1))]
            value = tree.select(value, torch.tensor(rows), torch.tensor(kept))
            hypotheses, sources = [hypotheses[row] for row in rows], [sources[source] for source in kept]
        elif what == "reorder":
            drawn = data.draw(st.lists(st.integers(0, size - 1), min_size=count * size, max_size=count * size))
            rows = [place // size * size + beam for place, beam in enumerate(drawn)]
            value = tree.reorder(value, torch.tensor(rows))
            hypotheses = [hypotheses[row] for row in rows]
        elif what == "repeat" and size < 4:
            value, size = tree.repeat(value, 2), 2 * size
            hypotheses = [each for each in hypotheses for _ in range(2)]
        elif what == "join" and count < 20:
            arriving = [(7, number) for number in range(size)]
            value = tree.join([value, made(arriving, [7])])
            hypotheses, sources = hypotheses + arriving, [*sources, 7]
        assert value.left.tolist() == [list(each) for each in hypotheses]
        assert value.right.value[0].tolist() == sources
        for row, (source, _) in enumerate(hypotheses):
            assert sources[row // size] == source, "a hypothesis has the memory of another source"
