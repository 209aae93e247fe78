"""Compares inflection of several languages by the recipe ``inflection`` with the baseline of the shared task.

    python benchmarks/inflection.py FOLDER --runs RUNS [--languages deu heb bul vep aym] [--minutes 10]
                                    [--set KEY=VALUE ...] [--threads 1] [--out benchmarks/results/inflection.md]
                                    [--record FILE.json]

FOLDER has LANGUAGE.train.tsv.gz, LANGUAGE.valid.tsv.gz and LANGUAGE.test.tsv.gz of SIGMORPHON 2021, task 0: lemma,
features, form. Each language is trained for ``--minutes`` of processor time in RUNS/LANGUAGE. The same command again
continues an interrupted run, and only measures a finished one. The column "theirs" is the exact match of the task's
official character Transformer, counted from the outputs that were published with the data. Parentheses have 95 %
intervals of ours, by bootstrap over the words.
"""

from __future__ import annotations

from pathlib import Path

from report import Report, columns, parse, parser_of, titled

import transduce
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.runs.run import Run

PUBLISHED = {"deu": 97.43, "heb": 99.1, "bul": 99.63, "vep": 99.65, "aym": 99.98}
"""Exact match in percent: Pimentel, Ryskina et al., "SIGMORPHON 2021 Shared Task on Morphological Reinflection"."""


def row(language: str, folder: Path, runs: Path, settings: list[str], threads: int) -> str:
    """A language's line of the table. Trains the language first if its run is not finished."""
    files = [f"data.{split}.path={folder / f'{language}.{split}.tsv.gz'}" for split in ("train", "valid", "test")]
    run = runs / language
    transducer = transduce.train("inflection", run, [*files, *settings], resume=True, device="cpu", threads=threads)
    found = transducer.evaluate(Run.open(run).examples("test"), [metric("exact")])
    exact = found.statistics[0]
    low, high = Resampling().interval(exact)
    theirs = PUBLISHED[language]
    verdict = "level" if low <= theirs <= high else "above" if low > theirs else "below"
    parameters = sum(parameter.numel() for parameter in transducer.model.parameters())
    return (
        f"| {language} | {exact.score:.2f} ({low:.2f} to {high:.2f}) | {theirs:.2f} | {verdict} "
        f"| {len(found.predictions):,} | {parameters / 1e6:.2f} M |"
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--languages", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    given = parse(parser, threads=1)
    if any(each.startswith("training.minutes") for each in given.settings):
        parser.error("--set training.minutes: --minutes says how long")
    settings = ["training.clock=processor", f"training.minutes={given.minutes}", *given.settings]
    lines = [
        *titled("Inflection: SIGMORPHON 2021, task 0"),
        f"Exact match on test, `transduce train inflection`, {given.minutes:g} minutes of the processor a language.",
        "",
        *columns("| language | ours | theirs | ours is | words | parameters |"),
    ]
    report = Report.asked(given)
    for number, language in enumerate(given.languages, 1):
        lines.append(row(language, given.folder, given.runs, settings, given.threads))
        print("\n".join(lines), flush=True)
        report.write(lines, [given.runs / each for each in given.languages[:number]])


if __name__ == "__main__":
    main()
