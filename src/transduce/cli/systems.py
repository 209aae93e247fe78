"""Systems as commands name them: a run directory, or a file of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.options import Loading, Measured

if TYPE_CHECKING:
    from transduce.evaluation.systems import System
    from transduce.protocols import Metric
    from transduce.types import Example


def system(
    named: Path, loading: Loading, measured: Measured, examples: Sequence[Example], metrics: Sequence[Metric]
) -> System:
    """The outputs of a run's model, with its own search or a beam of another size, or those of a file."""
    from transduce.evaluation import systems

    if named.is_file():
        return systems.of_file(named, examples, metrics)
    transducer = loading.of(named, measured.beam)
    return systems.of_model(str(named), transducer, examples, metrics, measured.batch_size)
