"""The command line: its output, its messages and its exit status."""

from __future__ import annotations

import codecs
import gzip
import inspect
import json
import math
import re
import select
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

import transduce
from installed import runs
from transduce import api
from transduce.cli import commands, formats, inputs
from transduce.cli.options import with_option_groups
from transduce.core import recipes
from transduce.core.errors import MissingPackageError, RequestError, StoppedError, UserError
from transduce.metrics.significance import Interval

Call = Callable[..., tuple[int, str, str]]
PATIENCE = 60  # seconds
COMMANDS = [
    "benchmark",
    "back-translate",
    "export",
    "import",
    "pack",
    "push",
    "pull",
    "ngram",
    "train",
    "predict",
    "rank",
    "chat",
    "music",
    "complete",
    "correct",
    "fit",
    "generate",
    "align",
    "rerank",
    "score",
    "evaluate",
    "compare",
    "inspect",
    "examine",
    "serve",
    "map",
    "embed",
    "heads",
    "distance",
    "lattice",
    "vectors",
    "recipes",
    "data",
    "sweep",
    "shortlist",
    "runs",
    "doctor",
]


def told(result: tuple[int, str, str]) -> str:
    """Checks that a call was refused with one line on standard error, and returns the line."""
    status, out, err = result
    assert (status, out, err.count("\n")) == (2, "", 1), err
    return err.removeprefix("transduce: ").strip()


def as_sets(settings: dict[str, Any]) -> list[str]:
    def toml(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
        return json.dumps(value)

    return [f"--set={key}={toml(value)}" for key, value in settings.items()]


# ----------------------------------------------------------------------- help


@pytest.mark.parametrize("command", [*filter(runs, COMMANDS)])
def test_every_command_helps(command: str, call: Call) -> None:
    status, out, _ = call(command, "--help")
    assert status == 0
    assert f"transduce {command}" in out


@pytest.mark.parametrize("command", [*filter(runs, COMMANDS)])
def test_the_examples_of_a_commands_help_are_calls_of_it(command: str) -> None:
    """Each line is read by the command itself, so an option that is gone fails here."""
    found = commands.function(command)
    if isinstance(found, typer.Typer):
        return
    examples = inspect.getdoc(found).partition("Examples:\n")[2].splitlines()
    assert examples
    for line in examples:
        call = line.rpartition("| ")[2].partition(" > ")[0]
        program, name, *arguments = shlex.split(call)
        assert (program, name) == ("transduce", command)
        commands.imported(command).make_context(command, arguments)


def test_the_version_and_what_completes_a_command_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("--version") == (0, f"transduce {transduce.__version__}\n", "")
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)  # not `python -m pytest`
    monkeypatch.setenv("_TRANSDUCE_COMPLETE", "complete_bash")
    for typed, expected in (("transduce pred", "predict"), ("transduce predict --glo", "--glossary")):
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
        assert call()[1].split() == [expected]


def test_help_names_every_command(call: Call) -> None:
    status, out, _ = call("--help")
    assert status == 0
    assert sorted(commands.SUMMARIES) == sorted(COMMANDS)
    assert all(command in out for command in COMMANDS)


@pytest.mark.parametrize("command", [*filter(runs, COMMANDS)])
def test_the_list_has_the_first_paragraph_of_each_commands_help(command: str) -> None:
    """The summaries are a table, so the list of commands imports no command. The table must agree with each command's
    help.
    """
    found = commands.function(command)
    text = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert commands.SUMMARIES[command] == text.split("\n\n")[0].replace("\n", " ")


def test_the_list_imports_no_command_and_a_command_no_other() -> None:
    program = """
import sys
from transduce.cli.app import app
for line in ("--help", "trane", "predict --help"):
    try: app(line.split())
    except SystemExit: pass
    found = {name.split(".")[2] for name in sys.modules if name.startswith("transduce.cli.")}
    shared = {"app", "commands", "formats", "inputs", "options", "output_check", "requests", "shards", "unanswered"}
    print("imported", *sorted(found - shared))
"""
    run = [sys.executable, "-c", program]
    out = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.findall(r"^imported ?(.*)$", out, re.MULTILINE) == ["", "", "predict"]


# ---------------------------------------------------------------------- train


def test_train_prints_where_the_run_is(tiny: dict[str, Any], tmp_path: Path, call: Call) -> None:
    run = tmp_path / "run"
    status, out, err = call("train", "reverse", "--out", run, "--device=cpu", "--threads=1", *as_sets(tiny))
    assert (status, out) == (0, f"{run}\n")
    assert "train: 120 pairs" in err
    assert "update      3  valid  loss" in err
    assert "stopped after update 8" in err
    assert f"in {run}" in err

    assert "already holds a run" in told(call("train", "reverse", "--out", run))
    status, _, err = call("train", "reverse", "--out", run, "--resume", "--device=cpu", "--set", "training.steps=9")
    assert status == 0
    assert "changed since the checkpoint: training.steps = 9 (was 8)" in err
    assert "from update 8" in err


def test_a_run_starts_from_another(tiny: dict[str, Any], trained: Path, tmp_path: Path, call: Call) -> None:
    run, start = tmp_path / "run", ["--init", trained, "--freeze=encoder,decoder.embedding"]
    status, _, err = call("train", "reverse", "--out", run, *start, "--device=cpu", "--threads=1", *as_sets(tiny))
    assert status == 0
    assert f"starts from {trained} (best), with its vocabularies\n  loaded: encoder, decoder, " in err
    assert "\nfrozen: encoder, decoder.embedding, " in err
    table = transduce.load(run).settings
    assert (table["init"]["run"], table["training"]["freeze"]) == (str(trained), ["encoder", "decoder.embedding"])
    assert told(call("train", "reverse", "--out", tmp_path / "x", "--init", tmp_path)).startswith(
        f"{tmp_path} is no run"
    )


def test_minutes_replace_the_recipes_budget(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(api, "train_run", lambda *arguments, **_: seen.append(arguments))
    assert call("train", "reverse", "--minutes=0.5", "--set=training.clip=2.0", "--out=x")[0] == 0
    (order,) = seen[0]
    table = recipes.change(recipes.read(order.recipe), order.settings)
    assert table["training"]["minutes"] == 0.5
    assert "steps" not in table["training"]


def test_an_interrupted_training_exits_with_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "train_run", interrupted)
    assert call("train", "reverse")[:2] == (130, "")


# -------------------------------------------------------------------- predict


@pytest.fixture(scope="module")
def answers(trained: Path) -> list[transduce.Output]:
    model = transduce.load(trained, device="cpu")
    return [outputs[0] for outputs in model.predict(["abc", "", "zé"])]


LINES = "abc\n\nzé\n".encode()


def test_predict_answers_line_by_line(trained: Path, answers: list[transduce.Output], call: Call) -> None:
    status, out, _ = call("predict", trained, "--device=cpu", stdin=LINES)
    assert (status, out) == (0, "".join(f"{answer.text}\n" for answer in answers))


@pytest.mark.parametrize("stdin", [b"abc\r\n\r\nz\xc3\xa9", b"abc\n\nz\xc3\xa9"])
def test_line_ends_of_every_kind(stdin: bytes, trained: Path, answers: list[transduce.Output], call: Call) -> None:
    assert call("predict", trained, "--device=cpu", stdin=stdin)[1].splitlines() == [answer.text for answer in answers]


def test_predict_goes_on_from_a_prefix(trained: Path, tmp_path: Path, call: Call) -> None:
    status, out, _ = call("predict", trained, "--device=cpu", "--prefix=cb", stdin=b"abc\n\nz\n")
    assert status == 0
    assert all(line.startswith("cb") for line in out.splitlines())
    (tmp_path / "beginnings").write_text("a\n\nbc\n")
    _, out, _ = call("predict", trained, "--device=cpu", "--prefixes", tmp_path / "beginnings", stdin=b"abc\n\nz\n")
    first, _, last = out.splitlines()
    assert first.startswith("a")
    assert last.startswith("bc")
    status, out, err = call("predict", trained, "--prefixes", tmp_path / "beginnings", stdin=b"abc\n\nz\nx\n")
    assert (status, out.count("\n")) == (2, 3)
    assert "input 4 has no prefix" in err


def test_bytes_that_are_no_text_are_refused(trained: Path, tmp_path: Path, call: Call) -> None:
    """At their line of standard input, with the answers before it; of a file before any answer."""
    asked = ["predict", trained, "--device=cpu", "--batch-size=1", "--window=1"]
    status, out, err = call(*asked, stdin=b"ab\nb\xff\n")
    assert (status, out.count("\n"), err.count("\n")) == (2, 1, 1)
    assert "standard input:2: byte 0xff at 1 is not UTF-8" in err
    (tmp_path / "lines").write_bytes(b"ab\nb\xff\n")
    assert f"{tmp_path / 'lines'}:2: byte 0xff at 1" in told(call(*asked, tmp_path / "lines"))
    zipped = call(*asked, stdin=gzip.compress(b"ab\n"))
    assert zipped == call(*asked, stdin=b"ab\n")
    assert "standard input is text in UTF-16" in told(call(*asked, stdin="ab\n".encode("utf-16")))


def test_a_plugin_that_is_not_python_is_told(trained: Path, tmp_path: Path, call: Call) -> None:
    plugin = tmp_path / "plug.py"
    for content in (b"x = '\xe9'\n", b"x = (\n"):
        plugin.write_bytes(content)
        assert f"{plugin}, line 1 is not Python" in told(call("predict", trained, f"--plugin={plugin}", stdin=b"a\n"))


def test_further_columns_are_told_once(trained: Path, call: Call, caplog: pytest.LogCaptureFixture) -> None:
    plain = call("score", trained, "--device=cpu", stdin=b"ab\tba\na\ta\n")
    assert not caplog.records
    assert call("score", trained, "--device=cpu", stdin=b"ab\tba\tx\na\ta\ty\tz\n")[:2] == plain[:2]
    (record,) = caplog.records
    assert "line 1 has 3 columns: only the first two are read" in record.getMessage()


def test_predict_reads_files_in_turn(
    trained: Path, tmp_path: Path, answers: list[transduce.Output], call: Call
) -> None:
    (tmp_path / "one").write_bytes(b"abc\n\n")
    (tmp_path / "two").write_text("zé\n", encoding="utf-8")
    status, out, _ = call("predict", trained, tmp_path / "one", tmp_path / "two", "--device=cpu", "--batch-size=1")
    assert (status, out.splitlines()) == (0, [answer.text for answer in answers])


@pytest.mark.parametrize("zipped", [False, True])
def test_files_are_read_as_in_training(
    zipped: bool, trained: Path, tmp_path: Path, answers: list[transduce.Output], call: Call
) -> None:
    """Files are unzipped. A byte order mark is dropped from files and from standard input."""
    given = codecs.BOM_UTF8 + LINES
    file = tmp_path / ("lines.txt.gz" if zipped else "lines.txt")
    file.write_bytes(gzip.compress(given) if zipped else given)

    def read(*files: Path, stdin: bytes = b"") -> list[tuple[str, str]]:
        out = call("predict", trained, *files, "--device=cpu", "--format=jsonl", stdin=stdin)[1]
        return [(record["source"], record["text"]) for record in map(json.loads, out.splitlines())]

    expected = list(zip(["abc", "", "zé"], [answer.text for answer in answers], strict=True))
    assert read(file, file) == expected * 2
    assert read(stdin=given) == expected
    assert read(stdin=b"a\n" + given)[1][0] == "\ufeffabc"  # in a later line it is a character


def test_a_missing_file_is_told_before_any_answer(trained: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "one").write_bytes(LINES)
    assert "two" in told(call("predict", trained, tmp_path / "one", tmp_path / "two", "--batch-size=1"))


def test_tsv_has_a_row_a_hypothesis(trained: Path, answers: list[transduce.Output], call: Call) -> None:
    status, out, _ = call("predict", trained, "--device=cpu", "--format=tsv", "--nbest=2", stdin=LINES)
    rows = [line.split("\t") for line in out.splitlines()]
    assert (status, [row[0] for row in rows]) == (0, ["abc", "abc", "", "zé", "zé"]), "an empty line has one output"
    first = [rows[0], rows[2], rows[3]]
    assert [row[2] for row in first] == [answer.text for answer in answers]
    assert all(float(best[1]) >= float(next[1]) for best, next in (rows[:2], rows[3:]))


def test_jsonl_has_the_documented_keys(trained: Path, answers: list[transduce.Output], call: Call) -> None:
    status, out, _ = call("predict", trained, "--device=cpu", "--format=jsonl", "--beam=3", "--nbest=2", stdin=LINES)
    records = [json.loads(line) for line in out.splitlines()]
    assert (status, [record["source"] for record in records]) == (0, ["abc", "", "zé"])
    for record in records:
        keys = {"text", "tokens", "log_prob", "score", "token_log_probs"}
        keys |= {"cut_at"} if record["source"] else set()  # this run cuts outputs at 6 tokens
        assert set(record) == keys | {"source", "nbest"} | ({"unknown"} if "é" in record["source"] else set())
        assert len(record["nbest"]) == (2 if record["source"] else 1)
        assert {key: record[key] for key in keys} == record["nbest"][0]
        assert sum(record["token_log_probs"]) == pytest.approx(record["log_prob"])


def test_a_beam_of_one_is_greedy_search(trained: Path, call: Call) -> None:
    model = transduce.load(trained, device="cpu")
    from transduce.search.greedy import Greedy

    greedy = [outputs[0].text for outputs in model.predict(["abc", "", "zé"], Greedy(max_length=6))]
    assert call("predict", trained, "--device=cpu", "--beam=1", stdin=LINES)[1].splitlines() == greedy


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_set_holds_for_the_beam_that_is_asked_for(workers: int, trained: Path, call: Call) -> None:
    both = call("predict", trained, "--device=cpu", "--beam=4", "--nbest=3", stdin=LINES)
    assert both[0] == 0
    given = "--beam=4", "--set=search.nbest=3", f"--workers={workers}"
    assert call("predict", trained, "--device=cpu", *given, stdin=LINES)[:2] == both[:2]
    one = call("predict", trained, "--device=cpu", "--beam=4", "--set=search.nbest=3", "--nbest=1", stdin=LINES)
    assert len(one[1].splitlines()) == 3


def test_rows_stay_rows_whatever_a_text_holds() -> None:
    output = transduce.Output("a\tb\nc\rd", (), -1.0, -0.5, ())
    answer = transduce.Answer(transduce.Request("x\ty"), [output])
    assert list(formats.as_text(answer)) == ["a b c d"]
    assert list(formats.as_tsv(answer)) == ["x y\t-0.500000\ta b c d"]
    assert json.loads("".join(formats.as_jsonl(answer)))["text"] == "a\tb\nc\rd"


def test_what_is_not_finite_is_null_in_json() -> None:
    output = transduce.Output("a", ("a", "</s>"), -math.inf, -math.inf, (-0.5, -math.inf))
    answer = transduce.Answer(transduce.Request("ß"), [output])
    (line,) = formats.as_jsonl(answer)
    record = json.loads(line, parse_constant=pytest.fail)
    assert (record["log_prob"], record["nbest"][0]["score"], record["token_log_probs"]) == (None, None, [-0.5, None])
    assert list(formats.as_log_prob(answer)) == ["-inf"]
    record = {"metrics": {"perplexity": math.inf}, "intervals": {"perplexity": Interval(1.5, math.nan)}}
    told = {"metrics": {"perplexity": None}, "intervals": {"perplexity": [1.5, None]}}
    assert json.loads(formats.as_json(record, indent=1), parse_constant=pytest.fail) == told


# ----------------------------------------------------------- score and evaluate


@pytest.fixture
def pair(tmp_path: Path, answers: list[transduce.Output]) -> list[str]:
    """The options of two files: three sources, and as targets two outputs of the model and one other line."""
    (tmp_path / "source").write_bytes("abc\nzé\nab\n".encode())
    (tmp_path / "target").write_text(f"{answers[0].text}\n{answers[2].text}\nqqqqq\n")
    return [f"--source={tmp_path / 'source'}", f"--target={tmp_path / 'target'}"]


def test_score(trained: Path, pair: list[str], answers: list[transduce.Output], call: Call) -> None:
    status, out, _ = call("score", trained, *pair, "--device=cpu")
    assert status == 0
    assert [float(line) for line in out.splitlines()[:2]] == pytest.approx(
        [answers[0].log_prob, answers[2].log_prob], rel=1e-4
    )
    rows = [line.split("\t") for line in call("score", trained, *pair, "--device=cpu", "--format=tsv")[1].splitlines()]
    assert [row[1] for row in rows] == out.splitlines()
    assert [row[2] for row in rows] == [answers[0].text, answers[2].text, "qqqqq"]
    records = [json.loads(line) for line in call("score", trained, *pair, "--format=jsonl")[1].splitlines()]
    assert [record["source"] for record in records] == ["abc", "zé", "ab"]
    assert all(len(record["nbest"]) == 1 for record in records)


def test_score_answers_every_line(trained: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "source").write_bytes(b"a\nb\n\n")
    (tmp_path / "target").write_bytes(b"a\nb\n\n")
    files = [f"--source={tmp_path / 'source'}", f"--target={tmp_path / 'target'}"]
    status, out, _ = call("score", trained, *files, "--device=cpu")
    assert (status, out.count("\n")) == (0, 3)
    (tmp_path / "source").write_bytes(b"a\n\xff\n\n")
    assert f"{tmp_path / 'source'}:2: byte 0xff at 0 is not UTF-8" in told(call("score", trained, *files))


def test_evaluate_files(trained: Path, pair: list[str], call: Call) -> None:
    status, out, _ = call("evaluate", trained, *pair, "--json", "--device=cpu", "--metric=exact", "--metric=perplexity")
    record = json.loads(out)
    assert status == 0
    assert set(record) == {"run", "examples", "metrics", "intervals", "signatures", "resampling", "seconds"}
    assert (record["run"], record["examples"]) == (str(trained), 3)
    assert record["metrics"]["exact"] == pytest.approx(200 / 3)
    assert record["metrics"]["perplexity"] > 1
    assert set(record["signatures"]) == {"exact", "perplexity"}


@pytest.mark.parametrize("split", ["test", "valid", "train"])
def test_evaluate_splits(split: str, trained: Path, call: Call) -> None:
    status, out, _ = call("evaluate", trained, "--split", split, "--beam=1", "--json", "--device=cpu")
    record = json.loads(out)
    assert (status, record["examples"]) == (0, 120 if split == "train" else 100)
    assert set(record["metrics"]) == {"exact", "cer"}


def test_evaluate_for_people(trained: Path, pair: list[str], call: Call) -> None:
    status, out, _ = call("evaluate", trained, *pair, "--device=cpu")
    assert status == 0
    assert "3 examples, found in " in out.splitlines()[0]
    assert out.splitlines()[1].split()[:2] == ["exact", "66.67"]


def test_evaluate_tells_the_errors_apart(trained: Path, pair: list[str], call: Call) -> None:
    asked = ["evaluate", trained, *pair, "--device=cpu", "--metric=cer", "--metric=wer", "--errors"]
    record = json.loads(call(*asked, "--json")[1])
    assert list(record["errors"]) == ["cer", "wer"]
    assert record["errors"]["wer"]["substitutions"] == 1
    status, out, _ = call(*asked)
    assert status == 0
    assert "wer: 1 errors, 3 words in the references: 2 right, 1 substitutions, 0 deletions, 0 insertions" in out


def test_pairs_are_read_by_the_runs_columns(own_run: Path, tmp_path: Path, call: Call) -> None:
    config = own_run / "config.toml"
    config.write_text(config.read_text() + '\n[data.columns]\nsource = "src"\ntarget = "tgt"\n')
    (tmp_path / "pairs.tsv").write_text("tgt\tsrc\nq\tabc\n")
    (tmp_path / "s").write_text("abc\n")
    (tmp_path / "t").write_text("q\n")
    asked = ["evaluate", own_run, "--device=cpu", "--json", "--metric=cer", "--metric=perplexity"]
    by_columns = json.loads(call(*asked, f"--pairs={tmp_path / 'pairs.tsv'}")[1])
    apart = json.loads(call(*asked, f"--source={tmp_path / 's'}", f"--target={tmp_path / 't'}")[1])
    assert by_columns["examples"] == 1
    assert by_columns["metrics"] == apart["metrics"]


# -------------------------------------------------------------------- distance


# ----------------------------------------------------------------- several runs


def test_fusion_weights_the_runs(trained: Path, sister: Path, call: Call) -> None:
    def score(runs: object, *options: str) -> float:
        status, out, _ = call("score", runs, "--device=cpu", *options, stdin=b"abc\tcba\n")
        assert status == 0
        return float(out)

    runs = f"{trained}+{sister}"
    assert score(runs, "--fusion=0,1") == pytest.approx(score(sister), abs=1e-4)
    assert score(runs, "--fusion", "0.7,0.3") not in (score(runs), score(runs, "--fusion=0.3,0.7"))


# ----------------------------------------------------------------------- labels


# ---------------------------------------------------------------------- factors


# --------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "revers"], 'did you mean "reverse"'),
        (["train", "nothing.toml"], "nothing.toml"),
        (["train", "reverse", "--set=model.encoder.widht=3"], "width"),
        (["train", "reverse", "--set=model"], "expected a.key=value"),
        (["train", "reverse", "--minutes=0"], "training.minutes = 0"),
        (["train", "reverse", "--plugin=nothing.py"], "nothing.py: no such Python file"),
        (["train", "reverse", "--device=gpu"], "device 'gpu': expected cpu"),
        (["train", "reverse", "--resume", "--overwrite"], "one of them"),
        (["predict", "no/run"], "no/run is no run directory"),
        (["predict", "RUN", "--format=xml"], "--format 'xml': expected text, tsv, jsonl"),
        (["predict", "RUN", "nothing.txt"], "nothing.txt: there is no such file or folder"),
        (["predict", "RUN", "/"], "/: this is a folder, and a file was expected"),
        (["train", "reverse", f"--out={__file__}"], f"{__file__}: a file or folder of this name is there"),
        (["predict", "RUN", "--beam=2", "--nbest=3"], "nbest = 3, size = 2"),
        (["predict", "RUN", "--checkpoint=first"], "no checkpoint 'first'"),
        (["predict", "RUN", "--fusion=a,b"], "--fusion 'a,b': numbers separated by commas"),
        (["predict", "RUN", "--fusion=0.7,0.3"], "weights = [0.7, 0.3]: one for each of 1 models"),
        (["predict", "RUN", "--set=search.sise=3"], 'search.sise: Beam takes no such key; did you mean "size"'),
        (["predict", "RUN", "--set=search.type=bean"], 'did you mean "beam"'),
        (["predict", "RUN", "--set=search.size=0"], "search: nbest = 1, size = 0"),
        (["evaluate", "RUN", "--set=model.encoder.layers=2"], "model: a trained model keeps its settings but for its"),
        (["inspect", "RUN", "abc", "--set=search.type=length-beam"], "LengthBeam asks its model to emit"),
        (["inspect", "RUN", "abc", "--beam-tree", "--out=tree.png"], "tree.png: the tree is drawn as .html, a page"),
        (["inspect", "RUN", "abc", "--pruned"], "--pruned is for --beam-tree or --phrases: add one of them"),
        (
            ["inspect", "RUN", "abc", "--beam-tree", "--head=1"],
            "--beam-tree shows a search, to which --head does",
        ),
        (["predict", "RUN", "--dictionary=x"], "give --replace-unk too"),
        (["predict", "RUN", "--attention=x"], "--attention is for --alignments, --replace-unk or --protect"),
        (["predict", "RUN", "--head=0"], "--head is for --alignments, --replace-unk or --protect"),
        (["score", "RUN", "--source=x", "--target=y"], "no such file: x"),
        (["evaluate", "RUN", "--source=x"], "--source and --target go together"),
        (["evaluate", "RUN", "--split=tset"], "--split 'tset': expected test, valid or train"),
        (["evaluate", "RUN", "--metric=blue"], 'did you mean "bleu"'),
        (["evaluate", "RUN", "--metric=bleu", "--errors"], "bleu: no error rate"),
        (["distance", "a", "b", "--units=word"], "units 'word': expected characters or words"),
        (["distance", "a", "b", "--deletion=-1"], "deletion = -1.0: a cost is a number from 0 up"),
        (["distance", "a", "b", "--out=table.png"], "table.png: a table is written as .html or .svg"),
        (["lattice", "Hello", "--frames=5"], "'Hello' has no alignment with --frames 5: it needs 6"),
        (["lattice", "a-b", "--frames=5"], "'a-b': - stands for the blank"),
        (["lattice", "Hi", "--frames=5", "--out=hi.png"], "hi.png: the lattice is drawn as .svg"),
        (["predict", "RUN", "--frames"], "this encoder-decoder model has no frames"),
        (["inspect", "RUN", "abc", "--frames"], "this encoder-decoder model has no frames"),
        (["inspect", "RUN", "abc", "--frames", "--beam-tree"], "--beam-tree and --frames are different views"),
        (["inspect", "RUN", "abc", "--frames", "--out=x.png"], "x.png: frames are drawn as .svg"),
        (["data", "revers"], 'did you mean "reverse"'),
        (["data", "reverse", "--set=dta.origin.pairs=5"], 'dta: a run has no such settings; did you mean "data"'),
        (["inspect", "RUN", "abc", "--gradients"], "no target has more than 10 tokens: the longest has"),
        (["inspect", "RUN", "abc", "--distance=5"], "--distance is for --gradients"),
        (["inspect", "RUN", "abc", "--beam=5"], "--beam is for --beam-tree or --frames: add one of them"),
        (
            ["inspect", "RUN", "abc", "--frames", "--pruned"],
            "--frames shows an alignment, to which --pruned",
        ),
        (["inspect", "RUN", "abc", "--frames", "--target=a", "--beam=5"], "with --target nothing is searched for"),
        (["score", "RUN", "p.tsv", "--source=s", "--target=t"], "p.tsv would have both sides, and --source or"),
        (["rerank", "RUN", "--posterior", "--length=1"], "give --mbr METRIC too, or leave it out"),
        (["rerank", "RUN", "--mbr=cer", "--own=3"], "--own 3 is a weight for ranking by models"),
        (["predict", "RUN", "--stream", "--workers=2"], "--stream writes one output's text as it comes"),
        (["distance", "ab", "ba", "--all", "--out=x.svg"], "--all is for the terminal"),
        (["lattice", "Hi", "--frames=3", "--most=5", "--out=x.svg"], "--out draws the lattice, and --most is for the"),
        (["predict", "RUN", "--stream", "--attention=x"], "--stream writes one output's text as it comes"),
        (["predict", "RUN", "--stream", "--dictionary=nope.tsv"], "--stream writes one output's text as it comes"),
        (
            ["evaluate", "RUN", "--source=s", "--target=t", "--split=valid"],
            "--split valid is a part of a run's own data",
        ),
        (["evaluate", "RUN", "--pairs=p.tsv", "--split=test"], "--split test is a part of a run's own data"),
        (["evaluate", "RUN", "--report=."], "--report . is a folder: name a file in it, such as report.html"),
        (["distance", "a", "b", "--out=RUN/config.toml/x/page.html"], "config.toml is a file, and a folder is"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_told_in_a_line(
    arguments: list[str], expected: str, trained: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not runs(" ".join(arguments)):
        pytest.skip("it needs a wing that was removed")
    monkeypatch.chdir(tmp_path)
    line = told(call(*[argument.replace("RUN", str(trained)) for argument in arguments]))
    assert expected in line
    assert list(tmp_path.iterdir()) == []


def test_files_of_unequal_length_name_both_counts(trained: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "source").write_text("a\nb\nc\n")
    (tmp_path / "target").write_text("a\nb\n")
    line = told(call("evaluate", trained, f"--source={tmp_path / 'source'}", f"--target={tmp_path / 'target'}"))
    assert "3" in line
    assert "2" in line


@pytest.mark.parametrize(
    ("command", "line", "answer"),
    [("predict", "ab", r"[a-z]*"), pytest.param("score", "ab\tba", r"-\d+\.\d+", marks=pytest.mark.slow)],
)
def test_a_line_of_a_pipe_is_answered_before_the_next(trained: Path, command: str, line: str, answer: str) -> None:
    run = [sys.executable, "-m", "transduce", command, str(trained), "--device=cpu", "--threads=1"]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write(f"{line}\n")
            assert select.select([process.stdout], [], [], PATIENCE)[0]
            assert re.fullmatch(answer, process.stdout.readline().rstrip("\n"))


def test_a_closed_standard_input_has_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="nothing to read: standard input is closed"):
        list(inputs.lines(None))


@pytest.mark.parametrize("kind", [KeyError, ValueError, RuntimeError, ImportError])
def test_bugs_keep_their_trace(kind: type[Exception], call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: Any, **__: Any) -> None:
        raise kind("a bug")

    monkeypatch.setattr(api, "train_run", bug)
    with pytest.raises(kind, match="a bug"):
        call("train", "reverse")


@pytest.mark.parametrize("kind", [UserError, RequestError, MissingPackageError, StoppedError, OSError])
def test_what_is_no_bug_is_one_line(kind: type[Exception], call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise kind("give another recipe")

    monkeypatch.setattr(api, "train_run", refuse)
    assert told(call("train", "reverse")) == "give another recipe"


def test_traces_can_be_asked_for(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSDUCE_TRACE", "1")
    with pytest.raises(ValueError, match="did you mean"):
        call("train", "revers")


def test_score_tab_separated(trained: Path, pair: list[str], tmp_path: Path, call: Call) -> None:
    both = [Path(flag.partition("=")[2]).read_text(encoding="utf-8").split("\n")[:2] for flag in pair]
    rows = tmp_path / "pairs.txt"
    rows.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*both, strict=True)), encoding="utf-8")
    status, out, _ = call("score", trained, rows, "--device=cpu")
    assert status == 0
    assert out.splitlines() == call("score", trained, *pair, "--device=cpu")[1].splitlines()[:2]
    more = tmp_path / "more.txt"
    more.write_text("a\tb\nno tab\n")
    status, _, err = call("score", trained, rows, more, "--device=cpu")
    assert status == 2
    assert f"{more}, line 2 has one column: expected a source, a tab and a target" in err


MostOption = Annotated[int, typer.Option("--most")]


def test_options_keep_their_names_where_python_3_10_makes_them_optional() -> None:
    def command(most: MostOption | None = None) -> None: ...  # how 3.10 changes `most: MostOption = None`

    (most,) = inspect.signature(with_option_groups(command)).parameters.values()
    assert most.annotation == MostOption


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: 4831838208 bytes"),
            "the memory is full: use smaller",
        ),
        (MemoryError("use fewer lines"), "the memory is full: use fewer lines"),
        (OverflowError("Python int too large to convert to C long"), "a number is too large: Python int"),
    ],
)
def test_what_is_too_large_is_told_in_a_line(
    error: Exception, line: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr("transduce.cli.app.app", fails)
    assert told(call()).startswith(line)


def test_a_batch_has_a_largest_size(trained: Path) -> None:
    transducer = transduce.load(trained, device="cpu")
    with pytest.raises(transduce.UserError, match=r"batch_size = 10000000: 1 to 1,000,000 sentences go in a batch"):
        next(transducer.answer([transduce.Request("ab")], batch_size=10**7))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--limit=2147483648", "--limit 2147483648: at most 2,147,483,647 was expected"),
        ("--limit=1" + "0" * 500, "--limit an integer of 1,661 bits: at most 2,147,483,647 was expected"),
        ("--seed=9223372036854775808", "--seed 9223372036854775808: at most 9,223,372,036,854,775,807 was expected"),
        ("--share=inf", "--share inf: a finite number was expected"),
        ("--share=nan", "--share nan: a finite number was expected"),
    ],
)
def test_numbers_of_options_are_bounded_for_every_command(option: str, message: str) -> None:
    def command(limit: int = 1, seed: int = 2**63 - 1, share: float = 1e300) -> None:
        pass

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(with_option_groups(command))
    app([], standalone_mode=False)
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        app([option], standalone_mode=False)
