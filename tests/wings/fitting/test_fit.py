"""fit, from a file to a run: it goes on after a kill with the same result, mixes, and tells what it measured."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import transduce
from transduce.core.errors import UserError
from transduce.core.stages import open_stages
from transduce.core.types import Example
from transduce.data.fingerprints import Fingerprint
from transduce.evaluation import systems
from transduce.metrics.base import metric
from transduce.metrics.significance import Difference, Interval
from transduce.wings.engines.sharing.packing import card as packed_card
from transduce.wings.fitting import mixtures
from transduce.wings.fitting.candidates import Candidate, Task
from transduce.wings.fitting.fit import Wishes, fit, late, preferred
from transduce.wings.fitting.given import Given
from transduce.wings.fitting.growth import _factors
from transduce.wings.fitting.mixtures import Choice, Validation, write_mixture
from transduce.wings.fitting.planning import Plan, needed
from transduce.wings.fitting.report import chosen_line
from transduce.wings.fitting.rounds import Trials, Watch
from transduce.wings.fitting.survey import survey
from transduce.wings.fitting.trial import scores_until
from transduce.wings.records.scores import Score, keep_scores, kept_scores

Call = Callable[..., tuple[int, str, str]]

RULES = """
[task.pronunciation]
title = "words and their pronunciations"
metric = "per"
units = { source = "characters", target = "symbols" }
[[task.pronunciation.candidate]]
recipe = "g2p-joint"
settings = { "model.order" = 3 }
instant = true
why = "counted"
[[task.pronunciation.candidate]]
name = "small"
recipe = "g2p-attention"
settings = { "training.steps" = 16, "model.encoder.width" = 8, "model.decoder.width" = 8 }
why = "attention"
[[task.pronunciation.candidate]]
name = "smaller"
recipe = "g2p-attention"
settings = { "training.steps" = 16, "model.encoder.width" = 4, "model.decoder.width" = 4 }
why = "less of it"
[[task.pronunciation.candidate]]
name = "smallest"
recipe = "g2p-attention"
settings = { "training.steps" = 16, "model.encoder.width" = 2, "model.decoder.width" = 2 }
why = "hardly any"
"""
LETTERS = "abcdefgh"
PAIRS = sorted(
    ((f"{a}{b}{c}", f"{a} {b} {c}") for a in LETTERS for b in LETTERS for c in LETTERS),
    key=lambda pair: hashlib.sha1(pair[0].encode()).digest(),  # any order that does not follow the letters
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    (folder / "rules.toml").write_text(RULES, encoding="utf-8")
    for name, pairs in (("train", PAIRS[::2]), ("valid", PAIRS[1::8]), ("test", PAIRS[5::8])):
        (folder / f"{name}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    return folder


def command(files: Path, out: Path) -> list[str]:
    splits = [str(files / "train.tsv"), *("--valid", str(files / "valid.tsv")), *("--test", str(files / "test.tsv"))]
    rest = ["--rules", str(files / "rules.toml"), "--threads", "2", "--out", str(out)]
    return [sys.executable, "-m", "transduce", "fit", *splits, *rest]


def trained(folder: Path) -> dict[str, object]:
    """What a fit found: the scores and the outputs of each finished trial."""
    found = {}
    for path in sorted(folder.rglob("trial.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        found[str(path.relative_to(folder))] = (result["scores"], result["outputs"], result["updates"])
    return found


@pytest.mark.slow
def test_a_killed_fit_goes_on_to_the_same_result(files: Path, tmp_path: Path) -> None:
    whole = subprocess.run(command(files, tmp_path / "whole"), check=True, capture_output=True, text=True)
    assert "go no further" in whole.stderr  # three networks: halving drops one
    process = subprocess.Popen(command(files, tmp_path / "cut"), stderr=subprocess.PIPE, text=True)
    time.sleep(8)  # while networks train; test_crashes_of_long_commands.py tries other moments
    process.send_signal(signal.SIGKILL)
    process.communicate()
    subprocess.run(command(files, tmp_path / "cut"), check=True, capture_output=True)
    assert trained(tmp_path / "whole.fit" / "trials") == trained(tmp_path / "cut.fit" / "trials")
    one, other = (transduce.load(tmp_path / name) for name in ("whole", "cut"))
    assert one([source for source, _ in PAIRS[:50]]) == other([source for source, _ in PAIRS[:50]])


def test_fit_from_python(files: Path, tmp_path: Path) -> None:
    told: list[str] = []
    stages: dict[str, list[str]] = {}

    def tell(line: str) -> None:
        told.append(line)
        stages[" ".join(line.split()[:2])] = [stage.name for stage in open_stages]

    wishes = Wishes(rules=files / "rules.toml", candidates=("g2p-joint",))
    ordered: dict[str, Any] = {"out": tmp_path / "run", "wishes": wishes, "tell": tell, "threads": 1}
    found = fit(PAIRS[:120], PAIRS[200:230], PAIRS[230:260], **ordered)
    examples = [Example(source, (target,)) for source, target in PAIRS[200:230]]
    assert found.name == "g2p-joint"
    assert found.load().evaluate(examples, [metric("per")]).scores == {"per": pytest.approx(found.score)}
    assert "g2p-joint was chosen" in found.report.read_text(encoding="utf-8")
    assert any("answers now: g2p-joint" in line for line in told)
    assert stages["g2p-joint: per"] == ["trains g2p-joint"]  # what the progress of the command shows then

    card = str(packed_card(found.run, found.run, kept_scores(found.run), "x"))
    assert f"| per | test | 30 | {found.test['per']:.2f} |" in card
    assert "| test | test.jsonl | 30 |" in card

    assert fit(PAIRS[:120], PAIRS[200:230], PAIRS[230:260], **ordered) == found
    assert "was chosen by an earlier call" in told[-1]
    with pytest.raises(UserError, match="has the work of another call: other data"):
        fit(PAIRS[:110], PAIRS[200:230], PAIRS[230:260], **ordered)


@pytest.mark.slow
def test_the_command_says_what_to_do_next_and_pack_measures_nothing_again(
    files: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    chosen = ("--rules", files / "rules.toml", "--candidates", "g2p-joint", "--threads", "1")
    splits = (files / "train.tsv", "--valid", files / "valid.tsv", "--test", "10%")  # or it trains in folds
    status, out, err = call("fit", *splits, "--out", run, *chosen)
    assert (status, out) == (0, f"{run}\n"), err
    assert f"transduce serve {run}\n" in err
    assert f"its errors: {run}.fit/report.html\n" in err
    assert "26 for the test at the end" in err

    monkeypatch.setattr(systems, "evaluate_model", None)
    status, _, err = call("pack", run, "--out", tmp_path / "packed")
    assert status == 0, err
    assert "the test scores that were measured before; --evaluate test measures again" in err
    assert "| per | test | 26 |" in (tmp_path / "packed" / "README.md").read_text()

    (run / "scores.json").write_text("{}")
    status, _, err = call("pack", run, "--out", tmp_path / "packed")
    assert status == 2
    assert "scores.json is damaged" in err


def test_scores_of_other_weights_are_not_shown(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    scores = [Score("per", 1.0, 0.5, 1.5, "test", 3, "s", False, Fingerprint("12ab", 3, ("t.tsv",)))]
    keep_scores(run, scores)
    assert [each.value for each in kept_scores(run)] == [1.0]
    (run / "checkpoints" / "best" / "checksums.sha256").write_text("other  model.safetensors\n")
    assert kept_scores(run) == []


def test_progress_says_how_long_the_slowest_trial_still_trains() -> None:
    watch = Watch(print, 0.5)
    assert watch.line({"a": 0.1, "b": 0.2}, 100) == "trained so far: a 10 %, b 20 % of the updates"
    assert watch.line({"a": 0.2, "b": 0.4}, 160) == (
        "trained so far: a 20 %, b 40 % of the updates, about 3.0 minutes left"
    )
    assert watch.line({}, 170) == ""


def test_the_choice_says_why_a_better_score_was_not_chosen() -> None:
    line = chosen_line("one", "per", 3.25, Interval(2.6, 4.0), {"one + other": 3.03})
    assert line.startswith("one was chosen: per 3.25 (2.60 to 4.00) on validation. It is not surely worse than one + ")
    assert "one + other (3.03)" in line
    assert chosen_line("one", "per", 3.25, Interval(2.6, 4.0), {}).endswith("on validation.")


def test_work_that_took_too_long_says_why() -> None:
    assert late(None, 1e6) == late(3, 190) == []
    (line,) = late(3, 276)
    assert line.startswith("this took 4.6 minutes, and --minutes was 3: ")


@pytest.mark.slow
def test_the_report_has_mixtures_and_growth(files: Path, tmp_path: Path) -> None:
    wishes = Wishes(rules=files / "rules.toml", candidates=("g2p-joint", "small"))
    found = fit(PAIRS[:200], PAIRS[200:300], out=tmp_path / "run", wishes=wishes, minutes=5)
    report = found.report.with_name("report.md").read_text(encoding="utf-8")
    for told in ("| g2p-joint |", "| small |", "| g2p-joint + small |", "beside small: +", "twice as many pairs"):
        assert told in report


@pytest.mark.slow
def test_few_pairs_are_judged_by_folds_and_learned_as_a_whole(files: Path, tmp_path: Path) -> None:
    wishes = Wishes(rules=files / "rules.toml", candidates=("g2p-joint",))
    found = fit(PAIRS[:40], out=tmp_path / "run", wishes=wishes)
    runs = {path.parent.name for path in (tmp_path / "run.fit" / "trials").rglob("trial.json")}
    assert runs == {"fold1", "fold2", "fold3", "fold4"}
    assert found.load().settings["data"]["train"]["path"].endswith("everything.train.jsonl")


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"prefer": "beauty"}, "'quality' or 'speed' was expected"),
        ({"task": "sing"}, "no rule for the task 'sing'"),
        ({"candidates": ("g2p-joint", "none")}, "no candidate 'none'"),
        ({"metric": "glory"}, "glory"),
        ({"task": "text"}, "texts without a source"),
    ],
)
def test_wishes_that_cannot_be_met(wishes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((UserError, ValueError), match=message):
        fit(PAIRS, out=tmp_path / "run", wishes=Wishes(**wishes))


def test_a_run_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="already holds a run"):
        fit(PAIRS, out=tmp_path / "run")


def test_auto_is_the_first_candidate_and_a_user_s_settings_win(tmp_path: Path) -> None:
    pairs = [(f"{source} and {source}", "good" if "a" in source else "bad") for source, _ in PAIRS[:60]]
    small = {"training.steps": 2, "model.model.encoder.width": 8, "model.weight": 0.25}
    transducer = transduce.train("auto", tmp_path / "run", small, pairs, progress=False)
    assert transducer.settings["model"]["type"] == "labels-with-counts"  # classification
    assert transducer.settings["model"]["weight"] == 0.25
    assert transducer.settings["training"]["steps"] == 2
    with pytest.raises(UserError, match="auto needs your pairs"):
        transduce.train("auto", tmp_path / "none", progress=False)


def test_the_cost_of_halving() -> None:
    costs = {"a": 4.0, "b": 8.0, "c": 12.0}
    assert needed(costs, ["a", "b"]) == 12
    assert needed(costs, ["a", "b", "c"]) == 24 / 4 + 0.75 * 20


def test_the_power_law_of_growth() -> None:
    """Errors 40, 20 and 10 with 1, 2 and 4 times the pairs halve again with 8 times."""
    import numpy as np

    assert _factors([100, 200, 400], np.array([[40.0], [20.0], [10.0]]), False)[0] == pytest.approx(0.5)
    assert _factors([100, 200, 400], np.array([[60.0], [80.0], [90.0]]), True)[0] == pytest.approx(0.5)


def test_scores_until_an_update(tmp_path: Path) -> None:
    """Also a validation after the pause, of a candidate that went on, does not change an earlier decision."""
    events = [
        {"event": "validation", "what": "valid", "step": s, "loss": 9.0, "metrics": {"per": p}}
        for s, p in [(2, 5.0), (4, 3.0), (6, 1.0)]
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    assert scores_until(tmp_path, 3, "per") == [5.0, 3.0]
    assert scores_until(tmp_path, 9, "bleu") == []


def test_a_mixture_is_one_run(tmp_path: Path) -> None:
    """The run of a mixture answers as its members do, also after they are gone."""
    small = {"training.steps": 5, "model.encoder.width": 8, "model.decoder.width": 8, "data.units.source": "characters"}
    transduce.train("g2p-attention", tmp_path / "one", small, PAIRS[:60], progress=False)
    counted = {"data.units.source": "characters"}
    transduce.train("g2p-joint", tmp_path / "other", counted, PAIRS[:60], progress=False)
    sources = [source for source, _ in PAIRS[60:80]]
    expected = transduce.load(f"{tmp_path / 'one'}+{tmp_path / 'other'}")(sources)
    write_mixture(tmp_path / "both", [tmp_path / "one", tmp_path / "other"], {"per": 1.0})
    shutil.rmtree(tmp_path / "one")
    assert transduce.load(tmp_path / "both")(sources) == expected


def test_speed_is_preferred_among_equals() -> None:
    """The fastest of the choices that are not significantly worse than the best."""
    best, equal, worse = (Choice((), (), seconds) for seconds in (3.0, 2.0, 1.0))
    p_of = {id(equal): 0.4, id(worse): 0.01}

    class Tests:
        def gain(self, one: Choice, other: Choice) -> Difference:
            return Difference(1.0, Interval(0.0, 2.0), 0.5, p_of[id(other)])

    choices, tests = [worse, equal, best], cast("Validation", Tests())
    assert preferred(choices, tests, "quality")[-1] is best
    assert preferred(choices, tests, "speed")[-1] is equal


def test_a_mixture_grows_in_each_group_of_equal_vocabularies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best single candidate cannot be mixed; a mixture of the two others is better."""
    linear, one, other = (Candidate(name, name) for name in ("linear", "one", "other"))
    scores = {"linear": 80.0, "one": 79.0, "other": 78.0, "one + other": 82.0}

    class Results:
        finished, sign = (linear, one, other), 1

        def of(self, candidate: Candidate) -> Choice:
            return Choice((candidate,), (), 1.0)

        def statistics(self, choice: Choice) -> SimpleNamespace:
            return SimpleNamespace(score=scores[choice.name])

        def gain(self, choice: Choice, beside: Choice) -> Difference:
            return Difference(scores[choice.name] - scores[beside.name], Interval(0.0, 0.0), 0.01, 0.01)

    monkeypatch.setattr(mixtures, "_mixable", lambda trials, first, second: linear not in (first, second))
    monkeypatch.setattr(mixtures, "_mixed", lambda trials, validation, members: Choice(members, (), 2.0))
    found = mixtures.forward_selection(cast("Trials", Results()), cast("Validation", Results()))
    assert [each.name for each in found] == ["other", "one", "linear", "one + other"]


def test_a_metric_of_the_user_is_measured_by_every_candidate() -> None:
    found = Wishes(metric="cer").task_for(survey(Given(PAIRS)))
    assert all("cer" in candidate.settings["metrics"] for candidate in found.candidates)


def test_a_candidate_without_updates_is_not_halved() -> None:
    """digits-hmm learns in passes: it trains to its end, beside two networks and more."""
    rounds: list[tuple[list[str], float | None]] = []
    candidates = tuple(Candidate(name, "digits") for name in ("a", "b", "c", "hmm"))
    plan = Plan(candidates, {"a": 8, "b": 8, "c": 8}, 1, 1)

    class Rounds(Trials):
        def _round(self, candidates: Sequence[Candidate], share: float | None, better: Any) -> None:
            rounds.append(([each.name for each in candidates], share))

        def _halved(self, candidates: Sequence[Candidate], share: float) -> tuple[list[Candidate], list[str]]:
            return list(candidates[:2]), ["c"]

    Rounds(Task("t", "t", "per", candidates), (), {}, Path(), plan, "cpu", print).train(print)
    assert rounds == [([], None), (["a", "b", "c"], 0.25), (["a", "b", "hmm"], None)]
