"""Starting from another run: which weights are taken over, which are frozen, and the report."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from test_resume import At, KilledError, Report, kill, same_bytes
from torch import Tensor

import transduce
from families import FAMILIES, transformer
from selection import mostly_slow
from transduce import api
from transduce.core import config, registry
from transduce.core.errors import DataError, UserError
from transduce.core.protocols import Model
from transduce.data.preparation import Tokenizers
from transduce.data.settings import Data, Units
from transduce.data.tokenizers.text import Characters
from transduce.models.weights import save_weights, summarise
from transduce.training.callbacks import Callback, Update
from transduce.training.inheritance import Inheritance, Predecessor
from transduce.training.optimization import freeze
from transduce.training.settings import Init

PAIRS = [("abc", "cba"), ("bé", "éb"), ("cü", "üc"), ("aé", "éa"), ("bca", "acb")]
KNOWN = [("abc", "cba"), ("bca", "acb"), ("ba", "ab")]
STILL = {"training.optimizer": {"type": "adam", "rate": 0.0}, "training.steps": 1, "training.average": 1}
"""Training that changes nothing: the saved weights are the initial weights."""
GROWING = pytest.mark.skipif(
    not registry.has(registry.SERVICES["parts of tokens"]), reason="vocabularies grow by the wing adaptation"
)


def train(run: Path, settings: dict[str, Any], *callbacks: Callback, **options: Any) -> transduce.Transducer:
    if "pairs" in options:  # they replace the data that the recipe makes
        settings = {key: value for key, value in settings.items() if key != "data.origin"}
    return api.train("reverse", run, settings, callbacks=callbacks, device="cpu", progress=False, **options)


def saved(run: Path, name: str = "last") -> dict[str, Tensor]:
    return load_file(run / "checkpoints" / name / "model.safetensors")


def record(run: Path) -> Any:
    return json.loads((run / "init.json").read_text())


# ------------------------------------------------------------------ whole runs


class FirstLoss(Callback):
    def on_update(self, update: Update) -> None:
        self.nll = update.nll


def test_the_first_loss_is_that_of_the_old_model(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    pairs = [("abcd", "dcba"), ("bb", "bb"), ("cad", "dac")]
    plain = {"training.steps": 1, "model.encoder.dropout": 0.0, "model.decoder.dropout": 0.0}
    first, report = FirstLoss(), Report()
    train(tmp_path / "run", tiny | plain, first, report, pairs=pairs, init=trained)
    forced = list(transduce.load(trained, device="cpu").score(pairs))
    expected = -sum(output.log_prob for output in forced) / sum(len(output.tokens) for output in forced)
    assert first.nll == pytest.approx(expected, rel=1e-5)
    count = sum(tensor.numel() for tensor in saved(trained).values())
    assert report.started.report[-2:] == (
        f"starts from {trained} (best), with its vocabularies",
        f"  loaded: encoder, decoder, {count:,} parameters",
    )


def test_the_run_says_where_it_began(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    still = tiny | STILL | {"init.run": str(trained), "init.checkpoint": "last"}
    train(tmp_path / "run", still | {"data.units": {"joint": {"type": "words"}}}, pairs=KNOWN)
    table = config.read(tmp_path / "run" / "config.toml")
    assert table["init"] == {"run": str(trained), "checkpoint": "last", "vocabulary": "keep"}
    assert table["data"]["units"]["joint"]["type"] == "characters", "the units are those of its vocabulary"
    assert record(tmp_path / "run")["init"] == table["init"]
    for side in ("source", "target"):
        old, new = (run / "tokenizers" / f"{side}.json" for run in (trained, tmp_path / "run"))
        assert old.read_bytes() == new.read_bytes()
    assert all(torch.equal(tensor, saved(trained)[name]) for name, tensor in saved(tmp_path / "run").items())


@pytest.mark.parametrize("vocabulary", ["own", *(pytest.param(name, marks=GROWING) for name in ("extend", "keep"))])
def test_tokens_known_to_both_keep_their_vectors(
    vocabulary: str, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    settings = tiny | STILL
    report = Report()
    started = train(tmp_path / "run", settings | {"init.vocabulary": vocabulary}, report, pairs=PAIRS, init=trained)
    if vocabulary == "keep":  # the targets have tokens that it lacks
        assert "3 of 12 tokens (25 %) in 3 of 5 lines are unknown to the model: é ü" in "\n".join(report.started.report)
        vocabulary = "extend"
    units = {"data.units": {"joint": "characters"}} if vocabulary == "own" else {}
    old, new = transduce.load(trained, device="cpu").target_tokenizer, started.target_tokenizer
    here, there = (tokenizer.tokens(range(len(tokenizer))) for tokenizer in (new, old))
    wanted = [*there, "é", "ü"] if vocabulary == "extend" else [*there[:4], "a", "b", "c", "é", "ü"]
    assert sorted(here) == sorted(wanted)
    tables = {"encoder.embedding.weight", "decoder.embedding.weight"}
    tables |= {"decoder.projection.weight", "decoder.projection.bias"}
    for name, tensor in saved(tmp_path / "run").items():
        if name not in tables:
            assert torch.equal(tensor, saved(trained, "best")[name]), name
    assert {name: tuple(taken) for name, taken in record(tmp_path / "run")["by_token"].items()} == dict.fromkeys(
        tables, (len(here) - 2, len(here))
    )
    if vocabulary == "own":  # a run without init but with the same vocabulary and seed has the fresh rows
        train(tmp_path / "fresh", settings | units, pairs=PAIRS)
    for name in tables:
        ours, theirs = saved(tmp_path / "run")[name], saved(trained, "best")[name]
        for row, token in enumerate(here):
            if token in there:
                assert torch.equal(ours[row], theirs[there.index(token)]), (name, token)
            elif vocabulary == "own":
                assert torch.equal(ours[row], saved(tmp_path / "fresh")[name][row]), (name, token)


@GROWING
@pytest.mark.parametrize("unit", [{"type": "bpe", "size": 20}, {"type": "unigram", "size": 20}], ids=["bpe", "unigram"])
def test_targets_that_a_kept_vocabulary_cannot_write_are_refused(
    unit: Any, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces grow, unless a share of the targets that is small has such tokens: it is told, and learned as it is. A
    vocabulary that cannot grow is refused.
    """
    settings = tiny | STILL | {"data.units": {"joint": unit}}
    old = train(tmp_path / "old", settings, pairs=KNOWN * 3).target_tokenizer
    larger = train(tmp_path / "new", tiny | STILL, pairs=[("ab", "к"), *KNOWN], init=tmp_path / "old").target_tokenizer
    assert larger.entries[: len(old)] == old.entries
    assert "к" in larger.entries
    report = Report()
    train(tmp_path / "few", tiny | STILL, report, pairs=[("ab", "кк"), *KNOWN * 40], init=tmp_path / "old")
    told = "\n".join(report.started.report)
    if unit["type"] == "unigram":  # the letter alone was added to the other one, and no piece
        assert "  target: " in told
        assert "in 1 of 115 lines are unknown to the model: к" in told

    def refused(*_: Any) -> None:
        raise DataError("it cannot be extended")

    monkeypatch.setattr(type(old), "extended", refused)
    with pytest.raises(
        UserError,
        match=r"unknown to the model: к; .* cannot be extended.*init\.vocabulary = \"own\" .* leave these pairs",
    ):
        train(tmp_path / "refused", tiny | STILL, pairs=[("ab", "к"), *KNOWN], init=tmp_path / "old")


def test_rare_tokens_of_the_kept_unit_are_told_and_not_added(tiny: dict[str, Any], tmp_path: Path) -> None:
    settings = tiny | STILL | {"data.units": {"joint": {"type": "characters", "minimum_count": 5}}}
    train(tmp_path / "old", settings, pairs=[*KNOWN * 3, ("ab", "q")])
    report = Report()
    train(tmp_path / "new", tiny | STILL, report, pairs=[*KNOWN * 3, ("ab", "q")], init=tmp_path / "old")
    assert f"starts from {tmp_path / 'old'} (best), with its vocabularies" in report.started.report


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_what_is_frozen_stays_to_the_last_bit(
    optimizer: str, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    report = Report()
    frozen = {"training.freeze": ["encoder", "decoder.*.bias"], "training.optimizer": {"type": optimizer}}
    train(tmp_path / "run", tiny | frozen, report, pairs=KNOWN, init=trained)
    old, told = saved(trained, "best"), report.started.report[-1]
    same = {name for name, tensor in saved(tmp_path / "run").items() if torch.equal(tensor, old[name])}
    assert same == {name for name in old if name.startswith("encoder.") or name.endswith(".bias")}
    assert told.startswith("frozen: encoder, decoder.")
    assert told.endswith(f", {sum(old[name].numel() for name in same):,} parameters")


def test_what_was_frozen_can_be_thawed(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    run, half = tmp_path / "run", {"training.steps": 4, "training.freeze": ["encoder"]}
    train(run, tiny | half, init=trained)
    before = saved(run)
    train(run, {"training.steps": 8, "training.freeze": ["decoder"]}, resume=True)
    for name, tensor in saved(run).items():
        assert torch.equal(tensor, before[name]) is name.startswith("decoder."), name


@pytest.mark.parametrize("vocabulary", mostly_slow(["keep", "own"], fast=["keep"]))
def test_a_killed_run_does_not_start_again(
    vocabulary: str, tiny: dict[str, Any], own_run: Path, tmp_path: Path
) -> None:
    settings = tiny | {"init.vocabulary": vocabulary, "training.freeze": ["encoder.embedding"]}
    data = {"data.origin": {"type": "reverse", "pairs": 60, "longest": 3}}
    train(tmp_path / "whole", settings | data, init=own_run)
    with pytest.raises(KilledError):
        train(tmp_path / "killed", settings | data, At(3, kill), init=own_run)
    init = json.loads((tmp_path / "killed" / "init.json").read_text())
    shutil.rmtree(own_run)
    train(tmp_path / "killed", {}, resume=True, init=own_run)  # the same command, with --resume
    same_bytes(tmp_path / "killed", tmp_path / "whole")
    assert record(tmp_path / "killed") == init


def test_what_is_resumed_began_where_it_began(tiny: dict[str, Any], trained: Path, own_run: Path) -> None:
    before = (own_run / "config.toml").read_bytes()
    with pytest.raises(config.ConfigError, match=r"init\.run = .*was 'default'.*its own checkpoint"):
        train(own_run, {}, resume=True, init=trained)
    assert (own_run / "config.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("init", "message"),
    [("nowhere", "nowhere is no run directory"), (".", r"is .*, which overwrite would delete")],
)
def test_a_slip_deletes_nothing(init: str, message: str, tiny: dict[str, Any], own_run: Path) -> None:
    with pytest.raises((ValueError, OSError), match=message):
        train(own_run, tiny, overwrite=True, init=own_run / init)
    assert (own_run / "checkpoints" / "best").exists()


def test_a_slip_that_only_the_model_shows_deletes_nothing(tiny: dict[str, Any], own_run: Path) -> None:
    before = {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=r"decoder\.embeding"):
        train(own_run, tiny | {"training.freeze": ["decoder.embeding"]}, overwrite=True)
    assert {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()} == before
    assert [path.name for path in own_run.parent.glob("*.replaced")] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"init.run": "nowhere"}, "nowhere is no run directory.*transduce train"),
        ({"init.checkpoint": "frist"}, r'init\.checkpoint: "frist".*"best" or "last" or "average"'),
        ({"init.vocabulary": "mine"}, r'"keep" or "extend" or "source" or "own"'),
        ({"training.freeze": ["encoder", "decoder.embeding"]}, r'decoder\.embeding.*did you mean "decoder\.embedding"'),
        ({"training.freeze": ["*"]}, "leaves nothing to train"),
    ],
)
def test_mistakes_leave_no_run(
    settings: dict[str, Any], message: str, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    with pytest.raises((ValueError, OSError), match=message):
        train(tmp_path / "run", tiny | {"init.run": str(trained)} | settings)
    assert not (tmp_path / "run" / "config.toml").exists()


# ------------------------------------------------------- one model from another

AS_BEFORE = transformer()


def tokenizers(source: str = "abcde", target: str = "abcdefg") -> Tokenizers:
    return Tokenizers(Characters().learn([source]), Characters().learn([target]))


def build(table: config.Table, known: Tokenizers) -> Any:
    return config.build(table, Model, known.facts, "model")


def run_of(table: config.Table, known: Tokenizers, folder: Path) -> Path:
    """A run directory of an untrained model."""
    for place in ("tokenizers", "checkpoints/best"):
        (folder / place).mkdir(parents=True)
    known.save(folder / "tokenizers")
    settings = {"model": table, "search": {"type": "greedy"}, "data": {"units": {"joint": "characters"}}}
    (folder / "config.toml").write_text(config.write(settings))
    save_weights(build(table, known), folder / "checkpoints" / "best" / "model.safetensors")
    return folder


def start(
    table: config.Table, old: config.Table, folder: Path, known: Tokenizers, before: Tokenizers | None = None
) -> tuple[Any, dict[str, Tensor], Inheritance]:
    """A new model that starts from an old one, the old weights, and the report."""
    predecessor = Predecessor(Init(run_of(old, before or known, folder)))
    model = build(table, known)
    return model, saved(folder, "best"), predecessor.hand_over(model, table, known)


def test_another_decoder_starts_from_the_encoder_alone(tmp_path: Path) -> None:
    table = FAMILIES["transformer to recurrent"]
    model, old, found = start(table, AS_BEFORE, tmp_path, tokenizers())
    for name, parameter in model.encoder.named_parameters(prefix="encoder"):
        assert torch.equal(parameter, old[name])
    lines = dict(line.strip().split(": ", 1) for line in found.lines()[1:])
    assert lines["loaded"].startswith("encoder, decoder.embedding, ")
    assert "decoder.cells" in lines["fresh"] or "decoder.wiring" in lines["fresh"]
    assert "decoder.layers" in lines["not used"]


def test_another_shape_is_told_and_not_loaded(tmp_path: Path) -> None:
    table = AS_BEFORE | {"encoder": AS_BEFORE["encoder"] | {"feedforward": 12}}
    _, old, found = start(table, AS_BEFORE, tmp_path, tokenizers())
    name = next(name for name in found.misfits if name.endswith("weight"))
    assert f"{name} {tuple(old[name].shape)} there, " in "\n".join(found.lines())
    assert found.misfits.keys() | found.loaded.keys() == old.keys()
    assert not found.unused
    assert not found.fresh


def test_nothing_that_fits_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing of .* fits.*\n  fresh: models\n  not used: encoder, decoder\n"):
        start(FAMILIES["ensemble"], AS_BEFORE, tmp_path, tokenizers())


def test_ties_are_those_of_the_new_model(tmp_path: Path) -> None:
    known, tied = tokenizers("abc", "abc"), transformer(tie="all")
    model, old, _ = start(tied, AS_BEFORE, tmp_path / "one", known)
    assert model.decoder.projection.weight is model.encoder.embedding.weight
    assert torch.equal(model.decoder.projection.weight, old["encoder.embedding.weight"])
    model, old, found = start(AS_BEFORE, tied, tmp_path / "other", known)
    assert model.decoder.projection.weight is not model.encoder.embedding.weight
    for table in (model.encoder.embedding, model.decoder.embedding, model.decoder.projection):
        assert torch.equal(table.weight, old["encoder.embedding.weight"])
    assert not found.unused


@pytest.mark.parametrize(("source", "target"), [("edcbx", "gfea"), ("axe", "axe")])
def test_each_side_is_matched_by_its_own_vocabulary(source: str, target: str, tmp_path: Path) -> None:
    """Known tokens keep their vectors, even if both sides had vocabularies of one size or now share one vocabulary."""
    before, known = tokenizers("abcde", "efghi"), tokenizers(source, target)
    model, old, _ = start(AS_BEFORE, AS_BEFORE, tmp_path, known, before)
    for table, name, new, theirs in (
        (model.encoder.embedding, "encoder.embedding.weight", known.source, before.source),
        (model.decoder.embedding, "decoder.embedding.weight", known.target, before.target),
        (model.decoder.projection, "decoder.projection.weight", known.target, before.target),
    ):
        there = theirs.tokens(range(len(theirs)))
        for row, token in enumerate(new.tokens(range(len(new)))):
            same = token in there and torch.equal(table.weight[row], old[name][there.index(token)])
            assert same is (token in there)


# -------------------------------------------------------------------- freezing


def test_what_is_shared_is_frozen_under_any_name() -> None:
    model = build(transformer(tie="all"), tokenizers("abc", "abc"))
    (told,) = freeze(model, ["decoder.embedding"])
    assert not model.encoder.embedding.weight.requires_grad
    assert told == "frozen: encoder.embedding, decoder.embedding, decoder.projection.weight, 56 parameters"
    assert freeze(build(AS_BEFORE, tokenizers()), []) == []


def test_modules_are_told_by_their_outermost_name() -> None:
    every = ["a.b.c", "a.b.d", "a.e", "f"]
    assert summarise(["a.b.c", "a.b.d"], every) == ["a.b"]
    assert summarise(["a.b.c", "a.e", "f"], every) == ["a.b.c", "a.e", "f"]
    assert summarise(every, every) == ["a", "f"]


def test_a_language_model_takes_the_vocabulary_of_the_target(trained: Path) -> None:
    predecessor = Predecessor(Init(trained))
    units = predecessor.units_for(Data(Units(joint=Characters())), {"joint": "characters"})
    assert units is not None
    assert "source_lowercase" in units, "it is for joint units alone, so the target's own units have none"
    assert predecessor.units_for(Data(Units(target=Characters())), {}) == {
        "target": units["joint"],
        "sample": units["sample"],
    }
    assert not predecessor.tokenizers.conditional
    assert predecessor.tokenizers.target.fingerprint == predecessor.transducer.target_tokenizer.fingerprint
    without = Predecessor(Init(trained))
    without.transducer = dataclasses.replace(without.transducer, tokenizers=predecessor.tokenizers)
    with pytest.raises(ValueError, match=r'without sources and this run has some, .*set init\.vocabulary = "own"'):
        without.units_for(Data(Units(joint=Characters())), {})
    assert Predecessor(Init(trained, vocabulary="own")).units_for(Data(Units(target=Characters())), {}) is None
