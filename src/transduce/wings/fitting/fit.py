"""``transduce.fit``: a model chosen for the user's data.

It reads the pairs, tells the task, and divides the pairs without leaks. It trains the candidates of the task by
successive halving, mixes them, and keeps one run. It measures the test split once, and writes the report.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from transduce.answers.transducer import Transducer
from transduce.compute.device import choose_device
from transduce.core.errors import UserError
from transduce.core.files import write_text
from transduce.core.stages import Stage
from transduce.core.text_files import read_json
from transduce.metrics.base import metric
from transduce.runs.layout import CONFIG, LOCK
from transduce.runs.loading import load
from transduce.runs.lock import locked
from transduce.runs.run import Run
from transduce.wings.fitting.candidates import Candidate, Task, only, task
from transduce.wings.fitting.given import Columns
from transduce.wings.fitting.growth import growth
from transduce.wings.fitting.keeping import keep, publish
from transduce.wings.fitting.mixtures import Choice, Validation, forward_selection
from transduce.wings.fitting.planning import Plan, cores, plan
from transduce.wings.fitting.report import PAGE, Fact, Report, chosen_line, errors, growth_lines, reasons, rows
from transduce.wings.fitting.rounds import Trials
from transduce.wings.fitting.splits import leaks, new_sources, record, views
from transduce.wings.fitting.survey import Survey, survey
from transduce.wings.fitting.user_splits import Asked, Data
from transduce.wings.records.scores import keep_scores, scores_of

log = logging.getLogger("transduce.fit")

BESIDE = ".fit"  # the ending of the folder beside the run, with the data, the trials and the report
QUESTION, FITTED = "question.json", "fitted.json"
LATE = 1.1  # times the minutes that were asked for, from which on it is told
Prefer = str  # "quality" or "speed"


@dataclass(frozen=True)
class Fitted:
    """What ``fit`` chose: the ``run`` directory, the ``name`` of the chosen model, its ``score`` on validation by the
    ``metric``, its scores on the ``test`` split (empty without one), and the ``report``, an HTML page.
    """

    run: Path
    name: str
    metric: str
    score: float
    test: Mapping[str, float]
    report: Path

    def load(self) -> Transducer:
        """The chosen model."""
        return load(self.run)

    def write(self, folder: Path) -> None:
        kept = {"name": self.name, "metric": self.metric, "score": self.score, "test": self.test}
        write_text(folder / FITTED, json.dumps(kept))

    @classmethod
    def read(cls, folder: Path, run: Path) -> Fitted | None:
        """The result of an earlier call; None if it did not end, or if the run is gone."""
        if not (folder / FITTED).exists() or not (run / CONFIG).exists():
            return None
        kept = read_json(folder / FITTED)
        return cls(run, kept["name"], kept["metric"], kept["score"], kept["test"], folder / PAGE)


@dataclass(frozen=True)
class Wishes:
    """What a user decides instead of the data and the rules.

    ``prefer`` "quality" takes the best model, and "speed" the fastest that is not significantly worse. ``task`` and
    ``metric`` replace what the data suggest, ``candidates`` are names to choose from, and ``rules`` is a file in the
    form of tasks.toml. ``columns`` are those of the tables. ``drop_shared`` leaves pairs out of training whose source
    is in validation or test. Raises UserError for another preference.
    """

    prefer: str = "quality"
    task: str | None = None
    metric: str | None = None
    candidates: tuple[str, ...] = ()
    rules: Path | None = None
    columns: Columns = field(default_factory=Columns)
    drop_shared: bool = False

    def __post_init__(self) -> None:
        if self.prefer not in ("quality", "speed"):
            raise UserError(f"prefer = {self.prefer!r}: 'quality' or 'speed' was expected")

    def task_for(self, about: Survey) -> Task:
        """The task to choose for: its candidates fit the number of pairs. Raises UserError for a name that is none."""
        if (self.task or about.task) == "text":
            raise UserError(
                "the data are texts without a source, and fit has no rules for them: transduce train language-model"
            )
        found = only(task(self.task or about.task, about.pairs, self.rules), self.candidates)
        if self.metric is None:
            return found
        metric(self.metric)
        measuring = tuple(each.measuring(self.metric) for each in found.candidates)
        return replace(found, metric=self.metric, candidates=measuring)


def fit(
    train: str | Path | Sequence[str | Path] | Iterable[tuple[str, str]],
    valid: str | Path | Sequence[str | Path] | Iterable[tuple[str, str]] | None = None,
    test: str | Path | Sequence[str | Path] | Iterable[tuple[str, str]] | None = None,
    out: str | Path | None = None,
    minutes: float | None = None,
    wishes: Wishes = Wishes(),
    device: str = "auto",
    threads: int | None = None,
    overwrite: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Fitted:
    """Chooses a model for the pairs, trains it, and returns it as a run directory with a report beside it.

    Each split is a path of a table (.tsv, .csv, .jsonl, .conllu …) or of a folder of recordings or pictures, two paths
    of parallel text files, or pairs of (source, target). Without ``valid``, a tenth of the sources is held out; below
    500 pairs, candidates are judged by cross-validation, and the chosen one learns from all pairs. ``test`` is measured
    once, at the end; "10%" holds out all pairs of a tenth of the sources for it.

    ``out`` is the run directory (default ``runs/fit``); the folder ``OUT.fit`` beside it keeps the data, the trials and
    the report. The same call again goes on after an interruption, and gives the same result. ``minutes`` plan the
    updates once, at the beginning; without them, each candidate has the updates of its recipe. ``wishes`` replace what
    the data suggest.
    ``threads`` are all processor threads that the work may use (default: one for each core). ``tell`` receives lines
    for people (default: the logger ``transduce.fit``).

    Raises UserError if the data cannot be read or are too few, and if ``out`` has the result of another question,
    unless ``overwrite`` is true.
    """
    tell = tell or log.info
    if minutes is not None and not minutes > 0:
        raise UserError(f"minutes = {minutes}: more than 0 was expected")
    choose_device(device)
    began = time.monotonic()
    with Stage("reads the data"):
        data = Data.read(train, valid, test, wishes.columns, wishes.drop_shared)
        about = survey(data.train)
    asked = wishes.task_for(about)
    run = Path(out) if out is not None else Path("runs/fit")
    folder = run.with_name(run.name + BESIDE)
    told = [f"task: {asked.title} ({asked.name})", *data.notes, *about.lines(), *leaks(data.pairs)]
    for line in told:
        tell(line)
    with locked(folder, "fit"):
        _claim(run, folder, _question(data, asked, minutes, wishes.prefer), overwrite)
        if (before := Fitted.read(folder, run)) is not None:
            tell(f"{before.name} was chosen by an earlier call: {before.metric} {before.score:.2f} on validation")
            return before
        parts = views(data.train.pairs, data.valid.pairs if data.valid else None)
        tell(data.division(parts))
        measured = {} if data.test is None else {"data.test.path": record(data.test, folder / "data" / "test.jsonl")}
        files = {view.name: view.write(folder / "data") | measured for view in parts}
        planned = Plan.read(folder, asked)
        if planned is None:
            planned = plan(asked, len(parts), files[parts[0].name], folder, minutes, threads or cores(), device)
            planned.write(folder)
        for note in planned.notes:
            tell(note)
        trials = Trials(asked, parts, files, folder / "trials", planned, device, tell)
        fitted = _choose(trials, data, about, run, folder, wishes.prefer, [*told, *planned.notes])
        for line in late(minutes, time.monotonic() - began):
            tell(line)
        return fitted


def late(minutes: float | None, seconds: float) -> list[str]:
    """A line that says by how much the work took longer than the ``minutes`` that were asked for, and why."""
    if minutes is None or seconds <= 60 * minutes * LATE:
        return []
    return [
        f"this took {seconds / 60:.1f} minutes, and --minutes was {minutes:g}: the minutes plan the updates once, by "
        "the speed at the beginning. The machine was slower later, for example because of other programs. Training "
        "does not stop in the middle, so that the same call gives the same model"
    ]


def look_at(
    train: Asked, valid: Asked | None = None, test: Asked | None = None, wishes: Wishes = Wishes()
) -> list[str]:
    """Lines for people about the data and the candidates. Trains nothing."""
    data = Data.read(train, valid, test, wishes.columns, wishes.drop_shared)
    about = survey(data.train)
    asked = wishes.task_for(about)
    parts = views(data.train.pairs, data.valid.pairs if data.valid else None)
    return [
        f"task: {asked.title} ({asked.name})",
        *data.notes,
        *about.lines(),
        *leaks(data.pairs),
        data.division(parts),
        f"to be chosen by {asked.metric}:",
        *(f"  {each.name}{' (at once)' if each.instant else ''}: {each.why}" for each in asked.candidates),
    ]


def _question(data: Data, asked: Task, minutes: float | None, prefer: str) -> dict[str, object]:
    """The content of the splits, the task and the budget. A later call goes on if all of it is equal."""
    content = {
        name: blake2b(json.dumps(pairs).encode(), digest_size=16).hexdigest() for name, pairs in data.pairs.items()
    }
    tried = [[each.name, each.recipe, dict(each.settings)] for each in asked.candidates]
    tasked = {"task": asked.name, "metric": asked.metric, "minutes": minutes, "prefer": prefer}
    return {"data": content, **tasked, "candidates": tried}


def _claim(run: Path, folder: Path, question: Mapping[str, object], overwrite: bool) -> None:
    """Begins the work in the folder, or goes on with it. Raises UserError if it answers another question, or if the run
    directory has a run of something else.
    """
    path = folder / QUESTION
    asked = json.loads(json.dumps(question))
    if path.exists() and not overwrite:
        before = read_json(path)
        if differing := [key for key in asked if before.get(key) != asked[key]]:
            raise UserError(
                f"{folder} has the work of another call: other {', '.join(differing)}. Name another run (--out), or "
                "delete the earlier work (--overwrite)"
            )
        return
    if (run / CONFIG).exists() and not overwrite:
        raise UserError(f"{run} already holds a run: name another one (--out), or delete it (--overwrite)")
    if overwrite:
        for each in folder.iterdir() if folder.exists() else ():
            if each.name != LOCK:
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        if (run / CONFIG).exists():
            shutil.rmtree(run)
    write_text(path, json.dumps(asked))


# ---------------------------------------------------------------------- the choice


def _choose(
    trials: Trials,
    data: Data,
    about: Survey,
    run: Path,
    folder: Path,
    prefer: str,
    told: Sequence[str],
) -> Fitted:
    def better(candidate: Candidate) -> None:
        first = not (run / CONFIG).exists()
        publish(trials.run(candidate, trials.views[0].name), run)
        trials.tell(f"{run} {'answers now' if first else 'is better now'}: {candidate.name}")

    trials.train(better)
    validation = Validation(trials)
    with Stage("measures mixtures of the models"):
        choices = preferred(forward_selection(trials, validation), validation, prefer)
    chosen = choices[-1]
    name, score = trials.task.metric, validation.statistics(chosen).score
    with Stage(f"keeps {chosen.name}"):
        keep(trials, chosen, score, data.train.pairs, run)
    others = {each.name: validation.statistics(each).score for each in choices[:-1]}
    ahead = {other: value for other, value in others.items() if trials.sign * (value - score) > 0}
    summary = chosen_line(chosen.name, name, score, validation.interval(chosen), ahead)
    with Stage("measures the test split"):
        tested, scores = _tested(run, data)
    with Stage("counts parts of the pairs, to forecast what more pairs bring"):
        found = growth(trials, validation)
    notices = [result.notice for member in chosen.members for result in trials.results(member) or [] if result.notice]
    report = Report(
        f"{run.name}: {trials.task.title}",
        summary,
        name,
        [Fact("The data", told)],
        rows(trials, validation, choices),
        [
            Fact("Beside the others, on the same examples", reasons(validation, choices) or ["it is the only one"]),
            *([Fact("On the test split, measured once", tested)] if tested else []),
            Fact("Errors on validation", errors(validation, chosen) if about.task != "text" else ["texts have none"]),
            Fact("More pairs", growth_lines(found, name, score, trials.sign > 0)),
            Fact("What to do next", [*dict.fromkeys(notices), *_next(run, trials, data, folder)]),
        ],
    )
    report.write(folder)
    for line in [summary, *tested, *dict.fromkeys(notices)]:
        trials.tell(line)
    fitted = Fitted(run, chosen.name, name, score, scores, folder / PAGE)
    fitted.write(folder)
    return fitted


def preferred(choices: Sequence[Choice], validation: Validation, prefer: str) -> list[Choice]:
    """The choices with the preferred one last. "speed" prefers the fastest that is not significantly worse."""
    if prefer == "quality":
        return [*choices]
    best = choices[-1]
    equal = [each for each in choices if each is best or validation.gain(best, each).randomisation_p >= 0.05]
    fastest = min(equal, key=lambda each: each.seconds)
    return [*(each for each in choices if each is not fastest), fastest]


def _tested(run: Path, data: Data) -> tuple[list[str], dict[str, float]]:
    """Lines about the scores on the test split, and the scores. The run keeps them for its card."""
    if data.test is None:
        return [], {}
    transducer = load(run)
    examples = Run.open(run).examples("test")
    metrics = [metric(name) for name in transducer.settings["metrics"]]
    found = transducer.evaluate(examples, metrics)
    scores = scores_of(found.statistics, "test", examples)
    keep_scores(run, scores)
    told = [
        f"{each.metric} {each.value:.2f} ({each.low:.2f} to {each.high:.2f}) on {len(examples):,} test examples"
        for each in scores
    ]
    pairs = [(example.source, example.references[0]) for example in examples]
    new = new_sources(pairs, data.train.pairs)
    if 0 < len(new) < len(examples):
        told.append(f"on the {len(new):,} of them whose source training does not have:")
        told += [f"{each.name} {each.of(new).score:.2f}" for each in found.statistics]
    return told, found.scores


def _next(run: Path, trials: Trials, data: Data, folder: Path) -> list[str]:
    lines = [
        f"transduce predict {run} < sources.txt",
        f"transduce serve {run}",
        f"transduce pack {run}",
    ]
    if data.test is None:
        lines.append(
            f"measure on pairs that no choice has seen: transduce evaluate {run} --pairs test.tsv; or begin again with "
            "--test 10% --overwrite, which holds out a tenth of the sources"
        )
    if len(trials.plan.candidates) > 1:
        lines.append(f"the other models stay in {trials.folder}; delete {folder} if you do not need them")
    return lines
