"""A trained run as a value: the settings, data, tokenizers, weights and parents that its directory holds."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import nn

from transduce.answers.search_settings import OtherModel
from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.config.user_data import borrowed
from transduce.core.errors import UserError
from transduce.core.files import current_folder, needs_writing, replace_folder, write_text
from transduce.core.protocols import AnySearch, Search, TextContext
from transduce.core.types import Example
from transduce.data.addresses import matching
from transduce.data.base import SPLITS
from transduce.data.corpora import DataError
from transduce.data.preparation import Prepared, Tokenizers, examples, prepare
from transduce.data.settings import Data, Lines
from transduce.models.building import build_model
from transduce.models.mixtures import Ensemble
from transduce.runs.ancestry import Parent, parents_of
from transduce.runs.checkpoints import has_checkpoint, load_checkpoint
from transduce.runs.history import append_history, directories
from transduce.runs.layout import (
    CONFIG,
    DATA,
    INHERITED,
    LANGUAGE_MODELS,
    OWN_PAIRS,
    TOKENIZERS,
    Checkpoint,
    find_weights,
    members,
    no_run,
)
from transduce.runs.offline import check_data, check_runs, is_foreign, strings
from transduce.runs.received import received
from transduce.runs.replacement import replaced_run

log = logging.getLogger("transduce")

CACHE = ".cache"  # beside a run, so that its sisters share prepared data
CACHE_PARTS = ("prepared", "origins")  # one of them makes a folder a cache of this package


@dataclass(frozen=True)
class Run:
    """A run directory and its settings. ``Run.open`` reads one, ``Run.create`` makes one.

    ``settings`` are the tables of config.toml. In a run that was read, the path of a data file that does not exist is
    replaced if the file was found elsewhere: see ``Run.open``.
    """

    path: Path
    settings: config.Table

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Reads the run in the directory ``path``; writes nothing there. ``path`` can also be a packed .zip file or
        "hf:owner/name" (``received``).

        A run can be opened after a kill at any moment. If the replacement of a checkpoint or of the tokenizers was not
        complete, the earlier ones are read. While a new run that overwrites another has no checkpoint, the earlier run
        is opened, with a warning. Relative paths of data files are relative to the current directory. A data file that
        is not there is looked for elsewhere: pairs that the run keeps, in its folder ``data``; other files with a
        relative path, in the current directories of the trainings.

        Raises FileNotFoundError if there is no run, and ConfigError if config.toml lacks the table data or model.
        """
        folder = received(path)
        earlier = replaced_run(folder) if folder.name and not has_checkpoint(folder) else None
        if earlier is not None and has_checkpoint(earlier):
            log.warning("%s has no checkpoint yet: this is the run that it replaces", folder)
            folder = earlier
        return cls.read(folder)

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Like ``open``, but reads the new run even while it has no checkpoint, never the run that it overwrites. ``~``
        is not expanded.
        """
        if not (folder / CONFIG).exists():
            raise no_run(folder)
        settings = config.read(folder / CONFIG)
        for name in ("data", "model"):
            if not isinstance(settings.get(name), dict):
                raise config.ConfigError(
                    name, f"{folder / CONFIG} has no such table, which each run has; copy the file again, or train anew"
                )
        if is_foreign(folder):
            check_runs(settings, folder)
        return cls(folder, _with_found_paths(settings, folder))

    @classmethod
    def create(
        cls,
        path: Path,
        settings: config.Table,
        tokenizers: Tokenizers,
        step: int = 0,
        device: str = "cpu",
        inherited: Mapping[str, object] | None = None,
        changed: str | None = None,
    ) -> Run:
        """Makes a directory a run, or updates the run that is there. Returns it.

        ``settings`` have every default. ``step`` (the update after which training goes on), ``device`` and ``changed``
        (the change of the data) are only recorded in the history. ``inherited`` is written as init.json: what was
        copied from another run. A run that goes on keeps its tokenizers. config.toml is written last, because it makes
        the directory a run.
        """
        if not (path / CONFIG).exists():
            replace_folder(path / TOKENIZERS, tokenizers.save)
        if inherited is not None:
            write_text(path / INHERITED, json.dumps(inherited, indent=1))
        append_history(path, step, device, changed)
        write_text(path / CONFIG, config.write(settings))
        return cls(path, settings)

    # ---------------------------------------------------------------- data

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of both sides, with their vocabularies."""
        return Tokenizers.load(current_folder(self.path / TOKENIZERS))

    @cached_property
    def data(self) -> Data:
        """The settings ``[data]``: the splits and how to read them. Raises DataError for a packed run whose data are on
        the network.
        """
        if is_foreign(self.path):
            check_data(self._data, self.settings["data"], self.path, self.cache)
        return self._data

    @cached_property
    def _data(self) -> Data:
        return config.build(self.settings["data"], Data, path="data")

    @property
    def cache(self) -> Path:
        """The folder of prepared data: ``data.cache`` of the settings if it has one of the folders that this package
        makes there, otherwise a folder beside the run.

        So a run that somebody else has trained cannot choose where folders are made.
        """
        named = self._data.cache
        trusted = named is not None and any((named / part).is_dir() for part in CACHE_PARTS)
        return cache_folder(self._data if trusted else replace(self._data, cache=None), self.path)

    def examples(self, split: str) -> list[Example]:
        """The examples of a split (train, valid or test) of the run's data, as text. A warning tells if the run was
        trained on files of the user and the split is of an origin.

        Raises DataError if the run has no such split, or if its files are not there, as for a run that was copied to
        another machine.
        """
        if split not in SPLITS:
            raise DataError(f"split {split!r}: {', '.join(SPLITS)} were expected")
        data = self.data
        self._check_files(split)
        for line in borrowed(self.settings["data"], [split]):
            log.warning("%s: %s", self.path, line)
        advice = f"copy the run to a folder of yours (cp -r {self.path} DIR), and name the copy"
        with needs_writing(self.cache, "the run's data are prepared there", advice):
            return examples(data, split, self.cache)

    def prepared(self) -> Prepared:
        """The pairs that the run was trained on and validated with, as ids of its own tokenizers. Reads them from the
        cache of prepared data, or else from the data files.
        """
        return prepare(self.data, self.cache, self.tokenizers)

    def _check_files(self, split: str) -> None:
        for path in _paths_of(self.settings["data"].get(split)):
            if "://" not in path and not any(Path(file).expanduser().exists() for file in matching(path)):
                trained = directories(self.path)
                relative = bool(trained) and not Path(path).is_absolute()
                where = f" (relative to {trained[0]}, where it was trained)" if relative else ""
                raise DataError(
                    f"{self.path} has its {split} split in {path}{where}, and there is no such file here: copy it, or "
                    "name the examples with --source and --target, or with --pairs"
                )

    def complete(self, name: str, expected: object) -> config.Table:
        """The table ``name`` of the settings with all defaults of an ``expected`` type, such as ``Model``."""
        return config.resolve(self.settings.get(name, {}), expected, self.tokenizers.facts, name)

    # ------------------------------------------------------------- weights

    @property
    def parents(self) -> list[Parent]:
        """The runs that this one started from and learned from. Each has the setting that names it."""
        return parents_of(self.settings)

    def weights(self, checkpoint: Checkpoint = "best") -> Path:
        """The safetensors file of a checkpoint's weights.

        Raises FileNotFoundError if there is no such checkpoint; the message names those that there are.
        """
        return find_weights(self.path, checkpoint)

    def model(self, checkpoint: Checkpoint = "best", mapped: bool = False) -> nn.Module:
        """The model with the weights of a checkpoint, in evaluation mode and in the processor's memory. If ``mapped``
        is True, they stay in the file's pages, which processes share (``load_checkpoint``). Raises
        FileNotFoundError if there is no such checkpoint. Raises UserError if its weights are damaged or do not fit, or
        if an earlier version wrote a model that this version cannot read.
        """
        path = self.weights(checkpoint)
        model = build_model(self.settings["model"], self.tokenizers.facts)
        load_checkpoint(model, path, mapped)
        return model.eval()

    def transducer(
        self, checkpoint: Checkpoint = "best", device: torch.device | str = "cpu", mapped: bool = False
    ) -> Transducer:
        """Text to text: the model of a checkpoint with the run's own search and tokenizers; ``mapped`` as in ``model``.

        Runs that the search names are not loaded yet: see ``Transducer.with_search``.
        """
        return self.around(self.model(checkpoint, mapped).to(device), device)

    def around(self, model: nn.Module, device: torch.device | str = "cpu") -> Transducer:
        """Text to text: a model on ``device``, such as an exported one, with the run's own search and tokenizers."""
        search: AnySearch = config.build(self.settings.get("search", {}), Search, path="search")
        lines = config.build(self.settings["data"].get("lines", {}), Lines, path="data.lines")
        other = partial(language_model, run=self, device=device)
        context: TextContext | None = None
        if "context" in self.settings:
            context = config.build(self.settings["context"], TextContext, path="context")
        return Transducer(
            model,
            search,
            self.tokenizers,
            self.settings,
            max_source_length=lines.max_source_length,
            token_for_token=lines.token_for_token,
            keeps_empty=lines.empty == "keep",
            load_other=other,
            context=context,
            folder=self.path,
        )


def language_model(path: Path, run: Run | None, device: torch.device | str) -> OtherModel:
    """The model of the run at ``path``, or the mean of several (RUN+RUN), for a search. Its own search is not used.

    The path is relative to the current directory. If no run is there, two more places are searched: the folder
    ``language-models`` of ``run``, whose search names it, and for a relative path the directories where ``run`` was
    trained. A log line tells the user if the settings of ``run`` name a run outside its folder: somebody else may have
    written them.

    Raises FileNotFoundError if there is no such run, and UserError if the members of RUN+RUN have different target
    vocabularies.
    """
    found = [Run.open(found_run(each, run)) for each in members(path)]
    for each in found:
        if each.tokenizers.differing(found[0].tokenizers, conditional=False):
            raise UserError(f"language_model = {str(path)!r}: its runs have different target vocabularies")
        inside = run is not None and run.path.resolve() in each.path.resolve().parents
        if run is not None and not inside and str(path) in strings(run.settings.get("search")):
            log.warning("the settings of %s search with the language model %s", run.path, each.path)
    models = [each.model() for each in found]
    model = models[0] if len(models) == 1 else Ensemble(models).eval()
    return OtherModel(model.to(device), found[0].tokenizers)


def cache_folder(data: Data, run: Path) -> Path:
    """The folder where a training prepares its data: ``data.cache`` or, if that is not set, one beside the run, which
    the runs in the same directory share.
    """
    return data.cache or run.parent / CACHE


# -------------------------------------------------------------- paths in settings


def found_run(path: Path, run: Run | None) -> Path:
    """The directory of a run that the search of ``run`` names by ``path``. Looks where ``language_model`` says. Raises
    FileNotFoundError if no run is there.
    """
    places = [path]
    if run is not None:
        places.append(run.path / LANGUAGE_MODELS / path.name)
        places += [] if path.is_absolute() else [directory / path for directory in directories(run.path)]
    for place in places:
        if (place / CONFIG).exists():
            return place
    others = f", nor in {', '.join(map(str, places[1:]))}" if places[1:] else ""
    raise FileNotFoundError(
        f"language_model = {str(path)!r}: there is no run {path}{others}; train a language model, give its path "
        "(--set), or copy it to the second of these places"
        if others
        else f"language_model = {str(path)!r}: there is no run {path}; train a language model, or give its path"
    )


def _with_found_paths(settings: config.Table, run: Path) -> config.Table:
    """The settings with the path of each missing data file replaced, if the file is found in the run or where the run
    was trained.
    """
    data = dict(settings["data"])
    for split in SPLITS:
        if isinstance(data.get(split), dict):
            data[split] = {side: _found(value, run, split) for side, value in data[split].items()}
    return {**settings, "data": data}


def _found(value: object, run: Path, split: str) -> object:
    if isinstance(value, list):
        return [_found(each, run, split) for each in value]
    if not isinstance(value, str) or Path(value).expanduser().exists():
        return value
    return next((str(path) for path in _candidates(Path(value), run, split) if path.exists()), value)


def _candidates(path: Path, run: Path, split: str) -> Iterator[Path]:
    """Yields where a missing data file may be: in the run's folder ``data``, if ``path`` ends with the name of that
    folder and of its file; then, for a relative path, in the directories where the run was trained.
    """
    own = run / DATA / OWN_PAIRS.get(split, "")
    if path.parts[-2:] == own.parts[-2:]:  # the run was moved, with the pairs that it keeps
        yield own.resolve()
    if not path.is_absolute():
        yield from (directory / path for directory in directories(run))


def _paths_of(files: object) -> list[str]:
    """The paths of all files that the settings of a split name. ``files`` is the table ``data.train``, ``data.valid``
    or ``data.test``, or None.
    """
    values = files.values() if isinstance(files, dict) else ()
    every = [each for value in values for each in (value if isinstance(value, list) else [value])]
    return [each for each in every if isinstance(each, str)]
