"""Does ``transduce fit`` choose well? Beside the recipe that docs/tasks.md names for the task, on the same examples.

DATA is the folder with the shared data. Each SET is a name in ``SETS``; without one, all are measured. The recipe is a
trial of the same fit, so it has the same pairs, the same updates and the same seed. The difference is fit minus recipe
with its 95 % interval by paired bootstrap, and p by approximate randomisation. If fit chose the recipe alone, both are
one model. The same command again continues interrupted work.
"""

from __future__ import annotations

import gzip
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from report import Report, columns, titled

import transduce
from transduce.core.types import Example
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.wings.fitting.fit import BESIDE, Fitted, Wishes, fit
from transduce.wings.fitting.given import Columns, given


@dataclass(frozen=True)
class Set:
    """The files of a set, with {split} in their names, which ``test`` and ``train`` replace for these splits. ``first``
    pairs of the training file are used, if not all of them. ``recipe`` is the one that docs/tasks.md names.
    """

    recipe: str
    files: tuple[str, ...]
    metric: str
    first: int | None = None
    test: str = "test"
    train: str = "train"


WIKIPRON = "g2p_wikipron/{}.{{split}}.tsv.gz"
GERMAN = "inflection_conll2018/german.{split}.tsv.gz"
SETS = {
    "Icelandic": Set("g2p-small", (WIKIPRON.format("low_ice"),), "item_error"),
    "Greek": Set("g2p-small", (WIKIPRON.format("low_gre"),), "item_error"),
    "Dutch": Set("g2p-medium", (WIKIPRON.format("medium_dut"),), "item_error"),
    "Serbo-Croatian": Set("g2p-medium", (WIKIPRON.format("medium_hbs_latn"),), "item_error"),
    "English": Set("g2p", ("g2p_cmudict/{split}.nostress.tsv.gz",), "per"),
    "German, 100": Set("inflection-small", (GERMAN,), "exact", train="train-low"),
    "German, 1,000": Set("inflection-medium", (GERMAN,), "exact", train="train-medium"),
    "German, 10,000": Set("inflection", (GERMAN,), "exact", train="train-high"),
    "misspellings": Set("spelling-channel", ("spelling/birkbeck.{split}.tsv.gz",), "exact"),
    "questions": Set("classification", ("text_classification/trec6.{split}.tsv.gz",), "accuracy"),
    "opinions": Set("classification", ("text_classification/mr.{split}.tsv.gz",), "accuracy"),
    "tags": Set("tagging", ("gum/{split}.conllu.gz",), "accuracy"),
    "entities": Set("entities", ("ner_wnut17/{split}.conll.gz",), "entity_f1"),
    "captions, 1,000": Set(
        "translation-small", ("multi30k/{split}.de.gz", "multi30k/{split}.en.gz"), "bleu", 1000, "test_2016_flickr"
    ),
    "captions, 29,000": Set(
        "translation", ("multi30k/{split}.de.gz", "multi30k/{split}.en.gz"), "bleu", None, "test_2016_flickr"
    ),
    "digits": Set("digits", ("fsdd",), "accuracy"),
}


def files_of(each: Set, data: Path, work: Path) -> dict[str, list[str]]:
    """The files of each split; a training file with the first pairs alone is written into ``work``."""
    if each.files == ("fsdd",):
        return recordings(data / "fsdd", work)
    found = {}
    for split in ("train", "valid", "test"):
        name = each.test if split == "test" else split
        name = each.train if split == "train" else name
        found[split] = [str(data / file.format(split=name)) for file in each.files]
    if each.first is not None:
        for number, path in enumerate(found["train"]):
            lines = gzip.decompress(Path(path).read_bytes()).split(b"\n")[: each.first]
            short = work / Path(path).name
            short.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
            found["train"][number] = str(short)
    return found


def recordings(data: Path, work: Path) -> dict[str, list[str]]:
    """The recordings of spoken digits, unpacked, with a table for each split."""
    folder = work / "recordings"
    if not folder.exists():
        folder.mkdir()
        with tarfile.open(data / "wav.tar.gz") as archive:
            for member in archive.getmembers():
                if member.isfile() and member.name.endswith(".wav"):
                    with archive.extractfile(member) as source, (folder / Path(member.name).name).open("wb") as file:  # type: ignore[union-attr]
                        shutil.copyfileobj(source, file)
    rows = [line.split("\t") for line in (data / "index.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    found = {}
    for split in ("train", "valid", "test"):
        path = folder / f"{split}.tsv"
        path.write_text("".join(f"{row[1]}\t{row[2]}\n" for row in rows if row[0] == split), encoding="utf-8")
        found[split] = [str(path)]
    return found


def row(name: str, each: Set, found: Fitted, test: list[str]) -> list[str]:
    """The line of a set: both scores on test, and their difference."""
    pairs: dict[str, list[str]] = {}
    for source, target in given(test, Columns()).pairs:
        pairs.setdefault(source, []).append(target)
    examples = [Example(source, tuple(targets)) for source, targets in pairs.items()]
    beside = found.run.with_name(found.run.name + BESIDE)
    trials = sorted((beside / "trials" / each.recipe).glob("*/config.toml"))
    measured = metric(each.metric)
    chosen = found.load().evaluate(examples, [measured], told=False).statistics[0]
    counts = sum(1 for _ in (beside / "data" / "all.train.jsonl").open(encoding="utf-8"))
    cells = [name, f"{counts:,}", each.recipe]
    if not trials:
        return [*cells, "–", found.name, f"{chosen.score:.2f}", "the recipe was no candidate"]
    theirs = transduce.load(trials[0].parent).evaluate(examples, [measured], told=False).statistics[0]
    if found.name == each.recipe:
        return [*cells, f"{theirs.score:.2f}", found.name, f"{chosen.score:.2f}", "the same model"]
    gap = Resampling().difference(chosen, theirs)
    low, high = gap.interval
    told = f"{gap.value:+.2f} ({low:+.2f} to {high:+.2f}), p {gap.randomisation_p:.3f}"
    return [*cells, f"{theirs.score:.2f}", found.name, f"{chosen.score:.2f}", told]


def main(
    report: Report,
    sets: Annotated[Sequence[str], "names in SETS; none: all"] = (),
    *,
    data: Path,
    runs: Path,
    minutes: Annotated[float | None, "for each set; by default, all updates of each candidate"] = None,
) -> None:
    limit = "all updates" if minutes is None else f"{minutes:g} minutes"
    report.tell(*titled(f"transduce fit beside the recipe of the task, {limit}"))
    report.tell(*columns("| set | pairs | recipe | metric: recipe | fit chose | fit | difference |"))
    for name in sets or SETS:
        each, folder = SETS[name], runs / name.replace(", ", "-").replace(",", "")
        folder.mkdir(parents=True, exist_ok=True)
        files = files_of(each, data, folder)
        found = fit(
            files["train"],
            files["valid"],
            files["test"],
            folder / "run",
            minutes,
            Wishes(columns=Columns()),
            threads=report.threads,
        )
        cells = row(name, each, found, files["test"])
        cells[3] = f"{each.metric} {cells[3]}"
        report.tell(f"| {' | '.join(cells)} |", runs=[found.run])
