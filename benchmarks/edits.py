"""Measures edit transducers on little data: pronunciation of four languages, and inflection beside an encoder-decoder.

The pronunciation folder has SIZE_LANGUAGE.train.tsv.gz, .valid and .test of SIGMORPHON 2021, task 1: word, phonemes.
Each language is trained by ``transduce train g2p``, once for each seed. This recipe chooses its settings by the number
of pairs. Minutes are processor time. The baseline is the task's own: a neural transducer that writes edits, trained by
imitation.

The inflection folder has LANGUAGE.train-low.tsv.gz (100 pairs), LANGUAGE.train-medium.tsv.gz (1,000), LANGUAGE.valid
and LANGUAGE.test of CoNLL-SIGMORPHON 2018, task 1: lemma, features, form. The model "edits" is the recipe
``inflection-small`` or, with 1,000 pairs, the edit transducer of ``inflection-medium`` alone. The model "attention" is
the model of the recipe ``inflection``. The model "attention, invented" also trains on the invented words of
``inflection-small``. Each model has ``--minutes`` of processor time and batches of the same size. The best checkpoint
of each is chosen on validation. The table has percentages on test, and 95 % intervals by bootstrap over the words in
parentheses. The same command again continues interrupted runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import tomli_w
from report import Report, columns, titled

import transduce
from transduce.core import recipes
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.runs.run import Run

PUBLISHED = {"medium_dut": 14.7, "medium_hbs_latn": 32.1, "low_ice": 12.0, "low_gre": 21.0}
"""Item error in percent of the baseline: Ashby, Bartley et al., "Results of the Second SIGMORPHON Shared Task on
Multilingual Grapheme-to-Phoneme Conversion"."""

INFLECTED = ("arabic", "finnish", "german", "russian", "turkish")
PARTS = {100: "train-low", 1000: "train-medium"}
RECIPES = {100: "inflection-small", 1000: "inflection-medium"}
MODELS = ("edits", "attention", "attention, invented")


def measured(recipe: str, run: Path, settings: Sequence[str], name: str, threads: int) -> tuple[float, str]:
    """Trains a run, or continues it. Returns its score on test, and the score with its interval as text."""
    if recipe == "inflection":
        recipe = _without_sizes(recipe, run)
    settings = [*settings, "training.clock=processor"]
    transducer = transduce.train(recipe, run, settings, resume=True, device="cpu", threads=threads)
    found = transducer.evaluate(Run.open(run).examples("test"), [metric(name)]).statistics[0]
    low, high = Resampling().interval(found)
    return found.score, f"{found.score:.1f} ({low:.1f} to {high:.1f})"


def _without_sizes(recipe: str, run: Path) -> str:
    """Writes a recipe file with the recipe as its base. Its settings are the same for every number of pairs."""
    run.parent.mkdir(parents=True, exist_ok=True)
    file = run.parent / f"{recipe}.toml"
    file.write_text(f'base = "{recipe}"\n', encoding="utf-8")
    return str(file)


def _edits(recipe: str, runs: Path) -> str:
    """The recipe, if its model is not an ensemble. Otherwise a recipe file with the edit transducer of the ensemble."""
    table = recipes.read(recipe)
    if table["model"]["type"] != "ensemble":
        return recipe
    alone = {
        "base": "inflection",
        "model": next(each for each in table["model"]["models"] if each["decoder"]["type"] == "edits"),
        "objective": {"type": "cross-entropy", "smoothing": 0.0},
        "training": {"schedule": table["training"]["schedule"]},
    }
    runs.mkdir(parents=True, exist_ok=True)
    file = runs / "edits.toml"
    file.write_text(tomli_w.dumps(alone), encoding="utf-8")
    return str(file)


def pronounced(folder: Path, runs: Path, languages: Sequence[str], seeds: Sequence[int], threads: int) -> Iterator[str]:
    """The lines of the table, one for each language."""
    for language in languages:
        files = [f"data.{split}.path={folder / f'{language}.{split}.tsv.gz'}" for split in ("train", "valid", "test")]
        every = [
            measured("g2p", runs / f"{language}-{seed}", [*files, f"training.seed={seed}"], "item_error", threads)
            for seed in seeds
        ]
        mean = sum(score for score, _ in every) / len(every)
        baseline = PUBLISHED[language]
        shown = ", ".join(text for _, text in every)
        yield f"| {language} | {mean:.1f} | {baseline:.1f} | {mean - baseline:+.1f} | {shown} |"


def forms(
    folder: Path, runs: Path, languages: Sequence[str], parts: Sequence[int], minutes: float, threads: int
) -> Iterator[str]:
    """The lines of the table, one for each number of pairs and language, and the mean over the languages."""
    share = recipes.read("inflection-small")["training"]["hallucination"]["share"]
    invented = {"attention, invented": [f"training.hallucination.share={share}"]}
    for pairs in parts:
        edits, batching = _edits(RECIPES[pairs], runs), recipes.read(RECIPES[pairs])["training"]["batching"]["tokens"]
        totals = dict.fromkeys(MODELS, 0.0)
        for language in languages:
            files = [f"data.{split}.path={folder / f'{language}.{split}.tsv.gz'}" for split in ("valid", "test")]
            files += [f"data.train.path={folder / f'{language}.{PARTS[pairs]}.tsv.gz'}"]
            files += ["data.columns={source=0, target=2, labels=[1]}", "training.precision=float32"]
            files += [f"training.minutes={minutes}", f"training.batching.tokens={batching}"]
            files += ["training.validation.examples=300", "training.validation.times=4"]
            found = {}
            for model in MODELS:
                recipe = edits if model == "edits" else "inflection"
                run, changes = runs / f"{language}-{pairs}-{model.replace(', ', '-')}", invented.get(model, [])
                found[model] = measured(recipe, run, [*files, *changes], "exact", threads)
            totals = {model: totals[model] + found[model][0] for model in MODELS}
            yield f"| {pairs:,} | {language} | {' | '.join(text for _, text in found.values())} |"
        yield f"| {pairs:,} | mean | {' | '.join(f'{total / len(languages):.1f}' for total in totals.values())} |"


def main(
    report: Report,
    *,
    runs: Path,
    pronunciation: Path | None = None,
    inflection: Path | None = None,
    languages: Annotated[Sequence[str], PUBLISHED] = tuple(PUBLISHED),
    inflected: Annotated[Sequence[str], INFLECTED] = tuple(INFLECTED),
    seeds: Sequence[int] = (1, 2, 3),
    pairs: Annotated[Sequence[int], PARTS] = tuple(PARTS),
    minutes: float = 0.5,
) -> None:
    report.tell(*titled("Edit transducers on little data"))
    if pronunciation:
        report.tell("Item error on test, `transduce train g2p` with each seed.", "")
        report.tell(*columns("| language | mean | baseline | difference | each seed |"))
        for line in pronounced(pronunciation, runs, languages, seeds, report.threads):
            report.tell(line, runs=sorted(path.parent for path in runs.glob("*_*-*/config.toml")))
        report.tell("")
    if inflection:
        report.tell(f"Exact match of inflection on test, {minutes:g} minutes of the processor for each model.", "")
        report.tell(*columns(f"| pairs | language | {' | '.join(MODELS)} |"))
        for line in forms(inflection, runs, inflected, pairs, minutes, report.threads):
            report.tell(line, runs=sorted(path.parent for path in runs.glob("*/config.toml")))
