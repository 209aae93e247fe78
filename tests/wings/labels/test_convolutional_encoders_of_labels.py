"""What the wing labels adds to test_convolutional_encoders.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_convolutional_encoders import ROWS, SOURCE, WORDS, Array, D, embed, numbers
from torch.testing import assert_close

from drawn import spread
from transduce.core.types import Padded
from transduce.wings.labels.encoders.sentence import SentenceConvolution, shorten


def sentence(ours: Any, ids: list[int]) -> list[list[Array]]:
    """Every level of one sentence, by Kalchbrenner and Blunsom's rule, without batch and padding."""
    levels = [embed(ours, ids)]
    while len(levels[-1]) > 1 or len(levels) <= ours.level:
        kernel = numbers(ours.kernels[min(len(levels), len(ours.kernels)) - 1])
        below, size = levels[-1], kernel.shape[1]
        if len(below) == 1:
            levels.append(below)
            continue
        below = below + [np.zeros(D)] * (size - len(below))
        windows = [below[s : s + size] for s in range(len(below) - size + 1)]
        levels.append([np.tanh(sum(kernel[:, j] * x for j, x in enumerate(window))) for window in windows])
    return levels


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("kernels", [(2, 3, 4), (5, 2, 2), (20, 3, 2)])
def test_sentence_convolution_is_one_sentence_at_a_time(kernels: tuple[int, ...], level: int) -> None:
    ours = spread(SentenceConvolution(WORDS, kernels, D, level))
    memory = ours(SOURCE)
    for row, ids in enumerate(ROWS):
        levels = sentence(ours, ids)
        assert len(levels[-1]) == 1
        assert_close(memory.summary[0][row], torch.tensor(levels[-1][0]))
        assert int(memory.states.lengths[row]) == len(levels[level])
        assert_close(memory.states.values[row, : len(levels[level])], torch.tensor(np.stack(levels[level])))


def test_a_sentence_of_any_length_comes_down_to_one_vector_in_few_kernels() -> None:
    """Kernels of the widths 2, 3, 4, 5, 5, ... shorten 60 words by 1, 3, 6, 10, 14, ... in all. After 17 of them, one
    vector is left.
    """
    x, used = Padded(torch.randn(1, 60, D), torch.tensor([60])), 0
    while x.values.shape[1] > 1:
        x, used = shorten(x, torch.randn(D, min(2 + used, 5))), used + 1
    assert used == 17
    assert x.lengths.tolist() == [1]


@pytest.mark.parametrize(
    ("kernels", "level", "message"),
    [
        ((), 0, r"kernels = \[\]: each must be at least 2"),
        ((3, 1), 0, r"kernels = \[3, 1\]: each must be at least 2"),
        ((2, 3), 3, "level = 3: states may be taken after 0 to 2 kernels"),
    ],
)
def test_sentence_convolution_refuses(kernels: tuple[int, ...], level: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SentenceConvolution(WORDS, kernels, level=level)
