"""Significance: sacreBLEU's tests as oracles, exact probabilities of small cases, and how often chance is taken for
more."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from selection import mostly_slow
from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric
from transduce.metrics.significance import BLOCK, Difference, Resampling, _blocks, holm, middle
from transduce.metrics.statistics import Statistics, mean_of_seeds, statistics

WORDS = [f"w{number}" for number in range(40)]
NAMES = {"bleu": sacrebleu.BLEU(), "chrf++": sacrebleu.CHRF(word_order=2), "ter": sacrebleu.TER(case_sensitive=True)}


def corrupted(text: str, share: float, draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) if draw.random() < share else word for word in text.split())


def corpus(shares: Sequence[float], lines: int = 150, references: int = 1) -> tuple[list[list[str]], list[list[str]]]:
    """One system for each share of wrong words, and streams of references."""
    draw = random.Random(1)
    truth = [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(lines)]
    streams = [truth, *([corrupted(text, 0.2, draw) for text in truth] for _ in range(references - 1))]
    return [[corrupted(text, share, draw) for text in truth] for share in shares], streams


def measured(name: str, texts: Sequence[str], streams: Sequence[Sequence[str]]) -> Statistics:
    examples = [Example("", references) for references in zip(*streams, strict=True)]
    return statistics([metric(name)], [Prediction(text) for text in texts], examples)[0]


def exact(right: Sequence[int]) -> Statistics:
    """Statistics of a metric with few values: outputs right or wrong."""
    return Statistics(metric("exact"), np.array([[float(each), 1.0] for each in right]))


# ------------------------------------------------------------------ oracles


@pytest.mark.parametrize(
    ("name", "other", "references"),
    mostly_slow(
        itertools.product(NAMES, [0.31, 0.34, 0.4], [1, 2]),
        fast=[("bleu", 0.34, 1), ("chrf++", 0.4, 2), ("ter", 0.31, 2)],
    ),
)
def test_paired_bootstrap_is_sacrebleus(name: str, other: float, references: int) -> None:
    systems, streams = corpus([0.3, other], references=references)
    named = [("one", systems[0]), ("other", systems[1])]
    _, expected = PairedTest(named, {"it": NAMES[name]}, streams, test_type="bs", n_samples=1000)()
    (key,) = (key for key in expected if key != "System")
    one, two = (measured(name, texts, streams) for texts in systems)
    found = Resampling(resamples=1000, trials=1).difference(two, one)
    assert found.value == pytest.approx(expected[key][1].score - expected[key][0].score)
    assert found.bootstrap_p == pytest.approx(expected[key][1].p_value, abs=0.002)  # the very same resamples
    another = Resampling(resamples=4000, trials=1, seed=7).difference(two, one)
    assert another.bootstrap_p == pytest.approx(expected[key][1].p_value, abs=0.04)
    low, high = Resampling().interval(two)
    assert (high - low) / 2 == pytest.approx(expected[key][1].ci, rel=0.04)  # its low end is a rank above ours


@pytest.mark.parametrize("name", mostly_slow(["bleu", "ter"], fast=["bleu"]))
def test_paired_randomisation_is_sacrebleus(name: str) -> None:
    systems, streams = corpus([0.3, 0.34])
    named = [("one", systems[0]), ("other", systems[1])]
    _, expected = PairedTest(named, {"it": NAMES[name]}, streams, test_type="ar", n_samples=3000)()
    (key,) = (key for key in expected if key != "System")
    one, two = (measured(name, texts, streams) for texts in systems)
    found = Resampling(resamples=1, trials=3000).difference(two, one)
    assert found.randomisation_p == pytest.approx(expected[key][1].p_value, abs=0.01)


def test_randomisation_is_the_sum_over_all_assignments() -> None:
    one, other = [1, 1, 0, 1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0, 1, 0, 1]
    signed = [a - b for a, b in zip(one, other, strict=True)]
    sums = [abs(sum(np.multiply(signs, signed))) for signs in itertools.product((1, -1), repeat=len(signed))]
    expected = np.mean([each >= abs(sum(signed)) for each in sums])
    found = Resampling(resamples=1, trials=40_000).difference(exact(one), exact(other))
    assert found.randomisation_p == pytest.approx(expected, abs=0.01)


# --------------------------------------------------------------------- laws


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """95 % of 300 corpora: between 91 and 98 but once in ten thousand, and a little less for there being only 100
    lines."""
    draw = np.random.default_rng(3)
    asked = Resampling(resamples=200)
    inside = 0
    for _ in range(300):
        low, high = asked.interval(exact(draw.random(100) < 0.7))
        inside += low <= 70 <= high
    assert 0.90 < inside / 300 < 0.98


def test_chance_is_taken_for_more_as_often_as_the_level_says() -> None:
    """Equal systems: the two-sided test finds a difference in at most 5 %, sacreBLEU's bootstrap in about 10 %."""
    draw = np.random.default_rng(4)
    asked = Resampling(resamples=200, trials=200)
    found = []
    for _ in range(300):
        rows = Statistics(metric("perplexity"), np.stack([draw.normal(2, 0.5, 80), np.ones(80)], 1))
        other = Statistics(metric("perplexity"), np.stack([draw.normal(2, 0.5, 80), np.ones(80)], 1))
        found.append(asked.difference(rows, other))
    assert 0.02 < np.mean([each.randomisation_p <= 0.05 for each in found]) < 0.085
    assert 0.06 < np.mean([each.bootstrap_p <= 0.05 for each in found]) < 0.15


@pytest.mark.parametrize("name", ["bleu", "macro_f1"])
def test_the_score_of_several_seeds_is_the_mean_of_their_scores(name: str) -> None:
    """Also where a seed writes labels that an earlier one did not, so that its rows are wider."""
    systems, streams = corpus([0.3, 0.4, 0.35, 0.6], lines=60)
    measure = metric(name)
    examples = [Example("", references) for references in zip(*streams, strict=True)]
    every = [statistics([measure], [*map(Prediction, texts)], examples)[0] for texts in systems]
    one, other = mean_of_seeds(every[:2]), mean_of_seeds(every[2:])
    assert one.score == pytest.approx((every[0].score + every[1].score) / 2)
    asked = Resampling(50, 200)
    drawn = [asked.bootstrap(each) for each in every]
    assert asked.bootstrap(one) == pytest.approx((drawn[0] + drawn[1]) / 2)
    found = asked.difference(one, other)
    assert found.value == pytest.approx(one.score - other.score)
    assert found.interval == pytest.approx(middle((drawn[0] + drawn[1] - drawn[2] - drawn[3]) / 2))
    assert one.each() == pytest.approx((every[0].each() + every[1].each()) / 2)
    twice = asked.difference(mean_of_seeds([every[0]] * 2), mean_of_seeds([every[3]] * 2))
    once = asked.difference(every[0], every[3])
    assert twice.value == pytest.approx(once.value)
    assert twice.randomisation_p == once.randomisation_p


def test_a_system_does_not_differ_from_itself() -> None:
    (texts,), streams = corpus([0.3])
    same = Resampling(100, 100).difference(measured("bleu", texts, streams), measured("bleu", texts, streams))
    assert same == Difference(0.0, (0.0, 0.0), 1.0, 1.0)


def test_the_order_of_systems_turns_the_sign_alone() -> None:
    systems, streams = corpus([0.3, 0.35])
    one, other = (measured("bleu", texts, streams) for texts in systems)
    there, back = Resampling(300, 300).difference(one, other), Resampling(300, 300).difference(other, one)
    assert there.value == pytest.approx(-back.value)
    assert there.interval == pytest.approx((-back.interval.high, -back.interval.low), abs=0.2)
    assert (there.bootstrap_p, there.randomisation_p) == pytest.approx((back.bootstrap_p, back.randomisation_p))


def test_portions_change_no_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    systems, streams = corpus([0.3, 0.35], lines=50)
    one, other = (measured("bleu", texts, streams) for texts in systems)
    whole = Resampling(200, 200).difference(one, other)
    monkeypatch.setattr("transduce.metrics.significance.BLOCK", 50 * 40)
    assert Resampling(200, 200).difference(one, other) == whole


def test_what_cannot_be_compared_is_no_difference() -> None:
    surprised = Statistics(metric("perplexity"), np.array([[1e9, 1.0]] * 5))
    found = Resampling(10, 10).difference(surprised, surprised)
    assert (found.bootstrap_p, found.randomisation_p) == (1.0, 1.0)


def test_an_infinite_row_makes_infinite_what_it_is_drawn_into() -> None:
    draw = np.random.default_rng(5)
    rows_NK = np.stack([draw.normal(2, 0.5, 40), np.ones(40)], 1)
    ours, asked = Statistics(metric("perplexity"), rows_NK), Resampling(400, 100)
    rows_NK = rows_NK.copy()
    rows_NK[7, 0] = np.inf
    theirs = Statistics(metric("perplexity"), rows_NK)
    drawn_R = np.concatenate(list(asked._draws(40)))[:, 7] > 0
    scores_R = asked.bootstrap(theirs)
    assert 0.5 < drawn_R.mean() < 0.75
    assert (scores_R == np.inf).tolist() == drawn_R.tolist()
    assert scores_R[~drawn_R] == pytest.approx(asked.bootstrap(ours)[~drawn_R])
    assert asked.interval(theirs) == (pytest.approx(scores_R[~drawn_R].min(), rel=0.2), np.inf)
    found = asked.difference(ours, theirs)
    assert (found.value, found.interval.low, found.interval.high) == (-np.inf, -np.inf, 0.0)
    assert (found.bootstrap_p, found.randomisation_p) == (1.0, 1.0)
    assert np.isnan(asked.difference(theirs, theirs).value)


def test_blocks_take_whole_words_of_random_bits_and_fit_into_memory() -> None:
    assert list(_blocks(100, BLOCK // 64)) == [64, 36]
    assert list(_blocks(100, 2)) == [100]
    assert list(_blocks(70, 10 * BLOCK)) == [32, 32, 6]


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_the_middle_is_of_scores_that_were_seen() -> None:
    assert middle(np.arange(1, 1001, dtype=float)) == (25.0, 975.0)
    assert middle(np.array([1.0, np.inf, np.inf])) == (1.0, np.inf)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="3 examples against 2"):
        Resampling().difference(exact([1, 0, 1]), exact([1, 0]))
    with pytest.raises(ValueError, match="trials = 0"):
        Resampling(trials=0)
    assert Resampling(seed=5).signature == "bs:1000|ar:10000|seed:5"
