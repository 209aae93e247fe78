"""A run's data: where it is kept once prepared, and by whose tokenizers it is encoded."""

from __future__ import annotations

from pathlib import Path

from transduce import config
from transduce.data.preparation import Prepared, Tokenizers, examples, prepare
from transduce.data.settings import Data
from transduce.directory import CONFIG, DATA, TOKENIZERS
from transduce.training.initialisation import Predecessor
from transduce.training.settings import Init
from transduce.types import Example


def cache_folder(data: Data, run: Path) -> Path:
    """Where prepared data lies: ``data.cache``, or beside the run, so that its sisters find it too."""
    return data.cache or run.parent / ".cache"


def at_home(settings: config.Table, run: Path) -> config.Table:
    """A run's settings, with the pairs that it keeps itself found where it is now: it may have been moved."""
    moved = {}
    for split in ("train", "valid"):
        path, own = settings["data"].get(split, {}).get("path"), run / DATA / f"{split}.jsonl"
        if path and not Path(path).exists() and Path(path).parts[-2:] == own.parts[-2:] and own.exists():
            moved[split] = {"path": str(own.resolve())}
    return {**settings, "data": {**settings["data"], **moved}}


def split_of(settings: config.Table, run: Path, split: str) -> list[Example]:
    """A split of the data that a run was trained on."""
    data = config.build(at_home(settings, run)["data"], Data, path="data")
    return examples(data, split, cache_folder(data, run))


def prepared_for(run: Path) -> Prepared:
    """The pairs that a run was trained on and validated with, encoded by its own tokenizers."""
    if not (run / CONFIG).exists():
        raise FileNotFoundError(f"{run} is no run directory: it has no {CONFIG}; train one with `transduce train`")
    data = config.build(at_home(config.read(run / CONFIG), run)["data"], Data, path="data")
    return prepare_for(run, data, cache_folder(data, run))


def prepare_for(
    run: Path,
    data: Data,
    cache: Path,
    init: Init | None = None,
    predecessor: Predecessor | None = None,
    taught: Tokenizers | None = None,
) -> Prepared:
    """The data by the run's own tokenizers where it is one already, its predecessor's, its teacher's (``taught``) or
    newly learned ones else."""
    if not (run / CONFIG).exists():
        return prepare(data, cache, taught) if predecessor is None else predecessor.prepare(data, cache)
    own = Tokenizers.load(run / TOKENIZERS)
    if taught or (init and init.vocabulary != "own"):
        return prepare(data, cache, own)
    prepared = prepare(data, cache)  # where nothing has changed, these are the same, and found in the cache
    return prepared if own.fingerprints == prepared.tokenizers.fingerprints else prepare(data, cache, own)
