"""The laws of tests/test_laws.py that apply to parallel models, in float64."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from families import FACTS, PARALLEL, all_lengths, build, chooses_length, facts, labels_of, sources
from test_laws import LENGTHS, batch, padded_targets, pick, sources_alone
from transduce.core import config, tree
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, PAD, UNK, Padded
from transduce.objectives.cross_entropy import ParallelCrossEntropy
from transduce.search.length_beam import LengthBeam
from transduce.search.ranking import Average

WORDS = [3, 0, 6]  # how many are written for each source, by those that choose
CHOOSING = [family for family in PARALLEL if chooses_length(family)]


@pytest.fixture(params=PARALLEL, scope="module")
def family(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def words(family: str) -> list[int]:
    return WORDS if chooses_length(family) else labels_of(PARALLEL[family], LENGTHS)


@pytest.fixture(scope="module")
def model(family: str) -> Any:
    return build(PARALLEL[family])


def written(model: Any, source: Padded, lengths: list[int]) -> tuple[list[Tensor], Any]:
    """Log-probabilities of the words of each row, [n, V], and of its lengths, if they are a choice."""
    emission = model.emit(model.start(source), torch.tensor(lengths))
    log_probs_BTV = model.readout(emission.output).log_softmax(-1)
    return [row[:n] for row, n in zip(log_probs_BTV, lengths, strict=True)], emission.length_log_probs


def test_it_is_a_distribution(model: Any, family: str, words: list[int]) -> None:
    """Over all outputs: words of every length, and the lengths."""
    rows, lengths = written(model, sources(LENGTHS), words)
    for row_NV in rows:
        assert_close(row_NV.exp().sum(-1), torch.ones(len(row_NV), dtype=torch.float64))
    if not chooses_length(family):
        assert lengths is None
        assert model.emit(model.start(sources(LENGTHS))).lengths.tolist() == words
        return
    assert lengths.shape == (3, 7)
    assert_close(lengths.exp().sum(-1), torch.ones(3, dtype=torch.float64))


def test_candidates(model: Any, words: list[int]) -> None:
    emission = model.emit(model.start(sources(LENGTHS)), torch.tensor(words))
    wanted = torch.tensor([7, 2, 5])
    assert_close(model.readout(emission.output, wanted), model.readout(emission.output)[..., wanted])


def test_row(model: Any, words: list[int]) -> None:
    """Rows selected before the model, after its start or after it: the same."""
    source, rows = sources(LENGTHS), [2, 0, 0]
    whole, lengths = written(model, source, words)
    wanted = torch.tensor(rows)
    some, some_lengths = written(model, pick(source, rows), [words[row] for row in rows])
    later = model.emit(tree.select(model.start(source), wanted), torch.tensor(words)[wanted])
    for place, row in enumerate(rows):
        assert_close(some[place], whole[row])
        assert_close(model.readout(later.output)[place, : words[row]].log_softmax(-1), whole[row])
    if lengths is not None:
        assert_close(some_lengths, lengths[rows])
        assert_close(later.length_log_probs, lengths[rows])


@pytest.mark.parametrize("family", CHOOSING, indirect=True)
def test_lengths_share_their_source(model: Any) -> None:
    """Several output lengths share the state of one source. Each output is the same as from its own state."""
    source, lengths = sources(LENGTHS), [2, 5, 0, 1, 4, 3]
    emission = model.emit(tree.repeat(model.start(source), 2), torch.tensor(lengths))
    logits = model.readout(emission.output)
    for place, length in enumerate(lengths):
        (alone,), _ = written(model, sources_alone(source, place // 2), [length])
        assert_close(logits[place, :length].log_softmax(-1), alone)


def test_padding(model: Any, words: list[int]) -> None:
    """More padding changes nothing, even if it contains words."""
    wide = sources(LENGTHS, width=9)
    junk = Padded(wide.values.masked_fill(~wide.mask, 7), wide.lengths)
    narrow = written(model, sources(LENGTHS), words)
    for source in (wide, junk):
        assert_close(written(model, source, words), narrow)


SEARCHES = {
    "the likeliest length": LengthBeam(),
    "three lengths": LengthBeam(3, 2),
    "every length, average": LengthBeam(9, 9, Average()),
}


@pytest.fixture(params=SEARCHES)
def search(request: pytest.FixtureRequest) -> LengthBeam:
    return SEARCHES[request.param]


@pytest.mark.parametrize("family", CHOOSING, indirect=True)
def test_score(model: Any, search: LengthBeam) -> None:
    """A hypothesis' log-probability, in all and token by token, is the model's own of it, forced."""
    source = sources(LENGTHS)
    for row, hypotheses in enumerate(search(model, source)):
        assert len(hypotheses) == min(search.nbest, 7)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({len(h.tokens) for h in hypotheses}) == len(hypotheses)
        for hypothesis in hypotheses:
            assert hypothesis.tokens[-1] == EOS
            assert not {PAD, BOS, EOS, UNK} & set(hypothesis.tokens[:-1])
            assert hypothesis.score == pytest.approx(search.ranking(hypothesis.log_prob, len(hypothesis.tokens)))
            (forced,) = search.force(model, pick(source, [row]), padded_targets([list(hypothesis.tokens)]))
            assert forced.tokens == hypothesis.tokens
            assert forced.log_prob == forced.score == pytest.approx(hypothesis.log_prob, abs=1e-9)
            assert forced.token_log_probs == pytest.approx(hypothesis.token_log_probs, abs=1e-9)


@pytest.mark.parametrize("family", CHOOSING, indirect=True)
def test_every_length_is_exact(model: Any) -> None:
    """A search that tries all lengths finds the best output of each length, checked by enumeration."""
    source, search = sources([3, 4]), LengthBeam(7, 7)
    middle = [v for v in range(FACTS.target_vocabulary) if v not in (PAD, BOS, EOS, UNK)]
    every = [[*body, EOS] for length in range(3) for body in itertools.product(middle, repeat=length)]
    for row in range(2):
        forced = search.force(model, pick(source, [row] * len(every)), padded_targets(every))
        (found,) = search(model, pick(source, [row]))
        for length in range(3):
            best = max((h for h in forced if len(h.tokens) == length + 1), key=lambda h: h.log_prob)
            (ours,) = (h for h in found if len(h.tokens) == length + 1)
            assert ours.tokens == best.tokens
            assert ours.log_prob == pytest.approx(best.log_prob, abs=1e-9)


@pytest.mark.parametrize("family", CHOOSING, indirect=True)
def test_company(model: Any, family: str, search: LengthBeam) -> None:
    """Alone or in any batch, in any order: the same hypotheses."""
    source, order = sources(all_lengths(family)), [3, 6, 0, 5, 2, 4, 1]
    together, shuffled = search(model, source), search(model, pick(source, order))
    for place, row in enumerate(order):
        alone = search(model, sources_alone(source, row))[0]
        for other in (together[row], shuffled[place]):
            assert [h.tokens for h in other] == [h.tokens for h in alone]
            assert [h.score for h in other] == pytest.approx([h.score for h in alone], abs=1e-9)


def test_accumulate(model: Any, family: str, words: list[int]) -> None:
    """The loss of a batch is the sum of its rows' losses, and so are the gradients; a row may be empty."""
    together = batch(LENGTHS, [6, 1, 4] if chooses_length(family) else [n + 1 for n in words])
    objective = ParallelCrossEntropy(smoothing=0.1)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]  # none if it is counted
    whole, _ = objective(model, together)
    gradients = torch.autograd.grad(whole.total, parameters, allow_unused=True) if parameters else ()
    rows = []
    for row in range(3):
        source, target = sources_alone(together.source, row), sources_alone(together.target, row)
        rows.append(objective(model, replace(together, source=source, target=target))[0])
    total = torch.stack([loss.total for loss in rows]).sum()
    assert_close(total, whole.total)
    assert sum(loss.count for loss in rows) == whole.count == int(together.target.lengths.sum())
    again = torch.autograd.grad(total, parameters, allow_unused=True) if parameters else ()
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)
    assert_close([g for g in again if g is not None], [g for g in gradients if g is not None])


def test_the_loss_is_the_forced_log_probability(model: Any, words: list[int]) -> None:
    together = batch(LENGTHS, [n + 1 for n in words])
    loss, _ = ParallelCrossEntropy()(model, together)
    forced = LengthBeam().force(model, together.source, together.target)
    assert float(loss.total.detach()) == pytest.approx(-sum(h.log_prob for h in forced))
    assert float(loss.parts["nll"]) == pytest.approx(float(loss.total.detach()))


def test_spec(family: str, words: list[int]) -> None:
    """A model built from its written-down configuration is the same model."""
    resolved = config.resolve(PARALLEL[family], Model, facts(PARALLEL[family]))
    again = config.parse(config.write(resolved).encode(), "test")
    assert again == resolved
    source = sources(LENGTHS)
    assert_close(written(build(again), source, words), written(build(PARALLEL[family]), source, words))
