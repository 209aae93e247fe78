"""Files of runs that older versions wrote, as this version writes them. No other module knows the old formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transduce import config
from transduce.runs.layout import CONFIG


def state(record: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Converts the record of a checkpoint's state.json to the form that this version writes; a record of this version
    stays unchanged.

    Before version 0.1 the record had no count of the lines of metrics.jsonl. ``best`` was a list of the value and the
    loss; the settings in the same ``folder`` name the measure.
    """
    best = record["best"]
    if isinstance(best, list):
        best = {"measure": measure(config.read(folder / CONFIG)), "value": best[0], "loss": best[1]}
    return {"events": None, **record, "best": best}


def measure(settings: config.Table) -> str:
    """The measure that chooses the best checkpoint: the first metric, or the loss if there are no metrics."""
    metrics = settings["training"]["validation"]["metrics"]
    return str(next(iter(metrics), "loss"))
