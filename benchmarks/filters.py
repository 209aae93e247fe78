"""Do the filters find the wrong pairs of a training set, and is a model better without them?

A share of the targets of Multi30k's training set is shuffled among themselves, and the filters ``pairs`` look for them.
Found is the share of the pairs with another's target that the filters leave out, and lost the share of all other
pairs. The option --runs trains the recipe ``translation`` on the pairs before the shuffling, after it, and after the
filters. Each has equally many updates, and translates test_2016_flickr.

The option --size repeats the pairs with changes (a number and a word are added) to this many. They are read from TSV,
CSV and TMX, and filtered; the table has seconds and the peak memory of the process.
"""

from __future__ import annotations

import csv
import gzip
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Annotated

from report import Report, columns, titled

import transduce
from transduce.data.corpora import ColumnNames, Files
from transduce.data.rows import read
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.filtering.pairs import PairFilters

Pairs = Sequence[tuple[str, str]]
SYSTEMS = ("as they are", "shuffled", "shuffled and filtered")


def corpus(folder: Path, split: str, source: str, target: str) -> list[tuple[str, str]]:
    files = (folder / f"{split}.{side}.gz" for side in (source, target))
    sides = [gzip.decompress(path.read_bytes()).decode().splitlines() for path in files]
    return list(zip(*sides, strict=True))


def shuffled(pairs: Pairs, share: float, seed: int) -> list[tuple[str, str]]:
    """The pairs, a share of which has changed its targets among each other."""
    dice = random.Random(seed)
    places = sorted(dice.sample(range(len(pairs)), round(share * len(pairs))))
    other = places.copy()
    dice.shuffle(other)
    found = list(pairs)
    for place, from_place in zip(places, other, strict=True):
        found[place] = pairs[place][0], pairs[from_place][1]
    return found


def write_pairs(path: Path, pairs: Pairs) -> Files:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return Files(path=str(path))


def detection(pairs: Pairs, mixed: Pairs, seed: int) -> str:
    """A row of the table: how many of the shuffled pairs were found, and how many others were lost."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_pairs(Path(folder) / "train.tsv", mixed)
        began = time.perf_counter()
        removed = PairFilters().removed(lambda: read(files))
        seconds = time.perf_counter() - began
        kinds = [removed.get(row.key) for row in read(files)]
    wrong = [new[1] != old[1] for old, new in zip(pairs, mixed, strict=True)]
    found = sum(kind is not None for kind, bad in zip(kinds, wrong, strict=True) if bad) / sum(wrong)
    lost = [kind[0] for kind, bad in zip(kinds, wrong, strict=True) if kind is not None and not bad]
    why = ", ".join(f"{count} {kind}" for kind, count in Counter(lost).most_common())
    share = len(lost) / (len(wrong) - sum(wrong))
    return f"| {seed} | {sum(wrong):,} | {found:.1%} | {share:.2%} | {why} | {seconds:.0f} |"


def repeated(pairs: Pairs, size: int) -> Iterator[tuple[str, str]]:
    """``size`` pairs: the corpus again and again, with a word and a number more each time."""
    for number in range(size):
        source, target = pairs[number % len(pairs)]
        turn = number // len(pairs)
        yield f"{source} {pairs[turn][0].split()[-2]} {turn}", f"{target} {pairs[turn][1].split()[-2]} {turn}"


def at_size(pairs: Pairs, size: int, source: str, target: str) -> Iterator[str]:
    """Rows of the table: seconds and memory to read each format, and to filter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "a.tsv").open("w", encoding="utf-8") as file:
            file.writelines(f"{a}\t{b}\n" for a, b in repeated(pairs, size))
        with (folder / "a.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["source", "target"])
            writer.writerows(repeated(pairs, size))
        with (folder / "a.tmx").open("w", encoding="utf-8") as file:
            file.write('<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="x"/><body>\n')
            for each in repeated(pairs, size):
                texts = zip((source, target), each, strict=True)
                both = "".join(f'<tuv xml:lang="{code}"><seg>{escape(text)}</seg></tuv>' for code, text in texts)
                file.write(f"<tu>{both}</tu>\n")
            file.write("</body></tmx>\n")
        for ending, columns in ((".tsv", None), (".csv", None), (".tmx", ColumnNames(source, target))):
            files, began = Files(path=str(folder / f"a{ending}")), time.perf_counter()
            count = sum(1 for _ in read(files, columns))
            yield (f"| read {ending} | {count:,} | {time.perf_counter() - began:.0f} | {peak()} |")
        files, began = Files(path=str(folder / "a.tsv")), time.perf_counter()
        removed = PairFilters().removed(lambda: read(files))
        seconds = time.perf_counter() - began
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(k for k, _ in removed.values()).most_common())
        yield (f"| filter: {kinds or 'nothing'} removed | {size:,} | {seconds:.0f} | {peak()} |")


def peak() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f}"


def main(
    report: Report,
    *,
    folder: Path,
    source: str = "de",
    target: str = "en",
    share: Annotated[float, "of the pairs, shuffled"] = 0.1,
    seeds: Sequence[int] = (1, 2, 3),
    runs: Path | None = None,
    updates: int = 1300,
    size: Annotated[int | None, "pairs to read and filter, for the time and the memory"] = None,
) -> None:
    splits = {split: corpus(folder, split, source, target) for split in ("train", "valid", "test_2016_flickr")}
    pairs = splits["train"]
    report.tell(*titled(f"Filters of pairs, Multi30k, {source} to {target}, {len(pairs):,} pairs"))
    if size:
        report.tell(*columns("| step | pairs | seconds | peak GiB |"), *at_size(pairs, size, source, target))
    else:
        report.tell(*columns("| seed | wrong pairs | found | others lost | of these | seconds |"))
        for seed in seeds:
            report.tell(detection(pairs, shuffled(pairs, share, seed), seed))
    if runs is None:
        return
    report.tell("", *columns(f"| training set, {updates:,} updates | seed | BLEU |"))
    for seed in seeds:
        for system in SYSTEMS:
            run = runs / f"{system.replace(' ', '-')}-{seed}"
            mixed = pairs if system == SYSTEMS[0] else shuffled(pairs, share, seed)
            files = {"train": write_pairs(run.with_suffix(".tsv"), mixed)}
            for name, split in (("valid", "valid"), ("test", "test_2016_flickr")):
                files[name] = write_pairs(runs / f"{split}.tsv", splits[split])
            made = [f'data.{name}.path="{each.path}"' for name, each in files.items()]
            made += [f"training.steps={updates}", "training.aligner=false", f"training.seed={seed}"]
            made += ["training.clock=processor"]
            made += ['data.filters.type="pairs"'] if system == SYSTEMS[2] else []
            transducer = transduce.train("translation", run, made, resume=True, device="cpu", threads=report.threads)
            bleu = transducer.evaluate(Run.open(run).examples("test"), [metric("bleu")]).statistics[0].score
            report.tell(f"| {system} | {seed} | {bleu:.2f} |", runs=[run])
