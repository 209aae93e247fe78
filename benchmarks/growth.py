"""Does a translation model that grows learn another language from few pairs, and what does it forget?

    python benchmarks/growth.py PARENT --runs RUNS [--folder MULTI30K] [--pairs 2000] [--updates 300] [--seed 1]
                                [--language fr] [--threads 1] [--out FILE.md] [--record FILE.json]

PARENT is a run of ``translation`` from German to English. The first pairs of French and English in Multi30k train four
systems with equally many updates: the recipe from nothing, with 2,000 pieces of its own; PARENT, whose vocabulary grows
by the letters and pieces of the new pairs; the same with 30 % of the pairs from PARENT's data; and PARENT
with low-rank updates beside its matrices, whose embeddings alone are trained whole. BLEU is on
test_2016_flickr from French, and from German, which PARENT knew. The same command again continues interrupted runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from report import Report, columns, parse, parser_of, titled

import transduce
from transduce.core.files import write_lines
from transduce.core.types import Example
from transduce.data.corpora import lines
from transduce.metrics.base import metric
from transduce.wings.recipes.origins.multi30k import Language, Multi30k

SHORT = "training.schedule.warmup=50"  # of all systems, because the budget is short
UNITS = 'data.units={joint={type="bpe", size=2000}}'
FROM_NOTHING = [UNITS, "model.encoder.dropout=0.4", "model.decoder.dropout=0.4", SHORT]
GROWN = ["init.vocabulary=extend", "training.optimizer.rate=1e-3", SHORT]
LOW_RANK = 'training.adapter={type="low-rank", rank=16, whole=["encoder.embedding", "decoder.embedding"]}'
SYSTEMS: dict[str, list[str]] = {
    "from nothing": FROM_NOTHING,
    "grown": [*GROWN, "init.keep_old=0"],
    "grown, 30 % old pairs": [*GROWN, "init.keep_old=0.3"],
    "grown, low rank": [*GROWN, "training.optimizer.rate=3e-3", LOW_RANK, "init.keep_old=0"],
}


def prepare(given: argparse.Namespace) -> Path:
    """Writes the first pairs of the new language, and the other splits, into the folder that it returns."""
    folder: Path = given.runs / f"{given.language}-{given.pairs}"
    folder.mkdir(parents=True, exist_ok=True)
    Multi30k(given.language, "en", given.folder).prepare(given.runs / "multi30k")
    for side in (given.language, "en"):
        for split in ("train", "valid"):
            every = [line.decode() for line in lines(given.runs / "multi30k" / f"{split}.{side}")]
            write_lines(folder / f"{split}.{side}", every[: given.pairs])
    return folder


def examples(language: Language, given: argparse.Namespace) -> list[Example]:
    """The test sentences from this language into English."""
    Multi30k(language, "en", given.folder).prepare(given.runs / "multi30k")
    place = given.runs / "multi30k" / "test_2016_flickr"
    sides = ([line.decode() for line in lines(place.with_suffix(f".{side}"))] for side in (language, "en"))
    return [Example(source, (target,)) for source, target in zip(*sides, strict=True)]


def trained(system: str, folder: Path, given: argparse.Namespace) -> Path:
    """The run of a system. Trains it first if it is not finished."""
    run: Path = given.runs / system.replace(" %", "").replace(", ", "-").replace(" ", "-")
    settings = [
        f'data.{split}={{source="{folder / split}.{given.language}", target="{folder / split}.en"}}'
        for split in ("train", "valid")
    ]
    settings += [
        *SYSTEMS[system],
        f"training.steps={given.updates}",
        "training.aligner=false",
        f"training.seed={given.seed}",
    ]
    settings += ["training.validation.times=4", "training.clock=processor"]
    init = given.parent if SYSTEMS[system] is not FROM_NOTHING else None
    transduce.train("translation", run, settings, init=init, resume=True, device="cpu", threads=given.threads)
    return run


def bleu(run: Path, tests: list[list[Example]]) -> list[str]:
    """BLEU of a run on each of the tests."""
    transducer = transduce.load(run, device="cpu")
    found = (transducer.evaluate(test, [metric("bleu")]).statistics[0] for test in tests)
    return [f"{each.score:.2f}" for each in found]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("parent", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--folder", help="a local copy of Multi30k")
    parser.add_argument("--language", default="fr", choices=["fr", "en", "de"])
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parse(parser, threads=1)
    folder = prepare(given)
    tests = [examples(language, given) for language in (given.language, "de")]
    table = [
        *titled(
            f"A German-English model learns {given.language}-en from {given.pairs:,} pairs, {given.updates:,} updates"
        ),
        *columns(f"| system | BLEU {given.language}-en | BLEU de-en |"),
    ]
    report, measured = Report.asked(given), [given.parent]
    table.append(f"| PARENT | {' | '.join(bleu(given.parent, tests))} |")
    for system in SYSTEMS:
        measured.append(trained(system, folder, given))
        table.append(f"| {system} | {' | '.join(bleu(measured[-1], tests))} |")
        print("\n".join(table), flush=True)
        report.write(table, measured)


if __name__ == "__main__":
    main()
