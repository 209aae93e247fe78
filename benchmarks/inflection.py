"""Compares inflection of several languages by the recipe ``inflection`` with the baseline of the shared task.

FOLDER has LANGUAGE.train.tsv.gz, LANGUAGE.valid.tsv.gz and LANGUAGE.test.tsv.gz of SIGMORPHON 2021, task 0: lemma,
features, form. Each language is trained for ``--minutes`` of processor time in RUNS/LANGUAGE. The same command again
continues an interrupted run, and only measures a finished one. The column "theirs" is the exact match of the task's
official character Transformer, counted from the outputs that were published with the data. Parentheses have 95 %
intervals of ours, by bootstrap over the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from report import Report, columns, titled

import transduce
from transduce.core.errors import UserError
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


def main(
    report: Report,
    folder: Path,
    *,
    runs: Path,
    languages: Annotated[Sequence[str], PUBLISHED] = tuple(PUBLISHED),
    minutes: float = 10.0,
    settings: Sequence[str] = (),
) -> None:
    if any(each.startswith("training.minutes") for each in settings):
        raise UserError("--set training.minutes: --minutes says how long")
    made = ["training.clock=processor", f"training.minutes={minutes}", *settings]
    report.tell(
        *titled("Inflection: SIGMORPHON 2021, task 0"),
        f"Exact match on test, `transduce train inflection`, {minutes:g} minutes of the processor a language.",
        "",
        *columns("| language | ours | theirs | ours is | words | parameters |"),
    )
    for language in languages:
        report.tell(row(language, folder, runs, made, report.threads), runs=[runs / language])
