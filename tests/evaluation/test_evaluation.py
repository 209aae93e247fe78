"""Results of systems: runs and files, groups of sources, significance, the commands, and their pages."""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transduce
from transduce.answers.transducer import Transducer
from transduce.cli import app
from transduce.core.types import Example, Prediction
from transduce.data.frequencies import Frequencies
from transduce.evaluation import systems
from transduce.evaluation.calibration import calibrate
from transduce.evaluation.groups import groupings
from transduce.evaluation.run_results import ReportParts
from transduce.evaluation.systems import System
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import statistics

FEW = Resampling(resamples=200, trials=200)
Call = Callable[..., tuple[int, str, str]]


def system(name: str, texts: Sequence[str], examples: Sequence[Example], *metrics: str) -> System:
    predictions = [Prediction(text) for text in texts]
    return System(name, predictions, statistics([metric(each) for each in metrics], predictions, examples))


@pytest.fixture(scope="module")
def model(trained: Path) -> Transducer:
    return transduce.load(trained, "last", "cpu")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def calling(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["transduce", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        status: Any = 0
        try:
            app.main()
        except SystemExit as exit:
            status = exit.code or 0
        return status, *capsys.readouterr()

    return calling


# ------------------------------------------------------------------ comparing


def test_a_file_needs_a_line_for_each_example(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    examples = [Example("a", ("x",)), Example("b", ("",)), Example("c", ("z",))]
    path = tmp_path / "out.txt"
    path.write_bytes(b"x\r\n\nz\xe2\x80\xa8\n")
    found = systems.evaluate_file(path, examples, [metric("exact"), metric("perplexity")])
    assert found.concerns == []
    systems.tell_concerns([systems.evaluate_file(path, examples, [metric("per"), metric("bleu")])] * 2)
    assert [line.split(":")[0] for line in caplog.messages] == ["bleu does not suit these references"]
    assert [prediction.text for prediction in found.predictions] == ["x", "", "z\u2028"]
    assert found.scores == {"exact": pytest.approx(200 / 3)}
    zipped = tmp_path / "out.txt.gz"
    zipped.write_bytes(gzip.compress(b"\xef\xbb\xbfx\n\nz"))
    assert systems.evaluate_file(zipped, examples, [metric("exact")]).scores == {"exact": 100.0}
    for wrong in (b"x\ny\n", b"", b"x\n\nz\n\n"):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"out\.txt has \d lines for 3 examples"):
            systems.evaluate_file(path, examples, [metric("exact")])


# --------------------------------------------------------------------- groups


def test_groups_have_labels_and_intervals() -> None:
    examples = [Example("a b", ("x",)), Example("a c d e", ("x",)), Example("a new", ("x",)), Example("a b", ("x",))]
    found = system("s", ["x", "x", "y", "y"], examples, "exact")
    met = Frequencies({"a": 1000, "b": 7, "c": 1, "d": 3, "e": 2}, frozenset({"a b"}))  # type: ignore[arg-type]
    length, rarest, seen = groupings(found.statistics, examples, met, 4, FEW)
    assert (length.labels, rarest.labels, seen.labels) == (("2", "4"), ("unseen", "1", "7"), ("new", "seen"))
    assert [each.scores["exact"] for each in rarest.bins] == [0, 100, 50]
    assert [each.examples for each in seen.bins] == [2, 2]
    assert rarest.bins[2].intervals["exact"] == (0, 100)
    assert length.record()["groups"][1]["metrics"] == {"exact": 100}
    assert [each.key for each in groupings(found.statistics, examples, None)] == ["length"]
    assert [each.labels for each in groupings(found.statistics, examples, met, 1)] == [
        ("2–4",),
        ("0–7",),
        ("new or seen",),
    ]


# ---------------------------------------------------------------- calibration


def coins(outputs: int) -> Iterator[transduce.Output]:
    """Outputs of a model whose first choices are right as often as their probabilities say."""
    draw = np.random.default_rng(0)
    for _ in range(outputs):
        sure = draw.random(20)
        right = draw.random(20) < sure
        best = np.log(sure)
        given = np.where(right, best, best - 1)
        yield transduce.Output("", (), 0.0, 0.0, tuple(given.tolist()), tuple(best.tolist()), tuple(right.tolist()))


def test_a_calibrated_model_has_no_calibration_error() -> None:
    found = calibrate(list(coins(2000)), bins=10)
    assert found.tokens == 40_000
    assert found.error < 0.01
    for each in found.bins:
        assert each.accuracy == pytest.approx(each.confidence, abs=0.03)


def test_a_models_first_choices_are_asked_for(model: Transducer) -> None:
    examples = [Example("abc", ("cba", "other")), Example("b", ("b",)), Example("", ("",))]
    forced = list(model.score((each.source, each.references[0]) for each in examples))
    asked = model.evaluate(examples, [metric("exact")], forcing=True)
    assert (asked.forced, asked.lengths) == (forced, [4, 2, 1])
    assert model.evaluate(examples, [metric("exact")]).forced == []
    found = calibrate(forced)
    sure = [math.exp(best) for output in forced for best in output.best_log_probs]
    assert found.tokens == len(sure) == 4 + 2 + 1
    assert found.confidence == pytest.approx(np.mean(sure))
    right = [output.token_log_probs[n] == best for output in forced for n, best in enumerate(output.best_log_probs)]
    assert found.accuracy == pytest.approx(np.mean(right))
    with pytest.raises(ValueError, match="no reference"):
        model.evaluate([Example("abc")], [], forcing=True)


def test_a_report_of_numbers_has_no_calibration(model: Transducer) -> None:
    class Regressor(torch.nn.Linear):
        predict = torch.nn.Linear.forward

    class Numbers:
        model = Regressor(1, 1)

    assert ReportParts().for_page(Numbers()) == ReportParts(6, True, False)  # type: ignore[arg-type]
    assert ReportParts(calibration=True).for_page(Numbers()).calibration  # type: ignore[arg-type]  # to be refused, not lost
    assert ReportParts(bins=3).for_page(model) == ReportParts(3, True, True)


# ---------------------------------------------------------------------- pages


class Reader(HTMLParser):
    """Checks that every element is closed where it should be. Collects tags, attributes and texts."""

    VOID = ("meta", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def read(page: str) -> Reader:
    """Reads a page. Checks that it is well-formed, loads nothing and has no script."""
    reader = Reader(page)
    assert page.startswith("<!DOCTYPE html>")
    assert not {"script", "b", "img", "link", "iframe"} & set(reader.tags)
    assert not {"src", "href", "onload"} & {name for name, _ in reader.attributes}
    assert "http" not in page
    assert "url(" not in page
    return reader


# ------------------------------------------------------------------- commands


@pytest.fixture
def files(tmp_path: Path, model: Transducer) -> dict[str, Path]:
    """Three sources, two references for each, and outputs of a system that is mostly wrong."""
    answers = model(["abc", "zé", "ab"])
    contents = {
        "source": ["abc", "zé", "ab"],
        "first": ["nothing", answers[1], "q"],
        "second": [answers[0], "", "qq"],
        "outputs": ["x", answers[1], "x"],
    }
    for name, lines in contents.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rows = zip(*(contents[name] for name in ("source", "first", "second")), strict=True)
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"source": a, "target": [b, c] if c else b}) + "\n" for a, b, c in rows)
    )
    return {name: tmp_path / name for name in (*contents, "rows.jsonl")}


def both(files: dict[str, Path]) -> list[str]:
    return [f"--source={files['source']}", f"--target={files['first']}", f"--target={files['second']}"]


def test_several_references_by_files_and_by_json_are_the_same(
    trained: Path, files: dict[str, Path], call: Call
) -> None:
    asked = ["evaluate", trained, "--checkpoint=last", "--device=cpu", "--json", "--metric=exact", "--metric=bleu"]
    status, out, _ = call(*asked, *both(files))
    record = json.loads(out)
    assert (status, record["examples"]) == (0, 3)
    assert record["metrics"]["exact"] == pytest.approx(200 / 3)
    assert "nrefs:var" in record["signatures"]["bleu"]
    other = json.loads(call(*asked, f"--pairs={files['rows.jsonl']}")[1])
    assert {**record, "seconds": 0} == {**other, "seconds": 0}


def test_without_its_training_set_a_run_is_measured_all_the_same(
    own_run: Path, files: dict[str, Path], call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    config = own_run / "config.toml"
    head, _, rest = config.read_text().partition("[data.origin]")
    gone = '[data.train]\nsource = "/gone/s"\ntarget = "/gone/t"\n\n[data.origin]'
    config.write_text(head + gone + rest)
    status, out, _ = call("evaluate", own_run, "--device=cpu", *both(files), "--bins=2", "--json")
    assert (status, set(json.loads(out)["groups"])) == (0, {"length"})
    assert "no results by what was seen in training: no such file: /gone/s" in caplog.text


def test_a_test_split_of_other_data_is_told_and_one_that_is_missing_is_asked_for(
    own_run: Path, files: dict[str, Path], call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    """The first is a run of an earlier version: its training set is the user's, and its test split the recipe's."""
    config = own_run / "config.toml"
    head, _, rest = config.read_text().partition("[data.origin]")
    own = f'[data.train]\nsource = "{files["source"]}"\ntarget = "{files["first"]}"\n\n'
    config.write_text(head + own + "[data.origin]" + rest)
    assert call("evaluate", own_run, "--device=cpu", "--json")[0] == 0
    assert "test: of the origin reverse, not of your training data; set data.test" in caplog.text
    after = rest.partition("\n[")[2]
    config.write_text(head + own + "[" + after)
    status, _, err = call("evaluate", own_run, "--device=cpu")
    assert status == 2
    assert "there is no test split: name the examples with --source and --target" in err


def test_what_is_left_out_of_a_split_is_told(
    own_run: Path, tmp_path: Path, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "test.tsv").write_bytes(b"abc\tcba\ncaf\xe9\tb\nab\n\tc\n")
    config = own_run / "config.toml"
    head, _, rest = config.read_text().partition("[data.origin]")
    config.write_text(f'{head}[data.test]\npath = "{tmp_path / "test.tsv"}"\n\n[data.origin]{rest}')
    status, out, _ = call("evaluate", own_run, "--device=cpu", "--json", "--metric=exact")
    assert (status, json.loads(out)["examples"]) == (0, 2)
    found = [record.getMessage().splitlines() for record in caplog.records if record.name == "transduce"]
    assert found[:1] == [
        [
            "test: 2 pairs",
            f"  1 undecodable (skip): {tmp_path / 'test.tsv'}:2 (byte 0xe9 at 3 is not UTF-8; as WINDOWS-1252 the "
            "text is 'café')",
            f"  1 malformed (skip): {tmp_path / 'test.tsv'}:3 (1 tab-separated column found, at least 2 expected for "
            "columns 0, 1)",
            f"  1 empty (keep): {tmp_path / 'test.tsv'}:4",
        ]
    ]


def test_of_files_no_line_is_left_out(
    trained: Path, files: dict[str, Path], call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    asked = ["evaluate", trained, "--device=cpu", "--metric=exact"]
    assert call(*asked, *both(files))[0] == 0  # an empty reference does not count
    told = [each.getMessage() for each in caplog.records]
    assert [line[:5] for line in told if " outputs " not in line] == ["input"]  # one source has an unknown character
    files["source"].write_bytes(b"a\xff\nb\nc\n")
    status, out, err = call(*asked, *both(files))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{files['source']}:1: byte 0xff at 1 is not UTF-8" in err
    rows = files["rows.jsonl"]
    rows.write_text('{"source": "a", "target": "b"}\n{"source": "a"}\n')
    status, out, err = call(*asked, f"--pairs={rows}")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{rows}:2: keys 'source', 'target' expected, 'source' found; mend the line or take it out" in err


# ----------------------------------------------------------------------- docs
