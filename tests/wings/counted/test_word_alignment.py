"""Word aligners, beside sums over all alignments of short pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from families import paired
from transduce.core.errors import UserError
from transduce.core.types import EOS, Padded
from transduce.data.pairs import Pairs
from transduce.wings.counted.alignment.blocks import Block, Sentences, blocks
from transduce.wings.counted.alignment.corpus import align_corpus
from transduce.wings.counted.alignment.estimation import TwoWayCounts, agreed
from transduce.wings.counted.alignment.fertility import Fertility
from transduce.wings.counted.alignment.jumps import Jumps
from transduce.wings.counted.alignment.lexicon import RARE
from transduce.wings.counted.alignment.pegging import pegged
from transduce.wings.counted.alignment.position import Absolute, Diagonal, Position, Uniform
from transduce.wings.counted.alignment.two_ways import TwoWays

POSITIONS: list[Callable[[], Position]] = [Uniform, Absolute, Diagonal, Jumps, lambda: Jumps(window=2)]


def corpus(seed: int = 0, pairs: int = 60, most: int = 6) -> Pairs:
    """Pairs whose target words translate their source words, in a similar order, with words lost and added."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(pairs):
        source = generator.integers(4, 14, generator.integers(1, most)).tolist()
        target = [word + 10 for word in source if generator.random() < 0.8]
        if generator.random() < 0.5:
            target = target[::-1]
        rows.append(([*source, EOS], [*(target or [4]), EOS]))
    return paired(rows)


def counted(position: Callable[[], Position], pairs: Pairs, passes: int = 3, **options: Any) -> TwoWayCounts:
    counts = TwoWayCounts(TwoWays(position), pairs, **{"warm_up": 1, "agreement": False, "prior": 0.0} | options)
    for _ in range(passes):
        counts.reestimate()
    return counts


def every_alignment(S: int, T: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(S + 1), repeat=T)


def chances(position: Any, S: int, T: int) -> dict[tuple[int, ...], float]:
    """p(alignment | S, T), from the definition of each model."""
    found = {}
    for alignment in every_alignment(S, T):
        chance, last = 1.0, 0
        for t, i in enumerate(alignment, 1):
            if isinstance(position, Jumps):
                weights = [float(position.weight[jump_index(position, i - last)]) for i in range(1, S + 1)]
                jumps = [(1 - position.uniform) * weight / sum(weights) + position.uniform / S for weight in weights]
                last = i or last
            elif isinstance(position, Diagonal):
                weights = [math.exp(-float(position.tension) * abs(i / S - t / T)) for i in range(1, S + 1)]
                jumps = [weight / sum(weights) for weight in weights]
            else:
                jumps = [1 / S] * S
            chance *= (1 - position.null) * jumps[i - 1] if i else position.null
        found[alignment] = chance
    return found


def jump_index(position: Jumps, width: int) -> int:
    return min(max(width, -position.window), position.window) + position.window


def emissions(block: Block, seed: int = 3) -> Tensor:
    """Any numbers at real words, as the lexicon gives them."""
    B, T, S = block.real_BTS.shape
    emission_BTI = torch.rand(B, T, 1 + S, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    emission_BTI = emission_BTI.masked_fill(~block.target.mask[..., None], 1.0)
    emission_BTI[..., 1:].masked_fill_(~block.source.mask[:, None], 0.0)
    return emission_BTI


def ragged_block() -> Block:
    """One block with pairs of several lengths on both sides."""
    rows = [([5] * S + [EOS], [5] * T + [EOS]) for S in (1, 2, 3, 4) for T in (1, 2, 3)]
    pairs = paired(rows)
    (block,) = blocks(Sentences.of_ragged(pairs.source), Sentences.of_ragged(pairs.target))
    return block


@pytest.mark.parametrize("make", [Uniform, Diagonal, Jumps, lambda: Jumps(window=2)])
def test_posteriors_and_likelihood_are_sums_over_all_alignments(make: Callable[[], Any]) -> None:
    block, position = ragged_block(), make()
    position.begin(block.source.lengths.numpy(), block.target.lengths.numpy(), 6)
    if isinstance(position, Jumps):
        position.weight.data = torch.rand(len(position.weight), generator=torch.Generator().manual_seed(1)).double()
    emission_BTI = emissions(block)
    found = position.expect(block, emission_BTI)
    lengths = zip(block.source.lengths.tolist(), block.target.lengths.tolist(), strict=True)
    for row, (S, T) in enumerate(lengths):
        expected_TI, total = torch.zeros(found.posterior_BTI.shape[1:], dtype=torch.float64), 0.0
        for alignment, chance in chances(position, S, T).items():
            joint = chance * math.prod(float(emission_BTI[row, t, i]) for t, i in enumerate(alignment))
            expected_TI[range(T), alignment] += joint
            total += joint
        torch.testing.assert_close(found.posterior_BTI[row], expected_TI / total)
        assert float(found.log_prob_BT[row].sum()) == pytest.approx(math.log(total))


def test_jumps_count_widths_and_starts_by_all_alignments() -> None:
    block, position = ragged_block(), Jumps(window=2)
    position.begin(block.source.lengths.numpy(), block.target.lengths.numpy(), 6)
    position.weight.data = torch.rand(5, generator=torch.Generator().manual_seed(1)).double()
    emission_BTI = emissions(block)
    count_W, left_SM = position.expect(block, emission_BTI).statistics()
    expected_W, expected_SM = torch.zeros_like(count_W), torch.zeros_like(left_SM)
    for row, (S, T) in enumerate(zip(block.source.lengths.tolist(), block.target.lengths.tolist(), strict=True)):
        joint = {
            alignment: chance * math.prod(float(emission_BTI[row, t, i]) for t, i in enumerate(alignment))
            for alignment, chance in chances(position, S, T).items()
        }
        for alignment, value in joint.items():
            last = 0
            for i in filter(None, alignment):
                weights = [float(position.weight[jump_index(position, j - last)]) for j in range(1, S + 1)]
                near = (1 - position.uniform) * weights[i - 1] / sum(weights)
                share = value / sum(joint.values()) * near / (near + position.uniform / S)
                expected_W[jump_index(position, i - last)] += share
                expected_SM[S, last] += share
                last = i
    torch.testing.assert_close(count_W, expected_W)
    torch.testing.assert_close(left_SM, expected_SM)


@pytest.mark.parametrize("position", POSITIONS)
def test_likelihood_never_falls(position: Callable[[], Position]) -> None:
    counts = counted(position, corpus(), passes=0, warm_up=2)
    log_probs = [counts.reestimate() for _ in range(12)]
    assert all(b > a - 1e-6 * abs(a) for a, b in itertools.pairwise(log_probs))
    assert log_probs[-1] > log_probs[0] + 1


def test_ibm_1_has_the_same_optimum_from_any_start() -> None:
    generator, optima = torch.Generator().manual_seed(2), []
    for start in range(3):
        counts = counted(Uniform, corpus(pairs=25), passes=0, warm_up=0)
        for lexical in counts.lexicons if start else ():
            for parameter in (lexical.lexicon.probability, lexical.lexicon.null):
                parameter.data = 0.01 + torch.rand(parameter.shape, generator=generator).double()
        optima.append([counts.reestimate() for _ in range(400)][-1])
    assert optima == pytest.approx([optima[0]] * 3, rel=1e-5)


def test_diagonal_learns_the_tension_of_its_pairs() -> None:
    position = Diagonal(tension=1.0)
    lengths = np.array([5, 8]), np.array([7, 4])
    position.begin(*lengths, 5)
    rows = [([4] * S + [EOS], [4] * T + [EOS]) for S, T in zip(*lengths, strict=True)]
    pairs = paired(rows)
    (block,) = blocks(Sentences.of_ragged(pairs.source), Sentences.of_ragged(pairs.target))
    position.tension.data[:] = 6.5
    drawn = position.prior(block) * torch.nn.functional.pad(block.real_BTS, (1, 0), value=True)
    statistics = position.statistics(block, drawn * block.target.mask[..., None])
    position.tension.data[:] = 1.0
    position.learn(statistics)
    assert float(position.tension) == pytest.approx(6.5, abs=1e-4)


def test_absolute_falls_back_to_uniform_for_lengths_that_were_not_counted() -> None:
    counts = counted(Absolute, paired([([4, 5, EOS], [6, 7, EOS]), ([4, EOS], [6, EOS])]))
    counts.store()
    posterior_BTI, _ = counts.model.align(Padded.of([[8, 9, 9, EOS]]), Padded.of([[8, 9, EOS]]))
    torch.testing.assert_close(posterior_BTI[0, 0], torch.tensor([0.1, 0.3, 0.3, 0.3, 0.0]))
    counted_BTI, _ = counts.model.align(Padded.of([[4, 5, EOS]]), Padded.of([[6, 7, EOS]]))
    assert counted_BTI[0, 0, 1] > 0.5


@pytest.mark.parametrize("position", [*POSITIONS, Fertility])
def test_unseen_pairs_get_posteriors_that_sum_to_one(position: Callable[[], Position]) -> None:
    counts = counted(position, corpus())
    counts.store()
    source = Padded.of([[4, 5, 6, EOS], [4, 99, EOS], [7, EOS], [EOS], [4, EOS]])
    target = Padded.of([[14, EOS], [15, 99, 14, 16, EOS], [17, 18, EOS], [14, EOS], [EOS]])
    for turned, (one, other) in ((False, (source, target)), (True, (target, source))):
        posterior_BTI, log_prob_BT = counts.model.align(source, target, turned)
        assert posterior_BTI.shape == (5, other.values.shape[1], 1 + one.values.shape[1])
        words_BT = torch.arange(other.values.shape[1]) < other.lengths[:, None] - 1
        torch.testing.assert_close(posterior_BTI.sum(-1), words_BT.float())
        assert bool((log_prob_BT[words_BT] < 0).all())
        assert bool((log_prob_BT[~words_BT] == 0).all())
        ends = one.lengths[:, None, None] <= torch.arange(posterior_BTI.shape[2])
        assert not bool(posterior_BTI[ends.expand_as(posterior_BTI)].any())
        alone, _ = counts.model.align(
            *(Padded(side.values[1:2, : side.lengths[1]], side.lengths[1:2]) for side in (source, target)), turned
        )
        torch.testing.assert_close(posterior_BTI[1:2, : alone.shape[1], : alone.shape[2]], alone)


def test_an_unknown_word_is_placed_by_position_alone() -> None:
    counts = counted(Uniform, corpus())
    counts.store()
    posterior_BTI, log_prob_BT = counts.model.align(Padded.of([[4, 5, EOS]]), Padded.of([[99, EOS]]))
    torch.testing.assert_close(posterior_BTI[0, 0], torch.tensor([0.1, 0.45, 0.45, 0.0]))
    assert float(log_prob_BT[0, 0]) == pytest.approx(math.log(RARE))


def test_agreement_multiplies_the_posteriors_of_links() -> None:
    forth, back = torch.rand(2, 3, 5), torch.rand(2, 4, 4)
    one, other = agreed(forth, back)
    assert torch.equal(one[..., 0], forth[..., 0])
    assert torch.equal(other[..., 0], back[..., 0])
    assert one[1, 2, 4] == other[1, 3, 3] == forth[1, 2, 4] * back[1, 3, 3]


def test_a_prior_counts_rare_words_less() -> None:
    plain, bayesian = (counted(Uniform, corpus(), prior=prior).lexicons[0].lexicon for prior in (0.0, 0.1))
    assert float(bayesian.probability.sum()) < 0.9 * float(plain.probability.sum())
    torch.testing.assert_close(plain.null.sum(), torch.ones((), dtype=torch.float64))


def test_links_of_a_corpus_leave_out_empty_sides() -> None:
    rows = [([4, 5, EOS], [14, 15, EOS]), ([4, EOS], [EOS]), ([EOS], [14, EOS]), ([5, EOS], [15, EOS])]
    pairs = paired(rows)
    assert align_corpus(pairs.source, pairs.target).write() == ["0-0 1-1", "", "", "0-0"]
    counts = counted(Uniform, pairs)
    assert counts.report == ("2 of 4 pairs have an empty side, and are not counted",)
    assert counts.tokens == 6


def test_pairs_without_words_cannot_be_counted() -> None:
    pairs = paired([([4, EOS], [EOS]), ([EOS], [14, EOS])])
    with pytest.raises(UserError, match="none of the 2 pairs has words on both sides"):
        align_corpus(pairs.source, pairs.target)


def test_an_aligner_must_be_counted_first() -> None:
    with pytest.raises(UserError, match="has not been counted"):
        TwoWays(Jumps).align(Padded.of([[4, EOS]]), Padded.of([[4, EOS]]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(null=0.0), "null = 0.0"),
        (lambda: Jumps(uniform=1.0), "uniform = 1.0"),
        (lambda: Jumps(window=0), "window = 0"),
        (lambda: Diagonal(tension=0.0), "tension = 0.0"),
        (lambda: Fertility(jumps=-1), "jumps = -1"),
        (lambda: Fertility(most=0), "most = 0"),
        (lambda: Fertility(smoothing=0.0), "smoothing = 0.0"),
        (lambda: Fertility(pegs=-1), "pegs = -1"),
    ],
)
def test_options_outside_their_range(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


# ------------------------------------------------------------------ fertilities


def with_fertilities(block: Block) -> Fertility:
    """A model with any jumps and any fertilities of 0, 1, and 2 or more."""
    position, generator = Fertility(window=2, most=2), torch.Generator().manual_seed(4)
    position.begin(block.source.lengths.numpy(), block.target.lengths.numpy(), 6)
    position.jumps.weight.data = torch.rand(5, generator=generator).double()
    position.probability.data = torch.rand(position.probability.shape, generator=generator).double()
    return position


def every_joint(position: Fertility, block: Block, emission_BTI: Tensor, row: int) -> dict[tuple[int, ...], float]:
    """p(target, alignment | source) of all alignments of one pair, from the definition."""
    S, T = int(block.source.lengths[row]), int(block.target.lengths[row])
    found = {}
    for alignment, chance in chances(position.jumps, S, T).items():
        joint = chance * math.prod(float(emission_BTI[row, t, i]) for t, i in enumerate(alignment))
        for i in range(S):
            word, times = int(block.source.values[row, i]), min(alignment.count(i + 1), position.most)
            joint *= float(position.probability[word, times])
        found[alignment] = joint
    return found


def neighbours_of(alignment: tuple[int, ...], S: int) -> set[tuple[int, ...]]:
    """The alignment, its moves and its swaps."""
    T, found = len(alignment), {alignment}
    found |= {(*alignment[:t], i, *alignment[t + 1 :]) for t in range(T) for i in range(S + 1)}
    for t, u in itertools.combinations(range(T), 2):
        swapped = list(alignment)
        swapped[t], swapped[u] = swapped[u], swapped[t]
        found.add(tuple(swapped))
    return found


def test_climbing_ends_where_no_neighbour_is_more_probable() -> None:
    block = ragged_block()
    position, emission_BTI = with_fertilities(block), emissions(block)
    space = position.landscape(block, emission_BTI)
    for start in (0, 1):
        found_BT = space.climb(start * block.target.mask)
        log_prob_B = space.log_prob(found_BT)
        for row, (S, T) in enumerate(zip(block.source.lengths.tolist(), block.target.lengths.tolist(), strict=True)):
            joint, found = every_joint(position, block, emission_BTI, row), tuple(found_BT[row, :T].tolist())
            assert float(log_prob_B[row]) == pytest.approx(math.log(joint[found]), abs=1e-4)
            assert joint[found] >= 0.999 * max(joint[each] for each in neighbours_of(found, S))


def test_moves_and_swaps_of_every_alignment() -> None:
    pairs = paired([([4, 5, 4, EOS], [5, 5, 5, 5, EOS])])
    (block,) = blocks(Sentences.of_ragged(pairs.source), Sentences.of_ragged(pairs.target))
    position, emission_BTI = with_fertilities(block), emissions(block)
    joint = every_joint(position, block, emission_BTI, 0)
    space = position.landscape(block, emission_BTI)[torch.zeros(len(joint), dtype=torch.long)]
    moves, swaps = (found(torch.tensor([*joint])) for found in (space.moves, space.swaps))
    for row, (alignment, before) in enumerate(joint.items()):
        for t, i in itertools.product(range(4), range(4)):
            after = joint[(*alignment[:t], i, *alignment[t + 1 :])]
            assert float(moves[row, t, i]) == pytest.approx(math.log(after / before), abs=1e-4)
        for t, u in itertools.combinations(range(4), 2):
            swapped = [*alignment]
            swapped[t], swapped[u] = alignment[u], alignment[t]
            rise = math.log(joint[tuple(swapped)] / before) if alignment[t] != alignment[u] else -math.inf
            assert float(swaps[row, t, u]) == pytest.approx(rise, abs=1e-4)


def test_fertility_sums_over_the_neighbours_of_its_best_alignment() -> None:
    block = ragged_block()
    position, emission_BTI = with_fertilities(block), emissions(block)
    found = position.expect(block, emission_BTI)
    best_BT = position.landscape(block, emission_BTI).climb(
        position.jumps.expect(block, emission_BTI).posterior_BTI.argmax(-1)
    )
    count_VF = torch.zeros(7, 3, dtype=torch.float64)
    for row, (S, T) in enumerate(zip(block.source.lengths.tolist(), block.target.lengths.tolist(), strict=True)):
        joint = every_joint(position, block, emission_BTI, row)
        around = neighbours_of(tuple(best_BT[row, :T].tolist()), S)
        total = sum(joint[each] for each in around)
        posterior_TI = torch.zeros(found.posterior_BTI.shape[1:], dtype=torch.float64)
        for alignment in around:
            posterior_TI[range(T), alignment] += joint[alignment] / total
            for i in range(S):
                count_VF[5, min(alignment.count(i + 1), 2)] += joint[alignment] / total
        torch.testing.assert_close(found.posterior_BTI[row], posterior_TI, atol=1e-5, rtol=0)
        assert float(found.log_prob_BT[row].sum()) == pytest.approx(math.log(total), abs=1e-4)
    torch.testing.assert_close(found.statistics()[-1], count_VF, atol=1e-4, rtol=0)


def test_pegging_climbs_with_a_link_fixed_and_sums_over_the_union_of_neighbourhoods() -> None:
    block, pegs = ragged_block(), 3
    position, emission_BTI = with_fertilities(block), emissions(block)
    position.pegs = pegs
    space, exact = position.landscape(block, emission_BTI), position.jumps.expect(block, emission_BTI).posterior_BTI
    best_BT = space.climb(exact.argmax(-1))
    centre_BKT = pegged(space, best_BT, exact, pegs)
    assert centre_BKT.shape[1] == 1 + pegs
    found = position.expect(block, emission_BTI)
    count_VF = torch.zeros(7, 3, dtype=torch.float64)
    for row, (S, T) in enumerate(zip(block.source.lengths.tolist(), block.target.lengths.tolist(), strict=True)):
        joint = every_joint(position, block, emission_BTI, row)
        best, *others = [tuple(each) for each in centre_BKT[row, :, :T].tolist()]
        links = [(t, i) for t, i in itertools.product(range(T), range(S + 1)) if best[t] != i]
        likely = sorted(links, key=lambda link: -float(exact[row, link[0], link[1]]))[:pegs]
        assert best == tuple(best_BT[row, :T].tolist())
        for (t, i), other in zip(likely, others, strict=False):
            around = [each for each in neighbours_of(other, S) if each[t] == i]
            assert other[t] == i
            assert joint[other] >= 0.999 * max(joint[each] for each in around)
        union = set.union(*(neighbours_of(each, S) for each in (best, *others)))
        total = sum(joint[each] for each in union)
        posterior_TI = torch.zeros(found.posterior_BTI.shape[1:], dtype=torch.float64)
        for alignment in union:
            posterior_TI[range(T), alignment] += joint[alignment] / total
            for i in range(S):
                count_VF[5, min(alignment.count(i + 1), 2)] += joint[alignment] / total
        torch.testing.assert_close(found.posterior_BTI[row], posterior_TI, atol=1e-5, rtol=0)
        assert float(found.log_prob_BT[row].sum()) == pytest.approx(math.log(total), abs=1e-4)
    torch.testing.assert_close(found.statistics()[-1], count_VF, atol=1e-4, rtol=0)


def test_fertilities_are_learned_from_the_pairs() -> None:
    counts = counted(lambda: Fertility(smoothing=0.1), paired([([4, EOS], [14, 14, EOS]), ([5, EOS], [15, EOS])] * 9))
    forth = counts.model.forth.position
    assert [int(forth.probability[word].argmax()) for word in (4, 5)] == [2, 1]
    assert float(forth.probability[-1, 3]) < 0.1 < float(forth.probability[-1, 2])
    torch.testing.assert_close(forth.probability.sum(-1), torch.ones(7, dtype=torch.float64))


def test_longer_sentences_than_those_that_were_counted_are_aligned() -> None:
    for position in (Jumps, Fertility):
        counts = counted(position, corpus(most=3))
        counts.store()
        posterior_BTI, _ = counts.model.align(Padded.of([[4, 5, 6, 7, 8, EOS]]), Padded.of([[14, 15, EOS]]))
        torch.testing.assert_close(posterior_BTI[0, :2].sum(-1), torch.ones(2))
