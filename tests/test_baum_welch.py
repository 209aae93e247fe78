"""Baum-Welch against all state sequences written out, and its laws: likelihood never falls, known labels stay."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any, cast

import pytest
import torch

from families import paired
from transduce import config
from transduce.data.pairs import Pairs
from transduce.protocols import Model
from transduce.types import BOS, EOS, UNK, Facts

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
    """Expected counts of a model, over all label sequences of each row that its known labels allow."""

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
        """Each history, without what is before the begin, and the label or 7, the end, after it."""
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
    """The parameters after a pass are the expected counts and the prior, normalised; its value is the likelihood."""
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
    if rows is NOTHING:  # a random start leaves the symmetry of the labels
        assert found[-1] > found[0] + 1
    assert not model.emission.known.isnan().any()


def test_known_labels_stay() -> None:
    """The loss of the known labels falls to almost nothing if unknown ones are free."""
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
