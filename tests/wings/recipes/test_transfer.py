"""Parts of a model that start from different runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import transduce
from selection import mostly_slow
from transduce import api
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters
from transduce.models.weights import save_weights
from transduce.runs.ancestry import Init, Part, parents
from transduce.wings.adaptation.parts import Parts, Transfer

STACK = {"type": "transformer", "positions": "sinusoidal", "width": 8, "layers": 2, "heads": 2, "feedforward": 16}
MASKED = {"type": "tagger", "encoder": STACK}
LANGUAGE = {"type": "language-model", "decoder": STACK, "tie": "target"}
TRANSLATION = {"type": "encoder-decoder", "encoder": STACK, "decoder": STACK}


def known(source: str, target: str) -> Tokenizers:
    return Tokenizers(Characters().learn([source]), Characters().learn([target]))


def build(table: config.Table, tokenizers: Tokenizers) -> Any:
    return config.build(table, Model, tokenizers.facts, "model")


def run_of(table: config.Table, tokenizers: Tokenizers, folder: Path, value: float) -> Path:
    """A run directory whose parameters count upwards from ``value``, so that each number tells where it is from."""
    for place in ("tokenizers", "checkpoints/best"):
        (folder / place).mkdir(parents=True)
    tokenizers.save(folder / "tokenizers")
    units = {"joint": "characters"} if tokenizers.joint else {"source": "characters", "target": "characters"}
    (folder / "config.toml").write_text(
        config.write({"model": table, "search": {"type": "greedy"}, "data": {"units": units}})
    )
    model = build(table, tokenizers)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(value + torch.arange(parameter.numel()).view_as(parameter))
            value += parameter.numel()
    save_weights(model, folder / "checkpoints" / "best" / "model.safetensors")
    return folder


def saved(run: Path) -> dict[str, Tensor]:
    return load_file(run / "checkpoints" / "best" / "model.safetensors")


def hand_over(table: config.Table, tokenizers: Tokenizers, *parts: Part) -> tuple[dict[str, Tensor], Transfer]:
    model = build(table, tokenizers)
    told = Parts(parts).hand_over(model, table, tokenizers)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}, told


def test_encoder_and_decoder_start_from_two_runs(tmp_path: Path) -> None:
    both = known("abc", "abc")
    masked = run_of(MASKED, both, tmp_path / "masked", 1e3)
    language = run_of(LANGUAGE, both, tmp_path / "language", 1e5)
    found, told = hand_over(TRANSLATION, both, Part(masked, "encoder"), Part(language, "decoder"))
    for name, tensor in saved(masked).items():
        assert name.startswith("projection.") or torch.equal(found[name], tensor), name
    for name, tensor in saved(language).items():
        assert torch.equal(found[name], tensor), name
    assert torch.equal(found["decoder.projection.weight"], found["decoder.embedding.weight"]), "tied there, not here"
    assert set(told.parts[1].fresh) == {name for name in found if ".memory" in name}
    assert told.outside == []
    lines = told.lines()
    assert lines[0] == f"encoder starts from encoder of {masked} (best), with its vocabulary"
    assert any(line.startswith("  fresh: decoder.layers.0.memory") for line in lines)


def test_a_decoder_starts_from_an_encoder(tmp_path: Path) -> None:
    """As in XLM: other names, and the tied table of the new model has the name of another part."""
    masked = run_of(MASKED, known("abc", "abc"), tmp_path / "masked", 1e3)
    for tie in ("none", "all"):
        found, told = hand_over(TRANSLATION | {"tie": tie}, known("abc", "abc"), Part(masked, "decoder", "encoder"))
        old = saved(masked)
        assert torch.equal(
            found["decoder.layers.1.feedforward.widen.weight"], old["encoder.layers.1.feedforward.widen.weight"]
        )
        table = "encoder" if tie == "all" else "decoder"
        assert torch.equal(found[f"{table}.embedding.weight"], old["encoder.embedding.weight"])
        assert ("encoder.embedding.weight" in told.outside) is (tie == "none")
        assert told.lines()[-1].startswith("starts from no run: encoder")


def test_crossed_vocabularies_are_matched_by_token(tmp_path: Path) -> None:
    """Both runs have the same two vocabularies, and the decoder's is not the encoder's, although of one size."""
    masked = run_of(MASKED | {"target_vocabulary": 7}, known("abc", "bcd"), tmp_path / "masked", 1e3)
    found, told = hand_over(TRANSLATION, known("abc", "bcd"), Part(masked, "decoder", "encoder"))
    old, new = saved(masked)["encoder.embedding.weight"], found["decoder.embedding.weight"]
    assert told.parts[0].by_token["decoder.embedding.weight"] == (6, 7)
    for token, place in (("b", 0), ("c", 1)):
        there = known("abc", "bcd").source.tokens(range(7)).index(token)
        assert torch.equal(new[known("abc", "bcd").target.tokens(range(7)).index(token)], old[there]), place


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"into": "decodr"}, r'this model has no part "decodr"; did you mean "decoder"'),
        ({"into": "decoder", "part": "encodr"}, r'has no part "encodr"'),
        ({"into": "encoder.norm", "part": "encoder.layers.0.mixer"}, r"nothing of encoder.layers.0.mixer of .* fits"),
    ],
)
def test_parts_that_do_not_exist_or_fit_are_told(part: dict[str, str], message: str, tmp_path: Path) -> None:
    masked = run_of(MASKED, known("abc", "abc"), tmp_path / "masked", 1.0)
    with pytest.raises(UserError, match=message):
        hand_over(TRANSLATION, known("abc", "abc"), Part(masked, **part))


def test_a_start_is_a_run_or_parts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"both init\.run and init\.parts"):
        Init(tmp_path, parts=(Part(tmp_path, "encoder"),))
    with pytest.raises(UserError, match=r"neither init\.run nor init\.parts"):
        Init()
    with pytest.raises(UserError, match=r"into is empty"):
        Part(tmp_path, "")
    (named,) = parents(Init(parts=(Part(tmp_path / "a", "encoder", checkpoint="last"),)), None)
    assert (named.key, named.run, named.checkpoint) == ("init.parts.run", tmp_path / "a", "last")


# ------------------------------------------------------------------ whole runs


@pytest.fixture
def language(tmp_path: Path) -> Path:
    return run_of(LANGUAGE, known("", "abcé"), tmp_path / "language", 1.0)


def train(
    run: Path, tiny: dict[str, Any], resume: bool = False, third: str = "dab", **changes: Any
) -> transduce.Transducer:
    settings = {key: value for key, value in tiny.items() if not key.startswith(("model", "data.origin"))}
    still = {"training.optimizer": {"type": "adam", "rate": 0.0}, "training.steps": 1, "model": TRANSLATION}
    pairs = [("xy", "abc"), ("yx", "bca"), ("xz", third)]
    given = settings | still | changes
    return api.train(
        "reverse", run, given, pairs=None if resume else pairs, resume=resume, device="cpu", progress=False
    )


@pytest.mark.parametrize("vocabulary", mostly_slow(["keep", "extend", "own"], fast=["own"]))
def test_a_side_keeps_its_vocabulary(vocabulary: str, language: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    part = {"run": str(language), "into": "decoder", "vocabulary": vocabulary}
    changes = {"data.units": {"source": "characters", "target": "words"}, "init.parts": [part]}
    found = train(tmp_path / "run", tiny, **changes)
    assert set(found.tokenizers.source.entries[4:]) == set("xyz")
    expected = {"keep": set("abcéd"), "extend": set("abcéd"), "own": {"▁abc", "▁bca", "▁dab"}}[vocabulary]
    assert set(found.tokenizers.target.entries[4:]) - {" "} == expected
    shutil.rmtree(language)  # the same command, with --resume, needs neither the run nor its units
    again = train(tmp_path / "run", tiny, resume=True, **changes)
    assert again.tokenizers.fingerprints == found.tokenizers.fingerprints
    report = json.loads((tmp_path / "run" / "init.json").read_text())
    assert report["parts"][0]["init"]["run"] == str(language)
    assert all(name.startswith("encoder.") for name in report["fresh"])
    assert transduce.load(tmp_path / "run").settings["init"]["parts"][0]["into"] == "decoder"


def test_a_joint_vocabulary_is_kept_for_both_sides(language: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    part = {"run": str(language), "into": "decoder"}
    found = train(tmp_path / "run", tiny, **{"data.units": {"joint": "bytes"}, "init.parts": [part]})
    assert found.tokenizers.joint
    assert set(found.tokenizers.source.entries[4:]) - {" "} == set("abcédxyz"), "the targets have a new token"
    found = train(tmp_path / "as it is", tiny, third="cab", **{"data.units": {"joint": "bytes"}, "init.parts": [part]})
    assert set(found.tokenizers.source.entries[4:]) - {" "} == set("abcé")


def test_runs_that_do_not_agree_are_refused(language: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    other = run_of(MASKED, known("xyz", "xyz"), tmp_path / "masked", 1.0)
    parts = [{"run": str(other), "into": "encoder"}, {"run": str(language), "into": "decoder"}]
    for changes, message in (
        ({"data.units": {"joint": "characters"}, "init.parts": parts}, "different vocabularies, and data.units.joint"),
        (
            {"data.units": {"target": "characters"}, "init.parts": [parts[0] | {"into": "decoder"}, parts[1]]},
            "different vocabularies for the target",
        ),
        ({"data.units": {"target": "characters"}, "init.parts": parts}, "encoder keeps the vocabulary of .*no source"),
    ):
        with pytest.raises(UserError, match=message):
            train(tmp_path / "run", tiny, **changes)


@pytest.mark.parametrize("fusion", ["cold", "deep"])
def test_a_fused_decoder_takes_a_language_model_and_never_changes_it(
    fusion: str, language: Path, tiny: dict[str, Any], tmp_path: Path
) -> None:
    decoder = {"type": "fused", "fusion": fusion, "decoder": STACK, "language": STACK}
    part = {"run": str(language), "into": "decoder.language", "part": "decoder"}
    changes = {"data.units": {"source": "characters", "target": "words"}, "init.parts": [part]}
    changes |= {"model": TRANSLATION | {"decoder": decoder}, "training.optimizer": {"type": "adam", "rate": 0.01}}
    found = train(tmp_path / "run", tiny, third="cab", **changes)
    new = saved(tmp_path / "run")
    for name, tensor in saved(language).items():
        assert torch.equal(new[name.replace("decoder.", "decoder.language.", 1)], tensor), name
    assert set(found.tokenizers.target.entries[4:]) - {" "} == set("abcé")
    assert isinstance(found("xy"), str)
