"""Minimum risk of CTC models: the definition by enumeration of alignments, and the sampler of outputs."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from test_frames import SYMBOLS
from test_risk import edits, read
from torch import Tensor, nn
from torch.testing import assert_close

from families import sources
from transduce import api
from transduce.core.types import BOS, EOS, PAD, Batch, Padded
from transduce.wings.ctc.paths import collapse
from transduce.wings.ctc.risk import ExpectedFrameRisk
from transduce.wings.ctc.search.alignment_sampling import AlignmentSampling
from transduce.wings.ctc.search.prefix_beam import PrefixBeam

FRAMES = (3, 1, 3)


class Given(nn.Module):
    """A model whose parameters are the logits of its frames."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        logits_BSV = 1.5 * torch.randn(len(FRAMES), max(FRAMES), 6, generator=generator, dtype=torch.float64)
        logits_BSV[..., [BOS, EOS]] = -1e4
        self.logits = nn.Parameter(logits_BSV)

    def frames(self, source: Padded) -> Padded:
        return Padded(self.logits.log_softmax(-1)[: len(source.lengths)], torch.tensor(FRAMES)[: len(source.lengths)])


def batch() -> Batch:
    """A batch whose second target needs more frames than its source has."""
    target = torch.tensor([[5, 4, EOS], [5, 4, EOS], [4, EOS, PAD]])
    return Batch(sources([2, 1, 2]), Padded(target, torch.tensor([3, 3, 2])), torch.arange(3))


def distribution(model: Given, row: int) -> dict[tuple[int, ...], Tensor]:
    """p(y) of every output y, summed over all its alignments. It is differentiable."""
    p_SV, found = model.logits[row].softmax(-1), dict[tuple[int, ...], Tensor]()
    for path in product((PAD, *SYMBOLS), repeat=FRAMES[row]):
        share = torch.stack([p_SV[t, symbol] for t, symbol in enumerate(path)]).prod()
        output = collapse(path, PAD)
        found[output] = found[output] + share if output in found else share
    return found


@pytest.mark.parametrize("sharpness", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
def test_it_is_its_definition(sharpness: float) -> None:
    model, given, expected, likelihood = Given(), batch(), torch.tensor(0.0).double(), torch.tensor(0.0).double()
    for row in range(3):
        p = distribution(model, row)
        best = sorted(p, key=lambda output: -float(p[output].detach()))[:3]
        target = given.target.values[row, : given.target.lengths[row]].tolist()
        weights = torch.stack([p[output] for output in best]) ** sharpness
        risks = torch.tensor([len(target) * edits((*output, EOS), target) for output in best]).double()
        expected = expected + (weights / weights.sum() * risks).sum()
        likelihood = likelihood - (p[tuple(target[:-1])].log() if tuple(target[:-1]) in p else 0.0)
    objective = ExpectedFrameRisk(
        "wer", 3, PrefixBeam(size=50, weight=0.0, unknown=True), sharpness, likelihood=0.25
    ).reading(read)
    loss, _ = objective(model, given)
    assert_close(loss.parts["risk"], expected.detach())
    assert_close(loss.total, expected + 0.25 * likelihood)
    assert (loss.count, loss.tallies) == (8, {"skipped": 1})
    gradients = [torch.autograd.grad(total, model.logits)[0] for total in (loss.total, expected + 0.25 * likelihood)]
    assert_close(*gradients)


def test_validation_is_the_loss_of_ctc() -> None:
    model, given = Given().eval(), batch()
    loss, _ = ExpectedFrameRisk("wer").reading(read)(model, given)
    expected = -sum(distribution(model, row)[output].log() for row, output in ((0, (5, 4)), (2, (4,))))
    assert_close(loss.total, expected)
    assert (loss.count, set(loss.parts)) == (5, {"nll"})


def test_samples_follow_the_distribution_and_know_their_log_probability() -> None:
    model, source = Given(), batch().source
    found = AlignmentSampling(size=2000, unknown=True)(model, source)
    for row, samples in enumerate(found):
        p = {output: share.detach() for output, share in distribution(model, row).items()}
        counts = Counter(each.tokens for each in samples)
        assert [each.score for each in samples] == sorted((each.score for each in samples), reverse=True)
        for output, share in p.items():
            deviation = 4 * math.sqrt(float(share) * (1 - float(share)) / 2000)
            assert abs(counts[(*output, EOS)] / 2000 - float(share)) <= deviation
        assert all(math.isclose(each.log_prob, float(p[each.tokens[:-1]].log()), rel_tol=1e-9) for each in samples)


def test_samples_depend_on_the_seed_and_not_on_the_batch() -> None:
    model, source = Given(), batch().source
    together = AlignmentSampling(size=20)(model, source)
    alone = AlignmentSampling(size=20)(model, Padded(source.values[:1], source.lengths[:1]))
    assert [each.tokens for each in alone[0]] == [each.tokens for each in together[0]]
    other = AlignmentSampling(size=20, seed=2)(model, source)
    assert [each.tokens for each in other[0]] != [each.tokens for each in together[0]]
    assert AlignmentSampling(size=20, nbest=2)(model, source)[0] == together[0][:2]


@pytest.mark.parametrize("candidates", ["alignment-sampling", pytest.param("prefix-beam", marks=pytest.mark.slow)])
def test_a_configuration_can_name_them(candidates: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "model": {"type": "ctc", "stretch": 2, "encoder": {"type": "recurrent", "cell": "lstm", "width": 8}},
        "objective": {"type": "minimum-risk-ctc", "metric": "exact", "candidates": {"type": candidates, "size": 4}},
        "search": {"type": candidates, "size": 4, "nbest": 2},
        "training.validation.search": "best-path",
        "training.steps": 2,
    }
    pairs = [("abc", "cba"), ("ba", "ab"), ("cab", "bac")] * 4
    tuned = api.train("reverse", tmp_path / "run", settings, pairs=pairs, device="cpu", progress=False)
    (outputs,) = tuned.predict(["abc"])
    assert len(outputs) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "perplexity"}, "compares no texts"),
        ({"metric": "wer", "outputs": 1}, r"outputs = 1: .*at least 2"),
        ({"metric": "wer", "sharpness": 0}, r"sharpness = 0: more than 0"),
    ],
)
def test_mistakes(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExpectedFrameRisk(**settings)
