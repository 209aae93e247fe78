"""CTC: alignments by an example and by enumeration, sums over alignments by enumeration and by torch, and the loss."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from families import FAMILIES, FRAMEWISE, build
from test_laws import LENGTHS, batch, pick, sources_alone
from transduce.core.config.errors import ConfigError
from transduce.core.types import BOS, EOS, PAD, Memory, Padded
from transduce.data.pairs import Pairs, Ragged
from transduce.models.compatibility import check_fit
from transduce.models.instant import Instant
from transduce.objectives.cross_entropy import CrossEntropy, ParallelCrossEntropy
from transduce.search.length_beam import LengthBeam
from transduce.wings.ctc.decoder import CTCDecoder
from transduce.wings.ctc.lattice import Lattice, log_likelihood
from transduce.wings.ctc.models import CTC, JointCTC
from transduce.wings.ctc.objectives import CTCLikelihood, JointLikelihood
from transduce.wings.ctc.paths import alignments, collapse, count
from transduce.wings.ctc.prefixes import Prefixes
from transduce.wings.ctc.unaligned_pairs import least_frames, unaligned

# ------------------------------------------------------------------ alignments


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ("HHHHHH-eeeelll-lll--oo---", "Hello"),
        ("Hel-lo", "Hello"),
        ("Heeeelll----llo", "Hello"),
        ("Hello", "Helo"),
        ("HHi----", "Hi"),
        ("HHHHHi--", "Hi"),
        ("--Hi--", "Hi"),
        ("---", ""),
        ("", ""),
    ],
)
def test_what_an_alignment_reads(path: str, output: str) -> None:
    assert "".join(collapse(path, "-")) == output
    if "".join(collapse(path, "-")) == output and len(path) < 9:
        assert tuple(path) in set(alignments(output, len(path), "-"))


def test_the_alignments_of_a_greeting() -> None:
    """Two letters have five alignments with three frames. Five letters, two of them equal neighbours, have one with six
    frames.
    """
    listed = ["".join(path) for path in alignments("Hi", 3, "-")]
    assert sorted(listed) == ["-Hi", "H-i", "HHi", "Hi-", "Hii"]
    assert ["".join(path) for path in alignments("Hello", 6, "-")] == ["Hel-lo"]
    assert list(alignments("Hello", 5, "-")) == []


def test_alignments_are_listed_as_they_are_asked_for() -> None:
    first = next(alignments("Hi" * 30, 200, "-"))
    assert collapse(first, "-") == tuple("Hi" * 30)
    assert collapse(next(alignments("Hi", 3000, "-")), "-") == ("H", "i")  # deeper than Python recurses


@pytest.mark.parametrize("output", ["", "a", "ab", "aa", "aab", "aba", "abb"])
@pytest.mark.parametrize("frames", range(6))
def test_alignments_are_all_paths_that_read_the_output(output: str, frames: int) -> None:
    listed = list(alignments(output, frames, "-"))
    every = {path for path in itertools.product("-ab", repeat=frames) if collapse(path, "-") == tuple(output)}
    assert set(listed) == every
    assert len(listed) == len(every)
    assert count(output, frames) == len(every)


# ------------------------------------------------------- sums over alignments

OUTPUTS = [(4, 5, 4), (3, 3), (5,), (), (4, 4, 3)]
FRAMES_OF_EACH = [6, 4, 5, 3, 4]


def drawn(seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random logits of six symbols."""
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(len(OUTPUTS), 6, 6, generator=generator, dtype=torch.float64).to(dtype)


def padded(outputs: list[tuple[int, ...]]) -> Padded:
    longest = max(map(len, outputs))
    rows = torch.tensor([[*output, *[7] * (longest - len(output))] for output in outputs])  # junk in the padding
    return Padded(rows, torch.tensor([len(output) for output in outputs]))


def frames_of(logits_BSV: Tensor) -> Padded:
    return Padded(logits_BSV.log_softmax(-1), torch.tensor(FRAMES_OF_EACH))


def listed(row_SV: Tensor, frames: int, output: tuple[int, ...]) -> list[tuple[tuple[int, ...], Tensor]]:
    """Every alignment with its log-probability."""
    return [
        (path, sum((row_SV[t, symbol] for t, symbol in enumerate(path)), torch.zeros((), dtype=row_SV.dtype)))
        for path in alignments(output, frames, PAD)
    ]


def test_the_likelihood_is_the_sum_over_all_alignments() -> None:
    logits_BSV = drawn().requires_grad_()
    frames = frames_of(logits_BSV)
    ours = log_likelihood(frames, padded(OUTPUTS))
    each = zip(frames.values, FRAMES_OF_EACH, OUTPUTS, strict=True)
    theirs = torch.stack([torch.stack([log_p for _, log_p in listed(*row)]).logsumexp(0) for row in each])
    assert_close(ours, theirs)
    assert_close(*(torch.autograd.grad(total.sum(), logits_BSV, retain_graph=True)[0] for total in (ours, theirs)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_likelihood_is_torchs(dtype: torch.dtype) -> None:
    weights = torch.tensor([1.0, 0.5, 2.0, 1.0, 3.0], dtype=dtype)
    logits_BSV = drawn(1, dtype).requires_grad_()
    frames, outputs = frames_of(logits_BSV), padded(OUTPUTS)
    ours = log_likelihood(frames, outputs)
    theirs = -torch.nn.functional.ctc_loss(
        frames.values.transpose(0, 1), outputs.values, frames.lengths, outputs.lengths, reduction="none"
    )
    assert_close(ours, theirs)
    assert_close(
        *(torch.autograd.grad((weights * each).sum(), logits_BSV, retain_graph=True)[0] for each in (ours, theirs))
    )


def test_the_gradient_is_right_whatever_comes_before() -> None:
    """Torch's gradient is right only behind a softmax. Ours is right for any scores."""
    outputs = padded(OUTPUTS)
    lengths = torch.tensor(FRAMES_OF_EACH)
    assert torch.autograd.gradcheck(lambda x: log_likelihood(Padded(x, lengths), outputs), drawn(2).requires_grad_())


def test_what_has_no_alignment_is_impossible_and_has_no_gradient() -> None:
    logits_BSV = drawn().requires_grad_()
    ours = log_likelihood(Padded(logits_BSV.log_softmax(-1), torch.tensor([2, 2, 5, 3, 3])), padded(OUTPUTS))
    assert ours.isinf().tolist() == [True, True, False, False, True]
    (gradient,) = torch.autograd.grad(ours[ours.isfinite()].sum(), logits_BSV)
    assert gradient.isfinite().all()
    assert not gradient[[0, 1, 4]].any()


def test_posteriors_are_shares_of_all_alignments() -> None:
    frames = frames_of(drawn(3))
    lattice = Lattice.of(frames, padded(OUTPUTS))
    for b, (there, output) in enumerate(zip(FRAMES_OF_EACH, OUTPUTS, strict=True)):
        expected = torch.zeros(6, len(lattice.states[0]), dtype=torch.float64)
        every = listed(frames.values[b], there, output)
        total = torch.stack([log_p for _, log_p in every]).logsumexp(0)
        for path, log_p in every:
            for t, state in enumerate(states(path)):
                expected[t, state] += (log_p - total).exp()
        assert_close(lattice.posteriors()[b], expected)


def states(path: tuple[int, ...]) -> list[int]:
    """The lattice state of each frame of an alignment. Blanks are even, and the nth symbol is 2n - 1."""
    found, before = [], PAD
    state = 0
    for symbol in path:
        if symbol == PAD:
            state += state % 2
        elif symbol != before:
            state += 1 + state % 2
        found.append(state)
        before = symbol
    return found


def test_the_best_alignment_is_the_best_of_all() -> None:
    frames = frames_of(drawn(4))
    best_BS, total_B = Lattice.of(frames, padded(OUTPUTS)).best()
    for b, (there, output) in enumerate(zip(FRAMES_OF_EACH, OUTPUTS, strict=True)):
        path, log_p = max(listed(frames.values[b], there, output), key=lambda each: float(each[1]))
        assert best_BS[b].tolist() == states(path) + [-1] * (6 - there)
        assert_close(total_B[b], log_p)


def test_spans_are_those_of_the_best_of_all_alignments() -> None:
    frames = frames_of(drawn(5))
    found = Lattice.of(frames, padded(OUTPUTS)).spans()
    for b, (there, output) in enumerate(zip(FRAMES_OF_EACH, OUTPUTS, strict=True)):
        path, _ = max(listed(frames.values[b], there, output), key=lambda each: float(each[1]))
        runs = [(symbol, len([*run])) for symbol, run in itertools.groupby(path)]
        ends = [*itertools.accumulate(length for _, length in runs)]
        expected = [(end - n, end - 1) for end, (symbol, n) in zip(ends, runs, strict=True) if symbol != PAD]
        assert found[b] == tuple(expected)
    short = Lattice.of(Padded(frames.values, torch.tensor([2, 2, 5, 3, 3])), padded(OUTPUTS)).spans()
    assert [each is None for each in short] == [True, True, False, False, True]


def test_crossings_are_shares_of_all_alignments() -> None:
    frames = frames_of(drawn(6))
    lattice = Lattice.of(frames, padded(OUTPUTS))
    for b, (there, output) in enumerate(zip(FRAMES_OF_EACH, OUTPUTS, strict=True)):
        expected = torch.zeros(5, len(lattice.states[0]), 3, dtype=torch.float64)
        every = listed(frames.values[b], there, output)
        total = torch.stack([log_p for _, log_p in every]).logsumexp(0)
        for path, log_p in every:
            for t, (state, following) in enumerate(itertools.pairwise(states(path))):
                expected[t, state, following - state] += (log_p - total).exp()
        assert_close(lattice.crossings()[b], expected)


def test_prefixes_are_sums_over_all_paths() -> None:
    """The probability of a prefix is the sum over all paths whose output begins with it. EOS stands for the output that
    ends there.
    """
    logits_BSV = drawn(5)[:2, :4]
    logits_BSV[..., [BOS, EOS]] = float("-inf")
    frames = Padded(logits_BSV.log_softmax(-1).clamp(min=-1e4), torch.tensor([4, 3]))
    for b, there in enumerate([4, 3]):
        probability: dict[tuple[int, ...], float] = {}
        for path in itertools.product([PAD, 3, 4, 5], repeat=there):
            output = collapse(path, PAD)
            log_p = sum(float(frames.values[b, t, symbol]) for t, symbol in enumerate(path))
            probability[output] = probability.get(output, 0.0) + math.exp(log_p)

        def beginning(prefix: tuple[int, ...], probability: dict[tuple[int, ...], float] = probability) -> float:
            return sum(p for output, p in probability.items() if output[: len(prefix)] == prefix)

        one = Padded(frames.values[b : b + 1], frames.lengths[b : b + 1])
        for prefix in [(), (3,), (4, 4), (5, 3), (3, 4, 5)]:
            ours, _ = Prefixes.start(one).extend(torch.tensor([[BOS, *prefix]]))
            expected = {v: beginning((*prefix, v)) / beginning(prefix) for v in (3, 4, 5)}
            expected[EOS] = probability[prefix] / beginning(prefix)
            for v, p in expected.items():
                assert float(ours[0, -1, v].exp()) == pytest.approx(p, abs=1e-12)
            assert float(ours[0, -1].exp().sum()) == pytest.approx(1.0)


def test_prefixes_keep_their_precision_over_many_frames() -> None:
    """For 2,000 frames, the log-probabilities of the tokens still sum to the result of the forward algorithm."""
    generator = torch.Generator().manual_seed(6)
    logits_BSV = 4 * torch.randn(1, 2000, 8, generator=generator)
    logits_BSV[..., [BOS, EOS]] = -1e4
    frames = Padded(logits_BSV.log_softmax(-1), torch.tensor([2000]))
    output = torch.randint(3, 8, (1, 60), generator=generator)
    ours, _ = Prefixes.start(frames).extend(torch.cat([torch.tensor([[BOS]]), output], 1))
    closed = torch.cat([output, torch.tensor([[EOS]])], 1)
    total = ours.gather(2, closed[..., None]).sum()
    exact = Padded(frames.values.double(), frames.lengths)
    assert_close(total, log_likelihood(exact, Padded(output, torch.tensor([60])))[0], rtol=1e-10, atol=1e-6)


# ------------------------------------------------------------------- the model


def test_each_state_gives_several_frames() -> None:
    torch.manual_seed(0)
    decoder = CTCDecoder(5, 9, stretch=3).double()
    states = torch.randn(2, 4, 5, dtype=torch.float64)
    frames = decoder.frames(Memory(Padded(states, torch.tensor([4, 2])), (), None))
    assert frames.lengths.tolist() == [12, 6]
    assert decoder.split is not None
    for s, r in itertools.product(range(4), range(3)):
        part = slice(5 * r, 5 * r + 5)
        h = states[:, s] @ decoder.split.weight[part].T + decoder.split.bias[part]
        logits = h @ decoder.projection.weight.T + decoder.projection.bias
        logits[:, [BOS, EOS]] = float("-inf")
        assert_close(frames.values[:, 3 * s + r].exp(), logits.softmax(-1))


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_a_decoder_with_attention_is_half_of_a_joint_model(weight: float) -> None:
    """The log-probability of an output is the weighted sum of both parts. Weight 0 uses only attention, and weight 1
    only CTC.
    """
    model = build(FAMILIES["ctc and attention"] | {"weight": weight})
    together = batch(LENGTHS, [4, 2, 3])
    frames, decoder, state = model.parts(together.source)
    outputs = Padded(together.target.values, together.target.lengths - 1)
    attention = CrossEntropy().of(decoder, state, together.target).total
    mixed = -weight * log_likelihood(frames, outputs).sum() + (1 - weight) * attention
    assert_close(CrossEntropy()(model, together)[0].total, mixed)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: CTCDecoder(4, 9, stretch=0), "stretch = 0: each state of the encoder gives at least 1 frame"),
        (lambda: build(FAMILIES["ctc and attention"] | {"weight": 1.5}), r"weight = 1.5: the share of CTC .* 0 to 1"),
        (lambda: CTCLikelihood(impossible="ignore"), 'impossible = "ignore": "error" or "skip" was expected'),  # type: ignore[arg-type]
        (lambda: CTCLikelihood(by="hand"), 'by = "hand": "torch" or "transduce" was expected'),  # type: ignore[arg-type]
        (lambda: JointLikelihood(weight=-1), r"weight = -1: the share of CTC in the loss, 0 to 1, was expected"),
    ],
)
def test_bad_settings(make: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        make()


@pytest.mark.parametrize(
    ("protocol", "user", "model", "error"),
    [
        ("Objective", CTCLikelihood, Instant, "asks its model to frames, which Instant does not"),
        ("Objective", JointLikelihood, CTC, "asks its model to weights and parts, which CTC does not"),
        ("Objective", ParallelCrossEntropy, CTC, "asks its model to emit, which CTC does not; set .*'ctc'"),
        ("Search", LengthBeam, JointCTC, "asks its model to emit, .*'best-path' or 'prefix-beam'"),
    ],
)
def test_who_cannot_ask_whom(protocol: str, user: type, model: type, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        check_fit(protocol.lower(), protocol, user, model)


# --------------------------------------------------------------- the objective


@pytest.mark.parametrize("family", FRAMEWISE)
@pytest.mark.parametrize("by", ["torch", "transduce"])
def test_the_loss_of_a_batch_is_that_of_its_rows(family: str, by: Any) -> None:
    model = build(FAMILIES[family])
    objective = CTCLikelihood(by=by)
    together = batch(LENGTHS, [6, 1, 4])
    parameters = list(model.parameters())
    whole, _ = objective(model, together)
    gradients = torch.autograd.grad(whole.total, parameters, allow_unused=True)
    rows = []
    for row in range(3):
        source, target = sources_alone(together.source, row), sources_alone(together.target, row)
        rows.append(objective(model, replace(together, source=source, target=target))[0])
    assert_close(sum(loss.total for loss in rows), whole.total)
    assert sum(loss.count for loss in rows) == whole.count == 11
    again = torch.autograd.grad(torch.stack([loss.total for loss in rows]).sum(), parameters, allow_unused=True)
    for ours, theirs in zip(again, gradients, strict=True):
        assert_close(ours, theirs)
        assert ours is None or ours.isfinite().all()


@pytest.mark.parametrize("family", ["ctc, lstm, no attention", "ctc, transformer, no attention"])
def test_the_loss_is_cross_entropy_by_another_road(family: str) -> None:
    """The loss and its gradient are the same token by token and over all alignments at once."""
    model, together = build(FAMILIES[family]), batch(LENGTHS, [6, 3, 4])
    found = []
    for objective in (CTCLikelihood(), CTCLikelihood(by="transduce"), CrossEntropy()):
        loss, _ = objective(model, together)
        found.append((loss.total, *torch.autograd.grad(loss.total, list(model.parameters()))))
        assert loss.count == 13
    assert_close(found[0], found[1])
    assert_close(found[0], found[2])


def test_pairs_without_an_alignment(caplog: pytest.LogCaptureFixture) -> None:
    model = build(FAMILIES["ctc, lstm, no attention"] | {"stretch": 1})
    together = batch(LENGTHS, [3, 6, 2])  # of 5, 2 and 4 frames
    with pytest.raises(
        ValueError, match=r"no alignment for 1 of 3 pairs .* row 1 has 5 symbols and needs \d frames, .* 2;"
    ) as told:
        CTCLikelihood()(model, together)
    assert 'objective.impossible = "skip" (in joint training objective.ctc.impossible)' in str(told.value)
    with caplog.at_level("INFO"):
        CTCLikelihood("skip")(model, together)
    for said in (str(told.value), caplog.text):
        assert "raise model.stretch, lower the encoder's strides, or" in said
        assert '("stretch"), lower its most' in said
    for by in ("torch", "transduce"):
        loss, _ = CTCLikelihood("skip", by)(model, together)  # type: ignore[arg-type]
        possible = replace(together, source=pick(together.source, [0, 2]), target=pick(together.target, [0, 2]))
        without, _ = CTCLikelihood("error", by)(model, possible)  # type: ignore[arg-type]
        assert_close(loss.total, without.total)
        assert (loss.count, loss.tallies["skipped"]) == (without.count, 1) == (5, 1)


def test_a_batch_of_nothing_possible_trains_nothing() -> None:
    model = build(FAMILIES["ctc, lstm, no attention"] | {"stretch": 1})
    loss, _ = CTCLikelihood("skip")(model, batch([2, 1], [6, 5]))
    loss.total.backward()
    assert (float(loss.total.detach()), loss.count, loss.tallies["skipped"]) == (0.0, 0, 2)
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def of_rows(sources: list[int], targets: list[list[int]]) -> Pairs:
    def ragged(rows: list[list[int]]) -> Ragged:
        ids = np.array([i for row in rows for i in row])
        return Ragged(ids, np.cumsum([0, *map(len, rows)]))

    return Pairs(ragged([[5] * (length - 1) + [EOS] for length in sources]), ragged([[*row, EOS] for row in targets]))


def test_pairs_without_an_alignment_are_found_before_training() -> None:
    model = build(FAMILIES["ctc, lstm, no attention"] | {"stretch": 1})
    targets = [[], [5], [5, 5], [5, 6], [6, 7], [7, 7, 7], [5, 6, 7, 8]]
    pairs = of_rows([1, 1, 2, 2, 3, 5, 3], targets)
    needed = [len(row) + sum(left == right for left, right in itertools.pairwise(row)) for row in targets]
    assert least_frames(pairs.target).tolist() == needed
    assert unaligned(model, pairs).tolist() == [2, 6]
    *lines, last = CTCLikelihood("skip").check(model, {"train": pairs, "valid": pairs.select(np.array([0, 1]))})
    assert lines == [
        "train: CTC leaves out 2 of 7 (29 %) pairs, which need more frames than their sources give: the pair of row 2 "
        "has 2 symbols and needs 3 frames, but its source gives 2"
    ]
    assert "raise model.stretch" in last
    with pytest.raises(ValueError, match=r"CTC has no alignment for 2 of 7 .*objective.impossible"):
        CTCLikelihood().check(model, {"train": pairs})
    with pytest.raises(ValueError, match="CTC has no alignment for any pair of train"):
        CTCLikelihood("skip").check(model, {"train": pairs.select(np.array([2, 6]))})
    assert CTCLikelihood().check(model, {"train": pairs.select(np.array([0, 1, 3]))}) == []


def test_the_part_of_ctc_is_no_number_if_it_skips_all() -> None:
    loss, _ = JointLikelihood(ctc=CTCLikelihood("skip"))(build(FAMILIES["ctc and attention"]), batch([2, 1], [9, 9]))
    assert math.isnan(float(loss.parts["ctc"]))
    assert math.isfinite(float(loss.total.detach()))


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_joint_loss_is_a_weighted_sum(weight: float) -> None:
    model, together = build(FAMILIES["ctc and attention"]), batch(LENGTHS, [6, 1, 4])
    loss, _ = JointLikelihood(weight, attention=CrossEntropy(smoothing=0.1))(model, together)
    ctc, _ = CTCLikelihood()(model, together)
    _, decoder, state = model.parts(together.source)
    attention = CrossEntropy(smoothing=0.1).of(decoder, state, together.target)
    assert_close(loss.total, weight * ctc.total + (1 - weight) * attention.total)
    assert_close(loss.parts["nll"], weight * ctc.plain + (1 - weight) * attention.plain)
    assert loss.count == 11
