"""Invented words have the same letters on both sides and keep endings. The seed, epoch and example decide alone."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from transduce.core.errors import UserError
from transduce.core.types import EOS, Batch, Padded
from transduce.training.hallucination import Hallucination

# Source ids 4 to 9 are the letters a to f, which are target ids 5 to 10; source id 10 is a feature.
COPIES = (0, 0, 0, 0, 5, 6, 7, 8, 9, 10, 0)
SOURCES = [[10, 4, 5, 6, 7, EOS], [10, 9, 8, EOS], [10, 6, 4, 6, 9, 9, EOS]]
TARGETS = [[5, 6, 7, 8, 10, 10, EOS], [5, 6, EOS], [7, 5, 7, 5, 5, EOS]]


def batch(rows: list[int]) -> Batch:
    sources, targets = ([side[row] for row in rows] for side in (SOURCES, TARGETS))
    return Batch(Padded.of(sources), Padded.of(targets), torch.tensor([20 + row for row in rows]))


def test_the_stem_is_invented_and_the_rest_stays() -> None:
    invent = Hallucination(COPIES, share=1.0, shortest=3)
    seen = set()
    for epoch in range(40):
        found = invent(batch([0, 1, 2]), epoch, seed=1)
        source, target = found.source.values, found.target.values
        assert source[0, 0] == 10
        assert target[0, 4:].tolist() == TARGETS[0][4:]
        assert [COPIES[each] for each in source[0, 1:5].tolist()] == target[0, :4].tolist()
        assert source[1, :4].tolist() == SOURCES[1]  # no run of three letters in common
        assert source[2, 4:].tolist() == SOURCES[2][4:]
        assert target[2, 3:6].tolist() == TARGETS[2][3:]
        seen |= set(source[0, 1:5].tolist())
    assert seen == {4, 5, 6, 7, 8, 9}


def test_what_is_invented_depends_on_seed_epoch_and_example() -> None:
    invent = Hallucination(COPIES, share=0.5, shortest=3)
    together = invent(batch([2, 1, 0]), 3, seed=7)
    alone = invent(batch([0]), 3, seed=7)
    assert_close(together.source.values[2, :6], alone.source.values[0])
    assert_close(together.target.values[2], alone.target.values[0])
    changed = [
        not torch.equal(invent(batch([0]), epoch, seed=7).source.values, batch([0]).source.values)
        for epoch in range(200)
    ]
    assert 70 < sum(changed) < 130


def test_what_cannot_be_invented_is_refused() -> None:
    with pytest.raises(UserError, match="they share none"):
        Hallucination((0, 0, 0, 0, 0))(batch([0]), 0, 1)
    with pytest.raises(UserError, match="shortest = 0"):
        Hallucination(COPIES, shortest=0)
    with pytest.raises(UserError, match=r"hallucination\.share"):
        Hallucination(COPIES, share=1.5)
