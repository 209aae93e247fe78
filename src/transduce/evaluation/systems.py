"""Who is judged: a run's model, or any other system by the file of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transduce.data import corpora
from transduce.errors import UserError
from transduce.metrics.statistics import Statistics, statistics
from transduce.outputs import Output
from transduce.protocols import Metric
from transduce.transducer import Transducer
from transduce.types import Example, Prediction


@dataclass(frozen=True)
class System:
    """The outputs of a system for some examples, and each metric's statistics of them.

    ``seconds`` is how long a model took for them, ``vocabulary`` the fingerprint of what its tokens are, ``lengths``
    those of the sources as the model reads them, ``forced`` the references with its probability of them, where that
    was asked for, ``search`` the settings of its search; a file has nothing of these.
    """

    name: str
    predictions: list[Prediction]
    statistics: list[Statistics]
    seconds: float | None = None
    vocabulary: str | None = None
    lengths: Sequence[int] = ()
    forced: Sequence[Output] = ()
    search: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scores(self) -> dict[str, float]:
        return {each.name: each.score for each in self.statistics}


def of_model(
    name: str,
    transducer: Transducer,
    examples: Sequence[Example],
    metrics: Sequence[Metric],
    batch_size: int = 64,
    forcing: bool = False,
) -> System:
    """A trained model; ``forcing`` asks it about the references too."""
    found = transducer.evaluate(examples, metrics, batch_size=batch_size, forcing=forcing)
    vocabulary = transducer.target_tokenizer.fingerprint
    search = transducer.settings.get("search", {})
    return System(
        name, found.predictions, found.statistics, found.seconds, vocabulary, found.lengths, found.forced, search
    )


def of_file(path: Path, examples: Sequence[Example], metrics: Sequence[Metric]) -> System:
    """Outputs from anywhere: line n is the one for example n. Metrics that ask the model itself have no place here.

    Raises ValueError where there are more or fewer lines than examples.
    """
    lines = [line.decode(errors="replace") for line in corpora.lines(path)]
    if len(lines) != len(examples):
        raise UserError(f"{path} has {len(lines):,} lines for {len(examples):,} examples: a line for each is expected")
    predictions = [Prediction(line) for line in lines]
    askable = [metric for metric in metrics if not metric.needs_forcing]
    return System(str(path), predictions, statistics(askable, predictions, examples))
