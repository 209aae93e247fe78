"""Do the filters find the wrong pairs of a training set, and is a model better without them?

    python benchmarks/filters.py --folder MULTI30K [--source de] [--target en] [--share 0.1] [--seeds 1 2 3]
                                 [--runs RUNS --updates 1300] [--out FILE.md] [--record FILE.json]
    python benchmarks/filters.py --folder MULTI30K --size 1000000

A share of the targets of Multi30k's training set is shuffled among themselves, and the filters ``pairs`` look for them.
Found is the share of the pairs with another's target that the filters leave out, and lost the share of all other
pairs. The option --runs trains the recipe ``translation`` on the pairs before the shuffling, after it, and after the
filters. Each has equally many updates, and translates test_2016_flickr.

The option --size repeats the pairs with changes (a number and a word are added) to this many. They are read from TSV,
CSV and TMX, and filtered; the table has seconds and the peak memory of the process.
"""

from __future__ import annotations

import argparse
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

from report import Report, columns, parse, parser_of, titled

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


def detection(pairs: Pairs, given: argparse.Namespace) -> list[str]:
    """A row of the table for each seed: how many wrong pairs were found, and how many others were lost."""
    rows = []
    for seed in given.seeds:
        mixed = shuffled(pairs, given.share, seed)
        with tempfile.TemporaryDirectory() as folder:
            files = write_pairs(Path(folder) / "train.tsv", mixed)
            began = time.perf_counter()
            removed = PairFilters().removed(lambda files=files: read(files))  # type: ignore[misc]
            seconds = time.perf_counter() - began
            kinds = [removed.get(row.key) for row in read(files)]
        wrong = [new[1] != old[1] for old, new in zip(pairs, mixed, strict=True)]
        found = sum(kind is not None for kind, bad in zip(kinds, wrong, strict=True) if bad) / sum(wrong)
        lost = [kind[0] for kind, bad in zip(kinds, wrong, strict=True) if kind is not None and not bad]
        why = ", ".join(f"{count} {kind}" for kind, count in Counter(lost).most_common())
        share = len(lost) / (len(wrong) - sum(wrong))
        rows.append(f"| {seed} | {sum(wrong):,} | {found:.1%} | {share:.2%} | {why} | {seconds:.0f} |")
    return rows


def translated(pairs: Pairs, system: str, seed: int, given: argparse.Namespace) -> tuple[Path, float]:
    """The run of a system, trained if it is not finished, and its BLEU on the test set."""
    mixed = pairs if system == SYSTEMS[0] else shuffled(pairs, given.share, seed)
    name = f"{system.replace(' ', '-')}-{seed}"
    train = write_pairs(given.runs / f"{name}.tsv", mixed).path
    valid, test = (
        write_pairs(given.runs / f"{split}.tsv", corpus(given.folder, split, given.source, given.target)).path
        for split in ("valid", "test_2016_flickr")
    )
    settings = [f'data.train.path="{train}"', f'data.valid.path="{valid}"', f'data.test.path="{test}"']
    settings += [f"training.steps={given.updates}", "training.aligner=false", f"training.seed={seed}"]
    settings += ["training.clock=processor"]
    settings += ['data.filters.type="pairs"'] if system == SYSTEMS[2] else []
    run = given.runs / name
    transduce.train("translation", run, settings, resume=True, device="cpu", threads=1)
    examples = Run.open(run).examples("test")
    return run, transduce.load(run, device="cpu").evaluate(examples, [metric("bleu")]).statistics[0].score


def repeated(pairs: Pairs, size: int) -> Iterator[tuple[str, str]]:
    """``size`` pairs: the corpus again and again, with a word and a number more each time."""
    for number in range(size):
        source, target = pairs[number % len(pairs)]
        turn = number // len(pairs)
        yield f"{source} {pairs[turn][0].split()[-2]} {turn}", f"{target} {pairs[turn][1].split()[-2]} {turn}"


def at_size(pairs: Pairs, given: argparse.Namespace) -> list[str]:
    """Rows of the table: seconds and memory to read each format, and to filter."""
    source, target, rows = given.source, given.target, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "a.tsv").open("w", encoding="utf-8") as file:
            file.writelines(f"{a}\t{b}\n" for a, b in repeated(pairs, given.size))
        with (folder / "a.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["source", "target"])
            writer.writerows(repeated(pairs, given.size))
        with (folder / "a.tmx").open("w", encoding="utf-8") as file:
            file.write('<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="x"/><body>\n')
            for each in repeated(pairs, given.size):
                texts = zip((source, target), each, strict=True)
                both = "".join(f'<tuv xml:lang="{code}"><seg>{escape(text)}</seg></tuv>' for code, text in texts)
                file.write(f"<tu>{both}</tu>\n")
            file.write("</body></tmx>\n")
        for ending, columns in ((".tsv", None), (".csv", None), (".tmx", ColumnNames(source, target))):
            files, began = Files(path=str(folder / f"a{ending}")), time.perf_counter()
            count = sum(1 for _ in read(files, columns))
            rows.append(f"| read {ending} | {count:,} | {time.perf_counter() - began:.0f} | {peak()} |")
        files, began = Files(path=str(folder / "a.tsv")), time.perf_counter()
        removed = PairFilters().removed(lambda: read(files))
        seconds = time.perf_counter() - began
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(k for k, _ in removed.values()).most_common())
        rows.append(f"| filter: {kinds or 'nothing'} removed | {given.size:,} | {seconds:.0f} | {peak()} |")
    return rows


def peak() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f}"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="a local copy of Multi30k")
    parser.add_argument("--source", default="de")
    parser.add_argument("--target", default="en")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--updates", type=int, default=1300)
    parser.add_argument("--size", type=int)
    given = parse(parser, threads=1)
    pairs = corpus(given.folder, "train", given.source, given.target)
    report = Report.asked(given)
    what = f"{given.source} to {given.target}, {len(pairs):,} pairs"
    table = titled(f"Filters of pairs, Multi30k, {what}")
    if given.size:
        table += [*columns("| step | pairs | seconds | peak GiB |"), *at_size(pairs, given)]
    else:
        table += columns("| seed | wrong pairs | found | others lost | of these | seconds |")
        table += detection(pairs, given)
    print("\n".join(table), flush=True)
    report.write(table)
    if given.runs is None:
        return
    table += ["", *columns(f"| training set, {given.updates:,} updates | seed | BLEU |")]
    measured = []
    for seed in given.seeds:
        for system in SYSTEMS:
            run, bleu = translated(pairs, system, seed, given)
            measured.append(run)
            table.append(f"| {system} | {seed} | {bleu:.2f} |")
            print(table[-1], flush=True)
            report.write(table, measured)


if __name__ == "__main__":
    main()
