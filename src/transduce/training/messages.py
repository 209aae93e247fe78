"""What the training loop tells people."""

from __future__ import annotations

import math
from pathlib import Path

from transduce.core.finite import readable
from transduce.runs.checkpoints import saved_step
from transduce.training.updating import MadeUpdate

NO_MEASURE = (
    "no loss or score of a validation is a finite number, so the last model is saved as the best. A loss of nan means "
    "that no pair of data.valid can be measured: mend data.valid, or measure something else "
    "(training.validation.metrics)"
)
NOTHING_LEARNED = (
    "no pair of the training set can be learned from, in a whole epoch: the objective leaves out every target (such as "
    "one that needs more frames than its source gives, or one with missing numbers alone). Mend data.train, or choose "
    "another objective"
)
MOST, LONG = 0.5, 30.0  # validation is told during training if it took this part of the time, and these seconds
REMEDY = "lower training.optimizer.rate or training.clip, or lengthen the warm-up, and train again"


def diverged(update: MadeUpdate, last: Path) -> str:
    """The loss or the gradient of an update is not finite. ``last`` is the folder of the checkpoint last."""
    saved = f"The last good state is in {last} (--resume continues it)" if saved_step(last) else "None is saved"
    loss = float(update.total) / (update.count or math.nan)
    return (
        f"update {update.step}: the loss is {readable(loss, 4)} and the gradient's norm "
        f"{readable(float(update.norm), 4)}. {saved}; {REMEDY}"
    )


def unusable_model(why: str) -> str:
    return f"no model is usable: {why}. To mend it, {REMEDY}"


def left_out_of_validation(computed: str, left_out: str, seconds: float, share: float) -> str:
    """Which part of a validation is computed, and which part is left out, because it would take ``seconds``."""
    return (
        f"validation computes {computed}: {left_out} would take about {seconds:.0f} s, and validation may take "
        f"{100 * share:g} % of the time (training.validation.share). It computes more when there is time. Fewer "
        "examples (training.validation.examples) take less time"
    )


def much_validation(validating: float, seconds: float) -> str:
    """Validation took most of the ``seconds`` so far, which only a budget without minutes allows."""
    return (
        f"validation took {validating:.0f} of {seconds:.0f} s so far: less with fewer examples "
        "(training.validation.examples) or times (training.validation.times), or with a limit (training.minutes)"
    )


def less_data(part: float, share: float) -> str:
    """Later validations use a ``part`` of their data."""
    return (
        f"validation uses {100 * part:.0f} % of its data from here on, evenly spaced: it takes at most "
        f"{100 * share:g} % of the time (training.validation.share)"
    )
