"""The small parts of searches: defaults, limits, the largest of many scores, capacities, lengths, and their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, PAD, UNK, Emission, Hypothesis, Padded
from transduce.search import largest, random_numbers
from transduce.search.base import ends_freely, resized, staggers, with_run, with_unknown
from transduce.search.beam import Beam
from transduce.search.constraints.phrases import Constraints
from transduce.search.exact import Exact, Exploration
from transduce.search.front import remaining
from transduce.search.greedy import Greedy, quickest
from transduce.search.length_beam import LengthBeam, word_log_probs
from transduce.search.limits import longest_output
from transduce.search.ranking import Average, BoundedReward, Brevity, LogProbability, Wu
from transduce.search.reading import capacity, forbid_specials, forbid_unknown
from transduce.search.sampling import Sampling, drawn
from transduce.search.truncation import Epsilon, Nucleus, TopK
from transduce_engine.phrases import _of_a_word

INF = math.inf


def test_the_defaults_are_those_of_the_documentation() -> None:
    assert Beam() == Beam(5, 1, 200, Average(), (), unknown=False, observer=None)
    assert Greedy() == Greedy(200, (), False)
    assert Exact() == Exact(1, 200, 10_000, 5, 8, 32, False)
    assert Sampling() == Sampling(1, None, 1.0, (), 200, (), 1, False)
    assert LengthBeam() == LengthBeam(1, 1, LogProbability())
    assert (Wu(), BoundedReward(), Brevity()) == (Wu(0.6), BoundedReward(1.0, 1.0), Brevity(1.0))
    assert (TopK(), Nucleus(), Epsilon()) == (TopK(40), Nucleus(0.95), Epsilon(0.02))
    for search in (Beam, Greedy, Exact, Sampling, LengthBeam):
        assert ends_freely(search())
        assert hash(search()) == hash(search()), "a search does not change, so it can be a key"
    assert not ends_freely(object())
    assert not staggers(object())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: LengthBeam(1, 2), "nbest = 2, size = 1: of n lengths come 1 to n hypotheses"),
        (lambda: LengthBeam(1, 0), "nbest = 0, size = 1"),
        (lambda: Sampling(1, 2), "nbest = 2, size = 1: of n samples come 1 to n"),
        (lambda: Sampling(0), "nbest = None, size = 0"),
        (lambda: Sampling(2, -1), "nbest = -1, size = 2"),
        (lambda: Sampling(temperature=0.0), r"temperature = 0\.0: a number above 0"),
        (lambda: Sampling(temperature=INF), "temperature = inf: a number above 0"),
        (lambda: TopK(0), "k = 0: at least one token must stay"),
        (lambda: Nucleus(0.0), r"p = 0\.0: a probability"),
        (lambda: Nucleus(1.01), r"p = 1\.01: a probability"),
        (lambda: Epsilon(-0.1), r"epsilon = -0\.1: a probability"),
        (lambda: Epsilon(1.0), r"epsilon = 1\.0: a probability"),
        (lambda: Brevity(0.0), r"length_ratio = 0\.0: the tokens of an output"),
        (lambda: BoundedReward(1.0, INF), "length_ratio = inf: the tokens of an output"),
        (lambda: BoundedReward(-0.1), r"reward = -0\.1: 0 or more"),
        (lambda: Constraints(("cat", [])), r"required = \[\]: a list of phrases was expected"),
        (lambda: Wu(10.1), r"alpha = 10\.1: a number from 0"),
    ],
)
def test_options_out_of_range_are_refused(make: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        make()


def test_the_ends_of_ranges_are_allowed() -> None:
    p_NV = torch.tensor([[0.5, 0.3, 0.2]])
    assert TopK(1)(p_NV).item() == 0.5
    assert TopK(9)(p_NV).item() == pytest.approx(0.2)
    assert Nucleus(1.0)(p_NV).item() == pytest.approx(0.2)
    assert Epsilon(0.0)(p_NV).item() == 0.0
    assert Epsilon(0.9)(p_NV).item() == 0.5
    assert BoundedReward(0.0)(-3.0, 9, 9) == -3.0
    assert (Wu(0.0).alpha, Wu(10.0).alpha, Sampling(2, 2).nbest) == (0, 10, 2)


def test_rankings_with_the_length_of_the_source() -> None:
    assert Brevity(2.0)(-6.0, 4, 2) == -1.5
    assert Brevity(2.0)(-6.0, 3, 2) == pytest.approx(-2.0 + 1 - 4 / 3)
    assert BoundedReward(0.5, 2.0)(-6.0, 3, 2) == -4.5
    assert BoundedReward(0.5, 2.0)(-6.0, 9, 2) == -4.0


def test_a_search_is_resized() -> None:
    assert resized(Beam(4, 3), 2, None) == Beam(2, 2)
    assert resized(Beam(4, 3), 6, None) == Beam(6, 3)
    assert resized(Beam(4, 3), None, 6) == Beam(6, 6)
    assert resized(Beam(4, 3), None, 2) == Beam(4, 2)
    assert resized(Sampling(4), None, None) == Sampling(4)
    assert resized(Sampling(4), 2, None) == Sampling(2)
    assert Greedy(9).resized() == Greedy(9)
    assert Greedy(9).resized(2) == Beam(2, max_length=9)
    assert Greedy(9, unknown=True).resized(nbest=3) == Beam(5, 3, max_length=9, unknown=True)


def test_the_quickest_relative_has_the_same_limits() -> None:
    for search in (Beam(7, max_length=9), Exact(max_length=9), Sampling(max_length=9)):
        assert quickest(search) == Greedy(9)
    assert quickest(LengthBeam(5, 2)) == LengthBeam(1, 1)
    other: Any = object()
    assert quickest(other) is other
    assert longest_output(Greedy(9), 3) == 9
    assert longest_output(other, 3) is None


def test_unknown_reaches_the_search_inside() -> None:
    @dataclass(frozen=True)
    class Outer:
        search: Any

    assert with_unknown(Greedy()) == Greedy(unknown=True)
    assert with_unknown(Outer(Beam())) == Outer(Beam(unknown=True))
    assert with_unknown(LengthBeam()) == LengthBeam()
    other = object()
    assert with_unknown(other) is other


def test_a_run_reaches_the_search_inside() -> None:
    @dataclass(frozen=True)
    class Part:
        language_model: Any
        parts: tuple[Any, ...] = ()

    def connected(part: Any) -> Any:
        return with_run(part, lambda path: path.name, other, other)  # type: ignore[arg-type, return-value]

    other: Any = object()
    inner = Part(Path("a/b"))
    assert connected(inner) == Part("b")
    assert connected(Part(inner, (7, inner))) == Part(Part("b"), (7, Part("b")))
    for same in (Part("b", (7, Part("c"))), Beam(), other):
        assert connected(same) is same


def test_rows_stay_in_halves_or_none_that_has_finished() -> None:
    assert remaining([True, False, True], full=True) == [0, 2]
    assert remaining([False, True, False, False, True, False]) == [1, 4]
    assert remaining([False] * 5 + [True]) == [5]


def test_capacities_grow_slowly() -> None:
    found = [capacity(positions) for positions in (0, 1, 8, 9, 12, 13, 16, 17, 24, 25, 32, 33, 48, 49, 96, 97)]
    assert found == [0, 8, 8, 12, 12, 16, 16, 24, 24, 32, 32, 48, 48, 64, 96, 128]


def test_special_tokens_are_forbidden_in_place() -> None:
    scores = torch.zeros(2, 6)
    assert forbid_specials(scores, unknown=True) is scores
    assert (scores == -INF).nonzero()[:, 1].tolist() == [PAD, BOS] * 2
    forbid_unknown(scores, torch.tensor([UNK, 5]))
    assert scores[:, UNK].tolist() == [0.0, -INF]
    assert (forbid_specials(torch.zeros(1, 6)) == -INF).nonzero()[:, 1].tolist() == sorted([PAD, BOS, UNK])


@pytest.mark.parametrize("columns", [5, 199, 200, 201, 250, 300])
@pytest.mark.parametrize("rows", [1, 7, 8, 9])
def test_the_highest_is_the_first_of_equal_ones(rows: int, columns: int) -> None:
    scores = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows * columns)).round(decimals=1)
    scores[0] = -INF
    scores[0, columns - 1] = -9.0
    value, place = largest.highest(scores)
    expected = scores.max(1).values
    assert torch.equal(value, expected)
    assert place.tolist() == [row.index(best) for row, best in zip(scores.tolist(), expected.tolist(), strict=True)]


@pytest.mark.parametrize(("rows", "columns", "count"), [(1, 50_001, 3), (2, 25_099, 250), (3, 20_000, 1), (2, 30, 99)])
def test_the_largest_are_those_of_topk(rows: int, columns: int, count: int) -> None:
    scores = torch.randperm(rows * columns, generator=torch.Generator().manual_seed(1)).view(rows, columns).float()
    scores[:, -1] = 1e9  # behind the last whole block
    value, column = largest.largest(scores, count)
    expected = scores.topk(min(count, columns))
    assert torch.equal(value, expected.values)
    assert torch.equal(column, expected.indices)
    assert torch.equal(largest.first_largest(scores, min(count, 30)), scores.topk(min(count, 30)).indices)


def test_a_sample_is_where_the_distribution_passes_the_quantile() -> None:
    q = torch.tensor([[0.0, 0.25, 0.0, 0.75]]).double()
    for quantile, token in ((0.0, 1), (0.2499, 1), (0.25, 3), (0.9999, 3)):
        assert drawn(q, torch.tensor([quantile]).double()).item() == token
    scores = torch.tensor([[0.0, -1.0, -INF]])
    assert Sampling(temperature=1e-40).distribution(scores).tolist() == [[1.0, 0.0, 0.0]]
    assert Sampling(temperature=1e40).distribution(scores)[0].tolist() == pytest.approx([0.5, 0.5, 0.0])
    kept = Sampling(truncations=(TopK(1),)).distribution(scores)
    assert kept.tolist() == [[1.0, 0.0, 0.0]]


def test_random_numbers_are_splitmix64() -> None:
    """The first numbers of the generator with the state 0, from the authors' C code."""
    state = torch.tensor([0])
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    for count, number in enumerate(expected, 1):
        assert random_numbers.uniform(state, count).item() == (number >> 11) * 2.0**-53
    numbers = random_numbers.uniform(random_numbers.keys(torch.arange(1000), 1, 1), 0)
    assert 0.0 <= numbers.min() < 0.01 < 0.99 < numbers.max() < 1.0
    with pytest.raises(UserError, match=r"seed = .*: a number from -"):
        random_numbers.keys(torch.arange(2), 2**70, 1)


def test_keys_are_sums_of_splitmix64() -> None:
    """A source of 2 positions with 2 numbers each, against the formula in Python's integers."""

    def mixed(z: int) -> int:
        for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ z >> bits) * factor % 2**64
        return z ^ z >> 31

    golden, seed, numbers = 0x9E3779B97F4A7C15, 7, (5, 6, 8, 9)
    words = [mixed((number + mixed(place * golden % 2**64)) % 2**64) for place, number in enumerate(numbers)]
    key = mixed((seed + sum(words)) % 2**64)
    found = random_numbers.keys(Padded(torch.tensor([[[5, 6], [8, 9], [1, 1]]]), torch.tensor([2])), seed, 2)
    assert [each % 2**64 for each in found.tolist()] == [mixed((key + k * golden) % 2**64) for k in (1, 2)]


def test_an_empty_output_wins_if_it_is_the_best() -> None:
    empty, word = Hypothesis((EOS,), -1.0, -1.0, (-1.0,)), Hypothesis((5, EOS), -2.0, -2.0, (-1.0, -1.0))
    assert Exploration([empty, word], 1, True).empty_wins
    assert not Exploration([word, empty], 1, True).empty_wins


@pytest.mark.parametrize(("characters", "inside"), [("aé9_½ा", True), (" -`~{«’—€^", False), ("猫かก", False)])
def test_a_word_has_letters_marks_digits_and_underscores(characters: str, inside: bool) -> None:
    """Scripts without spaces have no words, so that a phrase may begin anywhere."""
    assert [_of_a_word(each) for each in characters] == [inside] * len(characters)


# ------------------------------------------------------------ lengths


class Instant:
    """Two sources: the probability of each length from 0 to 3, and words whose logits do not depend on the length."""

    def __init__(self) -> None:
        self.lengths = torch.tensor([[0.1, 0.2, 0.6, 0.1], [0.05, 0.5, 0.05, 0.4]]).log()

    def start(self, source: Padded) -> Tensor:
        return torch.arange(len(source.lengths))

    def emit(self, state: Tensor, lengths: Tensor | None = None) -> Emission:
        lengths = self.lengths[state].argmax(-1) if lengths is None else lengths
        output = torch.zeros(len(state), max(1, int(lengths.max())), 6)
        output[:, :, 4] = 1.0
        return Emission(output, lengths, self.lengths[state])

    def readout(self, output: Tensor) -> Tensor:
        return output


@pytest.mark.parametrize(
    ("size", "lengths"), [(1, [[2], [1]]), (2, [[2, 1], [1, 3]]), (9, [[2, 1, 0, 3], [1, 3, 0, 2]])]
)
def test_the_most_probable_lengths_are_tried(size: int, lengths: list[list[int]]) -> None:
    model: Any = Instant()
    source = Padded(torch.zeros(2, 1, dtype=torch.long), torch.tensor([1, 1]))
    for row, found in enumerate(LengthBeam(size, size)(model, source)):
        assert sorted(len(each.tokens) - 1 for each in found) == sorted(lengths[row])
        for each in found:
            assert each.tokens == (4,) * (len(each.tokens) - 1) + (EOS,)
            length = len(each.tokens) - 1
            word = 1.0 - math.log(5 + math.e)
            assert each.log_prob == pytest.approx(model.lengths[row, length].item() + length * word, abs=1e-5)
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_words_are_no_special_tokens(dtype: torch.dtype) -> None:
    logits = torch.tensor([[9.0, 9.0, 9.0, 9.0, 1.0, 2.0]] * 2, dtype=dtype)
    word, log_prob = word_log_probs(logits.clone())
    assert word.tolist() == [5, 5]
    assert log_prob.tolist() == pytest.approx([logits.log_softmax(-1)[0, 5].item()] * 2, abs=1e-5)
    word, log_prob = word_log_probs(logits.clone(), torch.tensor([UNK, 4]))
    assert word.tolist() == [UNK, 4]
    expected = logits.log_softmax(-1)[0, [UNK, 4]].tolist()
    assert log_prob.tolist() == pytest.approx(expected, abs=1e-5)
