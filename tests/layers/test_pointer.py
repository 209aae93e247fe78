"""Copying: the mixture equals a loop over See et al.'s equation 9, and models copy words they never trained on. Tests
use float64 unless they say otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from families import FAMILIES, JOINT, build, recurrent
from transduce.core import config
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, Batch, Facts, Memory, Padded
from transduce.layers.decoders.pointer import PointerOutput, source_words
from transduce.models.weights import load_weights, save_weights, weights
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.search.greedy import Greedy

SOURCE = Padded(torch.tensor([[5, 7, 5, 4, 2], [6, 2, 9, 9, 9]]), torch.tensor([5, 2]))  # a word twice; junk behind
TOKENS = torch.tensor([[BOS, 5, 8], [BOS, 6, 2]])
POINTERS = [name for name in FAMILIES if name.startswith("pointer")]


@pytest.fixture(params=POINTERS)
def model(request: pytest.FixtureRequest) -> Any:
    return build(FAMILIES[request.param])


def test_the_mixture_is_its_formula(model: Any) -> None:
    pointer = model.decoder
    memory = model.encoder(SOURCE)
    got = model.readout(model.extend(TOKENS, model.start(SOURCE))[0])
    features, _ = pointer.decoder.extend(TOKENS, pointer.decoder.start(memory))
    context, weights_NTS, _ = pointer.attention(features, pointer.attention.start(memory))
    own = torch.softmax(pointer.decoder.readout(features), -1)
    for n in range(2):
        for t in range(3):
            seen = torch.cat([context[n, t], features[n, t], pointer.embedding(TOKENS[n, t])])
            gate = torch.sigmoid(pointer.gate.weight[0] @ seen + pointer.gate.bias[0])
            for word in range(JOINT.target_vocabulary):
                copied = sum(
                    weights_NTS[n, t, s] for s in range(SOURCE.lengths[n]) if SOURCE.values[n, s] == word
                ) + torch.zeros(())
                expected = torch.log(gate * own[n, t, word] + (1 - gate) * copied)
                assert_close(got[n, t, word], expected.to(got.dtype))


def test_it_is_a_distribution(model: Any) -> None:
    log_p = model.readout(model.extend(TOKENS, model.start(SOURCE))[0])
    assert_close(log_p.logsumexp(-1), torch.zeros(2, 3, dtype=torch.float64))


def output(pointer: Any, gate: float, dtype: torch.dtype) -> PointerOutput:
    """A possible output of ``extend`` for one position. One word occurs twice, one has no share, and one is padding."""
    features = torch.randn(1, pointer.width, generator=torch.Generator().manual_seed(0)).to(dtype)
    shares = torch.tensor([[0.75, 0.0, 0.25, 0.0, 0.0]], dtype=dtype)
    return PointerOutput(
        features.requires_grad_(),
        torch.tensor([[gate]], dtype=dtype, requires_grad=True),
        torch.tensor([[5, 5, 7, 4, 0]]),
        shares.requires_grad_(),
    )


@pytest.mark.parametrize("gate", [0.3, 40.0, -40.0])
def test_gradients_are_those_of_the_formula(gate: float) -> None:
    """Also where the logarithm of a share of nothing would be taken, and where all is copied or nothing."""
    pointer = build(FAMILIES["pointer over recurrent"]).decoder
    wanted = torch.randn(11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    wanted[[1, 9]] = 0
    found = output(pointer, gate, torch.float64)
    log_p = pointer.readout(found)
    (log_p[0] * wanted).sum().backward()
    naive = output(pointer, gate, torch.float64)
    g = torch.sigmoid(naive.gate)
    copied = torch.zeros(1, 11, dtype=torch.float64).index_add(
        1, naive.ids[0], naive.share * torch.sigmoid(-naive.gate)
    )
    expected = torch.log(g * torch.softmax(pointer.decoder.readout(naive.features), -1) + copied)
    (expected[0] * wanted).sum().backward()
    assert_close(log_p, expected)
    assert_close(found.features.grad, naive.features.grad)
    assert_close(found.gate.grad, naive.gate.grad)
    assert_close(found.share.grad[:, [0, 2]], naive.share.grad[:, [0, 2]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("gate", [0.0, 300.0, -300.0])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_nothing_overflows(dtype: torch.dtype, gate: float, scale: float) -> None:
    """Probabilities that are zero in float32 have logarithms and gradients all the same."""
    pointer = build(FAMILIES["pointer over recurrent"], dtype=torch.float32).decoder
    with torch.no_grad():
        pointer.projection.weight.mul_(scale)
    found = output(pointer.to(dtype), gate, dtype)
    log_p = pointer.readout(found)
    assert log_p.dtype == torch.float32
    assert log_p.isfinite().all()
    assert_close(log_p.logsumexp(-1), torch.zeros(1), atol=1e-4, rtol=0)
    log_p.sum().backward()
    for leaf in (found.features, found.gate, found.share):
        assert leaf.grad.isfinite().all()


def test_a_search_may_write_into_the_readout(model: Any) -> None:
    with torch.inference_mode():
        left, _ = model.extend(TOKENS, model.start(SOURCE))
        first = model.readout(left)
        again = first.clone()
        first.fill_(0)
        assert_close(model.readout(left), again)


def test_words_of_a_source_are_gathered_at_their_first_position() -> None:
    states = Padded(torch.zeros(2, 5, 3), SOURCE.lengths)
    assert source_words(Memory(states, (), SOURCE)).first_BS.tolist() == [[0, 1, 0, 3, 4], [0, 1, 2, 2, 2]]


# ------------------------------------------------------------------------ ties


@pytest.mark.parametrize("tie", ["target", "all"])
def test_the_inner_tables_are_tied(tie: str, tmp_path: Path) -> None:
    """The wrapped decoder's tables are the ones tied, saved once and loaded again."""
    model = build(FAMILIES["pointer over transformer"] | {"tie": tie})
    inner = model.decoder.decoder
    assert model.decoder.projection is inner.projection
    assert inner.projection.weight is inner.embedding.weight
    assert (model.encoder.embedding.weight is inner.embedding.weight) is (tie == "all")
    tables = {name for name in weights(model) if name.endswith(("embedding.weight", "projection.weight"))}
    own = (
        {"encoder.embedding.weight", "decoder.decoder.embedding.weight"}
        if tie == "target"
        else {"encoder.embedding.weight"}
    )
    assert tables == own
    save_weights(model, tmp_path / "model.safetensors")
    other = build(FAMILIES["pointer over transformer"] | {"tie": tie}, seed=7)
    load_weights(other, tmp_path / "model.safetensors")
    outputs = [m.readout(m.extend(TOKENS, m.start(SOURCE))[0]) for m in (model, other)]
    assert_close(*outputs)


# -------------------------------------------------------------------- refusals


def test_two_vocabularies_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the source has 9 and the target 11 words.*data\.units\.joint"):
        config.build(FAMILIES["pointer over recurrent"], Model, Facts(9, 11), "model")


def test_states_that_are_no_words_are_refused() -> None:
    half = Memory(Padded(torch.zeros(2, 3, 4), torch.tensor([3, 1])), (), SOURCE)
    with pytest.raises(ValueError, match=r"\(2, 3\) states .* for a source of \(2, 5\)"):
        source_words(half)


# ------------------------------------------------------ copying unseen words

SEEN, ALL = 14, 24  # words 4 to 13 are trained on, 14 to 23 are not


def copies(table: config.Table, updates: int = 120) -> float:
    """How many of the words never trained on a model copies, after training to copy others."""
    torch.manual_seed(0)
    model: Any = config.build(table, Model, Facts(ALL, ALL))
    optimizer, objective = torch.optim.Adam(model.parameters(), 1e-2), CrossEntropy()
    lengths = torch.full((16,), 2)
    for _ in range(updates):
        words = torch.randint(4, SEEN, (16, 1))
        pairs = Padded(torch.cat([words, torch.full_like(words, EOS)], 1), lengths)
        loss, _ = objective(model, Batch(pairs, pairs, torch.arange(16)))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    unseen = torch.arange(SEEN, ALL)[:, None]
    source = Padded(torch.cat([unseen, torch.full_like(unseen, EOS)], 1), torch.full((len(unseen),), 2))
    found = Greedy(4)(model.eval(), source)
    return sum(h.tokens == (word, EOS) for (h,), word in zip(found, unseen[:, 0].tolist(), strict=True)) / len(unseen)


@pytest.mark.slow
def test_it_copies_words_it_has_never_seen() -> None:
    plain = recurrent({"type": "luong", "attention": {"type": "global", "energy": "general"}}, cell="gru")
    pointing = {"type": "pointer", "decoder": plain["decoder"], "attention": {"type": "global", "energy": "general"}}
    assert copies(plain) == 0
    assert copies(plain | {"decoder": pointing}) >= 0.9
