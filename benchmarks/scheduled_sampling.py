"""Measures how much scheduled sampling improves inflection with a thousand pairs.

FOLDER has LANGUAGE.train-medium.tsv.gz (1,000 pairs), LANGUAGE.valid.tsv.gz and LANGUAGE.test.tsv.gz of SIGMORPHON
2018, task 1: lemma, features, form. The model comes from the recipe ``inflection``, an LSTM with attention. The system
"teacher" reads the letters of the target in training. The system "scheduled" reads each letter of the target with
``--probability``, and otherwise a letter that it draws itself (Bengio et al. 2015). Both train for the same minutes of
processor time, with the same initial weights for a seed. The best checkpoint of each is chosen on validation.

The table has exact matches in percent on test. The 95 % intervals of a language are by bootstrap over its words, with
the same resamples for all seeds and both systems. The mean over the languages resamples the words of each language
separately. The last column counts the runs, of all seeds, that scheduled sampling makes better. The same command again
continues interrupted runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from report import Report, cell, columns, titled

import transduce
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics
from transduce.runs.run import Run

LANGUAGES = ("arabic", "finnish", "german", "russian", "turkish")
SYSTEMS = ("teacher", "scheduled")
Found = dict[tuple[str, str, int], Statistics]  # by language, system and seed


def measured(run: Path, settings: list[str], threads: int) -> Statistics:
    """Trains a run, or continues it. Returns its exact matches on test."""
    recipe = run.parent / "inflection.toml"  # has the same settings for every number of pairs
    recipe.write_text('base = "inflection"\n', encoding="utf-8")
    transducer = transduce.train(str(recipe), run, settings, resume=True, device="cpu", threads=threads)
    return transducer.evaluate(Run.open(run).examples("test"), [metric("exact")]).statistics[0]


def rows(found: Found, languages: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """The lines of the table: one for each finished language, and one for their mean."""
    done = [language for language in languages if all((language, each, seeds[-1]) in found for each in SYSTEMS)]
    written = [row(language, found, [language], seeds) for language in done]
    return [*written, row(f"mean of {len(done)}", found, done, seeds)] if len(done) > 1 else written


def row(name: str, found: Found, languages: Sequence[str], seeds: Sequence[int]) -> str:
    drawn, score = dict[str, Any](), dict[str, Any]()
    for system in SYSTEMS:
        every = [(number, found[language, system, seed]) for number, language in enumerate(languages) for seed in seeds]
        drawn[system] = np.mean([Resampling(seed=number + 1).bootstrap(each) for number, each in every], axis=0)
        score[system] = np.array([each.score for _, each in every])
    gains = score["scheduled"] - score["teacher"]
    cells = [cell(score[system].mean(), drawn[system], digits=1) for system in SYSTEMS]
    cells.append(cell(gains.mean(), drawn["scheduled"] - drawn["teacher"], "+", digits=1))
    return f"| {' | '.join([name, *cells, f'{int((gains > 0).sum())} of {len(gains)}'])} |"


def main(
    report: Report,
    folder: Path,
    *,
    runs: Path,
    languages: Annotated[Sequence[str], LANGUAGES] = ("german", "finnish", "turkish"),
    seeds: Sequence[int] = (1, 2, 3),
    probability: str = '{type="linear", slope=0.5}',
    minutes: float = 0.5,
    settings: Sequence[str] = (),
) -> None:
    runs.mkdir(parents=True, exist_ok=True)
    forcing = {
        "teacher": "objective.forcing=teacher",
        "scheduled": f'objective.forcing={{type="scheduled-sampling", probability={probability}}}',
    }
    head = [
        *titled("Scheduled sampling, inflection with 1,000 pairs"),
        f"Exact match on test, {minutes:g} minutes of the processor each, {len(seeds)} seeds.",
        "",
        *columns("| language | teacher forcing | scheduled sampling | gain | better runs |"),
    ]
    found = Found()
    for language in languages:
        files = {split: folder / f"{language}.{split}.tsv.gz" for split in ("valid", "test")}
        files["train"] = folder / f"{language}.train-medium.tsv.gz"
        measured_runs = []
        for seed in seeds:
            made = [f"data.{split}.path={path}" for split, path in files.items()]
            made += ["data.columns={source=0, target=2, labels=[1]}", "training.clock=processor"]
            made += [f"training.minutes={minutes}", f"training.seed={seed}", "training.batching.tokens=256"]
            made += ["training.validation.examples=300", "training.validation.times=4", *settings]
            for system, forced in forcing.items():
                run = runs / f"{language}-{system}-{seed}"
                found[language, system, seed] = measured(run, [*made, forced], report.threads)
                measured_runs.append(run)
        report.show([*head, *rows(found, languages, seeds)], measured_runs)
