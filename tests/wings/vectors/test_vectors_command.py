"""``transduce vectors``: what each command prints, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.cli.app import main
from transduce.wings.vectors.files import load

FOLDER = Path(__file__).parent / "word_vectors"
SMALL = FOLDER / "small.vec"
Command = Callable[..., tuple[str, str, Any]]


@pytest.fixture
def command(monkeypatch: Any, capsys: Any) -> Command:
    """Runs ``transduce vectors`` with arguments, and returns standard output, standard error and the exit status."""

    def run(*arguments: object) -> tuple[str, str, Any]:
        monkeypatch.setattr("sys.argv", ["transduce", "vectors", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return printed.out, printed.err, ended.value.code

    return run


def test_similarity(command: Command) -> None:
    out, _, _ = command("similarity", SMALL, FOLDER / "pairs.tsv")
    assert "pairs   10  90.0 %     9" in out
    out, _, _ = command("similarity", SMALL, FOLDER / "pairs.tsv", "--unknown", "zero", "--json")
    (found,) = json.loads(out)
    assert (found["used"], found["known"]) == (10, 9)
    assert found["spearman"]["low"] <= found["spearman"]["value"] <= found["spearman"]["high"]
    out, _, _ = command("similarity", SMALL, FOLDER / "pairs.tsv", "--exact-case", "--json")
    assert json.loads(out)[0]["known"] == 8


def test_analogies(command: Command) -> None:
    out, _, _ = command("analogies", SMALL, FOLDER / "questions.txt")
    assert out.splitlines()[-2].split()[:3] == ["total", "8", "7"]
    assert "Chance: 2.9412 %" in out
    out, _, _ = command("analogies", SMALL, FOLDER / "questions.txt", "--json")
    found = json.loads(out)
    assert [each["name"] for each in found["mul"]] == ["capitals", "family", "total"]
    assert found["add"][0]["right"] == 2


def test_misspellings_and_odd_one_out(command: Command, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("queen\tking\nkng\tking\n")
    out, _, _ = command("misspellings", SMALL, tmp_path / "x.tsv", "--json")
    found = json.loads(out)
    assert (found["pairs"], found["reachable"], found["covered"], found["ten"]) == (2, 2, 1, 1)
    out, _, _ = command("odd-one-out", SMALL, "cat", "dog", "Paris", "--json")
    assert json.loads(out)[0]["word"] == "Paris"


def test_training_and_conversion(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    (tmp_path / "text.txt").write_text("The king and the queen.\n" * 20)
    out, err, _ = command("train", tmp_path / "text.txt", "--out", tmp_path / "x.vec", "--width", 4, "--epochs", 2)
    assert out.strip() == str(tmp_path / "x.vec")
    assert "epoch 2 of 2" in err
    assert set(load(tmp_path / "x.vec").words) == {"the", "king", "and", "queen"}
    command("convert", tmp_path / "x.vec", tmp_path / "y.bin", "--limit", 2)
    assert np.array_equal(load(tmp_path / "y.bin").matrix_VD, load(tmp_path / "x.vec", limit=2).matrix_VD)


def test_sentences_side_by_side(command: Command, tmp_path: Path) -> None:
    """Vectors beside what needs none, with a record that has the same table."""
    rows = [("king queen", "king", 4, "near"), ("cat", "Paris", 1, "far"), ("a dog", "no war", 2, "far")] * 8
    text = "\n".join("\t".join(map(str, (number, *row))) for number, row in enumerate(rows))
    (tmp_path / "x.tsv").write_text(text)
    splits = [part for split in ("train", "valid", "test") for part in (f"--{split}", tmp_path / "x.tsv")]
    out, _, code = command("sentences", SMALL, *splits, "--record", tmp_path / "r.json")
    assert not code
    names = [line.split("  ")[0] for line in out.splitlines()[1:5]]
    assert names == [
        "nothing: the most frequent label",
        "word overlap and negation",
        "small.vec, average",
        "small.vec, SIF",
    ]
    (table,) = json.loads((tmp_path / "r.json").read_text())["tables"]
    assert [row[0] for row in table["rows"]] == names
    assert table["rows"][2][4].startswith("100.0")
    assert table["rows"][0][4].startswith("66.7")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["similarity", SMALL, FOLDER / "pairs.tsv", "--unknown", "guess"], "--unknown 'guess': expected skip, zero"),
        (["similarity", "missing.vec", FOLDER / "pairs.tsv"], "no such file: missing.vec"),
        (["neighbours", SMALL, "king", "--table", "source"], "is a file of vectors, and has no tables"),
        (["debias", SMALL, "--pairs", "x", "--out", "y", "--method", "none"], "--method 'none': expected neutralise"),
        (["debias", SMALL, "--pairs", "x", "--out", "y", "--method", "soft", "--equalise", "z"], "belongs to --method"),
        (["bias", SMALL, "--pairs", "x", "--direction", "median"], "--direction 'median': expected pca or mean"),
    ],
)
def test_mistakes_are_one_line(command: Command, arguments: list[object], message: str) -> None:
    _, err, code = command(*arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
