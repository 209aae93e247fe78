"""Files of runs that older versions wrote, as this version writes them. No other module knows the old formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transduce.core import config
from transduce.core.errors import UserError
from transduce.runs.layout import CONFIG


def state(record: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Converts the record of a checkpoint's state.json to the form that this version writes; a record of this version
    stays unchanged.

    Before version 0.1 the record had no count of the lines of metrics.jsonl, and no curve. ``best`` was a list of the
    value and the loss; the settings in the same ``folder`` name the measure.
    """
    best = record["best"]
    if isinstance(best, list):
        best = {"measure": measure(config.read(folder / CONFIG)), "value": best[0], "loss": best[1]}
    return {"events": None, "start": None, "curve": [], **record, "best": best}


def check_model(settings: config.Table, run: Path) -> None:
    """Raises UserError if the model in the ``settings`` of a ``run`` has a form that this version cannot read.

    Before version 0.1 a hidden Markov model had no table ``emission``, and it counted other statistics.
    """
    model = settings["model"]
    if model.get("type") == "hmm" and "emission" not in model:
        raise UserError(
            f"{run} has a hidden Markov model of an earlier version, whose counts this version cannot read: count it "
            f"again, which takes seconds (transduce train tagging-hmm --out {run} --overwrite, with the data of its "
            "config.toml)"
        )


def measure(settings: config.Table) -> str:
    """The measure that chooses the best checkpoint: the first metric, or the loss if there are no metrics."""
    metrics = settings["training"]["validation"]["metrics"]
    return str(next(iter(metrics), "loss"))
