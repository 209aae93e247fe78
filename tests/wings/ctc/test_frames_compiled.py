"""Compiled searches among alignments give the same numbers as the operators."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from test_frames import Drawn, totals
from torch import Tensor

from families import sources
from test_laws import padded_targets
from transduce.compute.library import optional_library
from transduce.core.types import BOS, EOS, Padded
from transduce.wings.ctc.search import compiled, forcing
from transduce.wings.ctc.search.prefix_beam import PrefixBeam

pytestmark = pytest.mark.skipif(
    optional_library() is None, reason="no C++ compiler was found when transduce was installed"
)


def drawn(seed: int, symbols: int, equal: bool) -> Padded:
    """Frames of sources of different lengths. If ``equal``, many log-probabilities are the same, and some are minus
    infinity.
    """
    generator = torch.Generator().manual_seed(seed)
    logits_BSV = torch.randn(5, 12, symbols, generator=generator, dtype=torch.float64)
    if equal:
        logits_BSV = logits_BSV.round()
        logits_BSV[logits_BSV < -1] = -torch.inf
    else:
        logits_BSV = (4 * logits_BSV).log_softmax(-1)
    logits_BSV[..., [BOS, EOS]] = -1e4
    return Padded(logits_BSV, torch.tensor([12, 1, 5, 2, 9]))


def exact_logaddexp(a: Tensor, b: Tensor) -> Tensor:
    """Replaces PyTorch's ``logaddexp``, which rounds differently at different places of a tensor."""
    return torch.from_numpy(np.asarray(np.logaddexp(a.numpy(), b.numpy())))


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize(("size", "nbest", "bonus"), [(1, 1, 0.0), (3, 2, 0.3), (8, 8, 0.0), (60, 9, -0.7)])
def test_the_prefix_beam_is_that_of_the_operators_bit_for_bit(
    size: int, nbest: int, bonus: float, equal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both take the first of equal prefixes. Both leave places empty if there are too few prefixes."""
    search = PrefixBeam(size, nbest, bonus=bonus)
    with np.errstate(invalid="ignore"):
        monkeypatch.setattr(torch, "logaddexp", exact_logaddexp)
        for seed, symbols in itertools.product(range(3), (4, 6, 30)):
            frames = drawn(seed, symbols, equal)
            found = compiled.best_prefixes(frames, size, nbest, bonus)
            assert found is not None
            tokens_BKL, length_BK, score_BK = search.by_operators(frames, sources([2] * 5), None)
            there_BK = length_BK >= 0
            assert torch.equal(found[1], length_BK)
            assert torch.equal(found[2][there_BK], score_BK[there_BK])
            for ours, theirs, length in zip(found[0][there_BK], tokens_BKL[there_BK], length_BK[there_BK], strict=True):
                assert torch.equal(ours[:length], theirs[:length])


@pytest.mark.parametrize("seed", range(3))
def test_the_probability_of_given_outputs_is_that_of_the_operators(seed: int) -> None:
    """Both give the same numbers, also for outputs that do not fit into the frames and for prefixes that fit in one
    way.
    """
    frames = drawn(seed, 7, equal=False)
    outputs = [[6, 6, 4, EOS], [5, EOS], [4, 4, 4, 5, EOS], [EOS], [6, 5, 6, 5, 5, 4, 6, EOS]]
    for some in (outputs, outputs[::-1]):
        target = padded_targets(some)
        found = compiled.token_log_probs(frames, target)
        expected = forcing.by_operators(frames, target, Padded(target.values[:, :-1], target.lengths - 1))
        assert found is not None
        own_NT, best_NT, choice_NT, total_N = expected
        before_NT = target.mask & (target.values != EOS)  # the last token gets the rest of the total
        assert torch.equal(found[0].isfinite() & before_NT, own_NT.isfinite() & before_NT)
        possible_NT = before_NT & own_NT.isfinite()
        torch.testing.assert_close(found[0][possible_NT], own_NT[possible_NT], rtol=0, atol=1e-9)
        torch.testing.assert_close(found[1][target.mask], best_NT[target.mask], rtol=0, atol=1e-9)
        assert torch.equal(found[2][target.mask], choice_NT[target.mask])
        torch.testing.assert_close(found[3], total_N, rtol=0, atol=1e-9)


def test_an_id_beyond_the_symbols_is_for_the_operators_to_refuse() -> None:
    frames = drawn(0, 6, equal=False)
    with pytest.raises((IndexError, RuntimeError)):
        forcing.scored(frames, padded_targets([[6, EOS]] * 5))


def test_without_the_library_the_operators_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operators find the best outputs and their probabilities, as enumeration does."""
    monkeypatch.setattr(compiled, "optional_library", lambda: None)
    frames = drawn(1, 6, equal=False)
    model: Any = Drawn(frames.values[:, :5], frames.lengths.clamp(max=5))
    for row, hypotheses in enumerate(PrefixBeam(400, 3, unknown=True)(model, sources([2] * 5))):
        best = sorted(totals(model, row).items(), key=lambda item: -item[1])[:3]
        assert [h.tokens for h in hypotheses] == [output for output, _ in best]
        assert [h.score for h in hypotheses] == pytest.approx([total for _, total in best], abs=1e-9)
        assert [h.log_prob for h in hypotheses] == pytest.approx([total for _, total in best], abs=1e-9)
