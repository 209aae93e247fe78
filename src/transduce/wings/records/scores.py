"""The scores of a run's best checkpoint, kept in its directory: the card shows them, and nobody measures them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from transduce.core.errors import UserError
from transduce.core.files import current_folder, write_text
from transduce.core.text_files import read_json, read_text
from transduce.core.types import Example
from transduce.data.fingerprints import Fingerprint
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics
from transduce.runs.layout import CHECKPOINTS, CHECKSUMS, SCORES
from transduce.wings.records.provenance import fingerprint_of_examples


@dataclass(frozen=True)
class Score:
    """The score of a metric on a split, with its 95 % interval from ``low`` to ``high``. ``examples`` is the number of
    examples, ``data`` their fingerprint, and ``signature`` says how the metric was computed.
    """

    metric: str
    value: float
    low: float
    high: float
    split: str
    examples: int
    signature: str = ""
    higher_is_better: bool = True
    data: Fingerprint | None = None


def scores_of(measured: Sequence[Statistics], split: str, examples: Sequence[Example]) -> list[Score]:
    """The scores of each metric's statistics, with intervals."""
    resampling, data = Resampling(), fingerprint_of_examples(examples)
    return [
        Score(
            each.name,
            each.score,
            *resampling.interval(each),
            split,
            len(examples),
            each.metric.signature,
            each.metric.higher_is_better,
            data,
        )
        for each in measured
    ]


def keep_scores(run: Path, scores: Sequence[Score]) -> None:
    """Writes the scores of the run's best checkpoint into its directory, with the checksums of this checkpoint."""
    kept = {"checksums": _checksums(run), "scores": [asdict(each) for each in scores]}
    write_text(run / SCORES, json.dumps(kept, indent=1))


def kept_scores(run: Path) -> list[Score]:
    """The scores that were kept for the run's best checkpoint; none if it has changed since. Raises UserError if their
    file is damaged.
    """
    path = run / SCORES
    if not path.exists():
        return []
    try:
        kept = read_json(path)
        if kept["checksums"] != _checksums(run):
            return []
        return [Score(**{**each, "data": Fingerprint(**each["data"])}) for each in kept["scores"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error!r}): delete it, and the card has no test scores") from error


def _checksums(run: Path) -> str:
    path = current_folder(run / CHECKPOINTS / "best") / CHECKSUMS
    return read_text(path) if path.exists() else ""
