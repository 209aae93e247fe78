"""Instant decoders against torch's layers and plain loops, their loss by hand, and uses that are refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from test_transformer import (
    HEADS,
    HIDDEN,
    LAYERS,
    NORMS,
    RESIDUALS,
    SOURCE,
    VOCABULARY,
    WIDTH,
    exactly,
    paper_positions,
    torch_decoder,
)
from torch import Tensor, nn
from torch.testing import assert_close

from drawn import spread
from families import FAMILIES, PARALLEL, build, sources
from transduce import api
from transduce.core import config
from transduce.core.config.errors import ConfigError
from transduce.core.types import Batch, Emission, Memory, MemoryWidths, Padded
from transduce.layers.decoders.instant import DenseDecoder, InstantTransformer
from transduce.models.compatibility import check_fit
from transduce.models.instant import LengthClassifier
from transduce.models.mixtures import Ensemble
from transduce.objectives.cross_entropy import CrossEntropy, ParallelCrossEntropy
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.search.ranking import Average

STATES = torch.randn(2, 5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
MEMORY = Memory(Padded(STATES, SOURCE.lengths), (STATES[:, 0], STATES[:, 1, :3]), None)

# ------------------------------------------------------------------ modules


@NORMS
@torch.no_grad()
def test_the_transformer_is_torchs_decoder_without_a_causal_mask(norm: str) -> None:
    ours = spread(InstantTransformer(
        VOCABULARY, MemoryWidths(WIDTH, (WIDTH,)), 9, WIDTH, LAYERS, HEADS, HIDDEN, norm=RESIDUALS[norm]
    ))  # fmt: skip
    lengths, pe = torch.tensor([3, 4]), paper_positions(4)
    from_start, from_end = ours.ends.weight[:WIDTH], ours.ends.weight[WIDTH:]
    places_BTD = torch.zeros(2, 4, WIDTH, dtype=torch.float64)
    for b, n in enumerate(lengths.tolist()):
        for t in range(n):
            places_BTD[b, t] = from_start @ pe[t] + from_end @ pe[n - 1 - t] + ours.ends.bias.view(2, WIDTH).sum(0)
    hidden = [torch.arange(4) >= lengths[:, None], ~MEMORY.states.mask]
    expected = torch_decoder(ours, norm)(
        places_BTD, STATES, tgt_key_padding_mask=hidden[0], memory_key_padding_mask=hidden[1]
    )
    got = ours(ours.start(MEMORY), lengths, 4)
    for b, n in enumerate(lengths.tolist()):
        exactly(got[b, :n], expected[b, :n])


@torch.no_grad()
def test_the_dense_decoder_has_weights_for_each_position() -> None:
    ours = spread(DenseDecoder(VOCABULARY, MemoryWidths(WIDTH, (WIDTH, 3)), max_length=5, width=4))
    got = ours(ours.start(MEMORY), torch.tensor([3, 1]), 3)
    summary = torch.cat([STATES[:, 0], STATES[:, 1, :3]], 1)
    for t in range(3):
        part = slice(4 * t, 4 * t + 4)
        exactly(got[:, t], (summary @ ours.linear.weight[part].T + ours.linear.bias[part]).clamp(min=0))
    exactly(ours.readout(got), got @ ours.projection.weight.T + ours.projection.bias)


@torch.no_grad()
def test_lengths_are_read_off_the_summary_and_the_number_of_states() -> None:
    ours = spread(LengthClassifier((WIDTH, 3), max_length=6, width=WIDTH))
    size = paper_positions(6)[SOURCE.lengths]
    features = torch.cat([STATES[:, 0], STATES[:, 1, :3], size], 1)
    exactly(ours(MEMORY), (features @ ours.linear.weight.T + ours.linear.bias).log_softmax(-1))


def test_tied_tables_are_one() -> None:
    model = build(PARALLEL["instant, transformer, tied"])
    assert model.decoder.projection.weight is model.encoder.embedding.weight


# ---------------------------------------------------------------- objective


class Noted(nn.Module):
    """A model whose logits and lengths are parameters, so that every loss can be computed by hand."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.logits = nn.Parameter(torch.randn(2, 3, 7, dtype=torch.float64))
        self.lengths = nn.Parameter(torch.randn(2, 4, dtype=torch.float64))

    def start(self, source: Any) -> None:
        return None

    def emit(self, state: None, lengths: Tensor) -> Emission:
        return Emission(self.logits, lengths, self.lengths.log_softmax(-1))

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone()


TARGET = Padded(torch.tensor([[4, 5, 6, 2], [6, 2, 0, 0]]), torch.tensor([4, 2]))
BATCH = Batch(Padded(torch.full((2, 1), 2), torch.ones(2, dtype=torch.long)), TARGET, torch.arange(2))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_by_hand(smoothing: float) -> None:
    model = Noted()
    loss, carry = ParallelCrossEntropy(smoothing)(model, BATCH, carry="carried")
    words, lengths = model.logits.log_softmax(-1), model.lengths.log_softmax(-1)
    total = nll = length = -(lengths[0, 3] + lengths[1, 1])
    for b, row in enumerate([[4, 5, 6], [6]]):
        for t, word in enumerate(row):
            nll = nll - words[b, t, word]
            total = total - (1 - smoothing) * words[b, t, word] - smoothing * words[b, t].mean()
    assert_close(loss.total, total)
    assert_close(loss.parts, {"nll": nll.detach(), "length": length.detach()})
    assert not loss.parts["nll"].requires_grad
    assert (loss.count, carry) == (6, "carried")
    parameters = list(model.parameters())
    assert_close(torch.autograd.grad(loss.total, parameters), torch.autograd.grad(total, parameters))
    (forced, other) = LengthBeam(ranking=Average()).force(model, BATCH.source, TARGET)
    assert forced.tokens == (4, 5, 6, 2)
    assert forced.log_prob + other.log_prob == pytest.approx(-float(nll.detach()))
    assert forced.token_log_probs[-1] == pytest.approx(float(lengths[0, 3].detach()))
    assert forced.best_log_probs[-1] == pytest.approx(float(lengths[0].max().detach()))
    assert all(best >= each for best, each in zip(forced.best_log_probs, forced.token_log_probs, strict=True))


def test_where_the_length_is_no_choice_it_costs_nothing() -> None:
    class Tagger(Noted):
        def emit(self, state: None, lengths: Tensor | None = None) -> Emission:
            return Emission(self.logits, torch.tensor([3, 1]))

    model = Tagger()
    loss, _ = ParallelCrossEntropy()(model, BATCH)
    (first,), (second,) = LengthBeam(3, 2)(model, BATCH.source)
    assert (len(first.tokens), len(second.tokens)) == (4, 2)
    assert first.token_log_probs[-1] == second.token_log_probs[-1] == float(loss.parts["length"]) == 0


@pytest.mark.parametrize("positions", [1, 2, 3])
def test_portions_change_no_output(positions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search computes the logits of at most ``positions`` positions at a time, and the outputs stay the same. An
    empty output has no logits.
    """

    class Asked(Noted):
        def emit(self, state: None, lengths: Tensor | None = None) -> Emission:
            logits = self.logits.repeat(1 if lengths is None else len(lengths) // 2, 1, 1)
            return Emission(logits, torch.tensor([3, 0]) if lengths is None else lengths, self.lengths.log_softmax(-1))

        def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
            read.append(len(output))
            return output.clone()

    read: list[int] = []
    model, search = Asked(), LengthBeam(1)
    whole = [search(model, BATCH.source), search.force(model, BATCH.source, TARGET)]
    read.clear()
    monkeypatch.setattr("transduce.search.length_beam.POSITIONS", positions)
    assert [search(model, BATCH.source), search.force(model, BATCH.source, TARGET)] == whole
    assert max(read) == positions
    model.emit = lambda state, lengths=None: Emission(model.logits, torch.tensor([0, 0]))  # type: ignore[method-assign]
    assert [found[0].tokens for found in search(model, BATCH.source)] == [(2,), (2,)]


# ---------------------------------------------------------------- bad input


def test_what_is_too_long_is_told() -> None:
    model = build(PARALLEL["instant, lstm to dense"])
    source = sources([3])
    with pytest.raises(ValueError, match=r"an output of 7 tokens: .* at most max_length = 6; .*max_target_length = 7"):
        model.emit(model.start(source), torch.tensor([7]))


@pytest.mark.parametrize("decoder", [DenseDecoder, InstantTransformer])
def test_nothing_is_no_length(decoder: Any) -> None:
    with pytest.raises(ValueError, match="max_length = 0: an output of at least one"):
        decoder(VOCABULARY, MemoryWidths(WIDTH, (WIDTH,)), max_length=0)


@pytest.mark.parametrize(("size", "nbest"), [(2, 3), (2, 0), (0, 0)])
def test_as_many_hypotheses_as_lengths(size: int, nbest: int) -> None:
    with pytest.raises(ValueError, match=f"nbest = {nbest}, size = {size}"):
        LengthBeam(size, nbest)


def test_smoothing_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"smoothing = 1\.0: a share"):
        ParallelCrossEntropy(1.0)


def test_words_are_not_mixed_where_they_come_all_at_once() -> None:
    with pytest.raises(ValueError, match="the instant model cannot extend, so it cannot be mixed word by word"):
        Ensemble([build(PARALLEL["instant, lstm to dense"])])


INSTANT, AUTOREGRESSIVE = type(build(PARALLEL["instant, lstm to dense"])), type(build(FAMILIES["convs2s"]))


@pytest.mark.parametrize(
    ("path", "protocol", "user", "model", "message"),
    [
        (
            "search",
            "Search",
            Beam,
            INSTANT,
            r"search: Beam asks its model to extend, .*Instant.* 'length-beam'",
        ),
        ("search", "Search", LengthBeam, AUTOREGRESSIVE, r"to emit, which EncoderDecoder .* to 'greedy' or 'beam' or"),
        (
            "objective",
            "Objective",
            CrossEntropy,
            INSTANT,
            r"objective: CrossEntropy .* 'parallel-cross-entropy'",
        ),
        ("objective", "Objective", ParallelCrossEntropy, AUTOREGRESSIVE, r"to .* or 'r-drop' or 'minimum-risk'$"),
    ],
)
def test_who_cannot_ask_a_model_is_told(path: str, protocol: str, user: type, model: type, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_fit(path, protocol, user, model)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"search": {"type": "beam"}}, "search: Beam asks"),
        ({"objective": {"type": "cross-entropy"}}, "objective: CrossEntropy asks"),
        ({"training.validation.search": {"type": "greedy"}}, r"training\.validation\.search: Greedy asks"),
    ],
)
def test_a_run_that_does_not_fit_is_refused(
    setting: dict[str, Any], message: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    data = {key: tiny[key] for key in ("data.origin", "data.cache")}
    with pytest.raises(ConfigError, match=message):
        api.train("reverse-instant", tmp_path / "run", data | setting, device="cpu", progress=False)
    assert not (tmp_path / "run" / "config.toml").exists()


# ------------------------------------------------------------------- in use


def test_a_search_of_another_size() -> None:
    assert Greedy(7).resized() == Greedy(7)
    assert Greedy(7).resized(2) == Beam(2, max_length=7)
    assert Greedy(7).resized(nbest=2) == Beam(5, 2, max_length=7)
    assert Beam(3, max_length=7, ranking=Average()).resized(nbest=4) == Beam(4, 4, 7, Average())
    assert Beam(3, 2).resized() == Beam(3, 2)
    assert Beam(3, 2).resized(5) == Beam(5, 2)
    assert Beam(3, 2).resized(1) == Beam(1, 1)
    with pytest.raises(ValueError, match="nbest = 3, size = 2"):
        Beam(3, 2).resized(2, 3)
    assert LengthBeam(3, 2, Average()).resized() == LengthBeam(3, 2, Average())
    assert LengthBeam().resized(nbest=4) == LengthBeam(4, 4)


def test_from_training_to_scores(tiny: dict[str, Any], tmp_path: Path) -> None:
    """A run is trained, loaded and asked for several outputs. Scoring an output gives the score that it had."""
    settings = {
        "data.origin": tiny["data.origin"],
        "data.cache": tiny["data.cache"],
        "training.steps": 4,
        "training.precision": "float32",
        "training.validation.times": 1,
        "training.validation.examples": 4,
        "training.validation.metrics": ["perplexity"],
    }
    model = api.train("reverse-instant", tmp_path / "run", settings, device="cpu", progress=False)
    assert isinstance(model.search, LengthBeam)
    (outputs,) = model.predict(["abc"], model.search.resized(nbest=3))
    assert len(outputs) == 3
    for output in outputs:
        (scored,) = model.score([("abc", output.text)])
        assert scored.tokens == output.tokens
        assert scored.log_prob == pytest.approx(output.log_prob, abs=1e-4)
    table = config.read(tmp_path / "run" / "config.toml")
    assert table["search"]["type"] == "length-beam"
    assert math.isfinite(outputs[0].log_prob)


def test_what_does_not_fit_is_refused_before_any_data_is_read(tmp_path: Path) -> None:
    settings = {"search": {"type": "beam"}, "data": {"train": {"path": "nowhere.tsv"}, "units": {"joint": "bytes"}}}
    with pytest.raises(ConfigError, match="search: Beam asks"):
        api.train("reverse-instant", tmp_path / "run", settings=settings)
