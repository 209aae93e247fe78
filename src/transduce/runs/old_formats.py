"""Files of runs that older versions wrote, as this version writes them. No other module knows the old formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transduce import config
from transduce.runs.layout import CONFIG


def state(record: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The record of a checkpoint's state.json.

    Until version 0.1 it did not count the lines of metrics.jsonl, and ``best`` was a list of the value and the loss,
    by the measure that the settings in the same ``folder`` name.
    """
    best = record["best"]
    if isinstance(best, list):
        best = {"measure": measure(config.read(folder / CONFIG)), "value": best[0], "loss": best[1]}
    return {"events": None, **record, "best": best}


def measure(settings: config.Table) -> str:
    """By what validation chooses the best checkpoint: the first metric, or the loss if there are no metrics."""
    metrics = settings["training"]["validation"]["metrics"]
    return str(next(iter(metrics), "loss"))
