"""What the wing labels adds to test_mixtures.py."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import transduce
from families import CHAINS, FACTS, build, sources, transformer
from transduce.core.errors import UserError
from transduce.models.mixtures import Ensemble
from transduce.wings.labels.chain_fusion import ChainFusion


@pytest.mark.parametrize("weights", [None, [0.3, 0.9], [0.0, 1.0]])
def test_mixed_chains_are_the_product_of_their_powers(weights: list[float] | None) -> None:
    one, other = (build(CHAINS["crf, lstm"], seed=seed) for seed in (1, 2))
    source, labels = sources([3, 3]), list(itertools.product(range(FACTS.target_vocabulary), repeat=2))

    def log_probs(model: Any) -> Tensor:
        """[2, every pair of labels]"""
        trellis = model.trellis(source)
        scores = [trellis.score(torch.tensor([[*pair, 0]] * 2)) for pair in labels]
        return torch.stack(scores, 1) - trellis.log_normaliser[:, None]

    first, second = weights or [0.5, 0.5]
    wanted = (first * log_probs(one) + second * log_probs(other)).log_softmax(-1)
    assert_close(log_probs(ChainFusion([one, other], weights)), wanted)


def test_runs_of_classifiers_have_the_mean_of_their_probabilities(tmp_path: Path) -> None:
    pairs = [(f"{'great' if n % 2 else 'poor'} film {n % 7}", "good" if n % 2 else "bad") for n in range(40)]
    for seed in (1, 2):
        settings = {"training.steps": 2, "training.seed": seed, "model.encoder.width": 4}
        transduce.train("classification-network", tmp_path / f"run{seed}", settings, pairs, progress=False)
    runs = [str(tmp_path / "run1"), str(tmp_path / "run2")]
    pair = [("poor film 3", "bad")]
    scored = [next(iter(transduce.load(name).score(pair))).log_prob for name in (*runs, "+".join(runs))]
    one, other, both = (math.exp(log_prob or 0.0) for log_prob in scored)
    assert both == pytest.approx((one + other) / 2)
    assert one != other


def test_chains_that_cannot_be_mixed() -> None:
    first, second = build(CHAINS["hmm"]), build(CHAINS["hmm, of two labels, known words"])
    with pytest.raises(UserError, match="must have the same labels and the same order"):
        ChainFusion([first, second]).trellis(sources([2]))
    with pytest.raises(UserError, match="the ensemble model has no trellis: a crf or an hmm"):
        ChainFusion([Ensemble([build(transformer())])])
    with pytest.raises(UserError, match="models is empty"):
        ChainFusion([])
    for wrong in ([1.0], [-1.0, 1.0], [0.0, 0.0]):
        with pytest.raises(UserError, match="weights = "):
            ChainFusion([first, first], wrong)
