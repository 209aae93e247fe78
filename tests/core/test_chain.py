"""The algorithms of a chain in float64, against an enumeration of all sequences."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from transduce.core.chain import Trellis
from transduce.core.types import BOS

L = 3
LENGTHS = [4, 1, 0, 3]


@pytest.fixture(params=[1, 2, 3], ids="history of {}".format)
def trellis(request: pytest.FixtureRequest) -> Trellis:
    draw = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_()

    H = L**request.param
    return Trellis(normal(4, 4, L), torch.tensor(LENGTHS), normal(H, L), normal(L), normal(H))


def history(labels: tuple[int, ...], trellis: Trellis) -> int:
    """The index of the history after these labels."""
    number = 0
    for label in [BOS, BOS, *labels]:
        number = (number * L + label) % len(trellis.end)
    return number


def sequences(trellis: Trellis, row: int) -> dict[tuple[int, ...], float]:
    """Every sequence of a row and its score, summed step by step."""
    unary, transition, start, end = (
        x.tolist() for x in (trellis.unary[row], trellis.transition, trellis.start, trellis.end)
    )
    found = {}
    for labels in itertools.product(range(L), repeat=LENGTHS[row]):
        score = sum(unary[t][label] for t, label in enumerate(labels))
        score += sum(transition[history(labels[:t], trellis)][labels[t]] for t in range(1, len(labels)))
        found[labels] = score + (start[labels[0]] + end[history(labels, trellis)] if labels else 0.0)
    return found


def log_sum(scores: list[float]) -> float:
    return math.log(sum(map(math.exp, scores)))


def padded(labels: tuple[int, ...]) -> Tensor:
    return torch.tensor([*labels, *[2] * (4 - len(labels))])


def alone(trellis: Trellis, row: int, count: int) -> Trellis:
    """A trellis that repeats one row ``count`` times."""
    rows = torch.full((count,), row)
    return Trellis(trellis.unary[rows], trellis.lengths[rows], trellis.transition, trellis.start, trellis.end)


@pytest.mark.parametrize("row", range(4))
def test_scores_and_their_sum(trellis: Trellis, row: int) -> None:
    every = sequences(trellis, row)
    scores = alone(trellis, row, len(every)).score(torch.stack([padded(labels) for labels in every]))
    assert scores.tolist() == pytest.approx(list(every.values()))
    assert float(trellis.log_normaliser[row].detach()) == pytest.approx(log_sum(list(every.values())))


def pair_posteriors(trellis: Trellis) -> torch.Tensor:
    """[B, T - 1, H, J]: log p(history h ends at t - 1, y_t = j | x) for t = 2 to T; minus infinity past a row's length.

    ``transition_counts`` returns the sum of their exponentials without this table.
    """
    (B, T, _), follows_BTRJ = trellis.unary.shape, trellis._follows()
    both_BTORJ = trellis.forward[:, :-1].reshape(B, T - 1, *trellis._steps.shape[:2], 1) + trellis._steps
    both_BTHJ = (both_BTORJ + follows_BTRJ[:, :, None]).flatten(2, 3)
    both_BTHJ = both_BTHJ - trellis.log_normaliser[:, None, None, None]
    return both_BTHJ.masked_fill(~trellis.mask[:, 1:, None, None], -math.inf)


@pytest.mark.parametrize("row", range(4))
def test_posteriors(trellis: Trellis, row: int) -> None:
    every = sequences(trellis, row)
    total = log_sum(list(every.values()))
    posteriors, pairs = trellis.posteriors()[row].tolist(), pair_posteriors(trellis)[row].tolist()
    H = len(trellis.end)
    for t in range(LENGTHS[row]):
        for j in range(L):
            wanted = log_sum([score for labels, score in every.items() if labels[t] == j])
            assert posteriors[t][j] == pytest.approx(wanted - total)
        wanted_HL = [[0.0] * L for _ in range(H)]
        for labels, score in every.items() if t else ():
            wanted_HL[history(labels[:t], trellis)][labels[t]] += math.exp(score - total)
        for h, j in itertools.product(range(H), range(L)) if t else ():
            assert math.exp(pairs[t - 1][h][j]) == pytest.approx(wanted_HL[h][j])
    assert posteriors[LENGTHS[row] :] == [[0.0] * L] * (4 - LENGTHS[row])
    assert pairs[max(0, LENGTHS[row] - 1) :] == [[[-math.inf] * L] * H] * (4 - max(1, LENGTHS[row]))


def test_gradients_are_posteriors(trellis: Trellis) -> None:
    """d log Z / d unary is p(y_t | x), and the gradients of the tables are expected counts. This is an independent way
    to compute both.
    """
    unary, transition, start, end = torch.autograd.grad(
        trellis.log_normaliser.sum(), [trellis.unary, trellis.transition, trellis.start, trellis.end]
    )
    mask_BT1 = trellis.mask[..., None]
    assert_close(unary, trellis.posteriors().exp() * mask_BT1)
    assert_close(transition, pair_posteriors(trellis).exp().sum((0, 1)))
    assert_close(transition, trellis.transition_counts())
    real = [row for row, length in enumerate(LENGTHS) if length]
    assert_close(start, trellis.posteriors().exp()[real, 0].sum(0))
    last = [alone(trellis, row, 1).posteriors().exp()[0, LENGTHS[row] - 1] for row in real]
    assert_close(end.view(-1, L).sum(0), torch.stack(last).sum(0))
    counts = trellis.counts()
    assert_close(counts[1:, :-1], transition)
    assert_close(counts[0], torch.cat([start, torch.zeros(1).double()]))
    assert_close(counts[1:, -1], end)


def test_known_labels_are_kept_and_the_others_summed_over(trellis: Trellis) -> None:
    labels = torch.tensor([[2, 0, 1, 0], [2, 0, 0, 0], [0, 0, 0, 0], [0, 1, 2, 0]])
    known = torch.tensor([[True, False, True, False], [True] + [False] * 3, [False] * 4, [False, True, False, False]])
    found = trellis.clamped(labels, known)
    for row, length in enumerate(LENGTHS):
        places = [t for t in range(length) if known[row, t]]
        kept = [
            score for each, score in sequences(trellis, row).items() if all(each[t] == labels[row, t] for t in places)
        ]
        assert float(found.log_normaliser[row].detach()) == pytest.approx(log_sum(kept))
    assert not found.posteriors().isnan().any()
    assert float(found.transition_counts().sum().detach()) == pytest.approx(3 + 0 + 0 + 2)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_the_best_are_the_best_of_all(trellis: Trellis, count: int) -> None:
    labels_BKT, score_BK = trellis.best(count)
    for row, length in enumerate(LENGTHS):
        ranked = sorted(sequences(trellis, row).items(), key=lambda entry: -entry[1])[:count]
        some = len(ranked)
        assert [tuple(labels[:length]) for labels in labels_BKT[row, :some].tolist()] == [one for one, _ in ranked]
        assert score_BK[row, :some].tolist() == pytest.approx([score for _, score in ranked])
        assert score_BK[row, some:].tolist() == [-math.inf] * (count - some)


@pytest.mark.parametrize("row", [0, 1, 3])
def test_conditionals_multiply_to_the_sequence(trellis: Trellis, row: int) -> None:
    every = sequences(trellis, row)
    total = log_sum(list(every.values()))
    rows = torch.stack([padded(labels) for labels in every])
    conditionals_NTL = alone(trellis, row, len(every)).conditionals(rows)
    each_NT = conditionals_NTL.gather(2, rows[..., None])[..., 0]
    assert each_NT.sum(1).tolist() == pytest.approx([score - total for score in every.values()])
    assert_close(conditionals_NTL[:, : LENGTHS[row]].exp().sum(-1), torch.ones(len(every), LENGTHS[row]).double())


def test_a_forbidden_label_is_in_none_of_the_best(trellis: Trellis) -> None:
    """A label with the score minus infinity is in no sequence that is found, and the normaliser does not count it."""
    never = trellis.unary.detach().clone()
    never[..., 1] = -math.inf
    found = Trellis(never, trellis.lengths, trellis.transition, trellis.start, trellis.end)
    labels_BKT, score_BK = found.best(3)
    assert 1 not in labels_BKT[0].unique()
    assert score_BK[1, 2] == -math.inf  # one position, two labels
    allowed = [score for labels, score in sequences(trellis, 0).items() if 1 not in labels]
    assert float(found.log_normaliser[0].detach()) == pytest.approx(log_sum(allowed))


def test_labels_of_another_number_are_refused(trellis: Trellis) -> None:
    labels = torch.zeros(4, 9, dtype=torch.long)
    assert trellis.own(labels, trellis.lengths).shape == trellis.own(labels[:, :2], trellis.lengths).shape == (4, 4)
    with pytest.raises(ValueError, match=r'3 labels for a source of 1 \(row 1 .*set data\.lines\.unequal = "error"'):
        trellis.own(labels, torch.tensor([4, 3, 0, 3]))
