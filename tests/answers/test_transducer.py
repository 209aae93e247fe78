"""Raw text in, raw text out: order, cutting, scores, and the errors of loading."""

from __future__ import annotations

import json
import logging
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from transduce.answers.answer import Truncation
from transduce.answers.batches import sorted_batches, window_size, windows
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.compute.device import choose_device
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import Example, Facts
from transduce.metrics.base import metric
from transduce.runs.layout import members
from transduce.search.beam import Beam
from transduce.search.exact import Exact
from transduce.search.greedy import Greedy
from transduce.search.ranking import LogProbability

LINES = ["abcde", "a", "", "zyx", "abcdefghijklmnopqrstuvwxyz" * 2, "b", "aé☃z", "ba", "abc", "a"]


@pytest.fixture(scope="module")
def model(trained: Path) -> Transducer:
    return transduce.load(trained, "last", "cpu")


def test_a_string_for_a_string_and_a_list_for_a_list(model: Transducer) -> None:
    one = model("abc")
    assert isinstance(one, str)
    assert model(["abc", "de"]) == [one, model("de")]
    assert model(("abc",)) == [one]
    assert model([]) == []


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("search", [None, Greedy(max_length=6), Beam(size=3, nbest=3, max_length=6)])
def test_answers_come_in_order_whatever_the_batch(model: Transducer, batch_size: int, search: Any) -> None:
    alone = [next(model.predict([line], search)) for line in LINES]
    together = list(model.predict(LINES, search, batch_size))
    for lone, joint in zip(alone, together, strict=True):
        assert [output.tokens for output in joint] == [output.tokens for output in lone]
        assert [output.log_prob for output in joint] == pytest.approx([output.log_prob for output in lone], rel=1e-4)
    assert len({outputs[0].log_prob for outputs in together}) > 5  # else any order would do


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_outputs_begin_with_their_prefix(model: Transducer, batch_size: int) -> None:
    beginnings = ["", "c", "ab", "", "cba", "", "b", "", "ddd", ""]
    found = list(model.predict(LINES, batch_size=batch_size, prefix=beginnings))
    free = list(model.predict(LINES))
    for beginning, outputs, unforced in zip(beginnings, found, free, strict=True):
        assert outputs[0].text.startswith(beginning)
        if not beginning:
            assert outputs[0].tokens == unforced[0].tokens
    for outputs in model.predict(LINES[:4], batch_size=batch_size, prefix="ca"):
        assert outputs[0].tokens[:2] == ("c", "a")
    with pytest.raises(
        ValueError, match="input 2 has no prefix: give one for each source, empty if none, or one for all"
    ):
        list(model.predict(["a", "b"], prefix=["c"]))
    with pytest.raises(ValueError, match="input 1 has no source"):
        list(model.predict([], prefix=["c"]))


def test_a_single_text_is_no_list_of_letters(model: Transducer) -> None:
    with pytest.raises(ValueError, match="sources = 'ab': a list of texts was expected"):
        list(model.predict("ab"))


def test_batches_of_one_answer_before_they_read_on(model: Transducer) -> None:
    read = []

    def lines() -> Any:
        for line in ("a", "b", "c"):
            read.append(line)
            yield line

    answers = model.predict(lines(), batch_size=1)
    next(answers)
    assert read == ["a"]


def test_outputs_say_what_they_are(model: Transducer) -> None:
    outputs = next(model.predict(["abc"], Beam(size=3, nbest=3, max_length=6)))
    assert len(outputs) == 3
    assert [output.score for output in outputs] == sorted((output.score for output in outputs), reverse=True)
    for output in outputs:
        assert output.tokens[-1] == "</s>"
        assert output.text == "".join(output.tokens[:-1])
        assert len(output.token_log_probs) == len(output.tokens)
        assert sum(output.token_log_probs) == pytest.approx(output.log_prob)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_score_is_the_probability_that_search_reports(model: Transducer, batch_size: int) -> None:
    found = [outputs[0] for outputs in model.predict(LINES)]
    pairs = [(line, output.text) for line, output in zip(LINES, found, strict=True)]
    for output, forced in zip(found, model.score(pairs, batch_size), strict=True):
        assert forced.tokens == output.tokens
        assert forced.log_prob == pytest.approx(output.log_prob, rel=1e-4)


def test_overlong_sources_are_cut_with_a_warning(model: Transducer, caplog: pytest.LogCaptureFixture) -> None:
    short = Transducer(model.model, model.search, model.tokenizers, max_source_length=4)
    with caplog.at_level(logging.WARNING, "transduce"):
        whole, cut = short.answer([Request("ab"), Request("abcdef")])
        assert (whole.truncated, cut.truncated) == (None, Truncation(7, 4))
        assert not caplog.records  # the answer says so, and whoever drops the answer logs it
        assert short(["ab", "abcdef"]) == [model("ab"), model("abc")]  # three letters and the end
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if " outputs " not in line] == [
        "input 2 has 7 tokens and is cut to data.lines.max_source_length = 4"
    ]


def test_batch_sizes_below_one_are_refused(model: Transducer) -> None:
    with pytest.raises(ValueError, match="batch_size = 0"):
        next(model.predict(["a"], batch_size=0))


def test_evaluate_measures_what_predict_answers(model: Transducer) -> None:
    answers = model(["ab", "cde"])
    examples = [Example("ab", (answers[0],)), Example("cde", ("no such answer",))]
    found = model.evaluate(examples, [metric("exact"), metric("perplexity")], batch_size=1)
    scores, predictions = found.scores, found.predictions
    assert scores["exact"] == 50.0
    assert [prediction.text for prediction in predictions] == answers
    forced = list(model.score([(example.source, example.references[0]) for example in examples]))
    tokens = sum(len(output.tokens) for output in forced)
    surprise = torch.tensor(-sum(output.log_prob for output in forced) / tokens)
    assert scores["perplexity"] == pytest.approx(float(surprise.exp()), rel=1e-5)


@pytest.mark.parametrize(
    "settings", [{"search.size": 3, "search.ranking": "none"}, ["search.size=3", "search.ranking=none"]]
)
def test_the_search_is_changed_and_the_model_is_not(settings: Any, model: Transducer, trained: Path) -> None:
    wide = model.changed(settings)
    assert wide.search == Beam(size=3, max_length=6, ranking=LogProbability())
    assert wide.model is model.model
    assert wide.settings["search"]["size"] == 3
    assert model.settings["search"]["size"] == 2
    assert transduce.load(trained, settings=settings).search == wide.search
    assert transduce.load(f"{trained}+{trained}", settings=settings).search == wide.search
    assert model.changed({}) is model


def test_what_is_set_is_for_a_search_of_the_size_given(model: Transducer, trained: Path) -> None:
    asked = {"search.nbest": 4}
    with pytest.raises(config.ConfigError, match="nbest = 4, size = 2"):
        model.changed(asked)
    assert model.changed(asked, size=5).search == Beam(5, 4, 6)
    assert transduce.load(trained, settings=asked, size=5).search == Beam(5, 4, 6)
    assert model.changed({"search.type": "greedy"}, size=5).search == Beam(5)


def test_a_size_alone_is_the_size_of_the_search(model: Transducer, trained: Path) -> None:
    three = transduce.load(trained, size=3)
    assert three.search == model.search.resized(3)
    assert transduce.load(f"{trained}+{trained}", size=3).search == three.search
    assert three.changed({"search.max_length": 7}).search == Beam(3, max_length=7)
    drawn = model.changed({"search.type": "sampling"}, 3)  # all of them
    assert len(next(drawn.predict(["ab"]))) == 3
    several = model.changed({"search.nbest": 2})
    assert several.changed((), 5).search == Beam(5, 2, 6)
    assert several.changed((), 1).search == Beam(1, 1, 6)


def test_a_search_that_was_resized_stays_so_when_it_is_changed_again(model: Transducer) -> None:
    one = model.changed({"search.type": "greedy", "search.max_length": 6})
    assert one.changed((), 7).changed({"search.max_length": 9}).search == Beam(7, max_length=9)
    best = model.changed({"search.type": "exact", "search.max_length": 6})
    assert best.changed((), 7).changed({"search.max_length": 9}).search == Exact(max_length=9, beam=7)


def test_settings_that_are_trained_stay(model: Transducer) -> None:
    with pytest.raises(config.ConfigError, match=r"^training: a trained model keeps its settings but for its search"):
        model.changed({"search.size": 3, "training.steps": 9})
    alone = Transducer(model.model, model.search, model.tokenizers)
    assert alone.changed({"search.type": "greedy", "search.max_length": 4}).search == Greedy(4)
    with pytest.raises(config.ConfigError, match=r"^search\.type: missing"):
        alone.changed({"search.size": 3})


# -------------------------------------------------------------------- loading


def test_a_copied_run_works_elsewhere(model: Transducer, own_run: Path, tmp_path: Path) -> None:
    moved = shutil.move(own_run, tmp_path / "elsewhere")
    assert transduce.load(moved, "last", "cpu")(LINES) == model(LINES)


@pytest.mark.parametrize("checkpoint", ["best", "last", "average"])
def test_every_checkpoint_of_a_finished_run_loads(checkpoint: Any, trained: Path) -> None:
    assert not transduce.load(trained, checkpoint, "cpu").model.training


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is no run directory: it has no config\.toml.*transduce train"):
        transduce.load(tmp_path)


def test_a_missing_checkpoint_is_told_with_those_there_are(own_run: Path) -> None:
    shutil.rmtree(own_run / "checkpoints" / "best")
    with pytest.raises(FileNotFoundError, match=r"no checkpoint 'best'.*it has: average, last"):
        transduce.load(own_run)
    shutil.rmtree(own_run / "checkpoints")
    with pytest.raises(FileNotFoundError, match="none yet, so train on with --resume"):
        transduce.load(own_run)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model.encoder.width", 7, r"model\.safetensors.*config\.toml.*changed"),
        ("model.decoder.layers", 2, r"model\.safetensors.*missing.*config\.toml changed"),
        ("model.encoder.widht", 7, r"widht.*width"),
        ("model", {}, "model"),
        ("search.size", 0, "size = 0"),
    ],
)
def test_a_changed_configuration_is_told(key: str, value: Any, message: str, own_run: Path) -> None:
    table = config.assign(config.read(own_run / "config.toml"), key, value)
    (own_run / "config.toml").write_text(config.write(table))
    with pytest.raises(ValueError, match=message):
        transduce.load(own_run, device="cpu")


def test_half_a_file_of_weights_is_told(own_run: Path) -> None:
    path = own_run / "checkpoints" / "best" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"model\.safetensors is no whole safetensors file"):
        transduce.load(own_run, device="cpu")


# ---------------------------------------------------------------- several as one

PAIRS = [("abcde", "edcba"), ("a", "a"), ("zé", "q"), ("", "")]


def scores(run: str | Path, **options: Any) -> list[Any]:
    return list(transduce.load(run, device="cpu", **options).score(PAIRS))


def test_a_run_with_itself_is_that_run(trained: Path) -> None:
    alone = [output.log_prob for output in scores(trained)]
    assert [output.log_prob for output in scores(f"{trained}+{trained}")] == pytest.approx(alone, rel=1e-5)
    assert [output.log_prob for output in scores(trained, fusion=[3.0])] != pytest.approx(alone, rel=1e-2)
    both = transduce.load(f"{trained}+{trained}+{trained}", device="cpu")
    assert both(LINES) == transduce.load(trained, device="cpu")(LINES)


def test_an_ensemble_of_runs_is_the_mean_of_their_probabilities(trained: Path, sister: Path) -> None:
    one, two = scores(trained), scores(sister)
    for first, second, mixed in zip(one, two, scores(f"{trained}+{sister}"), strict=True):
        tokens = zip(first.token_log_probs, second.token_log_probs, strict=True)
        mean = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in tokens]
        assert mixed.token_log_probs == pytest.approx(mean, rel=1e-4)
        assert first.log_prob != pytest.approx(second.log_prob, rel=1e-3)


def test_a_fusion_of_runs_is_weighted(trained: Path, sister: Path) -> None:
    runs = f"{trained}+{sister}"
    alone = [output.log_prob for output in scores(trained)]
    assert [output.log_prob for output in scores(runs, fusion=[1, 0])] == pytest.approx(alone, rel=1e-5)
    tilted = [output.log_prob for output in scores(runs, fusion=[0.9, 0.1])]
    assert tilted != pytest.approx(alone, rel=1e-4)
    # p1^0.9 p2^0.1 / Z with Z <= 1 (Hoelder)
    other = [output.log_prob for output in scores(sister)]
    assert all(t >= 0.9 * a + 0.1 * o - 1e-4 for t, a, o in zip(tilted, alone, other, strict=True))


def test_several_runs_search_as_the_first_and_say_what_they_are(trained: Path, sister: Path) -> None:
    pair = transduce.load(f"{sister}+{trained}", "last", "cpu", fusion=[0.5, 0.5])
    first = transduce.load(sister, "last", "cpu")
    assert (pair.search, pair.settings["data"]) == (first.search, first.settings["data"])
    assert pair.settings["model"]["models"][0] == first.settings["model"]
    facts = Facts(len(first.source_tokenizer), len(first.target_tokenizer))
    rebuilt: Any = config.build(pair.settings["model"], Model, facts, "model")
    shapes = {name: parameter.shape for name, parameter in pair.model.named_parameters()}
    assert {name: parameter.shape for name, parameter in rebuilt.named_parameters()} == shapes


def test_a_directory_of_that_very_name_wins(own_run: Path, tmp_path: Path) -> None:
    moved = Path(shutil.move(own_run, tmp_path / "c+c"))
    assert members(moved) == [moved]
    assert members("a+b/c+d") == [Path("a"), Path("b/c"), Path("d")]
    assert transduce.load(moved, device="cpu").settings["model"]["type"] == "encoder-decoder"


@pytest.mark.parametrize("sides", [["source"], ["target"], ["source", "target"]])
def test_different_vocabularies_are_told_by_side(sides: list[str], trained: Path, own_run: Path) -> None:
    for side in sides:
        path = own_run / "tokenizers" / f"{side}.json"
        table = json.loads(path.read_text(encoding="utf-8"))
        words = table["model"]["vocab"]
        words["a"], words["b"] = words["b"], words["a"]
        path.write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(ValueError, match=f"have different {' and '.join(sides)} vocabularies.* rerank as text"):
        transduce.load(f"{trained}+{own_run}", device="cpu")


def test_runs_that_are_none_are_told_by_name(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"^no/run is no run directory"):
        transduce.load(f"{trained}+no/run", device="cpu")
    with pytest.raises(ValueError, match=r"before and after each \+"):
        transduce.load(f"{trained}+", device="cpu")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a+b").mkdir()
    assert members("~/a+b") == [tmp_path / "a+b"]
    with pytest.raises(ValueError, match=r"weights = \[1\]: one for each of 2 models"):
        transduce.load(f"{trained}+{trained}", device="cpu", fusion=[1])


# --------------------------------------------------------------------- devices


def test_devices_that_are_not_there_are_told() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(ValueError, match="device 'gpu': expected cpu, cuda"):
        choose_device("gpu")
    with pytest.raises(ValueError, match="device 'xpu' is not on this machine; available: cpu"):
        choose_device("xpu")


def test_gpus_beyond_the_last_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ValueError, match="device 'cuda:7' is not on this machine; cuda devices are numbered 0 to 1"):
        choose_device("cuda:7")


@pytest.mark.parametrize("batch_size", [0, -1, 10**6 + 1, 10**400])
def test_batches_have_a_size_that_memory_holds(model: Transducer, batch_size: int) -> None:
    with pytest.raises(UserError, match=r"batch_size = .*: 1 to 1,000,000 sentences go in a batch"):
        list(model.predict(LINES, batch_size=batch_size))
    with pytest.raises(UserError, match=r"batch_size = .*: 1 to 1,000,000 sentences go in a batch"):
        sorted_batches([(1, "a")], batch_size, lambda batches: batches)
    with pytest.raises(UserError, match=r"window = .*: 1 to 1,000,000 lines go in a window"):
        list(windows("abc", batch_size))


def test_large_batches_read_no_more_ahead_than_one_batch() -> None:
    assert [window_size(size) for size in (1, 64, 1024, 2000, 10**6)] == [1, 4096, 65_536, 65_536, 10**6]
