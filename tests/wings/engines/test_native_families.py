"""Our own engine's families of models: each finds and scores what PyTorch does, alone and in company, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_export import EVERY
from test_native import opened, written

from continuously import search_continuously
from families import FAMILIES, INSTANT, attending, convs2s, ctc, facts, recurrent, sources
from libraries import needs_library, usable
from selection import mostly_slow
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import Padded
from transduce.runs.manifest import Manifest
from transduce.search.base import Continuous
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.wings.ctc.search.best_path import BestPath
from transduce.wings.ctc.search.prefix_beam import PrefixBeam
from transduce.wings.engines.export.native import write_native
from transduce.wings.engines.native.opening import native_model, open_native, read_model
from transduce.wings.labels.search import LabelSearch
from transduce.wings.labels.viterbi import Viterbi

pytestmark = needs_library

TABLES: dict[str, config.Table] = {
    **EVERY,
    "bahdanau, peepholes, residual": recurrent(attending("bahdanau", "dot"), "lstm-peephole", residual=True),
    "luong, elman of sigmoids": recurrent(
        attending("luong", "general"), {"type": "elman", "activation": "sigmoid"}, direction="forward"
    ),
    "classifier, convs2s, mean": {"type": "classifier", "encoder": convs2s()["encoder"], "pooling": "mean"},
    "classifier, lstm, max": {"type": "classifier", "encoder": recurrent("plain")["encoder"], "pooling": "max"},
    "recurrent with counts": {
        "type": "with-counts",
        "model": recurrent(attending("luong", "dot")),
        "counted": {"type": "joint-ngram", "order": 3, "escape": 1e-2},
    },
}
RECURRENT = [
    "gru, no attention",
    "lstm, copied state, no attention",
    "bahdanau, additive",
    "bahdanau, gru, no bridge",
    "bahdanau, peepholes, residual",
    "bahdanau, no input gate",
    "luong, general",
    "luong, dot",
    "luong, gru, scaled dot, fed",
    "luong, additive, fed",
    "luong, elman of sigmoids",
    "luong, ssru, residual",
    "elman, reversed source, no attention",
    "transformer to recurrent",
    "recurrent with counts",
]
LANGUAGE = [
    "language model, gru, no attention",
    "language model, transformer, no attention",
    "language model, convs2s, no attention",
]
EDITS = ["edits", "edits, two layers, no copies", "seeds of edits", "edits with counts"]
MIXTURES = ["ensemble", "fusion", "fusion, not renormalised"]
FRAMEWISE = ["ctc, lstm, no attention", "ctc, transformer, no attention", "ctc and attention"]
LABELS = ["tagger, lstm", "classifier, gru, last state", "classifier, convs2s, mean", "classifier, lstm, max"]
AT_ONCE = ["instant, transformer, tied", "instant, gru to mixed layers, post-norm"]
CHAINED = ["crf, lstm", "two chains"]
EVERY_KIND = [*RECURRENT, *LANGUAGE, *EDITS, *MIXTURES, *CHAINED, *FRAMEWISE, *LABELS, *AT_ONCE]
FAST = [
    "bahdanau, peepholes, residual",
    "bahdanau, no input gate",
    "luong, gru, scaled dot, fed",
    "luong, ssru, residual",
]
FAST += ["luong, elman of sigmoids", "luong, additive, fed", "recurrent with counts", "ctc and attention", *LABELS]
FAST += [*AT_ONCE, *LANGUAGE[1:], "edits", "seeds of edits", "fusion, not renormalised", "two chains"]


def searches(table: config.Table) -> list[Any]:
    if table["type"] in ("tagger", "classifier"):
        return [LabelSearch()]
    if table["type"] in ("crf", "chain-fusion"):
        return [Viterbi()]
    if table["type"] == "instant":
        return [LengthBeam(), LengthBeam(size=3, nbest=2)]
    frames = [BestPath(), PrefixBeam(size=3)] if "ctc" in str(table["type"]) else []
    return [Greedy(max_length=12), Beam(size=3, nbest=2, max_length=12), *frames]


@pytest.mark.parametrize("family", mostly_slow(EVERY_KIND, fast=FAST))
def test_it_finds_and_scores_what_pytorch_does(family: str, tmp_path: Path) -> None:
    model, exported = opened(TABLES[family], tmp_path, "float32")
    source = sources([5, 9, 2, 4])
    for search in searches(TABLES[family]):
        ours, theirs = search(model, source), search(exported, source)
        assert [[h.tokens for h in each] for each in ours] == [[h.tokens for h in each] for each in theirs]
        target = Padded.of([each[0].tokens for each in ours])
        for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
            assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)


@pytest.mark.parametrize("family", mostly_slow(EVERY_KIND, fast=["bahdanau, no input gate"]))
def test_int8_is_near_pytorch(family: str, tmp_path: Path) -> None:
    model, exported = opened(TABLES[family], tmp_path, "int8")
    source, search = sources([5, 9, 2, 4]), searches(TABLES[family])[0]
    target = Padded.of([each[0].tokens for each in search(model, source)])
    for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
        assert one.log_prob != two.log_prob
        assert np.abs(np.subtract(one.token_log_probs, two.token_log_probs)).max() < 0.5


def wide(wiring: object, cell: str) -> config.Table:
    """A recurrent model whose matrices have more than one panel of outputs."""
    table = recurrent(wiring, cell)
    sizes = {"embedding_width": 20, "width": 36}
    return table | {side: {**table[side], **sizes} for side in ("encoder", "decoder")}


WIDE: dict[str, tuple[config.Table, Any]] = {
    "lstm": (wide(attending("luong", "additive", input_feeding=True), "lstm"), Beam(size=5, nbest=2, max_length=8)),
    "gru": (wide(attending("bahdanau", "general"), "gru"), Greedy(max_length=8)),
    "counts": (TABLES["recurrent with counts"], Beam(size=3, max_length=8)),
    "edits": (TABLES["seeds of edits"], Beam(size=3, max_length=8)),
    "instant": (
        TABLES["instant, gru to mixed layers, post-norm"]
        | {"decoder": INSTANT | {"max_length": 6, "width": 32, "feedforward": 40}},
        LengthBeam(size=3, nbest=2),
    ),
}
MANY = [3, 11, 5, 1, 8, 2, 4] * 8  # lengths of more sentences than an encoder reads together


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_a_sentence_has_the_same_output_in_every_company(name: str, precision: str, tmp_path: Path) -> None:
    """The outputs of a sentence are bit for bit the same in every batch. The batches have more sentences than a group
    and more rows than a block. They also mix sentences at different time steps, and hypotheses move in the beam.
    All variants find the same outputs in int8.
    """
    table, search = WIDE[name]
    _, notes = written(table, tmp_path, precision)
    exported, *others = (read_model(functions, tmp_path, notes) for functions in usable())
    rows = [row[:length].tolist() for row, length in zip(sources(MANY).values, MANY, strict=True)]
    alone = [search(exported, Padded.of([row]))[0] for row in rows[:7]]
    for model in [exported] if precision == "float32" else [exported, *others]:
        assert search(model, Padded.of(rows))[:7] == alone
    if not isinstance(search, Continuous):
        return
    staggered = dict(search_continuously(search, exported, rows[:7], 3, lambda some: (Padded.of(some), None)))
    assert [staggered[row] for row in range(7)] == alone


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_frames_are_the_same_in_every_company(precision: str, tmp_path: Path) -> None:
    _, notes = written(ctc(wide("plain", "lstm")["encoder"]), tmp_path, precision)
    exported, *others = (read_model(functions, tmp_path, notes) for functions in usable())
    every = exported.frames(sources(MANY))
    for row, length in enumerate(MANY[:7]):
        alone = exported.frames(Padded(sources(MANY).values[row : row + 1, :length], torch.tensor([length])))
        assert torch.equal(every.values[row, : 3 * length], alone.values[0])
    for other in others if precision == "int8" else []:
        assert torch.equal(other.frames(sources(MANY)).values, every.values)


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("bahdanau, mut1, residual", "model.encoder.cell = 'mut1': the native engine runs 'lstm' or 'gru' or"),
        ("luong, layer norm, fed", "model.encoder.cell = 'lstm-layer-norm'"),
        ("bahdanau, location", "model.decoder.wiring.attention = 'location'"),
        ("context, no attention", "model.decoder.wiring = 'context'"),
        ("recurrent of columns", "model.encoder.embedding = 'columns'"),
        ("language model, mixed, no attention", "model.decoder.mixer = 'recurrent'"),
        ("classifier, transformer, attention", "model.pooling = 'attention'"),
        ("pointer over recurrent", "model.decoder.type = 'pointer'"),
        ("instant, lstm to dense", "model.decoder.type = 'dense': the native engine runs 'transformer' here"),
        ("hmm", "model.type = 'hmm'"),
    ],
)
def test_it_refuses_other_models_by_their_setting(family: str, setting: str, tmp_path: Path) -> None:
    table = config.resolve(EVERY[family], Model, facts(EVERY[family]), "model")
    with pytest.raises(UserError, match=setting):
        write_native(None, table, tmp_path)


def test_it_names_the_model_of_a_mixture_that_it_refuses(tmp_path: Path) -> None:
    table: config.Table = {"type": "ensemble", "models": [EVERY["luong, general"], EVERY["pointer over recurrent"]]}
    with pytest.raises(UserError, match=r"model\.models\[1\]\.decoder\.type = 'pointer': the native engine runs"):
        write_native(None, config.resolve(table, Model, facts(table), "model"), tmp_path)


def test_a_mixture_without_counts_is_the_trained_model_alone() -> None:
    table = TABLES["recurrent with counts"]
    uncounted: Any = config.build(table, Model, facts(table), "model").eval()
    settings = config.resolve(table, Model, facts(table), "model")
    source, search = sources([5, 9, 2, 4]), Greedy(max_length=8)
    expected = search(uncounted.models[0], source)
    found = search(native_model(uncounted, settings), source)
    assert [each[0].tokens for each in found] == [each[0].tokens for each in expected]


def test_it_refuses_ids_that_it_has_not(tmp_path: Path) -> None:
    _, exported = opened(FAMILIES["luong, general"], tmp_path, "int8")
    with pytest.raises(UserError, match="id 999 is outside an embedding"):
        exported.start(Padded.of([[4, 999]]))
    with pytest.raises(UserError, match="id -1 is outside an embedding"):
        exported.extend(torch.tensor([[-1]]), exported.start(Padded.of([[4, 5]])))


def test_it_refuses_an_export_of_another_version(tmp_path: Path) -> None:
    _, notes = written(FAMILIES["luong, general"], tmp_path, "float32")
    older = notes | {"decoder": {key: value for key, value in notes["decoder"].items() if key != "bridge"}}
    with pytest.raises(UserError, match=r"has no 'bridge': another version of transduce.*export the run again"):
        open_native(tmp_path, Manifest("native", "float32", "", "", older))
    with pytest.raises(UserError, match=r"is an export of a 'transformer'.*export the run again"):
        open_native(tmp_path, Manifest("native", "float32", "", "", notes | {"model": "transformer"}))
