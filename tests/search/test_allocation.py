"""Which continuations stay in the beam, and how finished hypotheses rank, against slow beams that follow the
definitions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from test_filters import Tables
from test_search import VOCABULARY, Lookup, all_of, slow_beam

from families import FAMILIES, all_lengths, build, sources
from test_laws import padded_targets, pick, sources_alone
from transduce.compute import choice
from transduce.compute.library import optional_library
from transduce.core import config
from transduce.core.protocols import Search
from transduce.core.types import BOS, EOS, PAD, UNK, Padded
from transduce.search.allocation.best import BestContinuations
from transduce.search.allocation.groups import Groups
from transduce.search.base import Expansion, Ranking
from transduce.search.beam import Beam, BeamState, extend
from transduce.search.filters.ngrams import NoRepeat
from transduce.search.forcing import force
from transduce.search.front import Front
from transduce.search.largest import highest, highest_log_probs, largest
from transduce.search.ranking import Average, BoundedReward, Brevity, LogProbability, Wu


def slow_groups(model: Lookup, source: int, size: int, groups: Groups, longest: int) -> set[tuple[int, ...]]:
    """All outputs that finish within ``longest`` tokens. Each group follows the definition."""
    each = size // groups.groups
    live: list[list[tuple[float, tuple[int, ...]]]] = [[(0.0, ())] for _ in range(groups.groups)]
    finished = set()
    for length in range(1, longest + 1):
        taken: Counter[int] = Counter()
        for group, beam in enumerate(live):
            continuations = [
                (total + log_prob - groups.penalty * taken[token] * (token != EOS), total + log_prob, (*y, token))
                for total, y in beam
                for token, log_prob in enumerate(model.log_probs(source, y))
                if token not in (PAD, BOS, UNK) and (token == EOS or length < longest)
            ]
            continuations.sort(reverse=True)
            finished |= {y for _, _, y in continuations[:each] if y[-1] == EOS}
            live[group] = [(total, y) for _, total, y in continuations if y[-1] != EOS][:each]
            taken.update(y[-1] for _, y in live[group])
    return finished


@pytest.mark.skipif(optional_library() is None, reason="no C++ compiler was found when transduce was installed")
@pytest.mark.parametrize(("sources", "size", "vocabulary"), [(3, 5, 700), (1, 4, 64), (2, 6, 5), (2, 1, 130)])
def test_the_compiled_choice_is_that_of_the_operators(sources: int, size: int, vocabulary: int) -> None:
    """Compiled library and operators choose the same continuations. Some scores are forbidden by filters, some beam
    entries are empty, and some ends are among the best.
    """
    scores_BKV = torch.randn(sources, size, vocabulary, generator=torch.Generator().manual_seed(size))
    scores_BKV[:, ::2, EOS] += 4
    scores_BKV[:, :, 3:] = scores_BKV[:, :, 3:].masked_fill(scores_BKV[:, :, 3:] < -1, float("-inf"))
    total_BK = torch.randn(sources, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    total_BK[-1, 1:] = float("-inf")
    allocation = BestContinuations()
    found, expected = allocation(scores_BKV, total_BK), allocation.by_operators(scores_BKV, total_BK)
    possible_BC = expected.total_BC.isfinite()
    assert torch.equal(found.total_BC, expected.total_BC)
    assert torch.equal(found.ended_BC, expected.ended_BC)
    assert torch.equal(found.live_total_BK, expected.live_total_BK)
    for name in ("origin_BC", "token_BC"):
        assert torch.equal(getattr(found, name)[possible_BC], getattr(expected, name)[possible_BC])


@pytest.mark.skipif(optional_library() is None, reason="no C++ compiler was found when transduce was installed")
@pytest.mark.parametrize("vocabulary", [5, 64, 1003])
def test_the_compiled_greedy_choice_is_the_most_probable_token(vocabulary: int) -> None:
    """The choice is the first of equally probable tokens, and never PAD or BOS; or it is the forced token. Its
    log-probability is normalised over all tokens.
    """
    logits_NV = 3 * torch.randn(7, vocabulary, generator=torch.Generator().manual_seed(vocabulary)).round()
    logits_NV[::2, [PAD, BOS]] += 20
    expected_NV = logits_NV.double().log_softmax(-1)
    expected_NV[:, PAD : BOS + 1] = float("-inf")
    found = highest_log_probs(logits_NV)
    assert found is not None
    log_prob_N, token_N = expected_NV.max(-1)
    assert torch.equal(found[0], token_N)
    torch.testing.assert_close(found[1], log_prob_N, rtol=0, atol=1e-5)
    forced_N = torch.tensor([PAD, EOS, 4, PAD, PAD, 3, EOS])
    found = highest_log_probs(logits_NV, forced_N.clone())
    assert found is not None
    token_N = forced_N.where(forced_N != PAD, token_N)
    assert torch.equal(found[0], token_N)
    torch.testing.assert_close(found[1], expected_NV.gather(1, token_N[:, None])[:, 0], rtol=0, atol=1e-5)


@pytest.mark.skipif(optional_library() is None, reason="no C++ compiler was found when transduce was installed")
@pytest.mark.parametrize(("sources", "size", "length"), [(3, 5, 4), (1, 4, 0), (2, 1, 2)])
def test_the_compiled_extension_is_that_of_the_operators(
    sources: int, size: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled library and the operators extend hypotheses alike. Some beam entries are empty, and some ends are
    among the best.
    """
    generator = torch.Generator().manual_seed(size)
    log_probs_NV = torch.randn(sources * size, 9, generator=generator)
    log_probs_NV[::2, EOS] += 4
    scores_BKV = log_probs_NV.masked_fill(log_probs_NV < -1, float("-inf")).view(sources, size, -1)
    total_BK = torch.randn(sources, size, generator=generator, dtype=torch.float64)
    total_BK[-1, 1:] = float("-inf")
    tokens_BKT = torch.randint(3, 9, (sources, size, length), generator=generator)
    log_probs_BKT = torch.randn(tokens_BKT.shape, generator=generator).double()
    front = Front(tokens_BKT[:, :, -1:].flatten(), None, ())
    state = BeamState((), total_BK, tokens_BKT, log_probs_BKT, front)
    candidates = BestContinuations()(scores_BKV, total_BK)
    assert choice.extend(tokens_BKT, log_probs_BKT, candidates.tensors, log_probs_NV) is not None
    found = extend(state, candidates, log_probs_NV)
    monkeypatch.setattr(choice, "fits", lambda x: False)
    expected = extend(state, candidates, log_probs_NV)
    for name, ours in found._asdict().items():
        assert torch.equal(ours, getattr(expected, name)), name


@pytest.mark.parametrize(("size", "groups"), [(2, 2), (4, 2), (6, 3), (3, 1)])
@pytest.mark.parametrize("penalty", [0.0, 0.7, 5.0])
def test_diverse_groups_are_their_definition(size: int, groups: int, penalty: float) -> None:
    """The search asks for ``size`` outputs, as many as the beam holds, so that it does not stop early."""
    for seed in range(6):
        model, allocation = Lookup(seed), Groups(groups, penalty)
        model.logits[:, :, EOS] -= 3.0  # few hypotheses end, so the search reaches the last step
        search = Beam(size, size, 4, LogProbability(), allocation=allocation)
        for source, found in enumerate(search(model, all_of(model))):
            expected = slow_groups(model, source, size, allocation, 4)
            assert {h.tokens for h in found} <= expected
            assert len(found) == min(size, len(expected))
            for hypothesis in found:
                own = sum(model.log_probs(source, hypothesis.tokens[:n])[t] for n, t in enumerate(hypothesis.tokens))
                assert (hypothesis.score, hypothesis.log_prob) == pytest.approx((own, own), abs=1e-9)


def test_groups_differ_more_than_a_beam() -> None:
    """The hypotheses of a diverse beam have fewer words in common at the same position."""

    def shared(search: Beam) -> int:
        model = Lookup(1)
        return sum(
            one == other
            for found in search(model, all_of(model))
            for h in found
            for g in found
            if h is not g
            for one, other in zip(h.tokens[:-1], g.tokens[:-1], strict=False)
        )

    assert shared(Beam(4, 4, 8, allocation=Groups(4, 3.0), unknown=True)) < 0.7 * shared(Beam(4, 4, 8, unknown=True))


@pytest.mark.parametrize("family", ["luong, coverage, fed", "transformer, pre-norm"])
def test_company_and_score_in_groups(family: str) -> None:
    model, source = build(FAMILIES[family]), sources(all_lengths(family))
    search = Beam(4, 3, 6, Brevity(0.8), (NoRepeat(2),), Groups(2, 0.4))
    together = search(model, source)
    for row in range(7):
        (alone,) = search(model, sources_alone(source, row))
        assert [h.tokens for h in alone] == [h.tokens for h in together[row]]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together[row]], abs=1e-9)
        for hypothesis in alone:
            (own,) = force(model, pick(source, [row]), padded_targets([list(hypothesis.tokens)]))
            assert own.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-9)


@pytest.mark.parametrize("columns", [7, 350, 800, 1234])
@pytest.mark.parametrize("count", [1, 3, 9])
@pytest.mark.parametrize("sources", [2, 40])
def test_the_largest_of_many_columns(columns: int, count: int, sources: int) -> None:
    """The result equals ``topk``, for few and many columns, with minus infinity and equal scores among them."""
    generator = torch.Generator().manual_seed(columns)
    scores = torch.randn(sources, 5, columns, generator=generator).mul_(40).round_()
    scores[:, 1, 5:] = float("-inf")
    scores[1, 2, -3:] = 500.0
    value, place = largest(scores, count)
    expected = scores.topk(min(count, columns)).values
    assert torch.equal(value, expected)
    assert torch.equal(scores.gather(-1, place), expected)
    assert all(len(set(row.tolist())) == min(count, columns) for row in place.flatten(0, 1))


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("columns", [7, 200, 1003])
def test_the_highest_is_the_first_of_equal_columns(rows: int, columns: int) -> None:
    scores = torch.randint(-3, 3, (rows, columns), generator=torch.Generator().manual_seed(columns)).float()
    scores[-1] = float("-inf")
    value, place = highest(scores)
    assert value.tolist() == [max(row) for row in scores.tolist()]
    assert place.tolist() == [row.index(max(row)) for row in scores.tolist()]


# ------------------------------------------------------------------- ranking

RANKINGS = [Brevity(), Brevity(2.0), BoundedReward(), BoundedReward(0.3, 1.5)]


def test_rankings_of_an_expected_length_are_their_formulas() -> None:
    assert Brevity(2.0)(-6.0, 4, 4) == -1.5 - 1.0  # 8 expected: 1 - 8 / 4
    assert Brevity(2.0)(-6.0, 4, 2) == Brevity(2.0)(-6.0, 4, 1) == -1.5
    assert BoundedReward(0.5)(-6.0, 4, 3) == -4.5
    assert BoundedReward(0.5)(-6.0, 4, 9) == -4.0


@pytest.mark.parametrize("ranking", RANKINGS, ids=repr)
def test_a_bound_holds_between_two_lengths(ranking: Ranking) -> None:
    """A score is monotonic in the length, so the scores at two lengths bound the scores between them. This lets a beam
    stop early.
    """
    for source in (1, 5, 20):
        scores = [ranking(-2.0, length, source) for length in range(1, 30)]
        assert scores in (sorted(scores), sorted(scores, reverse=True))
        assert all(ranking(-2.1, length, source) < ranking(-2.0, length, source) for length in range(1, 30))


@pytest.mark.parametrize("ranking", RANKINGS, ids=repr)
@pytest.mark.parametrize(("size", "nbest"), [(2, 1), (4, 2)])
def test_a_beam_ranks_by_the_sources_own_length(ranking: Ranking, size: int, nbest: int) -> None:
    source = Padded(torch.zeros(4, 4), torch.tensor([1, 2, 3, 4]))
    for seed in range(8):
        model, beam = Tables(seed), Beam(size, nbest, 6, ranking)
        for row, found in enumerate(beam(model, source)):
            expected, _ = slow_beam(model, row, beam, source_length=row + 1)
            assert [h.tokens for h in found] == [tokens for _, tokens in expected]
            assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-9)


# ------------------------------------------------------------------ observer


def test_an_observer_sees_the_tree() -> None:
    """An observer can rebuild every finished hypothesis from the steps that it sees, token by token."""
    model, prefix = Lookup(2), Padded(torch.tensor([[3], [4], [5], [6]]), torch.tensor([1, 1, 1, 1]))
    seen: list[Expansion] = []
    search = Beam(3, 3, 6, observer=seen.append)
    found = search(model, all_of(model), prefix)
    assert [step.length for step in seen] == list(range(2, 2 + len(seen)))
    living: dict[int, list[tuple[int, ...]]] = {source: [(3 + source,)] * 3 for source in range(4)}
    assert seen[0].begun_BT is not None
    assert seen[0].begun_BT.tolist() == [[3], [4], [5], [6]]
    ended: dict[int, set[tuple[int, ...]]] = {source: set() for source in range(4)}
    for step in seen:
        for row, source in enumerate(step.source_B):
            tree = step.candidates
            whole = [
                (*living[source][origin], token)
                for origin, token in zip(tree.origin_BC[row].tolist(), tree.token_BC[row].tolist(), strict=True)
            ]
            for y, total, ends in zip(whole, tree.total_BC[row].tolist(), tree.ended_BC[row].tolist(), strict=True):
                if total > float("-inf"):
                    each = [model.log_probs(source, y[:n])[token] for n, token in enumerate(y)]
                    assert total == pytest.approx(sum(each), abs=1e-9)
                if ends:
                    ended[source].add(y)
            living[source] = [whole[place] for place in tree.live_BK[row].tolist()]
    for source in range(4):
        assert {h.tokens for h in found[source]} <= ended[source]
    assert search == Beam(3, 3, 6, observer=seen.append)
    assert found == Beam(3, 3, 6)(model, all_of(model), prefix)


# ------------------------------------------------------------- configuration, errors


def test_slots_are_written_down() -> None:
    table = {"type": "beam", "size": 6, "allocation": {"type": "groups", "groups": 3}, "ranking": "bounded-reward"}
    built: Any = config.build(table, Search)
    assert built == Beam(6, allocation=Groups(3), ranking=BoundedReward())
    assert config.build(config.resolve(table, Search), Search) == built


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Beam(5, allocation=Groups(2)), r"size = 5 does not divide into groups = 2: choose a multiple"),
        (lambda: Groups(0), r"groups = 0, penalty = 0.5: at least one group"),
        (lambda: Groups(2, -1.0), r"penalty = -1.0: .* 0 or more"),
        (lambda: Brevity(0.0), r"length_ratio = 0.0: the tokens of an output for each of its source"),
        (lambda: BoundedReward(-1.0), r"reward = -1.0: 0 or more"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_the_vocabulary_of_tables() -> None:
    assert VOCABULARY > EOS
    assert Average()(-4.0, 2, 9) == Wu(0.0)(-2.0, 7, 9) == -2.0  # they ignore the source's length
