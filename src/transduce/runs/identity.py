"""A hash that identifies the model of a run: of all files that decide its predictions."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from transduce.compute.precision import Precision
from transduce.runs.layout import CONFIG, SHORTLIST, TOKENIZERS, Checkpoint, members
from transduce.runs.manifest import Manifest, checksum, find_export
from transduce.runs.run import Run


def identity(
    run: str | Path, checkpoint: Checkpoint = "best", engine: str | None = None, precision: Precision = "float32"
) -> str:
    """The SHA-256, in hexadecimal digits, of the settings, the tokenizers, the weights and the shortlist of a run.
    Models that the run's search names are not part of it.

    ``run``, ``checkpoint``, ``engine`` and ``precision`` are as in ``transduce.load``. The hash of RUN+RUN is of all
    its runs. An export is hashed with all its files. A copied run has the same hash. Raises FileNotFoundError if there
    is no such run or checkpoint.
    """
    parts = list[str]()
    for path in members(run):
        folder = find_export(path, engine, precision)
        if folder is not None:
            parts.append(json.dumps(Manifest.read(folder).files, sort_keys=True))
            continue
        found = Run.open(path)
        files = [found.path / CONFIG, *sorted((found.path / TOKENIZERS).iterdir()), found.weights(checkpoint)]
        shortlist = found.path / SHORTLIST
        parts += [checksum(file) for file in (*files, *([shortlist] if shortlist.exists() else []))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
