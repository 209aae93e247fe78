"""Measures models on other domains than that of their training, and what some pairs of a new domain bring.

FOLDER has the folders ``multi30k`` and ``gum`` of the shared data.

- Translation: each RUN, German to English, trained on Multi30k's captions of Flickr pictures of 2016. It translates
  three test sets: captions of 2016, other pictures of Flickr of 2017, and ambiguous captions of COCO of 2017. Also the
  share of running German words that the training text lacks.
- Parts of speech: ``tagging-hmm`` counted on all genres of GUM except one, with 0, 100 and 1,000 sentences of this one
  (all sentences if there are fewer), and measured on this genre's part of the test set. The first sentences of the
  training part are taken.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from report import Report, machine

import transduce
from transduce.core.types import Example
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics

SETS = {"2016": "test_2016_flickr", "2017": "test_2017_flickr", "COCO": "test_2017_mscoco"}
WORD = re.compile(r"\w+")
SIZES = (0, 100, 1000)


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def cell(found: Statistics) -> str:
    low, high = Resampling().interval(found)
    return f"{found.score:.1f} ({low:.1f} to {high:.1f})"


def translation(folder: Path, runs: Sequence[Path]) -> list[str]:
    known = {word for line in lines(folder / "train.de.gz") for word in WORD.findall(line.lower())}
    table = [
        "# Translation of captions from other sources",
        "",
        "| test set | pairs | unknown words | " + " | ".join(f"{run.name}, BLEU | chrF" for run in runs) + " |",
        "|---" * (3 + 2 * len(runs)) + "|",
    ]
    models = [transduce.load(run, device="cpu") for run in runs]
    for name, file in SETS.items():
        sources, targets = (lines(folder / f"{file}.{side}.gz") for side in ("de", "en"))
        examples = [Example(source, (target,)) for source, target in zip(sources, targets, strict=True)]
        words = [word for line in sources for word in WORD.findall(line.lower())]
        unknown = 100 * sum(word not in known for word in words) / len(words)
        cells: list[str] = []
        for model in models:
            found = model.evaluate(examples, [metric("bleu"), metric("chrf")])
            cells += map(cell, found.statistics)
        table.append(f"| {name} | {len(examples):,} | {unknown:.1f} % | {' | '.join(cells)} |")
        print(table[-1], flush=True)
    return table


def by_genre(path: Path) -> dict[str, list[str]]:
    """The sentences of a CoNLL-U file by their document's genre, each with its lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        text = file.read()
    found: dict[str, list[str]] = {}
    genre = ""
    for sentence in text.strip().split("\n\n"):
        if started := re.search(r"^# newdoc id = [A-Z]+_([a-z]+)_", sentence, re.MULTILINE):
            genre = started[1]
        found.setdefault(genre, []).append(sentence)
    return found


def write(path: Path, sentences: Sequence[str]) -> Path:
    path.write_text("\n\n".join(sentences) + "\n\n", encoding="utf-8")
    return path


def tagged(train: Mapping[str, list[str]], test: Sequence[str], genre: str, size: int, work: Path) -> Statistics:
    """The accuracy on ``test`` of a tagger counted on other genres and on ``size`` sentences of this one."""
    work.mkdir(parents=True, exist_ok=True)
    others = [sentence for name, found in train.items() if name != genre for sentence in found]
    learned = write(work / f"{genre}-{size}.conllu", others + train[genre][:size])
    measured = write(work / f"{genre}-test.conllu", test)
    settings = [f"data.train.path={learned}", f"data.valid.path={measured}", f"data.test.path={measured}"]
    run = work / f"{genre}-{size}"
    model = transduce.train("tagging-hmm", run, settings, resume=True, device="cpu", threads=1, progress=False)
    examples = []
    for sentence in test:
        rows = [line.split("\t") for line in sentence.splitlines() if line[:1].isdigit()]
        rows = [row for row in rows if row[0].isdigit()]
        examples.append(Example(" ".join(row[1] for row in rows), (" ".join(row[3] for row in rows),)))
    return model.evaluate(examples, [metric("accuracy")]).statistics[0]


def tags(folder: Path, genres: Sequence[str], work: Path) -> list[str]:
    train, test = by_genre(folder / "train.conllu.gz"), by_genre(folder / "test.conllu.gz")
    table = [
        "# Parts of speech of a genre that training lacks, and with sentences of it: accuracy",
        "",
        "| genre | test sentences | " + " | ".join(f"{size:,} sentences" for size in SIZES) + " | gain of the last |",
        "|---" * (3 + len(SIZES)) + "|",
    ]
    for genre in genres:
        found = [tagged(train, test[genre], genre, min(size, len(train[genre])), work) for size in SIZES]
        resampling = Resampling()
        drawn = resampling.bootstrap(found[-1]) - resampling.bootstrap(found[0])
        low, high = sorted(drawn)[int(0.025 * len(drawn))], sorted(drawn)[int(0.975 * len(drawn))]
        gain = f"{found[-1].score - found[0].score:+.2f} ({low:+.2f} to {high:+.2f})"
        note = "" if len(train[genre]) >= SIZES[-1] else f" (all {len(train[genre])})"
        table.append(f"| {genre}{note} | {len(test[genre])} | {' | '.join(map(cell, found))} | {gain} |")
        print(table[-1], flush=True)
    return table


def main(
    report: Report,
    folder: Path,
    *,
    work: Path,
    runs: Sequence[Path] = (),
    genres: Sequence[str] = ("conversation", "vlog", "court", "academic"),
) -> None:
    report.tell(f"Measured on {machine()}", "", *translation(folder / "multi30k", runs), "", runs=runs)
    report.tell(*tags(folder / "gum", genres, work))
