"""Changes since a checkpoint from which training goes on: settings, data, the measure of validation."""

from __future__ import annotations

from itertools import chain, groupby, islice
from pathlib import Path

from transduce.core import config
from transduce.data.corpora import Files
from transduce.data.fingerprints import DataChange, Fingerprint, RowFingerprints, changed
from transduce.data.preparation import Prepared, locate
from transduce.data.settings import Data
from transduce.runs.layout import CONFIG
from transduce.runs.training_state import read_fingerprints


def changed_settings(point: Path | None, table: config.Table) -> list[str]:
    """A line for each setting that differs between the checkpoint ``point`` and ``table``, sorted by key. Training uses
    ``table``. Empty without a checkpoint.

    Raises ConfigError if a key of ``data.units`` differs that the checkpoint has, because a run keeps its vocabularies.
    Also raises it if ``init`` differs, because the start of a run cannot change later.
    """
    if point is None:
        return []
    then = config.flatten(config.read(point / CONFIG))
    now = config.flatten(table)
    changed = {
        key: f"{key} = {now.get(key, 'default')!r} (was {then.get(key, 'default')!r})"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key)
    }
    units = {key: change for key, change in changed.items() if key.startswith("data.units.")}
    if units.keys() & then.keys():  # otherwise they are keys of a newer version, with their defaults
        raise config.ConfigError(
            "",
            f"{', '.join(units.values())}: a run keeps its vocabularies; leave it, or begin another run, if need be "
            "from this one (--init)",
        )
    if elsewhere := [change for key, change in changed.items() if key.startswith("init.")]:
        raise config.ConfigError(
            "",
            f"{', '.join(elsewhere)}: what is resumed goes on from its own checkpoint; leave it, or begin another run",
        )
    return [f"changed since the checkpoint: {change}" for change in changed.values()]


def changed_data(point: Path | None, prepared: Prepared, data: Data, cache: Path) -> DataChange | None:
    """The change in the files of the training and the validation set since the checkpoint ``point``. ``prepared`` are
    the data now. None if nothing has changed, without a checkpoint, and for a checkpoint of an earlier version, which
    does not tell.
    """
    before = None if point is None else read_fingerprints(point)
    if before is None:
        return None

    def appended(split: str, old: Fingerprint, new: Fingerprint) -> bool:
        shards = getattr(locate(data, cache), split).shards
        return any(_beginning(data, shard, old.lines) == old.sha256 for shard in shards if shard.names == new.files)

    return changed(before, prepared.fingerprints, appended)


def reorders(point: Path, table: config.Table) -> bool:
    """True if ``table`` forms other batches than ``point`` did, so that a place in an epoch means nothing."""
    then, now = (config.flatten(each["training"]) for each in (config.read(point / CONFIG), table))
    keys = [key for key in then.keys() & now.keys() if key.startswith(("batching.", "streams."))]
    return any(then[key] != now[key] for key in keys)


def other_measure(point: Path, table: config.Table) -> tuple[str, ...]:
    """A tuple of one line if ``table`` chooses the best checkpoint by another measure than ``point`` did; otherwise
    empty. Values of two measures cannot be compared.
    """
    then, now = _measure(config.read(point / CONFIG)), _measure(table)
    if then == now:
        return ()
    return (f"{now} chooses the best checkpoint from here on, where {then} did: the next one validated is the best",)


def _beginning(data: Data, shard: Files, lines: int) -> str:
    """The hash of the first lines of a file."""
    read = RowFingerprints(data.units.signal is not None)
    by_line = (rows for _, rows in groupby(data.rows(shard), key=lambda row: row.line))
    for _ in read(chain.from_iterable(islice(by_line, lines))):
        pass
    return read.found[0].sha256


def _measure(settings: config.Table) -> str:
    """The measure that chooses the best checkpoint: the first metric, or the loss if there are no metrics."""
    return str(next(iter(settings["training"]["validation"]["metrics"]), "loss"))
