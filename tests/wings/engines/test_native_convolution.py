"""ConvS2S in our own engine: it writes what PyTorch writes, and a row does not depend on its company."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_native import opened, written

from continuously import search_continuously
from families import FAMILIES, sources
from libraries import needs_library, usable
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.wings.engines.native.opening import read_model

SEARCHES = (Greedy(max_length=12), Beam(size=3, nbest=2, max_length=12))


def convs2s(positions: object = "sinusoidal", kernel: int = 3) -> config.Table:
    """A ConvS2S model whose matrices have more than one panel of outputs."""
    stack = {"type": "convs2s", "embedding_width": 20, "width": 36, "layers": 2, "positions": positions}
    return {"type": "encoder-decoder", "encoder": stack | {"kernel": 5}, "decoder": stack | {"kernel": kernel}}


def reading(encoder: str, decoder: str) -> config.Table:
    """The encoder of one model with the decoder of another."""
    tables = {"convs2s": convs2s(), "transformer": FAMILIES["transformer, pre-norm"]}
    table: config.Table = {"type": "encoder-decoder", "encoder": tables[encoder]["encoder"]}
    width = tables[encoder]["encoder"].get("embedding_width", 8)
    part = "embedding_width" if decoder == "convs2s" else "width"
    return table | {"decoder": tables[decoder]["decoder"] | {part: width}}


MODELS = {
    "sinusoidal": convs2s(),
    "learned": convs2s({"type": "learned", "length": 30}),
    "a kernel of one, without positions": convs2s("none", 1),
    "convs2s reads a transformer": reading("transformer", "convs2s"),
    "a transformer reads convs2s": reading("convs2s", "transformer"),
}


@needs_library
@pytest.mark.parametrize("name", MODELS)
def test_it_finds_and_scores_what_pytorch_does(name: str, tmp_path: Path) -> None:
    model, exported = opened(MODELS[name], tmp_path, "float32")
    source = sources([5, 9, 2, 4])
    for search in SEARCHES:
        ours, theirs = search(model, source), search(exported, source)
        assert [[h.tokens for h in each] for each in ours] == [[h.tokens for h in each] for each in theirs]
        target = Padded.of([each[0].tokens for each in ours])
        for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
            assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)


@needs_library
def test_int8_is_near_pytorch(tmp_path: Path) -> None:
    model, exported = opened(convs2s(), tmp_path, "int8")
    source, search = sources([5, 9, 2, 4]), Greedy(max_length=8)
    target = Padded.of([each[0].tokens for each in search(model, source)])
    for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
        assert one.log_prob != two.log_prob
        assert np.abs(np.subtract(one.token_log_probs, two.token_log_probs)).max() < 0.2


@needs_library
@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_a_sentence_has_the_same_output_in_every_company(precision: str, tmp_path: Path) -> None:
    """As for Transformers: bit for bit, and with 8-bit integers in all variants."""
    _, notes = written(convs2s(), tmp_path, precision)
    exported, *others = (read_model(functions, tmp_path, notes) for functions in usable())
    lengths = [3, 11, 5, 1, 8, 2, 14, 6, 4, 9, 7] * 2
    rows = [row[:length].tolist() for row, length in zip(sources(lengths).values, lengths, strict=True)]
    for search in (Greedy(max_length=15), Beam(size=5, nbest=3, max_length=15)):
        alone = [search(exported, Padded.of([row]))[0] for row in rows]
        assert search(exported, Padded.of(rows)) == alone
        for model in [exported] if precision == "float32" else [exported, *others]:
            staggered = dict(search_continuously(search, model, rows, 4, lambda some: (Padded.of(some), None)))
            assert [staggered[row] for row in range(len(rows))] == alone


@needs_library
def test_a_step_leaves_the_state_before_it_as_it_was(tmp_path: Path) -> None:
    _, exported = opened(convs2s(), tmp_path, "float32")
    state = exported.start(sources([5, 3]))
    first, after = exported.extend(sources([2, 2]).values[:, :1], state)
    again, _ = exported.extend(sources([2, 2]).values[:, :1], state)
    assert (first == again).all()
    assert not (after.past_NLPD == state.past_NLPD).all()


@needs_library
def test_it_refuses_ids_and_positions_that_it_has_not(tmp_path: Path) -> None:
    _, exported = opened(MODELS["learned"], tmp_path, "int8")
    with pytest.raises(UserError, match="id 999 is outside an embedding"):
        exported.start(Padded.of([[4, 999]]))
    state = exported.start(Padded.of([[4, 5]]))
    with pytest.raises(UserError, match="id 11 is outside an embedding"):
        exported.extend(Padded.of([[11]]).values, state)
    with pytest.raises(UserError, match="the export has positions 0 to 29 only"):
        exported.extend(Padded.of([[4] * 31]).values, state)
    with pytest.raises(UserError, match="a text of 31 tokens or more"):
        exported.start(Padded.of([[4] * 31]))
