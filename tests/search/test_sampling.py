"""Sampling: frequencies against distributions enumerated by hand, truncations by their definitions, and whose draws
are whose (the laws are in test_laws)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from test_search import Lookup, all_of
from torch import Tensor

from selection import mostly_slow
from transduce.core import config
from transduce.core.protocols import Search
from transduce.core.types import BOS, EOS, PAD, UNK, Padded
from transduce.search import random_numbers
from transduce.search.base import Truncation
from transduce.search.filters.lengths import LengthLimit
from transduce.search.greedy import Greedy
from transduce.search.sampling import Sampling, drawn
from transduce.search.truncation import Epsilon, Nucleus, TopK

Tokens = tuple[int, ...]


def slow_distribution(log_probs: list[float], temperature: float, truncations: tuple[Truncation, ...]) -> list[float]:
    """The distribution that a token is drawn from, computed by the definitions."""
    q = [0.0 if token in (PAD, BOS, UNK) else math.exp(each / temperature) for token, each in enumerate(log_probs)]
    for truncation in (None, *truncations):
        ranked = sorted(range(len(q)), key=lambda token: -q[token])
        if isinstance(truncation, TopK):
            kept = ranked[: truncation.k]
        elif isinstance(truncation, Nucleus):
            size = next(n for n in range(1, len(q) + 1) if sum(q[t] for t in ranked[:n]) >= truncation.p - 1e-12)
            kept = ranked[:size]
        elif isinstance(truncation, Epsilon):
            kept = [token for token in ranked if q[token] >= truncation.epsilon] or ranked[:1]
        else:
            kept = ranked
        q = [each if token in kept else 0.0 for token, each in enumerate(q)]
        q = [each / sum(q) for each in q]
    return q


def enumerated(model: Lookup, source: int, sampling: Sampling, least: int = 1) -> dict[Tokens, float]:
    """The probabilities of all outputs that can be drawn, if each must have at least ``least`` tokens."""
    outputs: dict[Tokens, float] = {}
    open_: list[tuple[Tokens, float]] = [((), 1.0)]
    while open_:
        prefix, probability = open_.pop()
        if len(prefix) == sampling.max_length - 1:
            outputs[(*prefix, EOS)] = probability
            continue
        log_probs = model.log_probs(source, prefix)
        if len(prefix) + 1 < least:
            log_probs[EOS] = -math.inf
        q = slow_distribution(log_probs, sampling.temperature, sampling.truncations)
        for token, each in enumerate(q):
            if token == EOS and each:
                outputs[(*prefix, EOS)] = probability * each
            elif each:
                open_.append(((*prefix, token), probability * each))
    return outputs


def chi_square(counts: Counter[Any], expected: dict[Any, float]) -> float:
    """The p-value of a chi-square test. Outcomes expected less than five times are pooled (Cochran 1954). The pool is
    left out if it is expected at most once.
    """
    total = counts.total()
    assert set(counts) <= set(expected)
    common = [key for key, p in expected.items() if p * total >= 5]
    cells = [(counts[key], expected[key] * total) for key in common]
    rest = total - sum(e for _, e in cells)
    if rest > 1:
        cells.append((total - sum(counts[key] for key in common), rest))
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    freedom = torch.tensor((len(cells) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, torch.tensor(statistic / 2, dtype=torch.float64)))


SAMPLINGS = {
    "plain": Sampling(max_length=4),
    "hot": Sampling(temperature=1.7, max_length=4, seed=5),
    "cold": Sampling(temperature=0.5, max_length=4),
    "top-k": Sampling(truncations=(TopK(2),), max_length=5),
    "nucleus": Sampling(truncations=(Nucleus(0.8),), max_length=4),
    "epsilon": Sampling(truncations=(Epsilon(0.1),), max_length=4),
    "filtered": Sampling(temperature=1.2, truncations=(TopK(3),), max_length=4, filters=(LengthLimit(3),)),
    "one after the other": Sampling(
        temperature=1.4, truncations=(TopK(4), Nucleus(0.9), Epsilon(0.15)), max_length=5, seed=2
    ),
}


@pytest.mark.parametrize("name", mostly_slow(SAMPLINGS, fast=["filtered", "one after the other"]))
def test_frequencies_are_the_distributions(name: str) -> None:
    sampling = SAMPLINGS[name]
    model, size = Lookup(), 5000
    for source, hypotheses in enumerate(replace(sampling, size=size)(model, all_of(model))):
        expected = enumerated(model, source, sampling, least=3 if sampling.filters else 1)
        assert sum(expected.values()) == pytest.approx(1)
        counts = Counter(h.tokens for h in hypotheses)
        assert counts.total() == size
        assert chi_square(counts, expected) > 1e-4
        for h in hypotheses[:: size // 50]:
            assert h.score == pytest.approx(math.log(expected[h.tokens]), abs=1e-9)
            assert h.log_prob == pytest.approx(
                sum(model.log_probs(source, h.tokens[:n])[token] for n, token in enumerate(h.tokens)), abs=1e-9
            )


def test_the_test_of_frequencies_can_fail() -> None:
    model = Lookup()
    (found,) = Sampling(5000, max_length=4, temperature=1.3)(model, torch.tensor([0]))
    assert chi_square(Counter(h.tokens for h in found), enumerated(model, 0, Sampling(max_length=4))) < 1e-4


def test_frequencies_over_seeds_and_over_sources() -> None:
    """Samples of different seeds, and of different sources, are as independent as samples of one source."""
    model = Lookup()
    expected = enumerated(model, 0, Sampling(max_length=3))
    counts = Counter(Sampling(max_length=3, seed=seed)(model, torch.tensor([0]))[0][0].tokens for seed in range(300))
    assert chi_square(counts, expected) > 1e-4
    many = Lookup(ends=(0.0,) * 1000)
    many.logits[:] = model.logits[0]
    counts = Counter(found[0].tokens for found in Sampling(max_length=3)(many, all_of(many)))
    assert chi_square(counts, expected) > 1e-4


def test_in_the_limit_of_no_temperature_it_is_greedy_search() -> None:
    for seed in range(10):
        model = Lookup(seed)
        cold = Sampling(3, temperature=1e-8, max_length=6)(model, all_of(model))
        for (greedy,), found in zip(Greedy(6)(model, all_of(model)), cold, strict=True):
            assert [h.tokens for h in found] == [greedy.tokens] * 3
            assert found[0].log_prob == pytest.approx(greedy.log_prob, abs=1e-9)
            assert found[0].score == pytest.approx(0)
    narrow = Sampling(temperature=1e-8).distribution(torch.tensor([[0.0, 0, 90, 91, 0]]))
    assert narrow.tolist() == [[0, 0, 0, 1, 0]]


def test_temperatures_beyond_the_range_of_numbers_are_the_limits() -> None:
    """Uses float32 scores. One word is impossible."""
    scores_NV = torch.tensor([[0.0, -torch.inf, 90, 91, 0]])
    for cold in (1e-50, 1e-300):
        assert Sampling(temperature=cold).distribution(scores_NV.clone()).tolist() == [[0, 0, 0, 1, 0]]
    for hot in (1e50, 1e300):
        assert Sampling(temperature=hot).distribution(scores_NV.clone()).tolist() == [[0.25, 0, 0.25, 0.25, 0.25]]


def test_the_best_of_several() -> None:
    model = Lookup()
    every = Sampling(20, max_length=6)(model, all_of(model))
    for all_found, best in zip(every, Sampling(20, 3, max_length=6)(model, all_of(model)), strict=True):
        assert best == all_found[:3]
        assert len(all_found) == 20
    assert Sampling(4, 2).resized() == Sampling(4, 2)
    assert Sampling(4, temperature=0.5).resized(nbest=9) == Sampling(9, 9, temperature=0.5)
    assert Sampling(4).resized(2) == Sampling(2)


def test_finished_samples_leave() -> None:
    """Each source has as many rows as the source with the most active samples. No other rows are computed."""
    model = Lookup(5, (200.0, -200.0, 200.0, -200.0))
    Sampling(6, max_length=6)(model, all_of(model))
    assert model.rows == [4] + [2 * 6] * 5  # one beginning for all samples
    model = Lookup()
    Sampling(40, max_length=30)(model, all_of(model))
    assert model.rows[1:] == sorted(model.rows[1:], reverse=True)
    assert model.rows[-1] < 20


# ------------------------------------------------------------------------- truncations


@pytest.mark.parametrize("truncation", [TopK(1), TopK(5), Nucleus(0.3), Nucleus(0.9999), Epsilon(0.01)])
def test_truncations_are_their_definitions_whatever_the_vocabulary(truncation: Truncation) -> None:
    """A batch has flat to peaked distributions, over more words than ``Nucleus`` sorts at first."""
    generator = torch.Generator().manual_seed(3)
    spread_N1 = torch.tensor([0.01, 0.3, 1.0, 3.0, 9.0, 30.0])[:, None]
    p_NV = (torch.randn(6, 700, generator=generator, dtype=torch.float64) * spread_N1).softmax(1)
    kept_NV = p_NV >= truncation(p_NV)
    for p, kept in zip(p_NV, kept_NV, strict=True):
        first, *rest = p.log().tolist()
        forged = [-math.inf, -math.inf, first, -math.inf, *rest]  # no word is padding or unknown
        expected = slow_distribution(forged, 1.0, (truncation,))[EOS:]
        del expected[UNK - EOS]
        assert [each > 0 for each in expected] == (kept & (p > 0)).tolist()


def test_equals_stay_together() -> None:
    p_NV = torch.tensor([[0.3, 0.3, 0.2, 0.2]])
    assert [int((p_NV >= truncation(p_NV)).sum()) for truncation in (TopK(1), Nucleus(0.7), Nucleus(1.0))] == [2, 4, 4]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopK(0), "k = 0: at least one"),
        (lambda: Nucleus(0.0), "p = 0.0: a probability was expected, above 0"),
        (lambda: Nucleus(1.1), "p = 1.1: a probability was expected, above 0 and at most 1"),
        (lambda: Epsilon(1.0), "epsilon = 1.0: a probability was expected, from 0 to below 1"),
        (lambda: Sampling(temperature=0.0), "temperature = 0.0: .* take greedy search"),
        (lambda: Sampling(temperature=math.inf), "temperature = inf"),
        (lambda: Sampling(2, 3), "nbest = 3, size = 2"),
        (lambda: Sampling(0), "size = 0"),
        (lambda: Sampling(max_length=0), "max_length = 0"),
    ],
)
def test_options_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_configuration_composes_truncations() -> None:
    table = {"type": "sampling", "truncations": ["nucleus", {"type": "top-k", "k": 7}], "temperature": 0.8}
    assert config.build(table, Search) == Sampling(truncations=(Nucleus(), TopK(7)), temperature=0.8)


# ------------------------------------------------------------------------------- draws


@dataclass(frozen=True)
class Pair:
    words: Padded
    picture: Tensor


def pairs() -> Pair:
    generator = torch.Generator().manual_seed(1)
    words = Padded(torch.randint(4, 9, (4, 5), generator=generator), torch.tensor([5, 2, 3, 1]))
    return Pair(words, torch.randn(4, 2, 3, generator=generator))


def test_keys_belong_to_what_a_source_holds() -> None:
    """Any tree: neither padding nor the other rows have a part; every real entry, its place and the seed do."""
    source = pairs()
    keys_N = random_numbers.keys(source, 1, 2)
    assert len(set(keys_N.tolist())) == 8
    wide = Padded(torch.cat([source.words.values, torch.full((4, 3), 6)], 1), source.words.lengths)
    junk = Padded(source.words.values.masked_fill(~source.words.mask, 8), source.words.lengths)
    for words in (wide, junk):
        assert torch.equal(random_numbers.keys(Pair(words, source.picture), 1, 2), keys_N)
    picture = source.picture.clone()
    picture[0, 1, 1] += 1e-6
    assert (random_numbers.keys(Pair(source.words, picture), 1, 2) != keys_N).tolist() == [True] * 2 + [False] * 6
    swapped = Padded(source.words.values[:, [1, 0, 2, 3, 4]], source.words.lengths)
    assert source.words.values[1, 0] != source.words.values[1, 1]
    assert (random_numbers.keys(Pair(swapped, source.picture), 1, 1) != keys_N[::2])[1]
    assert not (random_numbers.keys(source, 2, 2) == keys_N).any()
    assert torch.equal(random_numbers.keys(source, 1, 1), keys_N[::2])  # fewer samples are the first of more
    shorter = Padded(source.words.values, torch.tensor([4, 2, 3, 1]))
    assert (random_numbers.keys(Pair(shorter, source.picture), 1, 1) != keys_N[::2]).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_split_mix_by_plain_integers() -> None:
    def plain(z: int) -> int:
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> shift)) * factor % 2**64
        return z ^ (z >> 31)

    for z in (0, 1, 12345678901234567, 2**63 - 1, 2**64 - 1, 0x9E3779B97F4A7C15):
        signed = z - 2**64 if z >= 2**63 else z
        assert int(random_numbers.mixed(torch.tensor(signed))) % 2**64 == plain(z)
        seventh = plain((z + 7 * 0x9E3779B97F4A7C15) % 2**64) >> 11
        assert float(random_numbers.uniform(torch.tensor(signed), 7)) == seventh / 2**53


def test_every_quantile_has_its_token() -> None:
    q_NV = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]]).repeat(5, 1)
    quantile_N = torch.tensor([0.0, 0.2499, 0.25, 0.9, 1 - 2.0**-53], dtype=torch.float64)
    assert drawn(q_NV, quantile_N).tolist() == [1, 1, 3, 3, 3]
