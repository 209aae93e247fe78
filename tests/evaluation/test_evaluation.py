"""Results of systems: runs and files, groups of sources, significance, the commands, and their pages."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_markup import contrast

import transduce
from transduce.answers.transducer import Transducer
from transduce.cli import app
from transduce.core.types import Example, Prediction
from transduce.data.frequencies import Frequencies
from transduce.evaluation import systems
from transduce.evaluation.calibration import calibrate
from transduce.evaluation.groups import groupings
from transduce.evaluation.run_results import ReportParts, run_results
from transduce.evaluation.systems import System, mean_of_seeds
from transduce.metrics.base import metric
from transduce.metrics.calibration import calibration
from transduce.metrics.confusions import label_breakdowns
from transduce.metrics.significance import Interval, Resampling
from transduce.metrics.statistics import Statistics, statistics
from transduce.wings.lab.comparison import Comparison, compare
from transduce.wings.lab.reports.comparison import comparison_page
from transduce.wings.lab.reports.differences import compared
from transduce.wings.lab.reports.evaluation import evaluation_page
from transduce.wings.lab.reports.figures import DEEPEST, bars, confusions, reliability
from transduce.wings.lab.reports.passages import cards, changed, drawn, worst
from transduce.wings.pages.palette import DARK, LIGHT
from transduce.wings.records.record import Record

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


@pytest.fixture
def three() -> Comparison:
    """Three systems that are right for about 30, 32 and 90 % of the examples."""
    draw = random.Random(0)
    examples = [Example(f"source {n}", (f"right {n}",)) for n in range(200)]
    texts = {
        name: [each.references[0] if draw.random() < share else "wrong" for each in examples]
        for name, share in {"runs/a": 0.30, "runs/b": 0.32, "runs/c": 0.9}.items()
    }
    return compare(
        [system(name, each, examples, "exact", "cer") for name, each in texts.items()], examples, "test", FEW
    )


def test_what_is_real_is_told_with_its_direction(three: Comparison) -> None:
    told = {(pair.metric, pair.one[-1] + pair.other[-1]): pair for pair in three.pairs}
    assert list(told) == [(name, pair) for name in ("exact", "cer") for pair in ("ab", "ac", "bc")]
    for name in ("exact", "cer"):
        assert not told[name, "ab"].real
        assert [told[name, pair].better for pair in ("ac", "bc") if told[name, pair].real] == ["runs/c", "runs/c"]
    assert told["exact", "ac"].difference.value < 0 < told["cer", "ac"].difference.value
    for pair in three.pairs:
        assert pair.adjusted_p >= pair.difference.randomisation_p
        assert pair.difference.interval.low <= pair.difference.value <= pair.difference.interval.high


def test_only_differences_from_a_baseline_are_tested(three: Comparison) -> None:
    found = compare(three.systems, three.examples, "test", FEW, ["runs/b"])
    assert [(pair.one, pair.other) for pair in found.pairs] == [("runs/a", "runs/b"), ("runs/c", "runs/b")] * 2
    every = {(pair.metric, pair.one, pair.other): pair for pair in three.pairs}
    same = every["exact", "runs/a", "runs/b"]
    assert found.pairs[0].difference == same.difference
    assert found.pairs[1].adjusted_p == pytest.approx(2 / 201)  # adjusted for two pairs; for three it is 3 / 201
    assert found.pairs[1].better == "runs/c"
    two = compare(three.systems, three.examples, "test", FEW, ["runs/c", "runs/a"])
    pairs = [("runs/b", "runs/c"), ("runs/b", "runs/a"), ("runs/c", "runs/a")]
    assert [(pair.one, pair.other) for pair in two.pairs] == pairs * 2


def test_a_comparison_is_told_in_lines_and_as_json(three: Comparison) -> None:
    lines = three.lines()
    assert lines[0] == "test: 200 examples"
    assert [line.split()[0] for line in lines[2:5]] == ["a", "b", "c"]  # the folder that all systems share is left out
    assert sum("c is better" in line for line in lines) == 4
    assert sum("not shown" in line for line in lines) == 2
    record = json.loads(json.dumps(three.record()))
    assert [each["name"] for each in record["systems"]] == ["runs/a", "runs/b", "runs/c"]
    assert record["pairs"][1] == {
        "metric": "exact",
        "one": "runs/a",
        "other": "runs/c",
        "difference": pytest.approx(three.pairs[1].difference.value),
        "interval": list(three.pairs[1].difference.interval),
        "bootstrap_p": pytest.approx(1 / 201),
        "randomisation_p": pytest.approx(1 / 201),
        "adjusted_p": pytest.approx(3 / 201),
        "better": "runs/c",
    }
    assert record["resampling"] == "bs:200|ar:200|seed:12345"


def test_tokens_of_different_vocabularies_are_not_compared() -> None:
    surprise, words = metric("perplexity"), metric("perplexity_word")

    def of(name: str, vocabulary: str) -> System:
        rows = np.array([[2.0, 1.0], [1.0, 1.0]])
        return System(name, [Prediction("")] * 2, [Statistics(each, rows) for each in (surprise, words)], 1, vocabulary)

    examples = [Example("a", ("b",))] * 2
    assert compare([of("one", "v"), of("other", "v")], examples, "", FEW).metrics == ["perplexity", "perplexity_word"]
    found = compare([of("one", "v"), of("other", "w")], examples, "", FEW)
    assert found.metrics == ["perplexity_word"]
    assert "not compared: perplexity, which is of the models' own tokens" in found.lines()[-1]
    file = system("out.txt", ["b", "b"], examples, "exact")
    with pytest.raises(ValueError, match=r"no metric that one and out\.txt can be compared by \(perplexity: which out"):
        compare([of("one", "v"), file], examples, "", FEW)
    for same in ([file, file], [file]):
        with pytest.raises(ValueError, match="two or more different systems"):
            compare(same, examples, "", FEW)


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


NASTY = '<script>alert("x")</script> & <b>'


def read(page: str) -> Reader:
    """Reads a page. Checks that it is well-formed, loads nothing and has no script."""
    reader = Reader(page)
    assert page.startswith("<!DOCTYPE html>")
    assert not {"script", "b", "img", "link", "iframe"} & set(reader.tags)
    assert not {"src", "href", "onload"} & {name for name, _ in reader.attributes}
    assert "http" not in page
    assert "url(" not in page
    return reader


def test_the_page_of_an_evaluation(model: Transducer, trained: Path) -> None:
    examples = [Example("abc", (NASTY,)), Example(NASTY, ("cba", "other")), Example("zz", ("q r",))] * 4
    metrics = [metric(name) for name in ("cer", "exact", "perplexity")]
    own = systems.evaluate_model(str(trained), model, examples, metrics, forcing=True)
    results = run_results(own, model, trained, examples, "test", ReportParts().for_page(model), FEW)
    other = system("other.txt", [NASTY, "cba", "q"] * 4, examples, "cer", "exact")
    reader = read(evaluation_page(results, compare([own, other], examples, "test", FEW)))
    headings = reader.texts["h2"]
    assert headings == [
        "Scores",
        "Differences",
        "cer by the source",
        "Errors",
        "Calibration",
        "Most changed from other.txt",
        "Worst by cer",
        "At random",
    ]
    assert reader.texts["h1"] == [f"Evaluation of {trained}"]
    assert reader.tags.count("svg") == 1
    assert [text.strip() for text in reader.texts["caption"]] == [
        *("words in the source", "times the rarest word of the source stands in training"),
        "whole source in training",
    ] * 2  # once as bars of one metric, once as numbers of all metrics
    assert reader.tags.count("article") == 10 + 10 + 10
    assert any(NASTY in text for text in reader.texts["dd"] + reader.texts["del"] + reader.texts["mark"])
    alone = read(evaluation_page(run_results(own, model, trained, examples, "test", ReportParts(), FEW)))
    assert [*alone.texts["h2"]] == ["Scores", "Worst by cer", "At random"]


def test_the_page_of_a_comparison(three: Comparison) -> None:
    reader = read(comparison_page(three))
    assert reader.texts["h1"] == ["Comparison of a, b, c"]
    assert [text for text in reader.texts["h2"] if text.startswith("Most")] == [
        "Most changed between a and b",
        "Most changed between a and c",
        "Most changed between b and c",
    ]
    assert sum(text == "c is better" for text in reader.texts["span"]) == 4
    assert reader.tags.count("article") == 30


def drawing(figure: str, tag: str) -> list[dict[str, str]]:
    """The attributes of each element with this tag."""
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', found)) for found in re.findall(rf"<{tag} [^>]*>", figure)]


def test_bars_are_as_long_as_their_values() -> None:
    intervals = [Interval(15, 40), None, None]
    figure = bars("title", "cer", ["a", "b", "c"], [20.0, 10.0, math.inf], intervals, [1234, 5, 6], (0.0, 40.0))
    styles = [each["style"] for each in drawing(figure, "span") if "style" in each]
    assert styles == ["left: 0%; width: 50%", "left: 37.5%; width: 62.5%", "left: 0%; width: 25%"]  # infinite: no bar
    assert '<th scope="row">a</th>' in figure
    assert re.findall("<td>([^<]*)</td>", figure) == ["20.0", "1,234", "10.0", "5", "–", "6"]


def test_bars_of_negative_values_lie_to_the_left_of_zero() -> None:
    figure = bars("title", "mcc", ["a", "b"], [-10.0, 30.0], [Interval(-10, 20), None], [1, 1], (-10.0, 30.0))
    styles = [each["style"] for each in drawing(figure, "span") if "style" in each]
    assert styles == ["left: 0%; width: 25%", "left: 0%; width: 75%", "left: 25%; width: 75%"]


def test_confusions_are_shaded_by_their_share_of_the_row() -> None:
    examples = [Example("x", ("A A A A",)), Example("x", ("B",))]
    (found,) = label_breakdowns([metric("accuracy")], [Prediction("A A A B"), Prediction("A")], examples)
    cells = re.findall(r'<span style="[^"]*--(\w+)\) (\d+)%[^"]*"( class="right")?>([^<]*)</span>', confusions(found))
    right = ' class="right"'
    assert cells == [
        ("blue", "34", right, "3"),
        ("orange", "11", "", "1"),
        ("orange", "45", "", "1"),
        ("blue", "0", right, ""),
    ]
    assert all(contrast_of_shade(colors) > 4.5 for colors in (LIGHT, DARK))


def contrast_of_shade(colors: dict[str, str]) -> float:
    """The contrast of text on the deepest shade of blue or orange, whichever is lower."""

    def mixed(hue: str) -> str:
        pairs = ((int(colors[each][at : at + 2], 16) for each in (hue, "paper")) for at in (1, 3, 5))
        return "#" + "".join(f"{round((DEEPEST * one + (100 - DEEPEST) * other) / 100):02x}" for one, other in pairs)

    return min(contrast(colors["ink"], mixed(hue)) for hue in ("blue", "orange"))


def test_reliability_is_drawn_from_the_lower_left_to_the_upper_right() -> None:
    figure = reliability(calibration([0.2] * 4 + [1.0] * 16, [True] + [False] * 3 + [True] * 16, bins=5))
    box, (first, last) = drawing(figure, "rect")[0], drawing(figure, "circle")
    left, top, side = (float(box[name]) for name in ("x", "y", "width"))
    assert (float(first["cx"]), float(first["cy"])) == pytest.approx((left + 0.2 * side, top + 0.75 * side), abs=0.01)
    assert (float(last["cx"]), float(last["cy"])) == pytest.approx((left + side, top), abs=0.01)
    assert float(first["r"]) - 2 == pytest.approx((float(last["r"]) - 2) / 2)  # it has a quarter of the tokens


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("a b c", "a b c", "a b c"),
        ("a x c", "a b c", "a <del>b</del> <mark>x</mark> c"),
        ("a c d", "a b c", "a <del>b</del> c <mark>d</mark>"),
        ("axc", "abc", "a<del>b</del><mark>x</mark>c"),
        ("", "a b", "<del>a b</del>"),
        ("a <i>", "a", "a <mark>&lt;i&gt;</mark>"),
    ],
)
def test_differing_words_are_marked(text: str, wanted: str, expected: str) -> None:
    assert compared(text, wanted) == expected


def test_examples_worth_reading_are_chosen() -> None:
    examples = [Example("", ("abcd",)) for _ in range(6)]
    one = system("one", ["abcd", "abcx", "abxx", "xxxx", "abcd", "yyyyyyyy"], examples, "cer")
    other = system("other", ["abcd", "abcx", "abcd", "xxxx", "xxxx", "abcd"], examples, "cer")
    assert worst(one, examples) == [5, 3, 2, 1]
    assert worst(one, examples, 2) == [5, 3]
    assert changed(one, other) == [5, 4, 2]
    assert changed(one, one) == []
    assert drawn(examples, 3, 4) == drawn(examples, 3, 4) != drawn(examples, 4, 4)
    assert len(drawn(examples, 0)) == 6
    right = system("e", ["abcd", "abcx", "zzzzz", "abcd", "abcd", "abcd"], examples, "exact")
    assert worst(right, examples) == [2, 1]  # if scores are equal, the output further from the reference is first


def test_a_card_shows_the_score_by_which_it_was_chosen() -> None:
    examples = [Example("", ("a cat sat",))]
    short = system("short", ["a cat sat"], examples, "bleu")  # as a corpus, its BLEU is 0: it has no 4-gram
    assert "bleu 100.0" in cards([0], examples, [short], ["short"])


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


def test_evaluate_tells_all_it_is_asked(trained: Path, files: dict[str, Path], tmp_path: Path, call: Call) -> None:
    page = tmp_path / "pages" / "report.html"
    asked = ["evaluate", trained, "--device=cpu", *both(files), "--resamples=50", "--trials=60", "--seed=7"]
    more = [f"--against={files['outputs']}", "--bins=2", "--calibration", f"--report={page}"]
    record = json.loads(call(*asked, *more, "--json")[1])
    assert set(record) == {
        *("run", "examples", "metrics", "intervals", "signatures", "resampling", "seconds"),
        *("groups", "errors", "calibration", "against"),
    }
    assert record["resampling"] == "bs:50|ar:60|seed:7"
    assert set(record["groups"]) == {"length", "rarest", "seen"}
    assert sum(each["examples"] for each in record["groups"]["length"]["groups"]) == 3
    low, high = record["intervals"]["exact"]
    assert low <= record["metrics"]["exact"] <= high
    assert record["calibration"]["tokens"] > 3
    assert record["against"]["systems"][1]["name"] == str(files["outputs"])
    read(page.read_text(encoding="utf-8"))
    status, out, _ = call(*asked, "--bins=2", "--calibration")
    assert status == 0
    assert "  95 % intervals: bs:50|ar:60|seed:7" in out.splitlines()
    assert "characters in the source" in out
    assert "times the rarest character of the source stands in training" in out
    assert "expected calibration error" in out


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


def test_compare_runs_and_files(
    trained: Path, sister: Path, files: dict[str, Path], tmp_path: Path, call: Call
) -> None:
    page = tmp_path / "page.html"
    asked = ["compare", trained, sister, files["outputs"], *both(files), "--device=cpu", "--trials=100"]
    status, out, _ = call(*asked, "--metric=exact", "--metric=perplexity", f"--report={page}")
    assert status == 0
    assert out.splitlines()[0] == f"{files['source']}: 3 examples"
    assert f"not compared: perplexity, which {files['outputs']} cannot be asked" in out
    assert sum(line.startswith("  exact") and "not shown" in line for line in out.splitlines()) == 3
    read(page.read_text(encoding="utf-8"))
    record = json.loads(call(*asked[:3], "--device=cpu", "--split=valid", "--trials=100", "--beam=1", "--json")[1])
    assert (record["corpus"], record["examples"]) == ("valid", 100)
    assert {pair["metric"] for pair in record["pairs"]} == {"exact", "cer"}  # the run's own metrics
    short = json.loads(call(*asked[:3], "--split=valid", "--trials=100", "--set=search.max_length=1", "--json")[1])
    assert [each["metrics"]["exact"] for each in short["systems"]] == [0, 0]  # --set holds for every run
    assert short["systems"][0]["metrics"]["cer"] != record["systems"][0]["metrics"]["cer"]


def test_seeds_are_compared_by_their_means(files: dict[str, Path], tmp_path: Path, call: Call) -> None:
    """Each file has three lines. Its name says how many of them are right."""
    right = files["first"].read_text().splitlines()
    for name, count in {"none": 0, "one": 1, "two": 2, "three": 3}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in [*right[:count], *["x"] * (3 - count)]))
    low, high = (",".join(str(tmp_path / name) for name in pair) for pair in (("none", "two"), ("one", "three")))
    page, kept = tmp_path / "page.html", tmp_path / "kept.json"
    asked = ["compare", high, low, "--metric=exact", "--trials=100", *both(files)]
    told = call(*asked, f"--report={page}", f"--record={kept}")[1]
    found = json.loads(call(*asked, "--json")[1])
    assert [each["metrics"]["exact"] for each in found["systems"]] == pytest.approx([200 / 3, 100 / 3])
    seeds = [(Path(seed["name"]).name, seed["metrics"]["exact"]) for seed in found["systems"][0]["seeds"]]
    assert seeds == [("one", pytest.approx(100 / 3)), ("three", 100)]
    assert found["pairs"][0]["difference"] == pytest.approx(100 / 3)
    assert re.search(r"one,three +66\.67 \[.*\], seeds 33\.33 to 100\.00", told)
    assert "the outputs on this page are those of the first seed" in page.read_text(encoding="utf-8")
    record = Record.read(kept)
    assert [system.name for system in record.systems] == ["one", "three", "none", "two"]
    assert (record.differences[0].one, record.differences[0].other) == ("one,three", "none,two")
    assert record.systems[1].scores["exact"].low == 100


def test_outputs_of_other_systems_are_compared_without_any_run(files: dict[str, Path], call: Call) -> None:
    status, out, _ = call("compare", files["outputs"], files["first"], *both(files), "--json")
    record = json.loads(out)
    assert (status, set(record["signatures"])) == (0, {"bleu", "chrf++", "ter"})
    assert record["systems"][1]["metrics"]["ter"] == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["compare", "outputs", "first"], "files of outputs have no examples: give --source and --target"),
        (["compare", "outputs", "RUN", "--source=x"], "--source and --target go together"),
        (["compare", "outputs", "RUN", "--source=x", "--target=y", "--pairs=z"], "--pairs has both sides"),
        (["compare", "RUN", "nothing"], "nothing is no run directory"),
        (
            ["compare", "outputs,outputs", "nothing", "--source=source", "--target=first"],
            "different ones were expected before and after each comma",
        ),
        (["compare", "none,first", "second", "--source=source", "--target=first"], "give the same number of seeds"),
        (["compare", "RUN", "nothing", "--baseline=none"], "the baseline none is none of the systems; expected one of"),
        (["compare", "RUN"], "name two or more different systems to compare"),
        (["compare", "RUN", "outputs"], "outputs has 3 lines for 100 examples"),
        (["compare", "RUN", "outputs", "--split=tset"], "--split 'tset': expected test, valid or train"),
        (["evaluate", "RUN", "--pairs=rows.csv"], "cannot tell the format of 'rows.csv'"),
        (["evaluate", "RUN", "--against=nothing"], "nothing is no run directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_told_in_a_line(
    arguments: list[str], expected: str, trained: Path, files: dict[str, Path], call: Call, monkeypatch: Any
) -> None:
    monkeypatch.chdir(files["source"].parent)
    status, out, err = call(*[str(trained) if each == "RUN" else each for each in arguments])
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert expected in err


# ----------------------------------------------------------------------- docs

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
COMMANDS = [each for each in re.findall(r"^transduce (.*)$", PAGE, re.MULTILINE) if "g2p" not in each]  # no recipes


@pytest.fixture
def readers_folder(trained: Path, sister: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the runs and files that the commands of the page use."""
    (tmp_path / "runs").mkdir()
    for name in ("mine", "mine-1", "mine-2", "other", "other-1", "other-2"):
        (tmp_path / "runs" / name).symlink_to(trained if name.startswith("mine") else sister)
    for name in (
        "test.de",
        "test.en",
        "second.en",
        "ours.txt",
        "theirs.txt",
        "test.complex",
        "first.simple",
        "second.simple",
    ):
        (tmp_path / name).write_text(f"{name} a\nb c\n")
    (tmp_path / "test.jsonl").write_text('{"source": "a", "target": ["b", "c"]}\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page(command: str, readers_folder: Path, call: Call) -> None:
    status, out, err = call(*command.split(), "--trials=20", "--resamples=20")
    assert (status, err) == (0, "")
    assert out
    for page in readers_folder.glob("*.html"):
        read(page.read_text(encoding="utf-8"))


def test_the_python_of_the_page(readers_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(code, {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["chrf++", "perplexity_byte"]


def test_names_in_tables_are_paths_without_shared_folders() -> None:
    """The name of an ensemble has the paths of all its members. A name with a + that is no ensemble stays whole."""
    texts, examples = ["a", "b"], [Example("x", ("a",)), Example("y", ("b",))]

    def system(name: str, *runs: str) -> System:
        predictions = [Prediction(text) for text in texts]
        return System(name, predictions, statistics([metric("exact")], predictions, examples), runs=[*map(Path, runs)])

    every = [
        system("runs/x/a", "runs/x/a"),
        system("runs/x/b+runs/y/c", "runs/x/b", "runs/y/c"),
        system("runs/d+e.txt"),
    ]
    found = compare(every, examples, "test", FEW)
    assert list(found.display_names.values()) == ["x/a", "x/b+y/c", "d+e.txt"]
    pairs = [("m-12", "m-13"), ("m/a", "n/b")]
    seeds = [mean_of_seeds(",".join(pair), [system(each, f"runs/{each}") for each in pair]) for pair in pairs]
    assert list(compare(seeds, examples, "test", FEW).display_names.values()) == ["m-12,13", "m/a,n/b"]
