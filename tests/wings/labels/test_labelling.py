"""Models that label their sources, and the searches for labels, in float64 against an enumeration of all labels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from families import CHAINS, FACTS, PARALLEL, all_lengths, build, chooses_length, classifies, facts, labels_of, sources
from test_laws import LENGTHS, batch, padded_targets, pick, sources_alone
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, PAD, UNK, Hypothesis, Padded
from transduce.objectives.cross_entropy import ChainLikelihood
from transduce.wings.labels.search import LabelSearch
from transduce.wings.labels.viterbi import Posterior, Viterbi

FAMILIES = {name: table for name, table in PARALLEL.items() if not chooses_length(name)} | CHAINS
LABELS = [v for v in range(FACTS.target_vocabulary) if v not in (PAD, BOS, EOS, UNK)]


@pytest.fixture(params=FAMILIES, scope="module")
def family(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def model(family: str) -> Any:
    return spread(build(FAMILIES[family]))


def spread(model: Any) -> Any:
    """Enlarges the transitions of a chain, so that they matter as much as the source."""
    if hasattr(model, "ends"):
        with torch.no_grad():
            model.transition.mul_(12)
            model.ends.mul_(12)
    return model


def search(family: str, nbest: int = 1) -> Any:
    return Viterbi(nbest) if family in CHAINS else LabelSearch(nbest)


def every_output(length: int) -> list[list[int]]:
    return [[*labels, EOS] for labels in itertools.product(LABELS, repeat=length)]


@pytest.mark.parametrize("nbest", [1, 4, 70])
def test_the_best_are_the_best_of_all(model: Any, family: str, nbest: int) -> None:
    source = sources([3, 2, 1])
    found = search(family, nbest)(model, source)
    for row, length in enumerate(labels_of(FAMILIES[family], [3, 2, 1])):
        every = every_output(length)
        forced = search(family).force(model, pick(source, [row] * len(every)), padded_targets(every))
        ranked = sorted(forced, key=lambda h: -h.log_prob)[:nbest]
        assert [h.tokens for h in found[row]] == [h.tokens for h in ranked]
        assert [h.log_prob for h in found[row]] == pytest.approx([h.log_prob for h in ranked], abs=1e-9)


class Letters:
    """A vocabulary in which the label of id 4 is "E", and so on."""

    entries = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: FACTS.target_vocabulary])

    def decode(self, ids: Sequence[Any]) -> str:
        return "".join(self.entries[i] for i in ids)


@pytest.mark.parametrize("family", CHAINS, indirect=True)
def test_penalties_of_labels(model: Any, family: str) -> None:
    """The best hypotheses have the highest log-probability minus the penalties of their labels."""
    letters, (first, second, *_) = Letters(), LABELS
    penalties = {letters.entries[first]: 2.5, letters.entries[second]: -0.7}
    wanted = Viterbi(4, penalties).with_vocabularies(letters, letters)
    source = sources([3, 2, 1])
    for row, length in enumerate(labels_of(FAMILIES[family], [3, 2, 1])):
        every = every_output(length)
        forced = Viterbi().force(model, pick(source, [row] * len(every)), padded_targets(every))
        scored = [(h.log_prob - 2.5 * h.tokens.count(first) + 0.7 * h.tokens.count(second), h) for h in forced]
        ranked = sorted(scored, key=lambda pair: -pair[0])[:4]
        found = wanted(model, source)[row]
        assert [h.tokens for h in found] == [h.tokens for _, h in ranked]
        assert [h.score for h in found] == pytest.approx([score for score, _ in ranked], abs=1e-9)
        assert [h.log_prob for h in found] == pytest.approx([h.log_prob for _, h in ranked], abs=1e-9)


def test_penalties_name_labels_of_the_run() -> None:
    letters = Letters()
    assert Viterbi(2).with_vocabularies(letters, letters) == Viterbi(2)
    with pytest.raises(UserError, match=r"search.penalties: 'e' is no label of this run; .* Known: E, F"):
        Viterbi(1, {"e": 1.0}).with_vocabularies(letters, letters)
    with pytest.raises(UserError, match=r"penalties.E = inf: a finite number"):
        Viterbi(1, {"E": float("inf")})
    with pytest.raises(UserError, match=r"labels are not known yet"):
        Viterbi(1, {"E": 1.0})(build(FAMILIES["crf, lstm"]), sources([3]))
    assert Viterbi(1, {"E": 1.0}).with_vocabularies(letters, letters).resized(nbest=3).penalty_of == ((4, 1.0),)


def test_a_label_is_never_unknown(model: Any, family: str) -> None:
    """However probable <unk> is, the model answers the best label that has a name."""
    source, before = sources(LENGTHS), search(family)(model, sources(LENGTHS))
    found: list[Any] = [search(family, 3)]
    if family in CHAINS:
        found.append(Posterior())
    for name in ("readout", "trellis"):
        if hasattr(model, name):
            kept = getattr(model, name)
            setattr(model, name, partial(_likely_unknown, kept))
    try:
        for each in found:
            for hypotheses in each(model, source):
                assert not any(UNK in hypothesis.tokens for hypothesis in hypotheses)
    finally:
        for name in ("readout", "trellis"):
            model.__dict__.pop(name, None)
    assert [h.tokens for (h,) in search(family)(model, source)] == [h.tokens for (h,) in before]


def _likely_unknown(kept: Any, *arguments: Any) -> Any:
    """The model's result, with the score of <unk> increased by 10."""
    found = kept(*arguments)
    scores = found.unary if hasattr(found, "unary") else found
    scores[..., UNK] += 10
    return found


def close(one: Hypothesis, other: Hypothesis) -> bool:
    return one.tokens == other.tokens and all(
        getattr(one, field) == pytest.approx(getattr(other, field), abs=1e-9)
        for field in ("log_prob", "score", "token_log_probs", "best_log_probs")
    )


def test_score(model: Any, family: str) -> None:
    """A hypothesis has the log-probability of its forced labels, which is the sum over its tokens."""
    source = sources(LENGTHS)
    for row, hypotheses in enumerate(search(family, 3)(model, source)):
        assert len({h.tokens for h in hypotheses}) == len(hypotheses) == 3
        for hypothesis in hypotheses:
            (forced,) = search(family).force(model, pick(source, [row]), padded_targets([list(hypothesis.tokens)]))
            assert close(hypothesis, forced)
            assert sum(hypothesis.token_log_probs) == pytest.approx(hypothesis.log_prob)


def test_company(model: Any, family: str) -> None:
    """The hypotheses are the same alone and in any batch and order, with junk in the padding."""
    source, order = sources(all_lengths(family)), [3, 6, 0, 5, 2, 4, 1]
    wide = sources(all_lengths(family), width=9)
    junk = Padded(wide.values.masked_fill(~wide.mask, 7), wide.lengths)
    together, padded = search(family, 2)(model, source), search(family, 2)(model, junk)
    shuffled = search(family, 2)(model, pick(source, order))
    for place, row in enumerate(order):
        (alone,) = search(family, 2)(model, sources_alone(source, row))
        for other in (together[row], padded[row], shuffled[place]):
            assert all(close(one, two) for one, two in zip(alone, other, strict=True))


@pytest.mark.parametrize("family", CHAINS, indirect=True)
def test_the_loss_of_a_chain(model: Any) -> None:
    """The loss is the negative forced log-probability. The loss of a batch is the sum over its rows, and so are the
    gradients, if there are any.
    """
    together = batch(LENGTHS, LENGTHS)
    loss, _ = ChainLikelihood()(model, together)
    forced = Viterbi().force(model, together.source, together.target)
    assert float(loss.total.detach()) == pytest.approx(-sum(h.log_prob for h in forced))
    assert loss.count == sum(LENGTHS)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rows = []
    for row in range(3):
        source, target = sources_alone(together.source, row), sources_alone(together.target, row)
        rows.append(ChainLikelihood()(model, replace(together, source=source, target=target))[0].total)
    assert_close(torch.stack(rows).sum(), loss.total)
    if parameters:
        assert_close(*(torch.autograd.grad(total, parameters) for total in (torch.stack(rows).sum(), loss.total)))


@pytest.mark.parametrize("family", CHAINS, indirect=True)
def test_a_chain_sums_to_one(model: Any) -> None:
    """The sum is over all label sequences. Some of them contain padding, which no search finds."""
    source = sources([3])
    labels = [[*pair, EOS] for pair in itertools.product(range(FACTS.target_vocabulary), repeat=2)]
    forced = Viterbi().force(model, pick(source, [0] * len(labels)), padded_targets(labels))
    assert sum(torch.tensor([h.log_prob for h in forced]).double().exp()) == pytest.approx(1.0)


@pytest.mark.parametrize("family", CHAINS, indirect=True)
def test_posterior_labels(model: Any) -> None:
    """Each position gets the label with the highest total probability over all sequences."""
    source = sources([4])
    every = [[*labels, EOS] for labels in itertools.product(range(FACTS.target_vocabulary), repeat=3)]
    forced = Viterbi().force(model, pick(source, [0] * len(every)), padded_targets(every))
    probability = torch.tensor([h.log_prob for h in forced]).double().exp()
    tokens = torch.tensor([h.tokens for h in forced])
    likeliest = [max(LABELS, key=lambda v: float(probability[tokens[:, t] == v].sum())) for t in range(3)]
    ((found,),) = Posterior()(model, source)
    assert found.tokens == (*likeliest, EOS)
    (same,) = Posterior().force(model, source, padded_targets([list(found.tokens)]))
    assert close(found, same)
    assert Posterior().resized(5) == Posterior()
    with pytest.raises(ValueError, match=r'nbest = 2: .*"viterbi"'):
        Posterior().resized(nbest=2)


@pytest.mark.parametrize("family", CHAINS, indirect=True)
def test_spec_of_a_chain(model: Any, family: str) -> None:
    resolved = config.resolve(CHAINS[family], Model, facts(CHAINS[family]))
    assert config.parse(config.write(resolved).encode(), "test") == resolved
    again = spread(build(resolved)).trellis(sources(LENGTHS))
    assert_close(again.log_normaliser, model.trellis(sources(LENGTHS)).log_normaliser)


def target(rows: Sequence[int]) -> Padded:
    return padded_targets([[4] * length + [EOS] for length in rows])


def test_labels_of_another_number_are_refused(model: Any, family: str) -> None:
    one = classifies(FAMILIES[family])
    message = r'a target of 2 tokens, .*set data\.units\.target = "labels"' if one else r"3 labels for a source of 1"
    wrong = target([1, 2, 1]) if one else target([4, 3, 3])
    with pytest.raises(ValueError, match=message):
        search(family).force(model, sources(LENGTHS), wrong)


def test_bad_input() -> None:
    model = build(FAMILIES["tagger, lstm"])
    for found in (LabelSearch(), Viterbi(), Posterior()):
        with pytest.raises(ValueError, match=r"cannot start with a prefix"):
            found(model, sources([3]), Padded(torch.tensor([[4]]), torch.tensor([1])))
    for kind in (LabelSearch, Viterbi):
        with pytest.raises(ValueError, match=r"nbest = 0"):
            kind(0)
        with pytest.raises(UserError, match="nbest = 1000000000000: a step of this search needs at least"):
            kind(10**12)(build(FAMILIES["tagger, lstm" if kind is LabelSearch else "crf, lstm"]), sources([3]))
        assert kind().resized(5, 3) == kind(3)
    instant = build(PARALLEL["instant, lstm to dense"])
    with pytest.raises(ValueError, match=r'this model chooses the length .*"length-beam"'):
        LabelSearch()(instant, sources([3]))


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
def test_pooling(pooling: str) -> None:
    """The classifier pools the encoder's states: the last state, their mean or their maximum."""
    table = FAMILIES["classifier, gru, last state"] | {"pooling": pooling}
    model, source = build(table), sources(LENGTHS)
    memory = model.encoder(source)
    for row, (vector, length) in enumerate(zip(model.start(source), LENGTHS, strict=True)):
        states = memory.states.values[row, :length]
        wanted = {
            "last": torch.cat([leaf[row] for layer in memory.summary for leaf in layer]),
            "mean": sum(states) / length,
            "max": torch.stack([max(column) for column in states.T]),
        }
        assert_close(vector, wanted[pooling])


def test_attention_pooling_is_its_formula() -> None:
    model, source = build(FAMILIES["classifier, transformer, attention"]), sources([4])
    attend, states = model.pooling, model.encoder(source).states.values[0]
    energies = [attend.query.weight[0] @ torch.tanh(attend.linear.weight @ h + attend.linear.bias) for h in states]
    weights = torch.stack(energies).exp() / torch.stack(energies).exp().sum()
    assert_close(model.start(source)[0], weights @ states)
