"""Minutes to quality: each track's recipe as it ships, beside the settings that it had before, on the same data.

DATA is the folder with the shared data. A TRACK is a name in ``TRACKS``. For each seed, one run has the settings
before, without a limit in minutes. The last one has the recipe as it ships, with ``--set`` on top. Some tracks have
steps between them, each with one more change. All have the same tokens in an update. A run is validated as its recipe
says, and looks at test once, at the end. Parentheses have 95 % intervals by bootstrap over the examples of test. The
same command again continues interrupted trainings. ``--picture`` draws the loss on validation against the updates and
against the minutes, as the mean of the seeds with their range; it takes one track.

``--cost`` measures the cost of an update alone: turns of the two settings one after the other, in processor time, and
the median of the ratios of neighbours. Nothing else may run on the machine.
"""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from report import Report, cell, columns, titled

import transduce
from transduce.core.errors import UserError
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics, mean_of_seeds
from transduce.runs.layout import METRICS
from transduce.runs.run import Run
from transduce.wings.pages.palette import FAINT, HUES, INK, RULE
from transduce.wings.pages.plots import figure, save

TURNS, UPDATES = 5, 30  # of --cost
WAYS = ("before", "shorter", "muon", "now")


@dataclass(frozen=True)
class Track:
    """A recipe, the files of its data, the metric of its score, and the settings that the recipe had ``before``.
    ``steps`` has the settings between before and now, in their order.
    """

    recipe: str
    data: Mapping[str, str]
    metric: str
    before: Sequence[str]
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def ways(self) -> list[str]:
        return ["before", *self.steps, "now"]


def files(name: str, ending: str = "path", **splits: str) -> dict[str, str]:
    return {f"data.{split}.{ending}": name.format(split=file) for split, file in splits.items()}


def dropout(rate: float, model: str) -> tuple[str, str]:
    """The settings that give an encoder and a decoder this dropout."""
    return f"{model}.encoder.dropout={rate}", f"{model}.decoder.dropout={rate}"


def captions(source: str, target: str) -> dict[str, str]:
    """The files of Multi30k that translate ``source`` into ``target``."""
    return {
        key: value
        for side, end in (("source", source), ("target", target))
        for key, value in files(
            f"multi30k/{{split}}.{end}.gz", side, train="train", valid="valid", test="test_2016_flickr"
        ).items()
    }


def medium(language: str) -> dict[str, str]:
    """The files of CoNLL 2018 with 1,000 pairs of a language."""
    return files(f"inflection_conll2018/{language}.{{split}}.tsv.gz", train="train-medium", valid="valid", test="test")


TRACKS = {
    "translation-transformer": Track(
        "translation-transformer",
        captions("de", "en"),
        "bleu",
        (
            "training.steps=1100",
            'training.optimizer={type="adam",rate=1.5e-3}',
            'training.schedule={type="linear",warmup=400}',
            *dropout(0.2, "model"),
        ),
    ),
    "translation": Track(
        "translation",
        captions("de", "en"),
        "bleu",
        (
            "training.steps=2600",
            'training.optimizer={type="adam",rate=2e-3}',
            'training.schedule={type="linear",warmup=400}',
            *dropout(0.2, "model"),
        ),
    ),
    "pronunciation": Track(
        "g2p-attention",
        {},
        "per",
        (
            "training.steps=3700",
            'training.optimizer={type="adam",rate=2e-3}',
            'training.schedule={type="linear",warmup=200}',
            *dropout(0.1, "model"),
        ),
        {
            "shorter": (
                "training.steps=1850",
                'training.optimizer={type="adam",rate=4e-3}',
                'training.schedule={type="linear",warmup=100}',
                *dropout(0.1, "model"),
            ),
            "muon": ("training.steps=1850", *dropout(0.1, "model")),
        },
    ),
    "pronunciation-with-counts": Track(
        "g2p",
        {},
        "per",
        (
            "training.steps=3500",
            'training.optimizer={type="adam",rate=2e-3}',
            'training.schedule={type="linear",warmup=200}',
            *dropout(0.1, "model.model"),
        ),
    ),
    "inflection-1,000": Track(
        "inflection-medium",
        medium("german"),
        "exact",
        ("training.steps=2600", 'training.optimizer={type="adam",rate=2e-3}', "training.schedule.warmup=100"),
    ),
    "inflection-10,000": Track(
        "inflection",
        files("inflection_conll2018/german.{split}.tsv.gz", train="train-high", valid="valid", test="test"),
        "exact",
        ("training.steps=12000", 'training.optimizer={type="adam",rate=2e-3}', "training.schedule.warmup=200"),
    ),
    "characters": Track(
        "ptb-characters",
        {"data.origin.folder": "lm_ptb"},
        "bits_per_character",
        (
            "training.steps=1900",
            'training.optimizer={type="adam",rate=2e-3}',
            "training.schedule.warmup=300",
            "model.decoder.dropout=0.1",
        ),
    ),
}
WIKTIONARY = files("g2p_wikipron_eng/{split}.tsv.gz", train="train", valid="valid", test="test")
TRACKS |= {  # the same settings on data that no step was chosen by
    "translation-en-fr": replace(TRACKS["translation"], data=captions("en", "fr")),
    "pronunciation-wiktionary": replace(TRACKS["pronunciation"], data=WIKTIONARY, steps={}),
    "pronunciation-with-counts-wiktionary": replace(TRACKS["pronunciation-with-counts"], data=WIKTIONARY),
    **{
        f"inflection-1,000-{language}": replace(TRACKS["inflection-1,000"], data=medium(language))
        for language in ("arabic", "finnish", "russian", "turkish")
    },
}


def settings_of(track: Track, way: str, data: Path, changes: Sequence[str]) -> list[str]:
    """The settings of a run. The way "before" has the recipe's former settings. The way "now" has the shipped ones and
    the ``changes``. Only "now" may end by its minutes.
    """
    paths = [f"{key}={data / value}" for key, value in track.data.items()]
    former = {"before": track.before, **track.steps}
    limits = [*former[way], "training.minutes=600"] if way in former else changes
    return [*paths, "training.clock=processor", *limits]


def trained(track: Track, run: Path, made: Sequence[str], threads: int) -> tuple[Path, Statistics]:
    """A run of a track and its statistics on test. Trains it first if it is not finished."""
    model = transduce.train(track.recipe, run, [*made], resume=True, device="cpu", threads=threads)
    return run, model.evaluate(Run.open(run).examples("test"), [metric(track.metric)]).statistics[0]


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    """The events of one kind in a run's metrics.jsonl. A kind is for example "update" or "validation"."""
    lines = (run / METRICS).read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def spent(run: Path) -> tuple[int, float]:
    """The updates of a run, and its minutes of processor time, with validations."""
    last = events(run, "validation")[-1]
    return last["step"], last["seconds"] / 60


def rows(name: str, found: Mapping[str, Mapping[int, tuple[Path, Statistics]]]) -> list[str]:
    """The lines of a track: each seed, then the means with their interval, and the difference of the means."""
    lines, resampling = [], Resampling()
    drawn = {}
    for way, seeds in found.items():
        for seed, (run, measured) in seeds.items():
            steps, minutes = spent(run)
            lines.append(f"| {name} | {way} | {seed} | {steps:,} | {minutes:.1f} | {measured.score:.2f} |")
        own = mean_of_seeds([measured for _, measured in seeds.values()])
        drawn[way] = own.score, resampling.bootstrap(own)
        every = [spent(run) for run, _ in seeds.values()]
        steps, minutes = (statistics.mean(each) for each in zip(*every, strict=True))
        lines.append(f"| {name} | {way} | mean of {len(seeds)} | {steps:,.0f} | {minutes:.1f} | {cell(*drawn[way])} |")
    pairs = list(itertools.pairwise(drawn))
    for before, now in [*pairs, *([("before", "now")] if len(pairs) > 1 else [])]:
        (one, old), (two, new) = drawn[before], drawn[now]
        lines.append(f"| {name} | {now} minus {before} | | | | {cell(two - one, new - old, '+')} |")
    return lines


def draw(found: Mapping[str, Mapping[int, tuple[Path, Statistics]]], path: Path) -> None:
    """Draws the losses on validation, the mean of the seeds with their range, against updates and against minutes. The
    seeds of a way are validated after the same updates.
    """
    drawn = figure(9.5, 3.8)
    by_updates, by_minutes = drawn.subplots(1, 2, sharey=True)
    for (way, seeds), hue in zip(found.items(), HUES, strict=False):
        courses = [events(run, "validation") for run, _ in seeds.values()]
        at = list(zip(*courses, strict=True))  # a row has one validation of all seeds
        losses = [[each["loss"] for each in row] for row in at]
        means = [statistics.fmean(row) for row in losses]
        for axes, places in (
            (by_updates, [row[0]["step"] for row in at]),
            (by_minutes, [statistics.fmean(each["seconds"] / 60 for each in row) for row in at]),
        ):
            axes.plot(places, means, "o-", color=hue, linewidth=1.8, markersize=3, label=way)
            axes.fill_between(places, [*map(min, losses)], [*map(max, losses)], color=hue, alpha=0.2, linewidth=0)
    by_updates.set_xlabel("updates", color=FAINT)
    by_minutes.set_xlabel("minutes of the processor, with validations", color=FAINT)
    by_updates.set_ylabel("loss on validation, nats a token", color=FAINT)
    by_minutes.legend(frameon=False, fontsize=9, labelcolor=INK)
    for axes in (by_updates, by_minutes):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.grid(axis="y", which="both", color=RULE, linewidth=0.8)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelsize=9, labelcolor=INK, which="both")
    save(drawn, path)


def cost_of(recipe: str, made: Mapping[str, Sequence[str]], threads: int) -> str:
    """The line of a track: the seconds of an update with both settings, and the median of the ratios of neighbours."""
    seconds: dict[str, list[float]] = {"before": [], "now": []}
    for _turn in range(TURNS):
        for way, found in seconds.items():
            with tempfile.TemporaryDirectory() as folder:
                limits = [f"training.steps={UPDATES}", "training.validation.metrics=[]", "training.validation.times=1"]
                run = Path(folder) / "run"
                transduce.train(recipe, run, [*made[way], *limits], device="cpu", threads=threads)
                first, *_, last = events(run, "update")
                found.append((last["seconds"] - first["seconds"]) / (last["step"] - first["step"]))
    ratios = [now / before for before, now in zip(seconds["before"], seconds["now"], strict=True)]
    before, now = (statistics.median(seconds[way]) for way in ("before", "now"))
    spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
    return f"| {recipe} | {before:.3f} | {now:.3f} | {spread} |"


def main(
    report: Report,
    tracks: Annotated[Sequence[str], TRACKS],
    *,
    data: Path,
    runs: Path,
    seeds: Sequence[int] = (1, 2, 3),
    ways: Annotated[Sequence[str], WAYS] = WAYS,
    settings: Sequence[str] = (),
    picture: Path | None = None,
    cost: Annotated[bool, "of an update alone"] = False,
) -> None:
    if picture is not None and len(tracks) > 1:
        raise UserError(f"--picture takes one track, not {len(tracks)}: {', '.join(tracks)}")
    made = {
        (name, way): settings_of(TRACKS[name], way, data.resolve(), settings)
        for name in tracks
        for way in TRACKS[name].ways
    }
    report.tell(*titled("Minutes to quality"))
    if cost:
        report.tell(*columns("| recipe | seconds an update, before | now | ratio |"))
        for name in tracks:
            each = {way: made[name, way] for way in ("before", "now")}
            report.tell(cost_of(TRACKS[name].recipe, each, report.threads))
        return
    report.tell(*columns("| track | settings | seed | updates | minutes | test |"))
    for name in tracks:
        track = TRACKS[name]
        found = {
            way: {
                seed: trained(
                    track,
                    runs / name / f"{way}-{seed}",
                    [*made[name, way], f"training.seed={seed}"],
                    report.threads,
                )
                for seed in seeds
            }
            for way in track.ways
            if way in ways
        }
        report.tell(*rows(name, found), runs=[run for each in found.values() for run, _ in each.values()])
        if picture is not None:
            draw(found, picture)
