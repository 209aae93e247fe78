"""What the wing lab adds to test_evaluation.py."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_evaluation import FEW, Call, both, call, files, model, read, system  # noqa: F401  # noqa: F401
from test_markup import contrast

from transduce.answers.transducer import Transducer
from transduce.core.types import Example, Prediction
from transduce.evaluation import systems
from transduce.evaluation.run_results import ReportParts, run_results
from transduce.evaluation.systems import System, mean_of_seeds
from transduce.metrics.base import metric
from transduce.metrics.calibration import calibration
from transduce.metrics.confusions import label_breakdowns
from transduce.metrics.significance import Interval
from transduce.metrics.statistics import Statistics, statistics
from transduce.wings.lab.comparison import Comparison, compare
from transduce.wings.lab.reports.comparison import comparison_page
from transduce.wings.lab.reports.differences import compared
from transduce.wings.lab.reports.evaluation import evaluation_page
from transduce.wings.lab.reports.figures import DEEPEST, bars, confusions, reliability
from transduce.wings.lab.reports.passages import cards, changed, drawn, worst
from transduce.wings.pages.palette import DARK, LIGHT
from transduce.wings.records.record import Record


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


NASTY = '<script>alert("x")</script> & <b>'


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
    ] * 2 + ["the most frequent"]  # once as bars of one metric, once as numbers of all metrics; then errors
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


def test_labels_differ_as_a_whole() -> None:
    examples = [Example("", ("PROPN",))]
    assert "<del>PROPN</del> <mark>VERB</mark>" in cards(
        [0], examples, [system("a", ["VERB"], examples, "accuracy")], ["a"]
    )
    assert "P</mark>" in cards([0], examples, [system("a", ["PROPNP"], examples, "exact")], ["a"])


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
        (["evaluate", "RUN", "--pairs=rows.xls"], "cannot tell the format of 'rows.xls'"),
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


PAGE = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text(encoding="utf-8")


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
