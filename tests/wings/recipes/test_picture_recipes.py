"""The recipes of pictures and clips learn, write and show where they look, on a handful of drawn or made-up ones."""

from __future__ import annotations

import gzip
import json
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selection import mostly_slow
from transduce import api
from transduce.core import recipes
from transduce.core.types import UNK, Example
from transduce.runs.loading import load
from transduce.wings.looking.inspection.signal_attention import signal_attention

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
FEW = 6
Call = Callable[..., tuple[int, str, str]]

SETTINGS: dict[str, dict[str, Any]] = {
    "mnist-lecture": {"data.origin.folder": "digits"},
    "mnist-vit": {"data.origin.folder": "digits", "model.encoder.layers": 1},
    "mnist-attention": {"data.origin.folder": "digits", "model.encoder.embedding.embedding.stages": [4, 4]},
    "ocr-lines": {"data.origin.pairs": FEW, "data.origin.words": 1, "model.encoder.embedding.stages": [4, 4, 4]},
    "ocr-handwriting": {
        "data.origin.folder": "digits",
        "data.origin.strings": FEW,
        "model.encoder.embedding.stages": [4, 4, 4],
    },
    "captions": {
        "data.origin.pairs": FEW,
        "data.origin.held_out": FEW,
        "model.encoder.embedding.stages": [4, 4, 4],
        "search.max_length": 8,
    },
    "captions-nlvr": {
        "data.origin.folder": "sentences",
        "model.encoder.embedding.stages": [4, 4, 4],
        "search.max_length": 8,
    },
    "clips-caption": {
        "data.origin.pairs": FEW,
        "data.origin.shortest": 5,
        "data.origin.longest": 6,
        "model.encoder.embedding.embedding.stages": [4, 4],
        "search.max_length": 8,
    },
    "clips-labels": {
        "data.origin.pairs": FEW,
        "data.origin.shortest": 5,
        "data.origin.longest": 6,
        "model.encoder.embedding.embedding.embedding.stages": [4, 4],
    },
}


@pytest.fixture(autouse=True, scope="module")
def few() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("text_lines", "clips", "digit_strings"):
            patch.setattr(f"transduce.wings.recipes.origins.{name}.held_out", lambda pairs: FEW)
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives of noise, in the forms that the recipes read."""
    root, chance = tmp_path_factory.mktemp("archives"), np.random.default_rng(1)
    for name, shape, labels in (
        ("digits", (28, 28), np.arange(FEW, dtype=np.uint8)),
        ("sentences", (50, 200, 3), None),
    ):
        (root / name).mkdir()
        for split in ("train", "valid", "test"):
            arrays = {"images": chance.integers(0, 256, (FEW, *shape), dtype=np.uint8)}
            np.savez(root / name / f"{split}.npz", **arrays, **({} if labels is None else {"labels": labels}))
            told = [{"sentence": f"there are {n} boxes", "label": "true" if n else "false"} for n in range(FEW)]
            if labels is None:
                packed = gzip.compress("\n".join(map(json.dumps, told)).encode())
                (root / name / f"{split}.jsonl.gz").write_bytes(packed)
    return root


@pytest.fixture(scope="module")
def trained(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run of a recipe after two updates, trained once."""
    root, done = tmp_path_factory.mktemp("runs"), dict[str, Path]()

    def train(recipe: str) -> Path:
        if recipe not in done:
            given = SETTINGS[recipe]
            if "data.origin.folder" in given:
                given = given | {"data.origin.folder": str(folders / given["data.origin.folder"])}
            small = {"training.steps": 2, "training.validation.every": 2, "training.precision": "float32"}
            api.train(recipe, root / recipe, given | small, device="cpu", progress=False)
            done[recipe] = root / recipe
        return done[recipe]

    return train


def sources(run: Path, count: int = 2) -> list[str]:
    """Paths of what the run was tested on."""
    manifests = sorted((run.parent / ".cache" / "origins").rglob("test/pairs.jsonl"))
    table = (run / "config.toml").read_text(encoding="utf-8")
    kind = next(
        name
        for name in ("mnist", "text-lines", "scenes", "clips", "picture-archive", "digit-strings")
        if f'"{name}"' in table
    )
    (manifest, *_) = [path for path in manifests if kind.replace("-", "") in str(path)]
    return [str(manifest.parent / json.loads(line)["source"]) for line in manifest.read_text().splitlines()[:count]]


def test_every_recipe_of_pictures_is_here() -> None:
    prefixes = ("mnist-", "ocr-", "captions", "clips-")
    named = {name for name in recipes.names() if name.startswith(prefixes)}
    assert set(SETTINGS) == named


@pytest.mark.parametrize("recipe", mostly_slow(SETTINGS, fast=["mnist-lecture", "ocr-handwriting", "captions"]))
def test_a_recipe_learns_and_writes(recipe: str, trained: Callable[[str], Path], call: Call) -> None:
    run = trained(recipe)
    outputs = load(run, device="cpu")(sources(run))
    assert len(outputs) == 2
    if recipe.startswith("mnist"):
        assert set(outputs) <= set("0123456789")
    if recipe == "clips-labels":
        assert all(5 <= len(output.split()) <= 6 for output in outputs)
    status, out, _ = call("evaluate", run, "--device", "cpu", "--json")
    assert status == 0
    assert json.loads(out)["examples"] >= FEW - 1


@pytest.mark.parametrize("recipe", mostly_slow(["captions", "clips-caption"], fast=["captions"]))
def test_where_it_looked_is_drawn(recipe: str, trained: Callable[[str], Path], call: Call, tmp_path: Path) -> None:
    run = trained(recipe)
    (path,) = sources(run, 1)
    status, out, _ = call("inspect", run, path, "--device", "cpu", "--target", "a")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["a", "</s>"]
    assert call("inspect", run, path, "--device", "cpu", "--target", "a", "--out", tmp_path / "heat.html")[0] == 0
    assert (tmp_path / "heat.html").read_text().count("data:image/png") == 3  # the picture, and a map for each token
    assert call("inspect", run, path, "--device", "cpu", "--target", "a", "--out", tmp_path / "heat.png")[0] == 0
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_shows_the_pictures(trained: Callable[[str], Path], call: Call, tmp_path: Path) -> None:
    status, _, _ = call("evaluate", trained("captions"), "--device", "cpu", "--report", tmp_path / "report.html")
    assert status == 0
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") >= FEW
    assert "000000.png" in page


def test_captions_are_measured_by_where_they_point(
    trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The script, on captions that are given: this model names nothing yet. The measure itself: test_gaze.py."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import cases
    import pointing

    run = trained("captions")
    transducer = load(run, device="cpu")
    pairs = pointing.test_pairs(transducer.settings, run)
    given = {path: record["target"][0] for path, record in zip(sources(run, FEW), records(pairs), strict=True)}
    monkeypatch.setattr(
        pointing, "signal_attention", lambda transducer, path: signal_attention(transducer, path, given[path])
    )
    cases.main(["pointing", str(run), "--pictures", "4", "--out", str(tmp_path / "out.md")])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    counts = [int(row.split("|")[2]) for row in rows[1:]]
    names = [each["words"] for record in records(pairs)[:4] for each in record["objects"]]
    named = sum(UNK not in ids for ids in transducer.target_tokenizer.encode(names))  # few pictures teach few words
    assert named >= 4
    assert counts == [3 * named, named, named, named]  # of the two objects of four pictures, three words each
    assert [row.count("|") for row in rows] == [6] * 5
    assert rows[-1] in (tmp_path / "out.md").read_text()


def test_the_most_frequent_label_or_caption_is_a_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    most_frequent = runpy.run_path(str(BENCHMARKS / "most_frequent.py"))["most_frequent"]
    known = [Example("", (target,)) for target in ("up up", "left left left left", "left down", "up up")]
    asked = [Example("", ("down",)), Example("", ("up left down",))]
    assert most_frequent(known, asked, labels=True) == ["left", "left left left"]
    assert most_frequent(known, asked, labels=False) == ["up up", "up up"]


def records(pairs: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in pairs.read_text(encoding="utf-8").splitlines()]
