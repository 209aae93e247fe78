"""Old pairs in the training of a run that starts from another one, and the loss on the old data."""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass, fields
from pathlib import Path

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.files import make_folder
from transduce.data.corpora import Files
from transduce.data.preparation import examples, locate
from transduce.data.rows import check
from transduce.data.settings import Data
from transduce.metrics.base import metric
from transduce.runs.ancestry import Init
from transduce.runs.layout import members
from transduce.runs.loading import load
from transduce.runs.run import Run, cache_folder
from transduce.training.callbacks import Callback, Finished, Notice

NAME = "old pairs"  # of the corpus, in reports
ENDS = ("budget", "patience")


def with_old_pairs(table: config.Table, data: Data, cache: Path, init: Init, temperature: float) -> config.Table:
    """The settings ``table`` of a run whose training set also has the training set of ``init.run``, as a corpus with a
    share ``init.keep_old`` of all drawn pairs. ``temperature`` is that of the batches.

    The old pairs are written into ``cache`` as parallel text, so the two runs may have files of different formats.
    Raises UserError if one of the runs has sources and the other one has none.
    """
    run, old = _old(init)
    if old.units.targets_only != data.units.targets_only:
        raise UserError(f"init.keep_old: {run} and this run must both have sources, or both none: leave it out")
    kept, new = _written(old, run, cache), locate(data, cache).train
    assert new is not None  # the data were prepared before
    ours = sum(part.share * check(part, data.lines.max_bytes) ** (1 / temperature) for part in new.parts)
    theirs = check(Files(source=kept.get("source"), target=kept["target"])) ** (1 / temperature)
    weight = float(init.keep_old or 0) / (1 - float(init.keep_old or 0)) * ours / theirs
    corpora = [*map(_as_table, new.parts), {**kept, "name": NAME, "weight": weight}]
    return {**table, "data": {**table["data"], "train": {"corpora": corpora}}}


def _old(init: Init) -> tuple[Path, Data]:
    """The run to start from, the first of several, and its data."""
    assert init.run is not None  # ``Init`` refuses keep_old without a run
    run = members(init.run)[0]
    return run, config.build(Run.read(run).settings["data"], Data, path="data")


def _written(old: Data, run: Path, cache: Path) -> dict[str, str]:
    """Writes the training pairs of an old run into the cache, unless they are there. Returns their files."""
    files = locate(old, cache_folder(old, run)).train
    if files is None:
        raise UserError(f"init.keep_old: {run} names no training set: leave it out")
    name = hashlib.sha256(repr((files, [os.stat(str(path)).st_mtime_ns for path in files.paths])).encode()).hexdigest()
    folder, sides = cache / "old" / name[:24], ["target"] if old.units.targets_only else ["source", "target"]

    def write(scratch: Path) -> None:
        written = {side: (scratch / side).open("w", encoding="utf-8", newline="\n") for side in sides}
        for corpus in files.parts:
            for row in old.rows(corpus):
                if row.problem is not None or row.target is None:
                    continue
                source = os.path.abspath(row.source or "") if old.units.signal is not None else row.source
                for side, file in written.items():
                    file.write(" ".join(((source if side == "source" else row.target) or "").splitlines()) + "\n")
        for file in written.values():
            file.close()

    make_folder(folder, write)
    return {side: str(folder / side) for side in sides}


def _as_table(files: Files) -> dict[str, object]:
    given = {each.name: getattr(files, each.name) for each in fields(files)}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if value is not None
    }


# ---------------------------------------------------------------------- loss


@dataclass
class OldLoss(Callback):
    """Tells at the end of training how much worse the new run predicts the old run's validation set. It gives the loss
    of both, in nats per byte of the targets, because tokens may differ. ``others`` are the callbacks to tell.
    """

    init: Init
    run: Path
    others: list[Callback]

    def on_finish(self, finished: Finished) -> None:
        if finished.reason not in ENDS:
            return
        try:
            text = self._told()
        except (UserError, OSError) as error:
            text = f"the loss on the data of {self.init.run} is not known: {error}"
        for each in self.others:
            each.on_notice(Notice(finished.step, text))

    def _told(self) -> str:
        run, old = _old(self.init)
        found = examples(old, "valid", cache_folder(old, run), told=True)
        before, after = (
            math.log(load(*which, "cpu").evaluate(found, [metric("perplexity_byte")], told=False).statistics[0].score)
            for which in ((run, self.init.checkpoint), (self.run, "best"))
        )
        return f"old data, valid of {run}: loss {before:.3f} before and {after:.3f} now, in nats per byte" + (
            "" if after <= 1.1 * before or self.init.keep_old else "; --keep-old 0.3 mixes old pairs in"
        )
