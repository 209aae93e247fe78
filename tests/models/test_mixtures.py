"""Several models as one: the mixture of their probabilities, computed here in plain NumPy from each alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from families import FACTS, attending, build, recurrent, sources, targets, transformer
from transduce.core import config
from transduce.core.protocols import Model
from transduce.core.types import PAD, Padded
from transduce.models.mixtures import Ensemble, Fusion
from transduce.search.beam import Beam
from transduce.search.forcing import force

INFINITY = float("inf")


class Fixed(nn.Module):
    """A model that gives the same logits always."""

    def __init__(self, *logits: float, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits, dtype=dtype))

    def start(self, source: Padded) -> None:
        return None

    def extend(self, tokens_BT: Tensor, state: None) -> tuple[Tensor, None]:
        return torch.zeros_like(tokens_BT, dtype=self.logits.dtype), None

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits_V = output[..., None] + self.logits
        return logits_V if candidates is None else logits_V[..., candidates]


@pytest.fixture(scope="module")
def members() -> list[Any]:
    return [build(recurrent(attending("luong", "general"))), build(transformer(), seed=1), build(recurrent("plain"))]


def probabilities(model: Any) -> np.ndarray:
    output, _ = model.extend(targets(3, 5), model.start(sources([5, 2, 4])))
    logits: np.ndarray = model.readout(output).detach().numpy()
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def test_an_ensemble_is_the_mean_of_probabilities(members: list[Any]) -> None:
    mean = sum(probabilities(model) for model in members) / 3
    np.testing.assert_allclose(probabilities(Ensemble(members)), mean, rtol=1e-9)
    once = probabilities(members[0])
    np.testing.assert_allclose(probabilities(Ensemble([members[0]] * 2)), once, rtol=1e-9)


def test_a_fusion_is_the_product_of_powers(members: list[Any]) -> None:
    weights = [0.5, 0.0, 1.2]
    product = np.prod([probabilities(model) ** weight for model, weight in zip(members, weights, strict=True)], 0)
    fused = probabilities(Fusion(members, weights))
    np.testing.assert_allclose(fused, product / product.sum(-1, keepdims=True), rtol=1e-9)


def test_without_renormalisation_log_probabilities_are_weighted_sums(members: list[Any]) -> None:
    weights = [0.6, 0.3, 0.4]
    source, target = sources([4, 3]), Padded(torch.tensor([[4, 5, 2], [6, 2, 0]]), torch.tensor([3, 2]))
    each = [[h.log_prob for h in force(model, source, target)] for model in members]
    plain = [h.log_prob for h in force(Fusion(members, weights, renormalise=False), source, target)]
    assert plain == pytest.approx(list(np.array(weights) @ np.array(each)))
    normalised = [h.log_prob for h in force(Fusion(members, weights), source, target)]
    assert all(more > less + 1e-3 for more, less in zip(normalised, plain, strict=True))
    for hypotheses in Beam(3, 3, max_length=5)(Fusion(members, weights, renormalise=False), source):
        assert all(PAD not in hypothesis.tokens for hypothesis in hypotheses)


@pytest.mark.parametrize("mixture", [lambda m: Ensemble(m), lambda m: Fusion(m, [0.5, 0.5], renormalise=False)])
def test_a_model_mixed_with_itself_is_itself(mixture: Any) -> None:
    model = Fixed(0.3, -INFINITY, 2.0, -1.0)  # its PAD has a share, which is lost without renormalisation
    source = sources([3])
    output, _ = mixture([model, model]).extend(targets(1, 1), mixture([model, model]).start(source))
    expected = torch.tensor([0.3, -INFINITY, 2.0, -1.0], dtype=torch.float64).log_softmax(0)
    assert_close(mixture([model, model]).readout(output)[0, 0], expected)


def test_what_one_model_rules_out() -> None:
    sure, unsure = Fixed(-INFINITY, -INFINITY, 0.0, -INFINITY), Fixed(0.0, 0.0, 0.0, -INFINITY)
    output, _ = Ensemble([sure, unsure]).extend(targets(1, 1), (None, None))
    mean = Ensemble([sure, unsure]).readout(output)[0, 0].exp()
    assert_close(mean, torch.tensor([1 / 6, 1 / 6, 4 / 6, 0], dtype=torch.float64))
    for renormalise in (True, False):
        product = Fusion([sure, unsure], [0.5, 0.5], renormalise).readout(output)[0, 0]
        assert product[[1, 3]].tolist() == [-INFINITY, -INFINITY]
    assert Fusion([sure, unsure], [0.0, 1.0]).readout(output)[0, 0].exp()[:3].tolist() == pytest.approx([1 / 3] * 3)


def test_gradients_pass_where_a_model_rules_out() -> None:
    models = [Fixed(-INFINITY, 1.0, 0.0), Fixed(0.5, 0.0, -1.0)]
    for mixture in (Ensemble(models), Fusion(models, [0.5, 0.5]), Fusion(models, [0.5, 0.5], renormalise=False)):
        mixture.zero_grad()
        output, _ = mixture.extend(targets(1, 1), (None, None))
        mixture.readout(output)[0, 0, 1].backward()
        assert all(model.logits.grad is not None and model.logits.grad.isfinite().all() for model in models)


def test_gradients_pass_where_all_models_rule_out() -> None:
    """The loss of allowed words has finite, non-zero gradients. Values are the same with and without gradients."""
    models = [Fixed(-INFINITY, 1.0, 0.0), Fixed(-INFINITY, 0.0, -1.0), Fixed(-INFINITY, 2.0, 0.5)]
    mixture = Ensemble(models)
    output, _ = mixture.extend(targets(1, 1), (None, None, None))
    log_p_V = mixture.readout(output)[0, 0]
    with torch.no_grad():
        assert_close(log_p_V.detach(), mixture.readout(output)[0, 0])
    (-log_p_V[1] - 0.5 * log_p_V.log_softmax(0)[2]).backward()
    for model in models:
        assert model.logits.grad is not None
        assert model.logits.grad.isfinite().all()
        assert model.logits.grad[1:].any()


@pytest.mark.parametrize("mixture", [lambda m: Ensemble(m), lambda m: Fusion(m, [1, 1]), lambda m: Fusion(m, [1, 0])])
def test_mixtures_are_wide_and_their_own(mixture: Any) -> None:
    models = [Fixed(1.0, 0.0, 3.0, dtype=torch.bfloat16), Fixed(0.0, 0.0, 1.0, dtype=torch.float16)]
    mixed = mixture(models)
    output, _ = mixed.extend(targets(1, 1), (None, None))
    first = mixed.readout(output)
    assert first.dtype == torch.float32
    before = first.clone()
    with torch.no_grad():
        mixed.readout(output).fill_(0)
    assert_close(mixed.readout(output), before)
    assert_close(mixed.readout(output, torch.tensor([2, 1])), before[..., [2, 1]])


# ---------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("weights", "renormalise", "message"),
    [
        ([1.0], True, r"weights = \[1\.0\]: one for each of 2 models"),
        ([1.0, -0.1], True, r"weights = \[1\.0, -0\.1\]: numbers of 0 or more"),
        ([0.0, 0.0], True, r"not all of them 0"),
        ([1.0, float("nan")], True, "numbers of 0 or more"),
        ([1.0, INFINITY], True, "numbers of 0 or more"),
        ([0.5, 0.4], False, r"add up to 0\.9: without renormalise at least 1"),
    ],
)
def test_weights_that_are_none(weights: list[float], renormalise: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Fusion([Fixed(0.0), Fixed(0.0)], weights, renormalise)


def test_weights_that_add_up_to_one_but_for_rounding() -> None:
    Fusion([Fixed(0.0)] * 10, [0.1] * 10, renormalise=False)


def test_no_models_and_vocabularies_that_differ() -> None:
    with pytest.raises(ValueError, match="models is empty"):
        Ensemble([])
    for mixture in (Ensemble([Fixed(0, 0), Fixed(0, 0, 0)]), Fusion([Fixed(0, 0), Fixed(0, 0, 0)], [1, 1])):
        output, _ = mixture.extend(targets(1, 1), (None, None))
        with pytest.raises(ValueError, match="models of 2 and of 3 words cannot be mixed"):
            mixture.readout(output)


def test_a_mistake_in_one_of_the_models_is_found_by_its_path() -> None:
    with pytest.raises(config.ConfigError, match=r"model\.models\[1\]\.decoder"):
        config.build(
            {"type": "ensemble", "models": [transformer(), transformer() | {"decoder": {"type": "transfomer"}}]},
            Model,
            FACTS,
            "model",
        )
