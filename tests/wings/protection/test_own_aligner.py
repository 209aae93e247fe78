"""The word aligner of a run: learned from its pairs, kept in its folder, and asked where protected spans belong."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import transduce
from transduce import Extras, Protection, Request, api
from transduce.core.errors import UserError
from transduce.runs.layout import ALIGNER
from transduce.training.callbacks import Callback, Notice
from transduce.wings.protection import own_aligner, placing

WORDS = {"rot": "red", "blau": "blue", "hund": "dog", "katze": "cat", "haus": "house", "baum": "tree", "weg": "way"}
SETTINGS = {
    "training.steps": 1,
    "training.precision": "float32",
    "training.validation.times": 0,
    "model.encoder.embedding_width": 8,
    "model.decoder.embedding_width": 8,
    "model.encoder.width": 4,
    "model.decoder.width": 8,
    "data.units": {"joint": "characters"},
}
Calling = Callable[..., tuple[int, str, str]]


def pairs() -> list[tuple[str, str]]:
    """Sentences, and their words in the other order."""
    draw = random.Random(1)
    sources = [draw.sample(sorted(WORDS), draw.randint(3, 5)) for _ in range(200)]
    return [(" ".join(words), " ".join(WORDS[word] for word in reversed(words))) for words in sources]


class Notices(Callback):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_notice(self, notice: Notice) -> None:
        self.texts.append(notice.text)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run, told = tmp_path_factory.mktemp("aligned") / "run", Notices()
    api.train("translation", run, SETTINGS | {"training.aligner": True}, pairs(), callbacks=[told], progress=False)
    assert any(
        f"learned from 190 training pairs for protected spans, is in {run / ALIGNER}" in each for each in told.texts
    )
    return run


def forced(model: transduce.Transducer, source: str, target: str, **limits: Any) -> str:
    """A given output, with the spans of the source."""
    extras = Extras(protect=Protection())
    asked = Request(source, extras=extras)
    (answer,) = model.answer([Request(asked.text, target=target)])
    (found,) = extras.protect.complete(model, [replace(answer, request=asked)], [model.read([asked.text])[0].row], 8)
    return str(found.best.text)


def test_spans_stand_where_the_aligner_of_the_run_says(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "_falls", lambda *_: pytest.fail("the model does not align itself"))
    model = transduce.load(run, device="cpu")
    assert forced(model, "<b>rot</b> hund {x} haus", "house dog red") == "{x} house dog <b>red</b>"
    assert forced(model, "<b>rot hund</b> haus weg", "way house dog red") == "way house <b>dog red</b>"
    assert forced(model, "rot Hund %s", "dog red").split().count("%s") == 1
    monkeypatch.undo()
    seen = []
    monkeypatch.setattr(placing, "_falls", lambda *found: seen.append(found) or [[None]])
    forced(replace(model, folder=None), "<b>rot</b> hund", "dog red")
    assert seen, "without an aligner the model aligns itself"


def test_a_word_that_only_the_aligner_does_not_know_is_not_told(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    forced(transduce.load(run, device="cpu"), "<b>rothund</b> haus", "house dogred")
    assert "unknown to the model" not in caplog.text


def test_a_source_that_is_cut_loses_the_spans_after_the_cut(run: Path) -> None:
    model = replace(transduce.load(run, device="cpu"), max_source_length=9)
    extras = Extras(protect=Protection())
    (answer,) = model.answer([Request("rot {a} hund haus {b} weg", extras=extras)])
    assert [span.problem for span in answer.best.lost] in (
        ["the source was cut before it"],
        ["the model wrote nothing"] * 2,
    )


def test_the_aligner_is_learned_by_a_command_and_packed(run: Path, tmp_path: Path, call: Calling) -> None:
    status, out, _ = call("align", "--learn-into", run)
    assert status == 0
    assert "190 training pairs" in out
    packed = tmp_path / "run.zip"
    assert call("pack", run, "--out", packed, "--evaluate", "none")[0] == 0
    assert own_aligner.own_aligner(transduce.load(packed, device="cpu")) is not None
    assert not list(run.rglob("*.tsv")), "no pairs are kept"
    status, _, err = call("align", "--learn-into", run, "x.tsv")
    assert (status, "leave out x.tsv" in err) == (2, True)
    again = json.loads((run / ALIGNER / "history.jsonl").read_text().splitlines()[-1])
    assert again


def test_an_aligner_without_weights_is_none(run: Path, tmp_path: Path, call: Calling) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    shutil.rmtree(copy / ALIGNER / "checkpoints")
    assert own_aligner.own_aligner(transduce.load(copy, device="cpu")) is None
    assert call("pack", copy, "--out", tmp_path / "run", "--evaluate", "none")[0] == 0


def test_more_pairs_than_are_needed_are_thinned(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_aligner, "MOST", 60)
    assert "learned from 48 training pairs" in own_aligner.learn(run)


def test_what_has_no_pairs_of_texts_is_refused(trained: Path, tmp_path: Path) -> None:
    settings = {"training.aligner": True, "training.steps": 1, "training.validation.times": 0}
    with pytest.raises(UserError, match=r"training\.aligner: a word aligner needs sources: leave it out"):
        api.train("language-model", tmp_path / "run", settings, [("", "a b"), ("", "b c")] * 30, progress=False)
    with pytest.raises(FileNotFoundError, match="is no run directory"):
        own_aligner.learn(tmp_path / "nothing")
