"""Searches among alignments: against enumeration, and their laws."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from families import FAMILIES, FRAMEWISE, all_lengths, build, sources
from test_laws import LENGTHS, padded_targets, pick, sources_alone
from transduce.core.types import BOS, EOS, PAD, UNK, Padded
from transduce.search.beam import Beam
from transduce.search.forcing import force
from transduce.search.greedy import Greedy
from transduce.search.ranking import BoundedReward, LogProbability
from transduce.wings.ctc.paths import collapse
from transduce.wings.ctc.prefixes import Prefixes
from transduce.wings.ctc.search.best_path import BestPath
from transduce.wings.ctc.search.forcing import scored
from transduce.wings.ctc.search.prefix_beam import PrefixBeam, _Beam

SYMBOLS = (3, 4, 5)


@dataclass(frozen=True)
class Drawn:
    """A model with given frames. It ignores its sources."""

    log_probs_BSV: Tensor
    lengths_B: Tensor

    def frames(self, source: Padded) -> Padded:
        return Padded(self.log_probs_BSV, self.lengths_B)


def drawn(lengths: list[int], seed: int = 0, sharpness: float = 1.5) -> tuple[Drawn, Padded]:
    generator = torch.Generator().manual_seed(seed)
    logits_BSV = sharpness * torch.randn(len(lengths), max(lengths), 6, generator=generator, dtype=torch.float64)
    logits_BSV[..., [BOS, EOS]] = -1e4
    return Drawn(logits_BSV.log_softmax(-1), torch.tensor(lengths)), sources([2] * len(lengths))


class Bigrams(nn.Module):
    """A simple language model. Its logits depend on the last token and on the number of tokens read."""

    def __init__(self, seed: int = 0, vocabulary: int = 6) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table_VV = 2 * torch.randn(vocabulary, vocabulary, generator=generator, dtype=torch.float64)

    def start(self, source: Padded) -> Tensor:
        return torch.zeros(len(source.lengths), 1, dtype=torch.float64)

    def extend(self, tokens_BT: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        places_BT = state + torch.arange(1, tokens_BT.shape[1] + 1)
        return self.table_VV[tokens_BT] * (1 + 0.1 * places_BT[..., None]), places_BT[:, -1:]

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone()


def totals(model: Drawn, row: int) -> dict[tuple[int, ...], float]:
    """log p(y | x) of every output, summed over all paths."""
    found: dict[tuple[int, ...], float] = {}
    length = int(model.lengths_B[row])
    for path in itertools.product((PAD, *SYMBOLS), repeat=length):
        log_p = sum(float(model.log_probs_BSV[row, t, symbol]) for t, symbol in enumerate(path))
        output = (*collapse(path, PAD), EOS)
        found[output] = found.get(output, 0.0) + math.exp(log_p)
    return {output: math.log(p) for output, p in found.items()}


def judged(language_model: Bigrams, output: tuple[int, ...]) -> float:
    """The language model's log p of an output."""
    return force(language_model, sources([2]), padded_targets([list(output)]))[0].log_prob


@pytest.mark.parametrize("seed", range(3))
def test_a_full_beam_is_the_sum_over_all_alignments(seed: int) -> None:
    model, source = drawn([4, 2, 3], seed)
    for row, hypotheses in enumerate(PrefixBeam(200, 200, unknown=True)(model, source)):
        expected = totals(model, row)
        assert {h.tokens for h in hypotheses} == set(expected)
        for hypothesis in hypotheses:
            assert hypothesis.score == pytest.approx(expected[hypothesis.tokens], abs=1e-9)
            assert hypothesis.log_prob == pytest.approx(expected[hypothesis.tokens], abs=1e-9)


@pytest.mark.parametrize(("weight", "bonus"), [(0.7, 0.0), (0.4, 1.3), (0.0, -0.5)])
def test_a_full_beam_with_a_language_model(weight: float, bonus: float) -> None:
    model, source = drawn([3, 4, 2], seed=4)
    language_model = Bigrams()
    search = PrefixBeam(200, 200, weight, bonus, language_model, unknown=True)
    for row, hypotheses in enumerate(search(model, source)):
        expected = totals(model, row)
        assert len(hypotheses) == len(expected)
        for h in hypotheses:
            outside = weight * judged(language_model, h.tokens) + bonus * (len(h.tokens) - 1)
            assert h.score == pytest.approx(expected[h.tokens] + outside, abs=1e-9)
            assert h.log_prob == pytest.approx(expected[h.tokens], abs=1e-9)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


class Excluding(Bigrams):
    """Bigrams that exclude some tokens, like a model that was counted without smoothing."""

    def __init__(self, *excluded: int) -> None:
        super().__init__()
        self.excluded = list(excluded)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits = output.clone()
        logits[..., self.excluded] = -torch.inf
        return logits


def test_a_language_model_of_weight_0_is_left_out_whatever_it_excludes() -> None:
    model, source = drawn([5, 3, 4])
    alone = PrefixBeam(6, 3, unknown=True)
    beside = replace(alone, weight=0.0, language_model=Excluding(4))
    assert beside(model, source) == alone(model, source)


def test_outputs_that_the_language_model_excludes_are_left_out_unless_it_excludes_all() -> None:
    model, source = drawn([4, 3])
    for hypotheses in PrefixBeam(200, 200, language_model=Excluding(4), unknown=True)(model, source):
        assert {len(hypotheses) > 3, any(4 in h.tokens for h in hypotheses)} == {True, False}
    for hypotheses in PrefixBeam(6, 3, language_model=Excluding(3, 4, 5, EOS), unknown=True)(model, source):
        assert len(hypotheses) == 3
        assert all(math.isfinite(h.score) for h in hypotheses)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_narrower_beams_find_less(size: int) -> None:
    """A narrower beam keeps only some alignments, so a score is at most the sum over all. The log-probability is over
    all alignments.
    """
    model, source = drawn([6, 5], seed=5, sharpness=0.5)
    for row, hypotheses in enumerate(PrefixBeam(size, size, unknown=True)(model, source)):
        expected = totals(model, row)
        assert len({h.tokens for h in hypotheses}) == len(hypotheses) == size
        for h in hypotheses:
            assert h.score <= expected[h.tokens] + 1e-12
            assert h.log_prob == pytest.approx(expected[h.tokens], abs=1e-9)
        assert max(h.log_prob for h in hypotheses) <= max(expected.values()) + 1e-12


def test_prefixes_that_leave_and_come_back_are_one() -> None:
    """A prefix can leave the beam and come back. No output occurs twice, even in a narrow beam over many frames."""
    model, source = drawn([40] * 20, seed=6, sharpness=0.3)
    for size in (2, 4, 9):
        for hypotheses in PrefixBeam(size, size, unknown=True)(model, source):
            assert len({h.tokens for h in hypotheses}) == size


def test_a_beam_with_more_places_than_prefixes_leaves_them_empty() -> None:
    """A source of one frame has only 23 outputs, and the other source has more than 30. The other source does not
    change the 23.
    """
    logits_BSV = torch.randn(2, 3, 25, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits_BSV[..., [BOS, EOS]] = -1e4
    log_probs_BSV = logits_BSV.log_softmax(-1)
    search = PrefixBeam(30, 30, unknown=True)
    both = search(Drawn(log_probs_BSV, torch.tensor([3, 1])), sources([2, 2]))
    alone = search(Drawn(log_probs_BSV[1:, :1], torch.tensor([1])), sources([2]))
    assert [len({h.tokens for h in hypotheses}) for hypotheses in both] == [len(both[0]), len(both[1])] == [30, 23]
    assert [h.tokens for h in both[1]] == [h.tokens for h in alone[0]]


def test_prefixes_are_as_wide_as_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prefixes are as wide as the longest output, not as the number of frames. Otherwise the search would be
    quadratic.
    """
    widths, children = [], _Beam._children

    def spied(beam: _Beam, total_BK: Tensor) -> Tensor:
        widths.append(beam.tokens_BKL.shape[2])
        return children(beam, total_BK)

    monkeypatch.setattr(_Beam, "_children", spied)
    model, source = drawn([60])
    model.log_probs_BSV.fill_(-20.0)[..., PAD] = 0.0  # almost nothing is written
    _, length_BK, _ = PrefixBeam(3).by_operators(model.frames(source), source, None)
    assert length_BK.tolist() == [[0]]
    assert max(widths) <= 4


def test_the_best_path_and_the_best_output() -> None:
    """A blank is the likeliest symbol in both frames. The best alignment is empty; the best output is one symbol."""
    logits = torch.tensor([[0.45, 1e-9, 1e-9, 0.35, 0.1, 0.1]], dtype=torch.float64).log().expand(2, -1)[None]
    model = Drawn(logits.log_softmax(-1), torch.tensor([2]))
    ((path,),) = BestPath(unknown=True)(model, sources([2]))
    ((beam,),) = PrefixBeam(5, unknown=True)(model, sources([2]))
    assert (path.tokens, beam.tokens) == ((EOS,), (3, EOS))
    assert path.score == path.log_prob == pytest.approx(2 * math.log(0.45), abs=1e-6)
    assert beam.log_prob == pytest.approx(math.log(0.35**2 + 2 * 0.35 * 0.45), abs=1e-6)


def test_the_score_of_a_best_path_is_of_its_alignment() -> None:
    model, source = drawn([4, 2], seed=7)
    for row, (hypothesis,) in enumerate(BestPath(unknown=True)(model, source)):
        frames = model.log_probs_BSV[row, : int(model.lengths_B[row])]
        assert hypothesis.tokens == (*collapse(frames.argmax(-1).tolist(), PAD), EOS)
        assert hypothesis.score == pytest.approx(float(frames.amax(-1).sum()))
        assert hypothesis.log_prob == pytest.approx(totals(model, row)[hypothesis.tokens])


# ------------------------------------------------------------------------ laws

SEARCHES: dict[str, Any] = {
    "best path": BestPath(),
    "prefix beam 1": PrefixBeam(1),
    "prefix beam 4": PrefixBeam(4, 3),
    "prefix beam with a language model": PrefixBeam(5, 2, 0.6, 0.4, Bigrams(1, 11)),
}


@pytest.fixture(params=SEARCHES)
def search(request: pytest.FixtureRequest) -> Any:
    return SEARCHES[request.param]


@pytest.fixture(params=FRAMEWISE, scope="module")
def family(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def model(family: str) -> Any:
    return build(FAMILIES[family])


def test_score(model: Any, search: Any) -> None:
    """The log-probabilities of a hypothesis, in total and token by token, are the model's own."""
    source = sources(LENGTHS)
    for row, hypotheses in enumerate(search(model, source)):
        for hypothesis in hypotheses:
            assert not {PAD, BOS, EOS, UNK} & set(hypothesis.tokens[:-1])
            target = padded_targets([list(hypothesis.tokens)])
            (forced,) = search.force(model, pick(source, [row]), target)
            assert forced.tokens == hypothesis.tokens
            assert forced.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-9)
            assert forced.token_log_probs == pytest.approx(hypothesis.token_log_probs, abs=1e-9)
            assert sum(forced.token_log_probs) == pytest.approx(forced.log_prob, abs=1e-9)


@pytest.mark.parametrize("family", ["ctc, lstm, no attention"], indirect=True)
def test_either_way_of_forcing_is_the_other(model: Any) -> None:
    source, outputs = sources([4, 6]), padded_targets([[3, 3, 7, EOS], [5, EOS]])
    by_frames, by_tokens = BestPath().force(model, source, outputs), force(model, source, outputs)
    for ours, theirs in zip(by_frames, by_tokens, strict=True):
        assert ours.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-9)
        assert ours.best_log_probs == pytest.approx(theirs.best_log_probs, abs=1e-9)
    (impossible,) = BestPath().force(model, sources([1]), padded_targets([[5, 5, 5, EOS]]))
    assert impossible.log_prob == -math.inf
    assert all(math.isfinite(log_prob) for log_prob in impossible.token_log_probs[:2])  # they fit into 3 frames
    assert impossible.token_log_probs[2:] == (-math.inf, -math.inf)
    assert all(math.isfinite(log_prob) for log_prob in impossible.best_log_probs)


@pytest.mark.parametrize("family", ["ctc, lstm, no attention"], indirect=True)
def test_a_beginning_that_the_frames_have_no_room_for_is_all_there_is(model: Any) -> None:
    """Three frames have room for two equal symbols and a blank between them, but not for three equal symbols."""
    beginnings = Padded(torch.tensor([[5, 5, 5], [5, 5, 0]]), torch.tensor([3, 2]))
    for search in (Greedy(max_length=9), Beam(4, max_length=9)):
        (impossible, *_), (possible, *_) = search(model, sources([1, 1]), beginnings)
        assert impossible.tokens == (5, 5, 5, EOS)
        assert impossible.log_prob < -1e4
        assert possible.tokens == (5, 5, EOS)
        assert math.isfinite(possible.log_prob)


def test_company(model: Any, family: str, search: Any) -> None:
    """The hypotheses are the same alone and in any batch and order, with any values in the padding."""
    source, order = sources(all_lengths(family), width=9), [3, 6, 0, 5, 2, 4, 1]
    junk = Padded(source.values.masked_fill(~source.mask, 7), source.lengths)
    together, shuffled = search(model, junk), search(model, pick(source, order))
    for place, row in enumerate(order):
        alone = search(model, sources_alone(source, row))[0]
        for other in (together[row], shuffled[place]):
            assert [h.tokens for h in other] == [h.tokens for h in alone]
            assert [h.score for h in other] == pytest.approx([h.score for h in alone], abs=1e-9)


@pytest.mark.parametrize("family", ["ctc, lstm, no attention"], indirect=True)
def test_frame_by_frame_or_token_by_token(model: Any) -> None:
    """Both searches find the same best outputs if the beam has room for everything. A reward for each token is an
    insertion bonus.
    """
    source = sources([1, 1])
    for row in range(2):
        one = pick(source, [row])
        (frames,) = PrefixBeam(700, 3, bonus=0.8)(model, one)
        ranking = BoundedReward(0.8, length_ratio=9.0)
        (tokens,) = Beam(700, 3, max_length=5, ranking=ranking)(model, one)
        assert [h.tokens for h in frames] == [h.tokens for h in tokens]
        rewards = [h.score - h.log_prob - 0.8 * len(h.tokens) for h in tokens]
        assert rewards == pytest.approx([0.0] * 3, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_chosen_token_by_token_is_the_first_choice(seed: int) -> None:
    model, _ = drawn([4, 7, 2], seed)
    frames = Padded(model.log_probs_BSV.float(), model.lengths_B)
    frames.values[..., UNK] = -1e4
    chosen: list[list[int]] = [[], [], []]
    for row, tokens in enumerate(chosen):
        alone = Padded(frames.values[row : row + 1], frames.lengths[row : row + 1])
        while EOS not in tokens:
            every_1TV, _ = Prefixes.start(alone).extend(torch.tensor([[BOS, *tokens]]))
            tokens.append(int(every_1TV[0, -1].argmax()))
    for hypothesis in scored(frames, padded_targets(chosen)):
        assert hypothesis.best_log_probs == hypothesis.token_log_probs


def test_a_beam_over_both_is_joint_decoding() -> None:
    """A beam with room for everything finds the best weighted sum of the log-probabilities that both parts give an
    output.
    """
    model = build(FAMILIES["ctc and attention"])
    source = sources([1])
    every = [[*body, EOS] for n in range(3) for body in itertools.product(range(3, 11), repeat=n)]
    repeated, targets = pick(source, [0] * len(every)), padded_targets(every)
    own = BestPath().force(model, repeated, targets)
    _, decoder, _ = model.parts(source)

    class Alone(nn.Module):
        def start(self, source: Any) -> Any:
            return decoder.start(model.encoder(source))

        def extend(self, tokens_BT: Tensor, state: Any) -> Any:
            return decoder.extend(tokens_BT, state)

        def readout(self, output: Any, candidates: Tensor | None = None) -> Tensor:
            return decoder.readout(output, candidates)

    attention = force(Alone(), repeated, targets)
    mixed = {a.tokens: 0.4 * c.log_prob + 0.6 * a.log_prob for a, c in zip(attention, own, strict=True)}
    best = max(mixed, key=lambda tokens: mixed[tokens])
    ((found,),) = Beam(1000, max_length=3, ranking=LogProbability())(model, source)
    assert found.tokens == best
    assert found.log_prob == pytest.approx(mixed[best], abs=1e-9)


# ------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda: PrefixBeam(weight=-1.0), "weight = -1.0: 0, which leaves the language model out, or more"),
        (lambda: PrefixBeam(weight=math.nan), "weight = nan: 0, which leaves"),
        (lambda: PrefixBeam(10**11)(*drawn([2])), "size = 100000000000: a step of this search needs at least"),
        (lambda: PrefixBeam(2, 3), "nbest = 3, size = 2: a beam of n has room for 1 to n"),
        (lambda: BestPath().resized(nbest=2), 'there is one best path; set search.type = "prefix-beam"'),
        (lambda: BestPath()(*drawn([2]), padded_targets([[4]])), "cannot go on from a prefix: set search.type"),
        (lambda: PrefixBeam()(*drawn([2]), padded_targets([[4]])), "cannot go on from a prefix: set search.type"),
        (
            lambda: PrefixBeam(language_model=Bigrams(vocabulary=9))(*drawn([2])),
            "a language model of 9 words cannot go along with frames of 6: they must share one target vocabulary",
        ),
    ],
)
def test_bad_input(ask: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        ask()


def test_another_size() -> None:
    assert PrefixBeam(4).resized(nbest=7) == PrefixBeam(7, 7)
    assert PrefixBeam(4, bonus=1.0).resized(9, 2) == PrefixBeam(9, 2, bonus=1.0)
    assert BestPath().resized() == BestPath()
