"""Word aligners as models: their laws, and runs that align new pairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import transduce
from families import ALIGNERS, FACTS, build, sources, targets
from selection import mostly_slow
from transduce.answers.request import Extras, Request
from transduce.core import config, tree
from transduce.core.errors import RequestError, UserError
from transduce.core.protocols import Model
from transduce.core.types import EOS, Batch, Padded
from transduce.models.weights import load_weights, save_weights
from transduce.training.settings import read_settings
from transduce.wings.counted.alignment.training import RECIPES, learn_aligner
from transduce.wings.counted.models.aligner import WordAligner
from transduce.wings.counted.objectives import AlignmentLikelihood

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=mostly_slow(ALIGNERS, fast=["ibm model 2, a prior", "fertilities"]), scope="module")
def family(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def model(family: str) -> Any:
    return build(ALIGNERS[family])


def pairs() -> tuple[Padded, Padded]:
    """Pairs of several lengths. Two have an empty side."""
    ids = targets(4, 6).clamp(min=4)
    lengths = [6, 3, 1, 4]
    rows = [[*row[: length - 1], EOS] for row, length in zip(ids.tolist(), lengths, strict=True)]
    return sources([4, 6, 3, 1]), Padded.of(rows)


def both(model: Any, source: Padded, target: Padded) -> tuple[torch.Tensor, torch.Tensor]:
    return model.align(source, target), model.reverse().align(target, source)


def test_links_are_a_distribution(model: Any) -> None:
    for posterior, side in zip(both(model, *pairs()), reversed(pairs()), strict=True):
        words = torch.arange(side.values.shape[1]) < side.lengths[:, None] - 1
        assert_close(posterior.sum(-1), words.to(posterior))


def test_row_and_company(model: Any) -> None:
    source, target = pairs()
    rows = torch.tensor([3, 0, 1])
    chosen = both(model, tree.select(source, rows), tree.select(target, rows))
    for some, every in zip(chosen, both(model, source, target), strict=True):
        assert_close(some, every[rows])
    for row in range(4):
        alone = [Padded.of([side.values[row, : side.lengths[row]].tolist()]) for side in (source, target)]
        for one, every in zip(both(model, *alone), both(model, source, target), strict=True):
            assert_close(one[0], every[row, : one.shape[1], : one.shape[2]])


def test_padding(model: Any) -> None:
    source, target = pairs()
    longer = [Padded(torch.nn.functional.pad(side.values, (0, 3)), side.lengths) for side in (source, target)]
    for one, other in zip(both(model, source, target), both(model, *longer), strict=True):
        assert_close(other[:, : one.shape[1], : one.shape[2]], one)
        assert not bool(other[:, one.shape[1] :].any() or other[:, :, one.shape[2] :].any())
    assert_close(model.pair_log_prob(*longer), model.pair_log_prob(source, target))


def test_the_loss_is_of_both_directions(model: Any) -> None:
    source, target = pairs()
    loss, _ = AlignmentLikelihood()(model, Batch(source, target, torch.arange(4)))
    log_probs = [model.ways.align(source, target, turned)[1].sum() for turned in (False, True)]
    assert_close(loss.total, -sum(log_probs))
    assert loss.count == int((source.lengths - 1).sum() + (target.lengths - 1).sum())


def test_spec_and_weights(family: str, model: Any, tmp_path: Path) -> None:
    resolved = config.resolve(ALIGNERS[family], Model, FACTS)
    assert config.parse(config.write(resolved).encode(), "test") == resolved
    save_weights(model, tmp_path / "model.safetensors")
    again: Any = config.build(resolved, Model, FACTS, "model")
    load_weights(again.double(), tmp_path / "model.safetensors")
    for one, other in zip(both(again, *pairs()), both(model, *pairs()), strict=True):
        assert torch.equal(one, other)


def test_options_outside_their_range() -> None:
    with pytest.raises(UserError, match="warm_up = -1: at least 0"):
        WordAligner(RECIPES["hmm"].position, warm_up=-1)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"prior = -0\.5: at least 0"):
        WordAligner(RECIPES["hmm"].position, prior=-0.5)  # type: ignore[arg-type]


# ------------------------------------------------------------------------ runs

LESSONS = [
    *[("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book"), ("ein Haus", "A house")],
    *[("das rote Haus ist alt", "the red house is old"), ("ein altes Buch", "an old book"), ("rot", "it is red")],
]
NEW = [("das alte Buch", "the old book"), ("ein Axolotl", "an axolotl"), ("", "house"), ("Haus Haus", "house")]


def train(out: Path, *settings: str) -> Path:
    """A run that trains and validates on all lessons."""
    tsv = out.parent / "lessons.tsv"
    tsv.write_text("".join(f"{source}\t{target}\n" for source, target in LESSONS), encoding="utf-8")
    given = [f"data.train.path={tsv}", f"data.valid.path={tsv}", *settings]
    transduce.train("word-alignment", out, given, progress=False, device="cpu")
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("aligners") / "hmm")


@pytest.mark.parametrize("name", mostly_slow(RECIPES, fast=["hmm", "fertility"]))
def test_a_run_aligns_as_the_command_does_without_one(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    settings = [f"model.position.type={name}", f"training.epochs={recipe.passes}", f"model.warm_up={recipe.warm_up}"]
    folder = train(tmp_path / "run", *settings, f"model.agreement={json.dumps(recipe.agreement)}")
    kept, direct = transduce.load(folder, device="cpu"), learn_aligner(LESSONS, name)
    for texts in (LESSONS, NEW):
        found, expected = kept.align(texts), direct.align(texts)
        assert found.links.write() == expected.links.write()
        assert [found.record(pair) for pair in range(len(texts))] == [
            expected.record(pair) for pair in range(len(texts))
        ]


def test_align_takes_the_run_and_does_not_learn(run: Path, call: Call) -> None:
    before = (run / "checkpoints" / "best" / "model.safetensors").read_bytes()
    given = "".join(f"{source}\t{target}\n" for source, target in NEW).encode()
    status, out, _ = call("align", run, "--device=cpu", stdin=given)
    assert (status, out) == (0, "0-0 1-1 2-2\n0-0 1-1\n\n0-0 1-0\n")
    _, out, _ = call("align", run, "--device=cpu", "--format=jsonl", "--direction=backward", stdin=given)
    first = json.loads(out.splitlines()[0])
    assert [sum(row) for row in first["backward"]] == pytest.approx([1, 1, 1], abs=1e-5)
    assert (run / "checkpoints" / "best" / "model.safetensors").read_bytes() == before


def test_words_that_were_never_seen_are_placed_by_position(run: Path) -> None:
    """Only the positions decide, so other unknown words have the same posteriors."""
    model = transduce.load(run, device="cpu")
    (one, other) = (model.align([pair], "forward").forward[0].words_VI for pair in (("a b", "c d"), ("x y", "z u")))
    assert torch.equal(one, other)
    assert model.align([("a b c", "d e f")]).links.write() == ["0-0 1-1 2-2"]


def test_the_validation_loss_is_that_of_the_pairs(run: Path) -> None:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(event["event"] == "update" for event in events) == 5
    (validation,) = [event for event in events if event["event"] == "validation"]
    assert 0 < validation["loss"] < next(event["loss"] for event in events if event["event"] == "update")


def test_another_models_outputs_are_aligned(run: Path, trained: Path) -> None:
    writer = transduce.load(trained, device="cpu")
    extras = Extras(alignments=True, aligner=transduce.load(run, device="cpu"))
    (answer,) = writer.answer([Request("ab", target="ba", extras=extras)])
    assert answer.best.alignment == ((0, 0),)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["predict"], "aligns two given texts, and neither writes nor scores outputs: use `transduce align RUN FILE`"),
        (["score"], "aligns two given texts, and neither writes nor scores outputs: use `transduce align RUN FILE`"),
        (["predict", "--beam=3"], "a word aligner has no search: use `transduce align RUN FILE`"),
        (["predict", "--set=search.type=greedy"], "set search to 'none'"),
        (["rerank", "--mbr=chrf"], "a word aligner has no search"),
        (["inspect", "das Haus"], "aligns two given texts: give the second one with --target"),
        (
            ["inspect", "das Haus", "--target=x", "--head=1"],
            "is a word aligner and has no attention",
        ),
        (["align", "--attention=x"], "is a word aligner and has no attention"),
    ],
)
def test_what_an_aligner_does_not_do(command: list[str], message: str, run: Path, call: Call) -> None:
    name, *options = command
    status, _, err = call(
        name, run, *options, "--device=cpu", stdin=b"das Haus\n" if name == "predict" else b"das Haus\tthe house\n"
    )
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


def test_runs_of_aligners_are_not_mixed(run: Path) -> None:
    with pytest.raises(UserError, match=r"word-aligner model cannot .*, so it cannot be mixed"):
        transduce.load(f"{run}+{run}")
    with pytest.raises(RequestError, match="neither writes nor scores"):
        transduce.load(run)("das Haus")


def test_the_settings_of_an_aligner() -> None:
    table = transduce.recipes.read("word-alignment")
    with pytest.raises(config.ConfigError, match=r"objective: .*set objective to 'alignment-likelihood'"):
        read_settings(config.assign(table, "objective", "cross-entropy"))
    with pytest.raises(config.ConfigError, match=r"search: Beam asks its model to .*; set search to 'none'"):
        read_settings(config.assign(table, "search", "beam"))
    with pytest.raises(config.ConfigError, match=r"model\.position.*\"ibm3\" is no Position; did you mean \"ibm2\""):
        read_settings(config.assign(table, "model.position.type", "ibm3"))


def test_a_record_names_the_split_of_the_run(tmp_path: Path, call: Call, quick_products: None) -> None:
    gold = tmp_path / "gold.tsv"
    gold.write_text("das Haus\tthe house\t0-0 1-1\nein Buch\ta book\t0-0\n", encoding="utf-8")
    folder = train(tmp_path / "run", f"data.test.path={gold}")
    asked = ["align", folder, gold, f"--gold={gold}", f"--record={tmp_path / 'r.json'}", "--device=cpu"]
    assert call(*asked)[0] == 0
    record = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    (system,) = record["systems"]
    assert (record["split"], system["models"][0]["recipe"]) == ("test", "word-alignment")
    assert system["scores"]["link_recall"]["value"] == 100


def test_inspect_shows_the_links(run: Path, tmp_path: Path, call: Call) -> None:
    shown = call("inspect", run, "das Haus", "--target=the old house", "--device=cpu")[1].splitlines()
    assert shown[0] == "0-0 1-2"
    assert [line.split()[:2] for line in shown[1:]] == [["the", "das"], ["old", "-"], ["house", "Haus"]]
    pytest.importorskip("matplotlib")
    for suffix in ("svg", "html"):
        assert call("inspect", run, "das Haus", "--target=the house", f"--out={tmp_path / f'links.{suffix}'}")[0] == 0
        assert "svg" in (tmp_path / f"links.{suffix}").read_text(encoding="utf-8")


def test_a_source_that_is_cut_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = transduce.load(train(tmp_path / "run", "data.lines.max_source_length=6"))
    model.align([("das Haus", "the house"), ("x " * 9, "y")])
    cut, *unknown = caplog.messages
    assert cut == "source 2 has 10 tokens and is cut to data.lines.max_source_length = 6"
    assert [line.partition(":")[0] for line in unknown] == ["sources", "targets"]
