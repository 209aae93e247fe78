"""Measures how much pretraining on text of the target language improves translation with few pairs.

The data are Multi30k, German to English. The model is ``multi30k-de-en-transformer`` with a vocabulary for each side.
The text is the English side of the training pairs after the first 5,000. A sentence that is also in the first 5,000
pairs, in validation or in test is left out. The ways to pretrain:

- ``language``: the decoder starts from a language model of the text.
- ``frozen``: the same, but the copied weights keep their values. Only the encoder and the attention to it learn.
- ``denoising``: encoder and decoder start from a denoising autoencoder of the text (infilling). The encoder then learns
  German words, and keeps its vectors of tokens that both languages have.

Without pretraining, each side's vocabulary is learned from the pairs. If a model is pretrained, the vocabulary of the
target is learned from the text. All systems have the same model, settings and minutes of processor time. Pretraining
takes additional minutes. Each pretraining is done once, with seed 1. The same command again continues interrupted
trainings. Parentheses have 95 % intervals by bootstrap over the sentences of test_2016_flickr. The intervals of a mean
use the same resamples for all seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from report import Report, columns, gain_rows, titled

import transduce
from transduce.core import recipes
from transduce.core.errors import UserError
from transduce.core.files import write_lines
from transduce.data.corpora import lines as lines_of
from transduce.metrics.base import metric
from transduce.metrics.statistics import Statistics
from transduce.runs.run import Run
from transduce.wings.recipes.origins.multi30k import Multi30k

FIRST = 5000  # pairs that pretraining does not use
SIZE = 4000  # entries of a vocabulary
UNIT: dict[str, Any] = {"type": "unigram", "size": SIZE}
RECIPE = "multi30k-de-en-transformer"
LAYER = ("mixer", "mixer_residual", "feedforward", "feedforward_residual")


@dataclass(frozen=True)
class Way:
    """A way to pretrain: the pretrained ``run``, the parts of the model that start from it, and frozen parameters."""

    run: str
    parts: tuple[dict[str, str], ...]
    freeze: tuple[str, ...] = ()


WAYS = {
    "language": Way("language", ({"into": "decoder"},)),
    "frozen": Way(
        "language",
        ({"into": "decoder"},),
        ("decoder.embedding", "decoder.norm", *(f"decoder.layers.*.{part}" for part in LAYER)),
    ),
    "denoising": Way("denoising", ({"into": "encoder", "vocabulary": "own"}, {"into": "decoder"})),
}


def texts(runs: Path, folder: str | None, sizes: Sequence[int]) -> None:
    """Writes into ``runs`` the first training pairs of each size, as SIZE.de and SIZE.en. Writes validation and test in
    the same way, and the text for pretraining as rest.tsv and rest-valid.tsv.
    """
    splits = Multi30k("de", "en", folder).prepare(runs / "multi30k")
    named = {"valid": splits.valid, "test": splits.test}
    read = {name: _lines(files) for name, files in named.items()}
    train = _lines(splits.train)
    for name, (german, english) in (*read.items(), *((str(size), [s[:size] for s in train]) for size in sizes)):
        write_lines(runs / f"{name}.de", german)
        write_lines(runs / f"{name}.en", english)
    seen = {*train[1][:FIRST], *read["valid"][1], *read["test"][1]}
    write_lines(runs / "rest.tsv", [line for line in train[1][FIRST:] if line not in seen])
    write_lines(runs / "rest-valid.tsv", read["valid"][1])


def _lines(files: Any) -> list[list[str]]:
    return [[line.decode() for line in lines_of(Path(path))] for path in (files.source, files.target)]


def pretrained(way: str, runs: Path, common: list[str], minutes: float, threads: int) -> Path:
    """The run of a language model or a denoising autoencoder of the text. Trains it first if it is not finished."""
    run = runs / way
    settings: dict[str, Any] = {
        "data.train": {"path": str(runs / "rest.tsv")},
        "data.valid": {"path": str(runs / "rest-valid.tsv")},
        "data.test": {"path": str(runs / "rest-valid.tsv")},
        "training.minutes": minutes,
        "training.validation.metrics": [],
        "metrics": ["perplexity"],
    }
    if way == "language":
        decoder = recipes.read(RECIPE)["model"]["decoder"]
        settings |= {"model": {"type": "language-model", "decoder": decoder, "tie": "target"}}
        settings |= {"data.units": {"target": UNIT}, "data.columns": {"target": 0}}
    else:
        settings |= {"objective": {"type": "denoising", "smoothing": 0.1}}
        settings |= {"data.units": {"joint": UNIT}, "data.columns": {"source": 0, "target": 0}}
    transduce.train(RECIPE, run, [*_set(settings), *common], resume=True, device="cpu", threads=threads)
    return run


def translated(
    way: str, size: int, seed: int, runs: Path, common: list[str], minutes: float, threads: int
) -> Statistics:
    """The BLEU statistics of one translation model on test. Trains it first if it is not finished."""
    run = runs / f"{way}-{size}-seed{seed}"
    sides = {"source": "de", "target": "en"}
    settings: dict[str, Any] = {
        f"data.{split}": {side: str(runs / f"{name}.{end}") for side, end in sides.items()}
        for split, name in (("train", str(size)), ("valid", "valid"), ("test", "test"))
    }
    settings |= {"data.units": {"source": UNIT, "target": UNIT}, "model.tie": "target"}
    settings |= {"training.minutes": minutes, "training.seed": seed}
    if way != "none":
        start = WAYS[way]
        settings["init.parts"] = [{"run": str(runs / start.run), **part} for part in start.parts]
        settings["training.freeze"] = list(start.freeze)
    transducer = transduce.train(RECIPE, run, [*_set(settings), *common], resume=True, device="cpu", threads=threads)
    found = transducer.evaluate(Run.open(run).examples("test"), [metric("bleu")])
    return found.statistics[0]


def _set(settings: dict[str, Any]) -> list[str]:
    return [f"{key}={_written(value)}" for key, value in settings.items()]


def _written(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def main(
    report: Report,
    *,
    runs: Path,
    folder: str | None = None,
    pairs: Sequence[int] = (1000, 5000),
    seeds: Sequence[int] = (1, 2, 3),
    ways: Annotated[Sequence[str], WAYS] = tuple(WAYS),
    pretraining: Annotated[float, "minutes of it"] = 6.0,
    minutes: float = 4.0,
    settings: Sequence[str] = (),
) -> None:
    if max(pairs) > FIRST:
        raise UserError(f"--pairs: at most {FIRST}, because the text for pretraining begins after them")
    runs.mkdir(parents=True, exist_ok=True)
    texts(runs, folder, pairs)
    common = ["training.clock=processor", *settings]
    starts = list(dict.fromkeys(WAYS[way].run for way in ways))
    for way in starts:
        pretrained(way, runs, common, pretraining, report.threads)
    head = [
        *titled("Pretraining on the target side, Multi30k, German to English"),
        f"BLEU on test_2016_flickr. Pretraining {pretraining:g} minutes, each translation {minutes:g}.",
        "",
        *columns("| pairs | starts from | seed | BLEU | gain |"),
    ]
    found: dict[int, dict[tuple[str, int], Statistics]] = {size: {} for size in pairs}
    for seed in seeds:
        for size in pairs:
            for way in ("none", *ways):
                found[size][way, seed] = translated(way, size, seed, runs, common, minutes, report.threads)
                made = [*(runs / each for each in starts), runs / f"{way}-{size}-seed{seed}"]
                report.show([*head, *gain_rows(found, ways, seeds)], made)
