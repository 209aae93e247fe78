"""Measures how much back-translation improves translation with few pairs and much text of the target language.

The data are Multi30k, German to English. Each model is the model of --recipe with 4,000 tokens. The pairs are the first
training pairs. The text is the English side of the training pairs after the first 5,000. A sentence that is also in the
first 5,000 pairs, in validation or in test is left out. The ways to make synthetic pairs:

- ``beam``: a model from English to German, trained on the pairs, translates the text with a beam of 5.
- ``sampling``: the same model draws its translations at random.
- ``noised``: the translations of ``beam`` with noise (``WordNoise``).
- ``tagged``: the translations of ``beam``, with the word "back" before each.

Each real pair counts ``--weight`` times. Without back-translation, the vocabulary and the model know only the pairs.
All models train for the same minutes of processor time. The reverse model trains for as many minutes more, and its
translations take some time, too. The reverse model has the same seed. The same command again continues an interrupted
run. Parentheses have 95 % intervals by bootstrap over the sentences of test_2016_flickr. The intervals of a mean use
the same resamples for all seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from report import Report, columns, gain_rows, titled

import transduce
from transduce.core.errors import UserError
from transduce.core.files import write_lines
from transduce.data.corpora import Files
from transduce.data.corpora import lines as lines_of
from transduce.metrics.base import metric
from transduce.metrics.statistics import Statistics
from transduce.runs.run import Run
from transduce.wings.lab.back_translation import WordNoise, back_translated, mixed, noised, tagged
from transduce.wings.recipes.origins.multi30k import Multi30k

FIRST = 5000  # pairs whose English side is not in the text
UNIT = '{type = "unigram", size = 4000}'
CHANGES: dict[str, Callable[[list[tuple[str, str]], int], Iterable[tuple[str, str]]]] = {
    "beam": lambda pairs, seed: pairs,
    "sampling": lambda pairs, seed: pairs,
    "noised": lambda pairs, seed: noised(pairs, WordNoise(seed=seed)),
    "tagged": lambda pairs, seed: tagged(pairs, "back"),
}
"""For each way, a function that changes the synthetic pairs. Its arguments are the pairs and the seed."""

Found = dict[tuple[str, int], Statistics]


class Data:
    """The pairs of each split of Multi30k (German, English), and the English text without German."""

    def __init__(self, runs: Path, folder: str | None) -> None:
        splits = Multi30k("de", "en", folder).prepare(runs / "multi30k")
        self.train, self.valid, self.test = (_pairs(each) for each in (splits.train, splits.valid, splits.test))
        seen = {english for _, english in (*self.train[:FIRST], *self.valid, *self.test)}
        self.text = [english for _, english in self.train[FIRST:] if english not in seen]


def _pairs(files: Files | None) -> list[tuple[str, str]]:
    sides = [] if files is None else [files.source, files.target]
    return [*zip(*([line.decode() for line in lines_of(Path(str(path)))] for path in sides), strict=True)]


def write_pairs(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Writes the pairs unless the file exists, so that a run continues with the same file."""
    if not path.exists():
        write_lines(path, (f"{source}\t{target}" for source, target in pairs))


@dataclass(frozen=True)
class Training:
    """How every model is trained: its recipe, settings and threads."""

    recipe: str
    settings: list[str]
    threads: int


def trained(run: Path, files: dict[str, Path], training: Training) -> transduce.Transducer:
    """The model of a run. Trains the run first if it is not finished."""
    data = [f'data.{split}={{path = "{path}"}}' for split, path in files.items()]
    common = [*data, f"data.units={{joint = {UNIT}}}", *training.settings]
    return transduce.train(training.recipe, run, common, resume=True, device="cpu", threads=training.threads)


def reverse_files(runs: Path, data: Data, size: int) -> dict[str, Path]:
    """The files of the model from English to German."""
    files = {"train": runs / f"reverse-{size}.tsv", "valid": runs / "reverse-valid.tsv"}
    for path, pairs in ((files["train"], data.train[:size]), (files["valid"], data.valid)):
        write_pairs(path, ((english, german) for german, english in pairs))
    return {**files, "test": files["valid"]}


def synthetic_pairs(
    search: str, size: int, seed: int, runs: Path, data: Data, training: Training
) -> list[tuple[str, str]]:
    """The synthetic pairs of a reverse model by beam or sampling, made once."""
    path = runs / f"synthetic-{search}-{size}-seed{seed}.tsv"
    if not path.exists():
        reverse = trained(runs / f"reverse-{size}-seed{seed}", reverse_files(runs, data, size), training)
        if search == "sampling":
            reverse = reverse.changed(["search.type=sampling", "search.max_length=80", f"search.seed={seed}"])
        write_pairs(path, back_translated(reverse, data.text))
    sides = (line.decode().split("\t") for line in lines_of(path))
    return [(source, target) for source, target in sides]


def translated(run: Path, train: Path, runs: Path, training: Training) -> Statistics:
    """The BLEU statistics on test of one translation model."""
    files = {"train": train, "valid": runs / "valid.tsv", "test": runs / "test.tsv"}
    transducer = trained(run, files, training)
    return transducer.evaluate(Run.open(run).examples("test"), [metric("bleu")]).statistics[0]


def main(
    report: Report,
    *,
    runs: Path,
    folder: str | None = None,
    pairs: Sequence[int] = (2000, 5000),
    seeds: Sequence[int] = (1, 2, 3),
    ways: Annotated[Sequence[str], CHANGES] = tuple(CHANGES),
    weight: Annotated[int, "how often a real pair counts"] = 4,
    minutes: float = 5.0,
    recipe: str = "multi30k-de-en-gru",
    settings: Sequence[str] = (),
) -> None:
    if max(pairs) > FIRST:
        raise UserError(f"--pairs: at most {FIRST}, because the text of the target side begins after them")
    runs.mkdir(parents=True, exist_ok=True)
    runs = runs.resolve()
    data = Data(runs, folder)
    write_pairs(runs / "valid.tsv", data.valid)
    write_pairs(runs / "test.tsv", data.test)
    head = [
        *titled("Back-translation, Multi30k, German to English"),
        f"BLEU on test_2016_flickr of `{recipe}`. {len(data.text):,} sentences of text; each model "
        f"{minutes:g} minutes of the processor; each real pair {weight} times.",
        "",
        *columns("| pairs | synthetic pairs | seed | BLEU | gain |"),
    ]
    found: dict[int, Found] = {size: {} for size in pairs}
    for seed in seeds:
        common = ["training.clock=processor", f"training.minutes={minutes}", f"training.seed={seed}"]
        training = Training(recipe, [*common, *settings], report.threads)
        for size in pairs:
            for way in ("none", *ways):
                train, learned = runs / f"{way}-{size}-seed{seed}.tsv", data.train[:size]
                if way != "none":
                    search = "sampling" if way == "sampling" else "beam"
                    synthetic = synthetic_pairs(search, size, seed, runs, data, training)
                    learned = [*mixed(learned, CHANGES[way](synthetic, seed), weight)]
                write_pairs(train, learned)
                run = runs / f"{way}-{size}-seed{seed}"
                found[size][way, seed] = translated(run, train, runs, training)
                report.show([*head, *gain_rows(found, ways, seeds)], [run])
