"""Old pairs in the training of a new run: their share, their files, and the loss that is told at the end."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import transduce
from transduce import api
from transduce.core.errors import UserError
from transduce.metrics.base import metric
from transduce.runs.ancestry import Init, Part
from transduce.runs.run import Run
from transduce.training.callbacks import Callback, Notice
from transduce.training.plan import Plan
from transduce.training.settings import read_settings

SETTINGS = {
    "training.steps": 2,
    "training.precision": "float32",
    "training.validation.times": 0,
    "training.aligner": False,
    "model.encoder.embedding_width": 8,
    "model.decoder.embedding_width": 8,
    "model.encoder.width": 4,
    "model.decoder.width": 8,
}
OLD = [(f"alt {n}", f"old {n}") for n in range(300)]
NEW = [(f"neu {n} é", f"new {n} é") for n in range(60)]


class Notices(Callback):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_notice(self, notice: Notice) -> None:
        self.texts.append(notice.text)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("old") / "run"
    api.train("translation", run, SETTINGS | {"data.units": {"joint": "characters"}}, OLD, progress=False)
    return run


def train(run: Path, old: Path, *callbacks: Callback, **changes: Any) -> transduce.Transducer:
    settings = SETTINGS | {key.replace("__", "."): value for key, value in changes.items()}
    return api.train("translation", run, settings, NEW, callbacks=callbacks, init=old, progress=False)


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_the_share_of_old_pairs_in_batches_and_what_is_forgotten(
    share: float, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = []
    plain = Plan.create

    def created(self: Plan, *arguments: Any) -> None:
        plans.append(self)
        plain(self, *arguments)

    monkeypatch.setattr(Plan, "create", created)
    notices = Notices()
    new = train(tmp_path / "run", old, notices, init__keep_old=share)
    (plan,) = plans
    feed: Any = plan.feed
    drawn = Counter(int(number) >= 57 for batch in feed.epoch(0) for number in batch)  # a twentieth is for validation
    assert drawn[True] / drawn.total() == pytest.approx(share, abs=0.02)
    assert new.tokenizers.target.entries[-1] == "w" or "é" in new.tokenizers.target.entries
    assert {*transduce.load(old).tokenizers.target.entries} < {*new.tokenizers.target.entries}
    (told,) = [text for text in notices.texts if "old data" in text]
    found = [float(number) for number in re.findall(r"loss ([\d.]+) before and ([\d.]+) now", told)[0]]
    examples = Run.open(old).examples("valid")
    for run, loss in zip((old, tmp_path / "run"), found, strict=True):
        score = transduce.load(run).evaluate(examples, [metric("perplexity_byte")]).statistics[0].score
        assert loss == pytest.approx(math.log(score), abs=6e-4)
    corpora = new.settings["data"]["train"]["corpora"]
    assert [corpus.get("name") for corpus in corpora] == [None, "old pairs"]
    api.train("translation", tmp_path / "run", {"training.steps": 3}, resume=True, progress=False)
    assert transduce.load(tmp_path / "run").settings["data"]["train"]["corpora"] == corpora, "not mixed in again"


def test_without_a_share_the_loss_alone_is_told(old: Path, tmp_path: Path) -> None:
    notices = Notices()
    new = train(tmp_path / "run", old, notices, init__keep_old=0)
    assert "corpora" not in new.settings["data"]["train"]
    assert any("loss" in text and "before and" in text for text in notices.texts)
    silent = Notices()
    train(tmp_path / "other", old, silent)
    assert not any("old data" in text for text in silent.texts)


def test_old_pairs_of_another_kind_are_refused(old: Path, tmp_path: Path) -> None:
    settings = {"init.keep_old": 0.5, "training.steps": 1}
    with pytest.raises(UserError, match=r"init\.keep_old: .* must both have sources, or both none"):
        api.train("language-model", tmp_path / "run", settings, [("", "ab")] * 40, init=old, progress=False)
    for wrong in (-0.1, 1.0, 1.5):
        with pytest.raises(UserError, match=r"init\.keep_old = .*: from 0 to below 1"):
            Init(old, keep_old=wrong)
    with pytest.raises(UserError, match=r"init\.keep_old = 0\.5: .* with a run"):
        Init(parts=(Part(old, "encoder"),), keep_old=0.5)
    assert read_settings(transduce.load(old).settings).init is None
