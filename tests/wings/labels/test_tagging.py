"""Taggers and classifiers from files to labels, by the commands that everything else goes by."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_resume import At, KilledError, kill, same_bytes

from selection import mostly_slow
from transduce import api
from transduce.core import config
from transduce.data.corpora import ColumnNames, DataError, Files
from transduce.data.rows import read
from transduce.runs.loading import load
from transduce.training.callbacks import Callback

Call = Callable[..., tuple[int, str, str]]
NOUNS, VERBS = ["dog", "cat", "mouse", "owl", "ox"], ["sees", "bites", "hears", "likes"]


def sentences(count: int) -> list[list[tuple[str, str]]]:
    """Sentences in which someone does something to another, with a tag for each word."""
    found = []
    for number in range(count):
        one, verb, other = NOUNS[number % 5], VERBS[number // 5 % 4], NOUNS[number // 20 % 5]
        found.append([("the", "O"), (one, "B-who"), (verb, "O"), ("an", "B-whom"), (other, "I-whom")])
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sentences as a file of each form."""
    folder = tmp_path_factory.mktemp("corpus")
    found = sentences(60)
    conll = "\n\n".join("\n".join(f"{word}\t{tag}" for word, tag in each) for each in found)
    (folder / "a.conll").write_text(conll + "\n", encoding="utf-8")
    blank = "\t_" * 6
    universal = "\n\n".join(
        "\n".join(f"{n}\t{word}\t_\t{tag}{blank}" for n, (word, tag) in enumerate(each, 1)) for each in found
    )
    (folder / "a.conllu").write_text(universal + "\n", encoding="utf-8")
    lines = (f"{'high' if each[1][0] == 'owl' else 'low'} up\t{' '.join(word for word, _ in each)}" for each in found)
    (folder / "a.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


RECURRENT = {"type": "recurrent", "cell": "lstm", "embedding_width": 16, "width": 12, "dropout": 0.0}
CHARACTERS = {"type": "spelled", "encoder": RECURRENT, "word_width": 6, "word_dropout": 0.1}
SPELLED = RECURRENT | {"embedding": CHARACTERS}
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "tagging": ("a.conllu", {"model.model.encoder": SPELLED}),
    "tagging-network": ("a.conllu", {"model.encoder": SPELLED}),
    "entities": ("a.conll", {"model.encoder": SPELLED}),
    "classification": ("a.tsv", {"model.model.encoder": SPELLED, "model.model.dropout": 0.0}),
}


@pytest.fixture(scope="module", params=mostly_slow(RECIPES, fast=["entities", "classification"]))
def run(request: pytest.FixtureRequest, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smoke form of each recipe: seconds of training, on a file that can be learned by heart."""
    name, settings = RECIPES[request.param]
    files = {f"data.{split}.path": str(corpus / name) for split in ("train", "valid", "test")}
    short: dict[str, Any] = {"training.steps": 120, "training.optimizer.rate": 1e-2, "training.validation.times": 1}
    short |= {"training.batching.tokens": 300, "training.schedule": {"type": "constant"}}
    run = tmp_path_factory.mktemp("runs") / request.param
    everything = files | settings | short | {"training.precision": "float32"}
    api.train(request.param, run, everything, device="cpu", progress=False)
    return run


def test_from_files_to_labels(run: Path, call: Call) -> None:
    """A tagger writes a label for each word of a line. A classifier writes one label for the line."""
    status, out, err = call("predict", run, stdin=b"the owl bites an ox\n\nthe dog likes\n")
    assert status == 0, err
    first, nothing, other = out.split("\n")[:3]
    if run.name == "classification":
        assert (first, other) == ("high up", "low up")
        return
    assert first == "O B-who O B-whom I-whom"
    assert nothing == ""
    assert len(other.split()) == 3


def test_it_is_measured(run: Path, call: Call, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    status, out, err = call("evaluate", run, "--json", "--errors", "--report", page)
    assert status == 0, err
    found = json.loads(out)
    assert set(found["metrics"].values()) == {100.0}
    units = ["entity", "label"] if run.name == "entities" else ["label"]
    assert list(found["labels"]) == units
    label = {"entities": "who", "classification": "high"}.get(run.name, "B-who")
    assert found["labels"][units[0]]["labels"][label]["f1"] == 100.0
    assert "Labels" in page.read_text(encoding="utf-8")
    status, out, _ = call("evaluate", run, "--errors")
    assert status == 0
    assert "mean (macro)" in out
    assert ("reference ↓ predicted →" in out) is ("label" in units)


def test_it_is_scored(run: Path, call: Call, tmp_path: Path) -> None:
    classifies = run.name == "classification"
    right, wrong = ("high up", "low up") if classifies else ("O B-who O B-whom I-whom", "O O O O B-who")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"the owl bites an ox\t{labels}\n" for labels in (right, wrong)), encoding="utf-8")
    status, out, err = call("score", run, pairs)
    assert status == 0, err
    likely, unlikely = map(float, out.split())
    assert 0 >= likely > unlikely
    pairs.write_text("the owl\tO O O\n", encoding="utf-8")
    status, _, err = call("score", run, pairs)
    assert (status, "3 labels for a source of 2" in err) == ((0, False) if classifies else (2, True))


def test_a_source_that_is_cut_loses_its_labels(run: Path, call: Call, tmp_path: Path) -> None:
    """A tagger is scored only on the words that are left. A classifier's label is for the whole source and stays."""
    short = tmp_path / "run"
    shutil.copytree(run, short)
    table = config.read(short / "config.toml")
    table["data"]["lines"]["max_source_length"] = 12
    (short / "config.toml").write_text(config.write(table), encoding="utf-8")
    source, labels = "the owl bites an ox", "high up" if run.name == "classification" else "O B-who O B-whom I-whom"
    (found,) = load(short).score([(source, labels)])
    assert found.text == (labels if run.name == "classification" else "O B-who O")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"{source}\t{labels}\n", encoding="utf-8")
    for command in (("score", short, pairs), ("evaluate", short, "--report", tmp_path / "report.html")):
        status, _, err = call(*command)
        assert status == 0, err


def test_nbest(run: Path) -> None:
    found = next(load(run).predict(["the owl bites an ox"], load(run).search.resized(nbest=2)))
    assert len({output.text for output in found}) == 2
    assert found[0].log_prob > found[1].log_prob


@pytest.mark.slow
def test_words_are_dropped_alike_after_a_kill(corpus: Path, tmp_path: Path) -> None:
    """The law *resume*, of a model that takes words for unknown ones as it trains."""
    settings: dict[str, Any] = {f"data.{split}.path": str(corpus / "a.conllu") for split in ("train", "valid")}
    settings |= {"model.encoder": SPELLED, "model.encoder.embedding.word_dropout": 0.5}
    settings |= {"training.steps": 7, "training.checkpoint_every": 2, "training.average": 2}
    settings |= {"training.batching.tokens": 300, "training.validation.times": 2, "training.precision": "float32"}

    def train(run: str, *callbacks: Callback, **options: Any) -> Path:
        api.train(
            "tagging-network", tmp_path / run, settings, callbacks=callbacks, device="cpu", progress=False, **options
        )
        return tmp_path / run

    with pytest.raises(KilledError):
        train("killed", At(5, kill))
    same_bytes(train("killed", resume=True), train("whole"))
    settings["model.encoder.embedding.word_dropout"] = 0.0
    with pytest.raises(AssertionError):
        same_bytes(train("not dropped"), tmp_path / "whole")


def test_unequal_lines_are_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("the dog\tDET NOUN\nthe cat sees\tDET NOUN\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"mine\.tsv:2: 2 labels in the target for 3 tokens in the source"):
        api.train("tagging", tmp_path / "run", {"data.train.path": str(path)}, progress=False)


# ---------------------------------------------------------------------- real data

DATA = os.environ.get("TRANSDUCE_DATA")
shared = pytest.mark.skipif(DATA is None, reason="set TRANSDUCE_DATA to a folder with gum/ and ner_wnut17/")


@shared
@pytest.mark.parametrize(
    ("path", "count", "words"),
    [("gum/test.conllu.gz", 1464, 28397), ("ner_wnut17/valid.conll.gz", 1009, 15733)],
)
def test_published_corpora(path: str, count: int, words: int) -> None:
    """As many sentences and words as their pages say."""
    rows = list(read(Files(path=f"{DATA}/{path}")))
    assert len(rows) == count
    assert sum(len((row.source or "").split()) for row in rows) == words
    assert all(len((row.source or "").split()) == len((row.target or "").split()) for row in rows)
    assert not any(row.problem for row in rows)


@shared
def test_universal_columns() -> None:
    (row, *_) = read(Files(path=f"{DATA}/gum/test.conllu.gz"), ColumnNames(source="lemma", target="xpos"))
    assert (row.source, row.target) != (None, None)
