"""Exports to Hugging Face's Marian: transformers loads them, and finds the same beams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_importing import KINDS, LONGEST, TEXTS, model, opus, tokens_of
from torch.testing import assert_close

import transduce
from selection import mostly_slow
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import Facts
from transduce.models.weights import load_tensors
from transduce.wings.engines.export import marian as writing
from transduce.wings.engines.export.checked_export import export_run
from transduce.wings.engines.importing.run import import_run

__all__ = ["model"]
STACK = {"type": "transformer", "positions": "sinusoidal", "width": 8, "layers": 1, "heads": 2, "norm": "post"}


@pytest.mark.parametrize("kind", mostly_slow(["OPUS-MT", "apart", "untied"], fast=["apart"]))
def test_an_import_survives_the_way_back(kind: str, model: Path, tmp_path: Path) -> None:
    """A checkpoint that is exported and imported again has the same numbers, and transformers finds the same beams."""
    from transformers import MarianMTModel

    target = [*tokens_of(model)[:2], *tokens_of(model)[-2:1:-1], "<pad>"] if kind == "apart" else None
    opus(tmp_path / "opus", model, seed=2, target=target, **KINDS[kind])
    import_run(tmp_path / "opus", tmp_path / "run")
    folder, parity = export_run(tmp_path / "run", "marian", sources=TEXTS)
    assert "4 of 4 outputs are equal" in str(parity)
    import_run(folder, tmp_path / "again")
    weights = [load_tensors(tmp_path / name / "checkpoints/best/model.safetensors") for name in ("run", "again")]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert_close(tensor, weights[1][name], rtol=0, atol=1e-6)
    ours = transduce.load(tmp_path / "run", settings={"search.nbest": 3})
    theirs: Any = MarianMTModel.from_pretrained(folder, local_files_only=True)
    for text in TEXTS:
        row = torch.tensor(ours.source_tokenizer.encode([text]))
        mine = [list(output.ids) for output in next(ours.predict([text]))]
        beams = [found[1 : found.index(2) + 1] for found in theirs.generate(row, num_return_sequences=3).tolist()]
        if max(map(len, [*mine, *beams])) < LONGEST:
            assert mine == beams


def barely_trained(run: Path, *changes: str) -> None:
    """Trains a small Transformer with post-norm for one update."""
    pairs = [(f"ab c{'d' * (i % 3)}", f"x{'y' * (i % 2)} z") for i in range(30)]
    stacks = [f"model.{side}.{key}" for side in ("encoder", "decoder") for key in ("norm='post'", "width=8")]
    settings = ["training.steps=1", *changes, *stacks]
    transduce.train("translation-transformer", run, settings=settings, pairs=pairs, progress=False)


@pytest.mark.slow
def test_transformers_reads_the_tokenizers(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, MarianMTModel

    barely_trained(tmp_path / "run", "data.units={source='bpe', target='characters'}", "model.tie='target'")
    folder, _ = export_run(tmp_path / "run", "marian")
    ours = transduce.load(tmp_path / "run")
    for side, tokenizer in (("source", ours.source_tokenizer), ("target", ours.target_tokenizer)):
        theirs = AutoTokenizer.from_pretrained(folder / side, local_files_only=True)
        for text in ("ab cd", "x z", ""):
            assert theirs(text).input_ids == tokenizer.encode([text])[0]
    theirs_model: Any = MarianMTModel.from_pretrained(folder, local_files_only=True)
    assert theirs_model.generation_config.num_beams == ours.settings["search"]["size"]
    assert theirs_model.generation_config.max_length == ours.settings["search"]["max_length"] + 1
    with pytest.raises(UserError, match="load it with MarianMTModel"):
        transduce.load(folder)


@pytest.mark.slow
def test_embeddings_that_share_no_readout_are_exported(tmp_path: Path) -> None:
    barely_trained(tmp_path / "run", "data.units={joint='characters'}", "model.tie='embeddings'")
    for engine in ("marian", "native"):
        _, parity = export_run(tmp_path / "run", engine, sources=["ab", "cd ab"])
        assert "2 of 2 outputs are equal" in str(parity)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("encoder.norm='pre'", "encoder.norm = 'pre'"),
        ("decoder.norm={type='post', kind='rms'}", "decoder.norm.kind = 'rms'"),
        ("encoder.positions='learned'", "encoder.positions = 'learned'"),
        ("encoder.positions={type='sinusoidal', exponents='inclusive'}", "encoder.positions.exponents = 'inclusive'"),
        ("decoder.feedforward={type='plain', hidden=8, activation='gelu'}", "decoder.feedforward.activation = 'gelu'"),
        ("decoder.feedforward={type='gated', hidden=8}", "decoder.feedforward = 'gated'"),
        ("encoder.mixer={type='attention', relative='rotary'}", "encoder.mixer.relative = 'rotary'"),
        ("encoder.width=16", "decoder.width = 8"),
    ],
)
def test_other_transformers_are_refused(change: str, message: str) -> None:
    table = config.change(
        {"model": {"type": "encoder-decoder", "encoder": STACK, "decoder": STACK}}, [f"model.{change}"]
    )
    settings = config.resolve(table["model"], Model, Facts(9, 9), "model")
    with pytest.raises(UserError, match=message):
        writing._check(settings)


def test_a_wrong_export_is_not_kept(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opus(tmp_path / "opus", model, seed=2)
    import_run(tmp_path / "opus", tmp_path / "run")
    monkeypatch.setattr(writing, "feature_order", torch.arange)
    with pytest.raises(UserError, match="does not compute what PyTorch does"):
        export_run(tmp_path / "run", "marian", sources=TEXTS)
    assert not (tmp_path / "run" / "exports").exists() or not any((tmp_path / "run" / "exports").iterdir())
    with pytest.raises(UserError, match="float32 numbers"):
        export_run(tmp_path / "run", "marian", sources=TEXTS, precision="int8")
