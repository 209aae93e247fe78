"""A text as one long document: chunks, the state that is carried from chunk to chunk, and its checkpoints."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_cli import told
from test_resume import At, KilledError, kill
from torch import Tensor
from torch.testing import assert_close

from families import build, convs2s, language, recurrent, stacked, targets, transformer
from transduce import api
from transduce.core import config
from transduce.core.registry import NAMES
from transduce.core.types import BOS, EOS, Batch
from transduce.data.batching import Place
from transduce.data.corpora import DataError
from transduce.data.pairs import Ragged
from transduce.data.streams import StreamBatches, Streams
from transduce.objectives.cross_entropy import CrossEntropy


def text(lengths: list[int]) -> Ragged:
    """Lines of these lengths, EOS included, of random words."""
    words = targets(1, sum(lengths))[0].numpy()
    words[np.cumsum(lengths) - 1] = EOS
    return Ragged(words, np.cumsum([0, *lengths]))


def joined(batches: list[Batch]) -> Tensor:
    return torch.cat([batch.target.values for batch in batches], 1)


TEXT = text([3, 1, 6, 2, 7, 4])  # 23 tokens

# ----------------------------------------------------------------------- data


def test_each_row_reads_its_part_of_the_text_in_order() -> None:
    feed = StreamBatches(TEXT, Streams(rows=2, length=4))
    batches = [batch for batch, _ in islice(feed.iterate(Place()), feed.per_epoch)]
    assert feed.per_epoch == 3
    assert [batch.target.values.shape[1] for batch in batches] == [4, 4, 3]
    assert joined(batches).tolist() == [TEXT.ids[:11].tolist(), TEXT.ids[11:22].tolist()]
    history = [batch.chunk.history[:, 0].tolist() for batch in batches if batch.chunk]
    assert history == [[BOS, TEXT.ids[10]], [TEXT.ids[3], TEXT.ids[14]], [TEXT.ids[7], TEXT.ids[18]]]
    assert [batch.chunk.continues for batch in batches if batch.chunk] == [False, True, True]


def test_the_place_after_a_batch_is_where_the_next_one_is() -> None:
    feed = StreamBatches(TEXT, Streams(rows=2, length=4))
    whole = list(islice(feed.iterate(Place()), 7))
    assert [place for _, place in whole][2:4] == [Place(0, 3), Place(1, 1)]
    for number, (_, place) in enumerate(whole[:-1], 1):
        batch, after = next(feed.iterate(place))
        assert after == whole[number][1]
        assert torch.equal(batch.target.values, whole[number][0].target.values)
    with pytest.raises(DataError, match="batch 9 of an epoch of 3"):
        next(feed.iterate(Place(0, 9)))


def test_tokens_are_read_again_only_within_a_stream() -> None:
    feed = StreamBatches(TEXT, Streams(rows=2, length=4, carry=False, context=5))
    for number, width in enumerate((1, 5, 6)):
        chunk = feed.batch(number).chunk
        assert chunk is not None
        assert (chunk.continues, chunk.carried) == (False, False)
        first = 11 + 4 * number
        assert chunk.history[1].tolist() == TEXT.ids[first - width : first].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "streams.rows = 0: at least 1"),
        ({"length": 0}, "streams.length = 0: at least 1"),
        ({"context": -1, "carry": False}, "streams.context = -1: at least 0"),
        ({"context": 3}, "streams.context = 3: a model that carries its state does not read tokens again"),
        ({"rows": 24}, "streams.rows = 24: the text has only 23 tokens"),
    ],
)
def test_streams_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        StreamBatches(TEXT, Streams(**options))


# ------------------------------------------------------------------------ law

CELLS = {name: {"type": name, "gate": "forget"} if name == "lstm-without" else name for name in NAMES["Cell"]}
CARRYING = {
    **{name: language(recurrent("plain", cell=cell, bridge="zero")["decoder"]) for name, cell in CELLS.items()},
    "residual": language(recurrent("plain", bridge="zero", residual=True)["decoder"]),
    "convs2s": language(convs2s()["decoder"] | {"positions": "none"}),
    "lightweight": language(stacked({}, {"mixer": {"type": "lightweight", "kernel": 3}})["decoder"]),
    "dynamic": language(stacked({}, {"mixer": {"type": "dynamic", "kernel": 3}})["decoder"]),
    "recurrent mixer": language(stacked({}, {"mixer": {"type": "recurrent", "cell": "ssru"}})["decoder"]),
}


def whole_loss(model: Any, batch: Batch) -> Tensor:
    """The negative log-likelihood of a text's streams in one pass."""
    target_BT = batch.target.values
    assert batch.chunk is not None
    read_BT = torch.cat([batch.chunk.history, target_BT[:, :-1]], 1)
    read_BT = torch.where(read_BT == EOS, BOS, read_BT)
    output, _ = model.extend(read_BT, model.start(batch.source))
    return -model.readout(output).log_softmax(-1).gather(2, target_BT[..., None]).sum()


@pytest.mark.parametrize("name", CARRYING)
def test_chunks_with_a_carried_state_are_one_long_pass(name: str) -> None:
    model, objective = build(CARRYING[name]), CrossEntropy()
    expected = whole_loss(model, StreamBatches(TEXT, Streams(rows=2, length=11)).batch(0))
    for length in (1, 4, 5):
        total, carry = torch.zeros((), dtype=torch.float64), None
        feed = StreamBatches(TEXT, Streams(rows=2, length=length))
        for number in range(feed.per_epoch):
            loss, carry = objective(model, feed.batch(number), 0.0, carry)
            total = total + loss.total
            assert carry is not None
            assert not any(leaf.requires_grad for leaf in carry)
        assert_close(total, expected, rtol=1e-9, atol=1e-9)
    again, _ = objective(model, feed.batch(0), 0.0, carry)  # a new epoch begins anew
    assert_close(again.total, objective(model, feed.batch(0))[0].total)


@pytest.mark.parametrize("relative", ["none", "rotary", "alibi"])
def test_a_transformer_that_reads_all_tokens_again_is_one_long_pass(relative: str) -> None:
    mixer = {"type": "attention", "relative": relative}
    model = build(language(transformer()["decoder"] | {"mixer": mixer}))
    expected = whole_loss(model, StreamBatches(TEXT, Streams(rows=2, length=11)).batch(0))
    feed = StreamBatches(TEXT, Streams(rows=2, length=4, carry=False, context=100))
    losses = [CrossEntropy()(model, feed.batch(number)) for number in range(feed.per_epoch)]
    assert_close(torch.stack([loss.total for loss, _ in losses]).sum(), expected)
    assert all(carry is None for _, carry in losses)
    with pytest.raises(ValueError, match=r"streams\.carry: the state of this model grows"):
        CrossEntropy()(model, StreamBatches(TEXT, Streams(rows=2)).batch(0))


def test_a_carried_state_of_other_rows_is_refused() -> None:
    model = build(CARRYING["gru"])
    _, carry = CrossEntropy()(model, StreamBatches(TEXT, Streams(rows=2, length=4)).batch(0))
    other = StreamBatches(TEXT, Streams(rows=3, length=4)).batch(1)
    with pytest.raises(ValueError, match=r"has 2 rows, and the batch 3: training\.streams\.rows"):
        CrossEntropy()(model, other, 0.0, carry)
    with pytest.raises(ValueError, match="no carried state"):
        CrossEntropy()(model, other)


# ------------------------------------------------------------------- training

SETTINGS: dict[str, Any] = {
    "metrics": ["perplexity"],
    "data": {"units": {"target": "characters"}},
    "model": language(recurrent("plain", bridge="zero")["decoder"] | {"dropout": 0.2}),
    "training": {
        "steps": 12,
        "precision": "float32",
        "streams": {"rows": 3, "length": 7},
        "optimizer": {"type": "adam", "rate": 0.01},
        "checkpoint_every": 2,
        "validation": {"every": 4},
    },
}
PAIRS = [("", line) for line in ["abab", "ab", "babab", "aab", "bbab"] * 24]  # 100 tokens in each stream


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "text.toml").write_text(config.write(SETTINGS))
    return tmp_path / "text.toml"


def train(recipe: Path, run: Path, *callbacks: Any, resume: bool = False, **changes: Any) -> None:
    own = None if resume else PAIRS
    api.train(recipe, run, changes, own, resume, callbacks=callbacks, device="cpu", progress=False)


def test_a_run_killed_in_the_middle_of_a_document_ends_in_the_same_bytes(recipe: Path, tmp_path: Path) -> None:
    train(recipe, tmp_path / "whole")
    with pytest.raises(KilledError):
        train(recipe, tmp_path / "run", At(7, kill))
    train(recipe, tmp_path / "run", resume=True)
    for name in ("last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"):
        mine, whole = (tmp_path / run / "checkpoints" / name for run in ("run", "whole"))
        assert mine.read_bytes() == whole.read_bytes(), name


def test_a_text_without_a_line_is_one_line_of_error(recipe: Path, tmp_path: Path, call: Any) -> None:
    (tmp_path / "empty.txt").write_text("")
    said = told(call("train", recipe, "--out", tmp_path / "run", "--set", f"data.train.path={tmp_path / 'empty.txt'}"))
    assert "empty.txt) has no lines: name a file that has text" in said
