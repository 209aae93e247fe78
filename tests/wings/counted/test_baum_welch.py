"""Baum-Welch against an enumeration of all state sequences. The likelihood never falls, and known labels stay."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from families import paired
from transduce.core import config
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, UNK, Facts, Padded
from transduce.data.pairs import Pairs, Ragged

LABELS = (4, 5, 6)
PARTLY = [
    ([4, 5, 6], [4, 5, 6]),
    ([5, 4, 4, 7], [UNK, 6, UNK, UNK]),
    ([7, 6], [UNK, UNK]),
    ([6, 6, 5], [5, UNK, 4]),
    ([], []),
    ([4, 5, 5], [4, 5, 5]),
    ([6], [UNK]),
]
NOTHING = [(source, [UNK] * len(target)) for source, target in PARTLY]


def pairs_of(rows: list[tuple[list[int], list[int]]]) -> Pairs:
    return paired([([*source, EOS], [*target, EOS]) for source, target in rows])


def begun(rows: list[tuple[list[int], list[int]]], words: Any = None, **options: Any) -> tuple[Any, Any]:
    """The model and its counts before the first pass."""
    torch.manual_seed(2)
    model: Any = cast(
        Any,
        config.build(
            {"type": "hmm", "emission": {"type": "words", **(words or {})}} | options, Model, Facts(8, 7), "model"
        ),
    ).double()
    counts = model.counts(pairs_of(rows))
    counts.store()
    return model, counts


class Slow:
    """Expected counts of a model over all label sequences that the known labels of each row allow."""

    def __init__(self, model: Any, rows: list[tuple[list[int], list[int]]]) -> None:
        self.transitions: Counter[tuple[tuple[int, ...], int]] = Counter()
        self.emissions: Counter[tuple[int, int]] = Counter()
        self.log_prob = 0.0
        for source, target in filter(all, rows):  # an empty source has no states
            weight = model.unlabelled if UNK in target else 1.0
            trellis = model.states(pairs_of([(source, target)]).batch(torch.tensor([0]).numpy()).source)
            unary, scores = trellis.unary[0], {}
            for labels in itertools.product(*(LABELS if y == UNK else (y,) for y in target)):
                steps = list(self.steps(labels, model.order))
                score = sum(float(unary[t, y]) for t, y in enumerate(labels))
                scores[labels] = score + sum(float(model.table[self.row(h), j]) for h, j in steps)
            total = math.log(sum(map(math.exp, scores.values())))
            self.log_prob += weight * total
            for labels, score in scores.items():
                share = weight * math.exp(score - total)
                for step in self.steps(labels, model.order):
                    self.transitions[step] += share
                for x, y in zip(source, labels, strict=True):
                    self.emissions[x, y] += share

    @staticmethod
    def steps(labels: tuple[int, ...], order: int) -> Any:
        """Yields each label with its history of at most ``order`` labels. The last label is 7, the end."""
        for t, label in enumerate((*labels, 7)):
            yield labels[max(0, t - order) : t], label

    @staticmethod
    def row(history: tuple[int, ...], order: int = 0) -> int:
        if not history:
            return 0
        padded = (*[BOS] * (order - len(history)), *history)
        return 1 + sum(label * 7**n for n, label in enumerate(reversed(padded)))


@pytest.fixture(params=[1, 2])
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    plain = Slow.row
    monkeypatch.setattr(Slow, "row", staticmethod(lambda history: plain(history, request.param)))
    return int(request.param)


def test_a_pass_is_that_of_all_sequences(order: int) -> None:
    """After a pass, the parameters are the normalised sums of expected counts and prior. Its value is the
    log-likelihood plus the log-prior.
    """
    prior, strength, unlabelled = 1.5, 0.7, 0.4
    options = {"order": order, "prior": prior, "unlabelled": unlabelled}
    model, counts = begun(PARTLY, **options, words={"strength": strength})
    first, pseudo = model.table.exp(), torch.from_numpy(counts.passes.estimation.pseudo_FL)
    assert pseudo.sum(1).tolist() == pytest.approx([strength] * 4)
    for _ in range(3):
        slow, before = Slow(model, PARTLY), counts.passes.log_prior()
        assert counts.reestimate() == pytest.approx(slow.log_prob + before)
        for history in [(), *((y,) for y in LABELS), *itertools.product(LABELS, repeat=order)]:
            wanted = [slow.transitions[history, j] + prior * float(first[Slow.row(history), j]) for j in range(8)]
            share = [each / sum(wanted) for each in wanted]
            assert model.table[Slow.row(history)].exp().tolist() == pytest.approx(share)
        forms = [(x, int((model.emission.forms == 1 + x).nonzero())) for x in (4, 5, 6, 7)]
        seen = Counter(x for source, _ in PARTLY for x in source)
        for y in LABELS:
            both = {x: slow.emissions[x, y] + float(pseudo[place, y]) for x, place in forms}
            for x, place in forms:
                share = (seen[x] + strength) / (sum(seen.values()) + strength * len(seen))
                wanted_log = math.log(both[x] / sum(both.values()) / share)
                assert float(model.emission.known[place, y]) == pytest.approx(wanted_log)


@pytest.mark.parametrize("rows", [PARTLY, NOTHING], ids=["labelled in part", "not labelled"])
def test_likelihood_never_falls(rows: Any, order: int) -> None:
    model, counts = begun(rows, order=order, prior=0.1, unlabelled=0.5)
    found = [counts.reestimate() for _ in range(12)]
    assert all(after > before for before, after in itertools.pairwise(found))
    if rows is NOTHING:  # a random start breaks the symmetry of the labels
        assert found[-1] > found[0] + 1
    assert not model.emission.known.isnan().any()


def test_known_labels_stay() -> None:
    """A known label allows only itself, and an unknown label allows all labels."""
    model, counts = begun(PARTLY)
    for _ in range(5):
        counts.reestimate()
    for batch in pairs_of(PARTLY).in_turn(1):
        trellis = model.states(batch.source)
        allowed = model.allowed(batch.target, trellis.lengths, trellis.unary.shape[1])
        for t, label in enumerate(batch.target.values[0, : int(trellis.lengths[0])].tolist()):
            wanted = list(LABELS) if label == UNK else [label]
            assert allowed[0, t].nonzero()[:, 0].tolist() == wanted


def test_more_passes_are_reported_and_the_first_random_one_depends_on_the_seed() -> None:
    _, counts = begun(PARTLY)
    assert counts.report == ("7 of 16 labels are not known: each pass is one of expectation maximisation",)
    model, _ = begun(NOTHING)
    again, _ = begun(NOTHING)
    assert torch.equal(model.emission.known, again.emission.known)


# ------------------------------------------------------------------------- numbers

D = 2


def series_of(rows: list[tuple[list[int], list[int]]], signal: bool, whole: bool = False) -> Pairs:
    """D numbers for each token of the source, as a signal or as a series that ends with EOS. If ``whole``, a target is
    one label.
    """
    draw = np.random.default_rng(5)
    steps = [draw.normal(size=(len(source), D)) + np.array(source)[:, None] for source, _ in rows]
    flat = [each if signal else np.append(each.ravel(), EOS) for each in steps]
    targets = [[*(target[:1] or [UNK] if whole else target), EOS] for _, target in rows]
    sides = (np.concatenate(flat).astype(np.float32), np.concatenate([np.array(each) for each in targets]))
    offsets = [np.cumsum([0, *map(len, rows)]) for rows in (flat, targets)]
    return Pairs(*(Ragged(side, offset) for side, offset in zip(sides, offsets, strict=True)))


def gaussian(pairs: Pairs, kind: str = "hmm", covariance: str = "full", **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(4)
    table = {"type": kind, "emission": {"type": "gaussian", "covariance": covariance, "floor": 0.05}} | options
    model: Any = cast(Any, config.build(table, Model, Facts(D, 7, source_factors=D), "model")).double()
    counts = model.counts(pairs)
    counts.store()
    return model, counts


def covariances(model: Any) -> Tensor:
    """The covariances [S, D, D], from the whitening matrices of the model."""
    W = model.emission.whitening
    return torch.linalg.inv(W @ W.mT) if W.shape[2] == D else torch.diag_embed(W[..., 0] ** -2)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_densities_are_normal(covariance: str) -> None:
    pairs = series_of(PARTLY, signal=False)
    model, counts = gaussian(pairs, covariance=covariance)
    counts.reestimate()
    batch = pairs.batch(np.array([1]))
    steps = batch.source.values[:, :-1].view(-1, D).double()
    wanted = MultivariateNormal(model.emission.mean, covariances(model)).log_prob(steps[:, None])
    assert model.emission(batch.source).values[0].double().tolist() == [
        pytest.approx(row, abs=1e-4) for row in wanted.tolist()
    ]


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_a_pass_over_numbers_is_that_of_all_sequences(order: int, covariance: str) -> None:
    """Means and covariances weight the steps by their posteriors over all label sequences."""
    pairs = series_of(PARTLY, signal=True)
    model, counts = gaussian(pairs, covariance=covariance, order=order, prior=0.5)
    shares: list[Tensor] = []
    for row, (_, target) in enumerate(PARTLY):
        if not target:
            continue
        trellis = model.states(pairs.batch(np.array([row])).source)
        share, scores = torch.zeros(len(target), 7).double(), {}
        for labels in itertools.product(*(LABELS if y == UNK else (y,) for y in target)):
            score = sum(float(trellis.unary[0, t, y]) for t, y in enumerate(labels))
            scores[labels] = score + sum(float(model.table[Slow.row(h), j]) for h, j in Slow.steps(labels, order))
        total = math.log(sum(map(math.exp, scores.values())))
        for labels, score in scores.items():
            for t, y in enumerate(labels):
                share[t, y] += math.exp(score - total)
        shares.append(share)
    counts.reestimate()
    x_ND, share_NS = torch.from_numpy(pairs.source.ids).double(), torch.cat(shares)
    scale = x_ND.var(0, correction=0)
    for y in LABELS:
        weight = share_NS[:, y] / share_NS[:, y].sum()
        mean = weight @ x_ND
        spread = (x_ND - mean).T @ ((x_ND - mean) * weight[:, None])
        assert model.emission.mean[y].tolist() == pytest.approx(mean.tolist(), abs=1e-4)
        found = covariances(model)[y]
        if covariance == "diagonal":
            wanted = spread.diagonal().maximum(0.05 * scale)
            assert found.diagonal().tolist() == pytest.approx(wanted.tolist(), abs=1e-4)
        elif float(torch.linalg.eigvalsh(spread / scale.sqrt() / scale.sqrt()[:, None]).min()) > 0.05:
            assert found.flatten().tolist() == pytest.approx(spread.flatten().tolist(), abs=1e-4)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("rows", [PARTLY, NOTHING], ids=["labelled in part", "not labelled"])
@pytest.mark.parametrize("kind", ["hmm", "hmm-classifier"])
def test_likelihood_of_numbers_never_falls(kind: str, rows: Any, covariance: str) -> None:
    """The floor of the covariances does not make the likelihood fall. Without it, a state of one or two steps has a
    singular covariance.
    """
    pairs = series_of(rows, signal=True, whole=kind == "hmm-classifier")
    model, counts = gaussian(pairs, kind, covariance, prior=0.1)
    found = [counts.reestimate() for _ in range(12)]
    assert all(after >= before - 1e-4 for before, after in itertools.pairwise(found))
    assert found[-1] > found[0] + 0.1
    scale = torch.from_numpy(pairs.source.ids).double().var(0, correction=0)
    least = torch.linalg.eigvalsh(covariances(model) / scale.sqrt() / scale.sqrt()[:, None]).min()
    assert float(least) > 0.05 - 1e-6


@pytest.mark.parametrize("topology", ["left-right", "any"])
def test_a_classifier_sums_over_the_states_of_each_label(topology: str) -> None:
    """log p(x, y) of a label sums over all sequences of its states. "left-right" never returns to an earlier state."""
    pairs = series_of(PARTLY, signal=True, whole=True)
    model, counts = gaussian(pairs, "hmm-classifier", "diagonal", states=2, topology=topology, prior=0.3)
    for _ in range(2):
        counts.reestimate()
    joint_BV = model.start(pairs.batch(np.array([1, 4])).source)
    trellis = model.states(pairs.batch(np.array([1])).source)
    table = model.table.exp()
    for label in LABELS:
        states = (2 * label, 2 * label + 1)
        total = 0.0
        for path in itertools.product(states, repeat=4):
            score = math.exp(sum(float(trellis.unary[0, t, state]) for t, state in enumerate(path)))
            steps = zip((-1, *path), (*path, -1), strict=True)
            total += score * math.prod(float(table[before + 1, after]) for before, after in steps)
        assert float(joint_BV[0, label]) == pytest.approx(math.log(total))
        assert float(joint_BV[1, label].exp()) == pytest.approx(sum(float(table[0, state]) for state in states))
        assert (float(table[1 + states[1], states[0]]) == 0) == (topology == "left-right")
    assert float(table[0, : 2 * 4].sum()) == 0  # special tokens are no labels
    far = model.start(Padded(torch.full((1, 3, D), 60.0), torch.tensor([3])))  # densities far below exp(-700)
    assert far[0, 4:].isfinite().all()
    assert float(far[0, 4:].max() - far[0, 4:].min()) > 700


def test_numbers_that_cannot_be_read() -> None:
    for options, expected in (
        ({"covariance": "round"}, 'covariance: "round" is a string, expected "diagonal" or "full"'),
        ({"floor": 0.0}, "floor = 0.0: more than 0 and at most 1"),
    ):
        table = {"type": "hmm", "emission": {"type": "gaussian", **options}}
        with pytest.raises(ValueError, match=expected):
            config.build(table, Model, Facts(D, 7, source_factors=D), "model")
    with pytest.raises(ValueError, match="read numbers, and the source has tokens, 9 in its vocabulary"):
        config.build({"type": "hmm", "emission": "gaussian"}, Model, Facts(9, 7), "model")
    for options, expected in (
        ({"states": 0}, "states = 0: at least 1"),
        ({"prior": math.nan}, "prior: nan is not a finite number"),
    ):
        with pytest.raises(ValueError, match=expected):
            gaussian(series_of(PARTLY, signal=True), "hmm-classifier", **options)
    with pytest.raises(ValueError, match="a target of 3 tokens, and a classifier writes one"):
        gaussian(series_of(PARTLY[:1], signal=True), "hmm-classifier")
    with pytest.raises(ValueError, match="the training sources have no steps"):
        gaussian(series_of([([], [])], signal=True))
    model, _ = gaussian(series_of(PARTLY, signal=False))
    with pytest.raises(ValueError, match="missing numbers, and Gaussian emissions read none"):
        model.trellis(Padded(torch.tensor([[1.0, math.nan, 0.0]]), torch.tensor([3])))
