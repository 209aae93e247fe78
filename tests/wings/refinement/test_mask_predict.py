"""Mask-predict against plain loops, its decoder against torch's layers, its loss by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from drawn import spread
from families import PARALLEL, build, sources
from test_laws import batch, padded_targets, pick
from transduce import api
from transduce.core import tree
from transduce.core.types import BOS, EOS, SPECIALS, Memory, MemoryWidths, Padded
from transduce.layers.decoders.instant import InstantTransformer
from transduce.objectives.cross_entropy import ParallelCrossEntropy
from transduce.search.length_beam import LengthBeam
from transduce.search.ranking import Average
from transduce.wings.refinement import objective as objectives
from transduce.wings.refinement.decoder import MaskedTransformer
from transduce.wings.refinement.objective import MaskedTargets, drawn, lowest
from transduce.wings.refinement.search import MaskPredict

LENGTHS = [5, 2, 4]
STACK: Any = {"type": "transformer", "width": 8, "layers": 1, "heads": 2, "feedforward": 16}
READER = STACK | {"positions": "sinusoidal"}


@pytest.fixture(scope="module")
def model() -> Any:
    return build(PARALLEL["mask-predict"])


def log_probs(model: Any, source: Padded, words: list[int]) -> Any:
    """log p(y_t | observed words, t, n, x) of one source [n, V], without the words that are never written."""
    state = model.observe(model.start(source), torch.tensor([words or [BOS]]))
    emission = model.emit(state, torch.tensor([len(words)]))
    found = model.readout(emission.output)[0, : len(words)].log_softmax(-1)
    found[:, : len(SPECIALS)] = -math.inf
    return found


@torch.no_grad()
def refined(model: Any, source: Padded, n: int, passes: int) -> tuple[list[int], float]:
    """Mask-predict of one source and one length, as section 3.3 of the paper says: words, and sum of their log p."""
    found = log_probs(model, source, [BOS] * n)
    words, sure = found.argmax(-1).tolist(), found.max(-1).values.tolist()
    for i in range(1, passes):
        hidden = sorted(range(n), key=lambda t: (sure[t], t))[: n * (passes - i) // passes]
        found = log_probs(model, source, [BOS if t in hidden else word for t, word in enumerate(words)])
        for t in hidden:
            words[t], sure[t] = int(found[t].argmax()), float(found[t].max())
    return words, sum(sure)


@pytest.mark.parametrize("passes", [2, 3, 10])
def test_it_is_the_loop_of_the_paper(model: Any, passes: int) -> None:
    source, search = sources(LENGTHS), MaskPredict(3, 3, Average(), passes)
    changed = 0
    for row, hypotheses in enumerate(search(model, source)):
        alone = pick(source, [row])
        lengths = model.emit(model.start(alone)).length_log_probs[0].detach()
        expected = []
        for n in lengths.topk(3).indices.tolist():
            words, sure = refined(model, alone, n, passes)
            expected.append((Average()(sure + float(lengths[n]), n + 1), (*words, EOS)))
        expected.sort(key=lambda each: -each[0])
        assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected])
        first = {len(h.tokens): h.tokens for h in LengthBeam(3, 3)(model, alone)[0]}
        changed += sum(h.tokens != first[len(h.tokens)] for h in hypotheses)
        for h in hypotheses:
            (forced,) = search.force(model, alone, padded_targets([list(h.tokens)]))
            assert forced.log_prob == pytest.approx(h.log_prob, abs=1e-9)
    assert changed  # otherwise the passes would show nothing


def test_one_pass_is_the_length_beam(model: Any) -> None:
    source = sources(LENGTHS)
    assert MaskPredict(3, 2, Average(), 1)(model, source) == LengthBeam(3, 2, Average())(model, source)
    with pytest.raises(ValueError, match="iterations = 0: at least one"):
        MaskPredict(iterations=0)
    with pytest.raises(ValueError, match="cannot go on from a prefix"):
        MaskPredict()(model, source, padded_targets([[5], [5], [5]]))


def test_company(model: Any) -> None:
    source, search = sources([5, 2, 4, 7, 1, 3, 6]), MaskPredict(4, 4, Average(), 4)
    for row, together in enumerate(search(model, source)):
        (alone,) = search(model, pick(source, [row]))
        assert [h.tokens for h in together] == [h.tokens for h in alone]
        assert [h.score for h in together] == pytest.approx([h.score for h in alone], abs=1e-9)


def test_lowest() -> None:
    values = torch.tensor([[0.3, 0.1, 0.1, 0.0], [0.5, 0.4, 0.0, 0.0]])
    real = torch.tensor([[True, True, True, False], [True, True, False, False]])
    assert lowest(values, real, torch.tensor([1, 5])).tolist() == [
        [False, True, False, False],
        [True, True, False, False],
    ]


@torch.no_grad()
def test_the_decoder_is_the_instant_one_with_words_added() -> None:
    width, lengths = 8, torch.tensor([3, 4])
    ours: Any = spread(MaskedTransformer(11, MemoryWidths(width, (width,)), 9, width, 2, 2, 16))
    plain: Any = InstantTransformer(11, MemoryWidths(width, (width,)), 9, width, 2, 2, 16).double().eval()
    plain.load_state_dict(ours.state_dict())
    states = torch.randn(2, 5, width, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    memory = Memory(Padded(states, torch.tensor([5, 2])), (states[:, 0],), None)
    words = torch.tensor([[BOS, 7, 8, 0], [9, BOS, BOS, 10]])
    places = plain.places(lengths, 4)
    plain.places = lambda *_: places + ours.projection.weight[words] * width**0.5
    state = ours.start(memory)
    got = ours(ours.observe(state, words), lengths, 4)
    expected = plain(plain.start(memory), lengths, 4)
    for row, n in enumerate(lengths.tolist()):
        assert_close(got[row, :n], expected[row, :n])
    assert_close(ours(state, lengths, 4), ours(ours.observe(state, torch.full((2, 4), BOS)), lengths, 4))


def test_the_loss_by_hand(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    together, hidden = batch(LENGTHS, [4, 1, 3]), torch.tensor([[True, False, True], [False] * 3, [False, True, False]])
    monkeypatch.setattr(objectives, "drawn", lambda lengths, T: hidden[:, :T])
    model.training = True  # of the model alone, without dropout
    loss, carry = MaskedTargets(0.1)(model, together, carry="carried")
    model.training = False
    total = 0.0
    lengths = model.emit(model.start(together.source)).length_log_probs.detach()
    for row, n in enumerate([3, 0, 2]):
        target = together.target.values[row, :n].tolist()
        read = [BOS if hidden[row, t] else word for t, word in enumerate(target)]
        state = model.observe(model.start(pick(together.source, [row])), torch.tensor([read or [BOS]]))
        found = model.readout(model.emit(state, torch.tensor([n])).output)[0].log_softmax(-1)
        for t, word in enumerate(target):
            if hidden[row, t]:
                total -= 0.9 * float(found[t, word].detach()) + 0.1 * float(found[t].mean().detach())
        total -= float(lengths[row, n])
    assert float(loss.total.detach()) == pytest.approx(total)
    assert (loss.count, carry) == (3 + 3, "carried")
    shown, _ = MaskedTargets(0.1)(model, together)
    assert_close(shown.total, ParallelCrossEntropy(0.1)(model, together)[0].total)
    with pytest.raises(ValueError, match=r"smoothing = 1\.0"):
        MaskedTargets(1.0)


def test_any_number_of_words_is_hidden() -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([3, 0]).repeat(3000)
    counts = drawn(lengths, 3).sum(1)
    assert counts[1::2].tolist() == [0] * 3000
    shares = counts[0::2].bincount(minlength=4) / 3000
    assert_close(shares, torch.tensor([0, 1 / 3, 1 / 3, 1 / 3]), atol=0.03, rtol=0)
    assert_close(drawn(lengths, 3)[0::2].double().mean(0), torch.full((3,), 2 / 3).double(), atol=0.03, rtol=0)


def test_states_can_be_selected(model: Any) -> None:
    state = model.observe(model.start(sources(LENGTHS)), torch.tensor([[5, BOS], [6, 7], [BOS, 8]]))
    some = tree.select(state, torch.tensor([2, 0]))
    assert some.decoder.tokens_NT.tolist() == [[BOS, 8], [5, BOS]]


def test_from_training_to_outputs(tiny: dict[str, Any], tmp_path: Path) -> None:
    settings = {
        "data.origin": tiny["data.origin"],
        "data.cache": tiny["data.cache"],
        "model": {
            "type": "mask-predict",
            "encoder": STACK | {"positions": "sinusoidal"},
            "decoder": STACK | {"type": "masked-transformer"},
        },
        "objective": {"type": "masked-targets"},
        "search": {"type": "mask-predict", "size": 2, "iterations": 3, "ranking": "average"},
        "training.steps": 4,
        "training.precision": "float32",
        "training.validation.times": 1,
        "training.validation.examples": 4,
    }
    trained = api.train("reverse-instant", tmp_path / "run", settings, device="cpu", progress=False)
    (outputs,) = trained.predict(["abc"], trained.search.resized(nbest=2))
    assert len(outputs) == 2
    wrong = settings | {
        "model": {"type": "mask-predict", "encoder": STACK | {"positions": "sinusoidal"}, "decoder": STACK}
    }
    with pytest.raises(ValueError, match="InstantTransformer reads no words of its output"):
        api.train("reverse-instant", tmp_path / "wrong", wrong, device="cpu", progress=False)
    assert replace(trained.search, iterations=2).iterations == 2
