"""Relative positions, gates, RMS norms and convolutions of Transformers in our own engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_native import opened, written

from families import FAMILIES, relating, sources, stacked
from libraries import needs_library, usable
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.wings.engines.native.opening import read_model

SHAW = {"mixer": relating("shaw")}
MODELS = {
    "rotary, gated, rms": FAMILIES["transformer, rotary, gated, rms"],
    "t5 and alibi": FAMILIES["transformer, t5 and alibi"],
    "shaw": stacked(SHAW, SHAW),
    "lightweight and dynamic": FAMILIES["transformer, lightweight and dynamic"],
}


def wider(table: config.Table) -> config.Table:
    """Wide enough for more than one panel of outputs."""
    return table | {side: table[side] | {"width": 36} for side in ("encoder", "decoder")}


@needs_library
@pytest.mark.parametrize("name", MODELS)
def test_it_finds_and_scores_what_pytorch_does(name: str, tmp_path: Path) -> None:
    model, exported = opened(wider(MODELS[name]), tmp_path, "float32")
    source = sources([5, 30, 2, 4])  # longer than the distances of Shaw
    for search in (Greedy(max_length=24), Beam(size=3, nbest=2, max_length=24)):
        ours, theirs = search(model, source), search(exported, source)
        assert [[h.tokens for h in each] for each in ours] == [[h.tokens for h in each] for each in theirs]
        target = Padded.of([each[0].tokens for each in ours])
        for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
            assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)
    target = sources([22, 3, 9, 20])  # targets that the model need not find
    for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
        assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)


@needs_library
@pytest.mark.parametrize("name", MODELS)
def test_a_sentence_has_the_same_output_in_every_company_and_variant(name: str, tmp_path: Path) -> None:
    _, notes = written(wider(MODELS[name]), tmp_path, "int8")
    exported, *others = (read_model(functions, tmp_path, notes) for functions in usable())
    lengths = [3, 11, 5, 1, 8, 2, 24] * 3
    rows = [row[:length].tolist() for row, length in zip(sources(lengths).values, lengths, strict=True)]
    search = Beam(size=4, nbest=2, max_length=12)
    alone = [search(exported, Padded.of([row]))[0] for row in rows]
    for model in (exported, *others):
        assert search(model, Padded.of(rows)) == alone


@needs_library
def test_rotary_positions_end_with_their_table(tmp_path: Path) -> None:
    _, exported = opened(MODELS["rotary, gated, rms"], tmp_path, "float32")
    with pytest.raises(UserError, match="the export has positions 0 to 2047 only"):
        exported.start(Padded.of([[4] * 2049]))
