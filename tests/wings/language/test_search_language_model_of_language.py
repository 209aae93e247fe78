"""What the wing language adds to test_search_language_model.py."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_search_language_model import SOURCES, counted, frames, letters  # noqa: F401

import transduce
from transduce.core import config
from transduce.core.types import Padded
from transduce.models.mixtures import Fusion
from transduce.search.beam import Beam
from transduce.search.ranking import LogProbability

Call = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("weight", [0.2, 1.5])
def test_fusion_in_the_settings_is_fusion_from_python(trained: Path, letters: Path, weight: float) -> None:
    model, language = transduce.load(trained), transduce.load(letters)
    named = {"type": "language-model", "language_model": str(letters), "weight": weight}
    search = {"type": "beam", "size": 4, "nbest": 4, "ranking": "none", "max_length": 12, "filters": [named]}
    # both searches: an end at the maximum length is not the language model's
    ours = [*transduce.load(trained, settings={"search": search}).predict(SOURCES)]
    fusion = Fusion([model.model, language.model], [1.0, weight], renormalise=False)
    theirs = [*replace(model, model=fusion.eval()).predict(SOURCES, Beam(4, 4, 12, LogProbability()))]
    alone = [*model.predict(SOURCES, Beam(4, 4, 12, LogProbability()))]
    assert [each[0].text for each in ours] != [each[0].text for each in alone]
    for one, other in zip(ours, theirs, strict=True):
        ended = [output for output in other if len(output.tokens) < 12]
        assert ended
        found = {output.text: output for output in one}
        for output in ended:
            assert found[output.text].score == pytest.approx(output.score, abs=1e-4)
            own = next(model.score([(SOURCES[ours.index(one)], output.text)]))
            assert found[output.text].log_prob == pytest.approx(own.log_prob, abs=1e-4)  # the model's own


def test_a_run_that_names_its_language_model(
    frames: Path, letters: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(frames, tmp_path / "run"))
    settings = config.assign(config.read(run / "config.toml"), "search.language_model", "elsewhere/letters")
    (run / "config.toml").write_text(config.write(settings), encoding="utf-8")
    with pytest.raises(
        FileNotFoundError, match=r"'elsewhere/letters': there is no run elsewhere/letters, nor in .*copy"
    ):
        transduce.load(run)
    named = {"search.language_model": str(letters)}
    wanted = transduce.load(frames, settings=named)(SOURCES)
    assert not caplog.records  # it was named by the caller
    assert transduce.load(run, settings=named)(SOURCES) == wanted
    shutil.copytree(letters, run / "language-models" / "letters")
    assert transduce.load(run)(SOURCES) == wanted
    assert not caplog.records  # it is the run's own
    shutil.copytree(letters, tmp_path / "elsewhere" / "letters")
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert transduce.load(run)(SOURCES) == wanted
    assert f"the settings of {run} search with the language model elsewhere/letters" in caplog.text
    # a language model's own search is not used, so a run that names itself is no endless loop
    itself = config.assign(config.read(letters / "config.toml"), "search", {"type": "greedy", "filters": [_self(run)]})
    (run / "language-models" / "letters" / "config.toml").write_text(config.write(itself), encoding="utf-8")
    monkeypatch.chdir(tmp_path.parent)
    assert transduce.load(run)(SOURCES) == wanted


def _self(run: Path) -> dict[str, str]:
    return {"type": "language-model", "language_model": str(run / "language-models" / "letters")}


def test_language_models_that_do_not_fit(
    frames: Path, trained: Path, letters: Path, tiny: dict[str, Any], tmp_path: Path, call: Call
) -> None:
    other = counted(
        tiny, tmp_path / "other", "reverse", **{"data.origin": {"type": "reverse", "pairs": 120, "seed": 2}}
    )
    with pytest.raises(transduce.UserError, match="has another source and another target vocabulary than the model"):
        transduce.load(frames, settings={"search.language_model": str(other)})
    with pytest.raises(transduce.UserError, match="its runs have different target vocabularies"):
        transduce.load(frames, settings={"search.language_model": f"{letters}+{other}"})
    with pytest.raises(transduce.UserError, match=r"search.language_model: 3 is an integer, expected a path"):
        transduce.load(frames, settings={"search.language_model": 3})
    # a training learns of it before it begins
    changes = [f"search.language_model={other}"]
    table = config.change(config.read(frames / "config.toml"), changes)
    (tmp_path / "recipe.toml").write_text(config.write(table), encoding="utf-8")
    status, _, err = call("train", tmp_path / "recipe.toml", "--out", tmp_path / "new")
    assert (status, "another target vocabulary" in err) == (2, True)
    assert not (tmp_path / "new" / "config.toml").exists()
    # a shortlist's tokens are not the language model's tokens
    filters = {"search.filters": [{"type": "language-model", "language_model": str(letters)}]}
    model = transduce.load(trained, settings=filters)
    with pytest.raises(transduce.UserError, match="a language model of 30 words cannot score 29 words"):
        model.search.filters[0](torch.zeros(1, 29), model.search.filters[0].start(Padded.of([[4]])))  # type: ignore[attr-defined]


def test_a_language_model_with_the_vocabulary_of_a_run(frames: Path, tmp_path: Path, call: Call) -> None:
    """Text alone, with the target's units of a run that has sources."""
    (tmp_path / "text.txt").write_text("abba\nzebra\n", encoding="utf-8")
    files = [f"--set=data.{split}.path={tmp_path / 'text.txt'}" for split in ("train", "valid", "test")]
    status, _, err = call("train", "ptb-ngram", "--init", frames, "--out", tmp_path / "lm", *files)
    assert status == 0, err
    settings = config.read(tmp_path / "lm" / "config.toml")
    assert settings["data"]["units"]["target"] == config.read(frames / "config.toml")["data"]["units"]["joint"]
    assert not transduce.load(tmp_path / "lm").conditional
    changes = {"search.language_model": str(tmp_path / "lm"), "search.weight": 30.0}
    assert set(transduce.load(frames, settings=changes)("abba")) <= set("abzer")
