"""The laws that every model and every search must obey. Tests use float64 unless they say otherwise."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from continuously import search_continuously
from families import COUNTED, FACTS, FAMILIES, FAST, SIGNALS, all_lengths, build, facts, sources, targets
from selection import mostly_slow
from transduce.core import config, tree
from transduce.core.protocols import Model
from transduce.core.schedules import Constant
from transduce.core.types import BOS, EOS, PAD, UNK, Batch, Padded
from transduce.objectives import readout
from transduce.objectives.consistency import RDrop
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.forcing import ParallelScheduledSampling, ScheduledSampling
from transduce.search.beam import Beam
from transduce.search.exact import Exact
from transduce.search.forcing import force, shifted
from transduce.search.greedy import Greedy
from transduce.search.ranking import LogProbability, Wu
from transduce.search.sampling import Sampling
from transduce.search.truncation import Nucleus

LENGTHS = [5, 2, 4]


LAWFUL = FAMILIES | SIGNALS | COUNTED


@pytest.fixture(params=mostly_slow(LAWFUL, fast=FAST), scope="module")
def family(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def model(family: str) -> Any:
    return build(LAWFUL[family])


@pytest.fixture
def trainable(family: str, model: Any) -> Any:
    """The model. Skips families with counts: they exclude some tokens, whose smoothed loss is infinite."""
    if family in COUNTED or LAWFUL[family]["type"] == "with-counts":
        pytest.skip("counted, without gradients")
    return model


def logits(model: Any, tokens_BT: torch.Tensor, source: Padded) -> torch.Tensor:
    output, _ = model.extend(tokens_BT, model.start(source))
    return model.readout(output)


def pick(source: Padded, rows: list[int]) -> Padded:
    return tree.select(source, torch.tensor(rows))


def padded_targets(rows: list[list[int]]) -> Padded:
    lengths = torch.tensor([len(row) for row in rows])
    return Padded(torch.tensor([row + [PAD] * (int(lengths.max()) - len(row)) for row in rows]), lengths)


@pytest.mark.parametrize("grad", [True, False])
def test_chunk(model: Any, grad: bool) -> None:
    """The logits do not depend on where the target is cut, if the state is handed on. Fewer cuts are tested with
    gradients, which a search never needs.
    """
    source, tokens_BT = sources(LENGTHS), targets(3, 7)
    cuts = [(2, 5), (1, 4)] if grad else [(1, 2), (1, 5), (2, 4), (3, 6), (5, 6)]
    with torch.set_grad_enabled(grad):
        whole = logits(model, tokens_BT, source)
        for first, second in cuts:
            state, outputs = model.start(source), []
            for begin, end in ((0, first), (first, second), (second, 7)):
                output, state = model.extend(tokens_BT[:, begin:end], state)
                outputs.append(model.readout(output))
            assert_close(torch.cat(outputs, 1), whole)


def test_candidates(model: Any) -> None:
    """The readout of some columns equals these columns of the whole readout."""
    output, _ = model.extend(targets(3, 4), model.start(sources(LENGTHS)))
    wanted = torch.tensor([7, 2, 5])
    assert_close(model.readout(output, wanted), model.readout(output)[..., wanted])


def test_row(model: Any) -> None:
    """The logits are the same if rows are selected before the model, between its steps or after it."""
    source, tokens_BT, rows = sources(LENGTHS), targets(3, 6), [2, 0, 0]
    whole = logits(model, tokens_BT, source)
    assert_close(logits(model, tokens_BT[rows], pick(source, rows)), whole[rows])
    _, state = model.extend(tokens_BT[:, :3], model.start(source))
    output, _ = model.extend(tokens_BT[rows, 3:], tree.select(state, torch.tensor(rows)))
    assert_close(model.readout(output), whole[rows, 3:])


def test_hypotheses_share_their_source(model: Any) -> None:
    """K rows share the state of each source. The result is as if the source had been given K times."""
    source, tokens = sources(LENGTHS), targets(6, 5)
    output, state = model.extend(tokens[:, :2], tree.repeat(model.start(source), 2))
    order = torch.tensor([1, 0, 2, 2, 5, 4])  # within each source's own rows
    output, _ = model.extend(tokens[:, 2:], tree.reorder(state, order))
    whole = logits(model, torch.cat([tokens[order, :2], tokens[:, 2:]], 1), pick(source, [0, 0, 1, 1, 2, 2]))
    assert_close(model.readout(output), whole[:, 2:])


def test_padding(model: Any) -> None:
    """Neither more padding nor its values change the result."""
    tokens_BT = targets(3, 6)
    narrow = sources(LENGTHS)
    wide = sources(LENGTHS, width=9)
    junk = Padded(wide.values.masked_fill(~wide.mask, 7), wide.lengths)
    for source in (wide, junk):
        assert_close(logits(model, tokens_BT, source), logits(model, tokens_BT, narrow))


@pytest.mark.parametrize("grad", [pytest.param(True, marks=pytest.mark.slow), False])
def test_stagger(model: Any, grad: bool) -> None:
    """Rows at different positions and with sources of different lengths can be joined in one batch. Each continues as
    it would alone.
    """
    with torch.set_grad_enabled(grad):
        source, tokens_BT, more_BT = sources(LENGTHS), targets(3, 6), targets(3, 2, seed=5)
        states, expected = [], []
        for row, length in enumerate((4, 1, 6)):
            alone = sources_alone(source, row)
            states.append(model.extend(tokens_BT[row : row + 1, :length], model.start(alone))[1])
            whole = logits(model, torch.cat([tokens_BT[row, :length], more_BT[row]])[None], alone)
            expected.append(whole[:, length:])
        state, got = tree.join(states), []
        for t in range(2):
            output, state = model.extend(more_BT[:, t : t + 1], state)
            got.append(model.readout(output))
        assert_close(torch.cat(got, 1), torch.cat(expected))


def test_fork(model: Any) -> None:
    """A forked state does not change when the original is extended."""
    source, tokens_BT = sources(LENGTHS), targets(3, 6)
    with torch.inference_mode():
        _, state = model.extend(tokens_BT[:, :3], model.start(source))
        _, state = model.extend(tokens_BT[:, 3:4], state)  # the buffer now has spare room
        copy = tree.fork(state)
        model.extend(targets(3, 1, seed=8), state)
        output, _ = model.extend(tokens_BT[:, 4:], copy)
        assert_close(model.readout(output), logits(model, tokens_BT, source)[:, 4:])


# -------------------------------------------------------------------- searches

SEARCHES: dict[str, Any] = {
    "greedy": Greedy(max_length=6),
    "beam 3": Beam(3, 3, max_length=6),
    "beam 5, wu": Beam(5, 2, max_length=6, ranking=Wu()),
    "samples": Sampling(3, temperature=0.8, truncations=(Nucleus(0.9),), max_length=6),
    "exact": Exact(2, max_length=3, beam=2, together=3, states=2),  # most prefixes are read again
}


# Greedy is a beam of one by a law of its own, and another width of the beam has no code of its own.
@pytest.fixture(params=mostly_slow(["beam 5, wu", "samples", "exact"], fast=["beam 5, wu"]))
def search(request: pytest.FixtureRequest) -> Any:
    return SEARCHES[request.param]


def test_exact(model: Any) -> None:
    """No other search finds an output that is more probable."""
    source = sources(LENGTHS)
    explored = Exact(max_length=3, beam=1).explore(model, source)
    assert all(each.finished for each in explored)
    for name, search in SEARCHES.items():
        for exact, hypotheses in zip(explored, replace(search, max_length=3)(model, source), strict=True):
            assert max(h.log_prob for h in hypotheses) <= exact.hypotheses[0].log_prob + 1e-9, name


def test_score(model: Any, search: Any) -> None:
    """The log-probabilities of a hypothesis, in total and token by token, are the model's own."""
    source = sources(LENGTHS)
    for row, hypotheses in enumerate(search(model, source)):
        assert hypotheses
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        again = force(
            model, pick(source, [row] * len(hypotheses)), padded_targets([list(h.tokens) for h in hypotheses])
        )
        for hypothesis, forced in zip(hypotheses, again, strict=True):
            assert hypothesis.tokens[-1] == EOS
            assert not {PAD, BOS, EOS, UNK} & set(hypothesis.tokens[:-1])
            assert forced.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-9)
            assert forced.token_log_probs == pytest.approx(hypothesis.token_log_probs, abs=1e-9)


def test_company(model: Any, family: str, search: Any) -> None:
    """The hypotheses are the same alone and in any batch and order."""
    source = sources(all_lengths(family))
    together = search(model, source)
    order = [3, 6, 0, 5, 2, 4, 1]
    shuffled = search(model, pick(source, order))
    for place, row in enumerate(order):
        alone = search(model, sources_alone(source, row))[0]
        for other in (together[row], shuffled[place]):
            assert [h.tokens for h in other] == [h.tokens for h in alone]
            assert [h.score for h in other] == pytest.approx([h.score for h in alone], abs=1e-9)


def sources_alone(source: Padded, row: int) -> Padded:
    """One row without the padding of its batch."""
    length = int(source.lengths[row])
    return Padded(source.values[row : row + 1, :length], source.lengths[row : row + 1])


CONTINUOUS: dict[str, Any] = {"greedy": Greedy(6), "beam": Beam(3, 2, max_length=6, ranking=Wu())}


@pytest.mark.parametrize("name", mostly_slow(CONTINUOUS, fast=["beam"]))
def test_continuous(model: Any, family: str, name: str) -> None:
    """Sources that enter and leave a running batch of three have the outputs that they have alone."""
    search, together = CONTINUOUS[name], sources(all_lengths(family))
    rows = [sources_alone(together, row) for row in range(len(together.lengths))]
    found = dict(
        search_continuously(search, model, rows, 3, lambda some: (Padded.of([row.values[0] for row in some]), None))
    )
    for row, alone in enumerate(rows):
        expected = search(model, alone)[0]
        assert [h.tokens for h in found[row]] == [h.tokens for h in expected]
        for one, other in zip(found[row], expected, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-9)


def test_greedy(model: Any, family: str) -> None:
    """Greedy search is a beam of one."""
    source = sources(all_lengths(family))
    beam_of_one = Beam(1, max_length=6, ranking=LogProbability())(model, source)
    for (greedy,), (other,) in zip(Greedy(6)(model, source), beam_of_one, strict=True):
        assert greedy.tokens == other.tokens
        assert greedy.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-9)


def test_full_beam_is_exact(model: Any) -> None:
    """A beam with room for everything finds the most probable output of all, as enumeration does. Narrower beams find
    nothing better.
    """
    source, longest = sources([3, 4]), 3
    middle = [v for v in range(FACTS.target_vocabulary) if v not in (PAD, BOS, EOS, UNK)]
    every = [[*body, EOS] for length in range(longest) for body in itertools.product(middle, repeat=length)]
    for row in range(2):
        repeated = pick(source, [row] * len(every))
        probabilities = {h.tokens: h.log_prob for h in force(model, repeated, padded_targets(every))}
        best = max(probabilities, key=lambda tokens: probabilities[tokens])
        for size in (2, 1000):
            (found,) = Beam(size, max_length=longest, ranking=LogProbability())(model, pick(source, [row]))
            assert found[0].log_prob <= probabilities[best] + 1e-9
        assert found[0].tokens == best
        ((exact,),) = Exact(max_length=longest, beam=1, states=1)(model, pick(source, [row]))
        assert (exact.tokens, exact.log_prob) == (best, pytest.approx(probabilities[best], abs=1e-9))


# ------------------------------------------------------------------ objectives


def batch(lengths: list[int], target_lengths: list[int]) -> Batch:
    rows = [[*targets(1, n - 1, seed=n)[0].clamp(min=4).tolist(), EOS] for n in target_lengths]
    return Batch(sources(lengths), padded_targets(rows), torch.arange(len(lengths)))


def test_accumulate(trainable: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of a batch is the sum of its rows' losses, and so are the gradients: padding does not count. Reading out
    two positions at a time changes nothing.
    """
    model = trainable
    together = batch(LENGTHS, [6, 3, 4])
    objective = CrossEntropy(smoothing=0.1)
    model.zero_grad()
    whole, _ = objective(model, together)
    whole.total.backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    totals, count = [], 0
    monkeypatch.setattr(readout, "CHUNK", 2 * 11)
    for row in range(3):
        alone = Batch(
            sources_alone(together.source, row), sources_alone(together.target, row), together.ids[row : row + 1]
        )
        loss, _ = objective(model, alone)
        loss.total.backward()
        totals.append(loss.total)
        count += loss.count
    assert_close(torch.stack(totals).sum(), whole.total)
    assert count == whole.count == 13
    assert_close([p.grad for p in model.parameters() if p.grad is not None], gradients)
    model.zero_grad()


def test_two_passes_agree_where_there_is_no_dropout(trainable: Any) -> None:
    """R-Drop puts each row beside its own copy. Without dropout, value and gradients are plain cross-entropy."""
    model = trainable
    together = batch(LENGTHS, [6, 3, 4])
    plain, _ = CrossEntropy(smoothing=0.1)(model, together)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    expected = torch.autograd.grad(plain.total, trained, allow_unused=True)
    model.training = True  # only this flag: its parts stay in evaluation mode
    twice, _ = RDrop(smoothing=0.1)(model, together)
    model.training = False
    assert_close(twice.total, plain.total)
    assert_close(twice.parts["divergence"], torch.zeros_like(twice.parts["divergence"]))
    assert twice.count == plain.count
    assert_close(torch.autograd.grad(twice.total, trained, allow_unused=True), expected)


@torch.no_grad()
def test_forcing(model: Any) -> None:
    """The first n words of n parallel passes equal the words chosen token by token with the same draws."""
    together = batch(LENGTHS, [6, 3, 4])
    gold_BT, state = shifted(together.target), model.start(together.source)
    generator = torch.Generator().manual_seed(4)
    own_BT, quantile_BT = torch.rand(3, 6, generator=generator) < 0.7, torch.rand(3, 6, generator=generator)
    own_BT[:, 0] = False
    mixed_BT = ScheduledSampling(Constant(0.3)).mix(model, state, gold_BT, own_BT, quantile_BT)
    assert not torch.equal(mixed_BT, gold_BT)
    for passes in range(1, 6):
        forcing = ParallelScheduledSampling(Constant(0.3), passes=passes)
        parallel_BT = forcing.mix(model, state, gold_BT, own_BT, quantile_BT)
        assert torch.equal(parallel_BT[:, : passes + 1], mixed_BT[:, : passes + 1])


def test_spec(family: str) -> None:
    """A model that is built from its written configuration is the same model."""
    resolved = config.resolve(LAWFUL[family], Model, facts(LAWFUL[family]))
    again = config.parse(config.write(resolved).encode(), "test")
    assert again == resolved
    source, tokens_BT = sources(LENGTHS), targets(3, 4)
    assert_close(logits(build(again), tokens_BT, source), logits(build(LAWFUL[family]), tokens_BT, source))


@pytest.mark.slow
def test_float32_company(family: str) -> None:
    """An output in float32 may depend on the batch only if two hypotheses score within 1e-4."""
    model = build(LAWFUL[family], dtype=torch.float32)
    source = sources(all_lengths(family))
    together = Beam(3, 3, max_length=6)(model, source)
    for row in range(7):
        alone = Beam(3, 3, max_length=6)(model, sources_alone(source, row))[0]
        if alone[0].tokens != together[row][0].tokens:
            scores = {h.tokens: h.score for h in alone}
            assert abs(scores.get(together[row][0].tokens, 9.0) - alone[0].score) < 1e-4
