"""A training run, from its settings to a run directory that holds everything a ``Transducer`` needs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from transduce import config
from transduce.data.batching import Batches
from transduce.data.preparation import Prepared, Tokenizers, examples, prepare
from transduce.data.settings import Data
from transduce.directory import choose_device
from transduce.metrics.base import metric
from transduce.models.fit import check_words
from transduce.precision import autocast, bound_kernel_cache, choose_precision
from transduce.spec import UNKNOWN
from transduce.training.augmentation.base import check_augmentation
from transduce.training.callbacks import Callback, Finished, JsonLines, Started
from transduce.training.checkpoint import CONFIG, State, load_training, resume_point
from transduce.training.freezing import freeze
from transduce.training.initialisation import Inheritance, Predecessor
from transduce.training.loop import Judgement, Loop
from transduce.training.objectives import Trainable
from transduce.training.settings import Init, Settings
from transduce.transducer import Transducer
from transduce.types import Example, Facts

log = logging.getLogger("transduce")


class RunExistsError(FileExistsError):
    """A directory already holds a run."""

    def __init__(self, run: Path) -> None:
        super().__init__(
            f"{run} already holds a run: go on with it (--resume), delete it (--overwrite), or choose another "
            "directory (--out)"
        )


def train(
    table: config.Table, run: Path, resume: bool = False, callbacks: Sequence[Callback] = (), device: str = "auto"
) -> Finished:
    """Train what ``table`` describes into the directory ``run``.

    Files, settings and their fit are checked before anything is learned. With ``resume`` an interrupted run goes on
    from its last checkpoint (or begins, where there is none yet); without it a directory that holds a run is refused.
    """
    check(table)
    bound_kernel_cache()
    where = choose_device(device)
    if (run / CONFIG).exists() and not resume:
        raise RunExistsError(run)
    point = resume_point(run / "checkpoints") if resume else None
    init = config.build(table["init"], Init, path="init") if "init" in table else None
    predecessor = Predecessor(init) if init and point is None else None
    if predecessor:
        table = predecessor.settings(table)
    data = config.build(table["data"], Data, path="data")
    cache = cache_folder(data, run)
    prepared = _prepare(data, cache, run, init, predecessor)
    table = config.resolve(table, Settings, prepared.facts)
    check_words(table["model"], prepared.facts)
    table["training"]["precision"] = choose_precision(table["training"]["precision"], where)
    settings = config.build(table, Settings, prepared.facts)
    check_augmentation(settings.training.augmentation, prepared.tokenizers.source.signal)
    run.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(settings.training.seed)
    model: Any = settings.model()
    inherited = predecessor.hand_over(model, table["model"], prepared.tokenizers) if predecessor else None
    frozen = freeze(model, settings.training.freeze)
    model.to(where)
    trainable = Trainable(model, settings.objective)
    optimizer = settings.training.optimizer(model.parameters())
    state = State() if point is None else load_training(point, model, optimizer)
    report = (*prepared.report.lines(), *(inherited.lines() if inherited else ()), *frozen, *_changes(point, table))
    # once the checkpoint is known to fit, lest a slip spoil the run's own settings
    _write_run(run, table, prepared, inherited)
    computing = autocast(settings.training.precision, where)
    judge = Judge(trainable, settings, prepared, _validation_examples(settings, prepared, cache), computing)
    every = [JsonLines(run / "metrics.jsonl"), *callbacks]
    parameters = sum(p.numel() for p in model.parameters())
    started = Started(run, parameters, state.step, str(where), settings.training.precision, report)
    for callback in every:
        callback.on_start(started)
    loop = Loop(
        trainable=trainable,
        optimizer=optimizer,
        batches=Batches(prepared.train, settings.training.batching, settings.training.seed),
        training=settings.training,
        judge=judge if prepared.valid is not None else None,
        autocast=computing,
        callbacks=every,
        run=run,
        configuration=config.write(table),
        state=state,
    )
    return loop()


def check(table: config.Table) -> None:
    """Raise ValueError unless the settings are a run's, as far as can be told without its data."""
    unknown: Any = UNKNOWN  # the model is a factory: nothing asks for them yet
    settings = config.build(table, Settings, Facts(**{fact.name: unknown for fact in fields(Facts)}))
    for name in (*settings.training.validation.metrics, *settings.metrics):
        metric(name)


def cache_folder(data: Data, run: Path) -> Path:
    """Where prepared data lies: ``data.cache``, or beside the run, so that its sisters find it too."""
    return Path(data.cache) if data.cache else run.parent / ".cache"


def split_of(settings: config.Table, run: Path, split: str) -> list[Example]:
    """A split of the data that a run was trained on."""
    data = config.build(settings["data"], Data, path="data")
    return examples(data, split, cache_folder(data, run))


def prepared_for(run: Path) -> Prepared:
    """The pairs that a run was trained on and validated with, encoded by its own tokenizers."""
    if not (run / CONFIG).exists():
        raise FileNotFoundError(f"{run} is no run directory: it has no {CONFIG}; train one with `transduce train`")
    data = config.build(config.read(run / CONFIG)["data"], Data, path="data")
    return _prepare(data, cache_folder(data, run), run, None, None)


def _prepare(data: Data, cache: Path, run: Path, init: Init | None, predecessor: Predecessor | None) -> Prepared:
    """The data by the run's own tokenizers where it is one already, its predecessor's or newly learned ones else."""
    if not (run / CONFIG).exists():
        return prepare(data, cache) if predecessor is None else predecessor.prepare(data, cache)
    own = Tokenizers.load(run / "tokenizers")
    if init and init.vocabulary != "own":
        return prepare(data, cache, own)
    prepared = prepare(data, cache)  # where nothing has changed, these are the same, and found in the cache
    return prepared if own.fingerprints == prepared.tokenizers.fingerprints else prepare(data, cache, own)


def _write_run(run: Path, table: config.Table, prepared: Prepared, inherited: Inheritance | None) -> None:
    """Whatever is written is written beside its place and renamed, config.toml last: it is what makes it a run."""
    folder = run / "tokenizers"
    folder.mkdir(exist_ok=True)
    prepared.tokenizers.save(folder)
    if inherited is not None:
        (run / "init.json").write_text(json.dumps(inherited.as_json(), indent=1), encoding="utf-8")
    new = run / (CONFIG + ".new")
    new.write_text(config.write(table), encoding="utf-8")
    new.rename(run / CONFIG)


def _changes(point: Path | None, table: config.Table) -> list[str]:
    """What differs between the settings and those the checkpoint was made with, a line each; the settings win.

    ConfigError tells of an ``init`` that differs: a run cannot have begun elsewhere.
    """
    if point is None:
        return []
    then = flatten(config.read(point / CONFIG))
    now = flatten(table)
    changed = {
        key: f"{key} = {now.get(key, 'default')!r} (was {then.get(key, 'default')!r})"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key)
    }
    if elsewhere := [change for key, change in changed.items() if key.startswith("init.")]:
        raise config.ConfigError(
            "",
            f"{', '.join(elsewhere)}: what is resumed goes on from its own checkpoint; leave it, or begin another run",
        )
    return [f"changed since the checkpoint: {change}" for change in changed.values()]


def flatten(table: config.Table, path: str = "") -> dict[str, Any]:
    """Dotted keys to values."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten(value, f"{path}{key}.") if isinstance(value, dict) else {path + key: value}
    return flat


# ------------------------------------------------------------------ validation


def _validation_examples(settings: Settings, prepared: Prepared, cache: Path) -> list[Example]:
    """``validation.examples`` of data.valid, evenly spaced (dictionaries are sorted: the first ones are no sample), or
    all; none where there is no such split or no metric asks for them."""
    validation = settings.training.validation
    if prepared.valid is None or not validation.metrics:
        return []
    found = examples(settings.data, "valid", cache)
    wanted = min(validation.examples or len(found), len(found))
    return [found[number * len(found) // wanted] for number in range(wanted)]


class Judge:
    """Validates: the loss as training computes it, over data.valid, and the metrics through search in float32.

    Where the metrics look at some of the examples only, the loss looks at as large a share of the batches.
    """

    def __init__(
        self,
        trainable: Trainable,
        settings: Settings,
        prepared: Prepared,
        validation_examples: list[Example],
        autocast: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        validation = settings.training.validation
        self.trainable = trainable
        self.valid = prepared.valid
        self.examples = validation_examples
        self.batching = settings.training.batching
        self.autocast = autocast
        self.metrics = [metric(name) for name in validation.metrics]
        self.transducer = Transducer(
            trainable.model,
            validation.search,
            prepared.source_tokenizer,
            prepared.target_tokenizer,
            max_source_length=settings.data.lines.max_source_length,
            token_for_token=settings.data.lines.unequal != "keep",
        )

    def __call__(self) -> Judgement:
        loss = self._loss()
        if not self.metrics:
            return Judgement(loss, {}, loss)
        scores = self.transducer.evaluate(self.examples, self.metrics, batch_size=128).scores
        first = self.metrics[0]
        value = scores[first.name]
        return Judgement(loss, scores, -value if first.higher_is_better else value)

    @torch.no_grad()
    def _loss(self) -> float:
        assert self.valid is not None
        total, count = 0.0, 0
        share = len(self.valid) // len(self.examples) if self.examples else 1
        for ids in Batches(self.valid, self.batching, seed=0).epoch(0)[:: max(1, share)]:
            batch = self.valid.batch(ids).to(self.transducer.device)
            with self.autocast():
                loss, _ = self.trainable(batch, 1.0, None)
            total, count = total + float(loss.plain), count + loss.count
        return total / count
