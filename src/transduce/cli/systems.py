"""Systems as commands name them: a run directory, or a file of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transduce.cli.options import Trained, resized

if TYPE_CHECKING:
    from transduce.evaluation.systems import System
    from transduce.protocols import Metric
    from transduce.types import Example


def system(
    named: Trained, examples: Sequence[Example], metrics: Sequence[Metric], beam: int | None, batch_size: int
) -> System:
    """The outputs of a run's model, with its own search or a beam of another size, or those of a file."""
    from transduce.evaluation import systems

    if named.run.is_file():
        return systems.of_file(named.run, examples, metrics)
    transducer = named.load(beam)
    return systems.of_model(str(named.run), transducer, examples, metrics, resized(transducer, beam), batch_size)
