"""ROUGE, the metric of summaries: the n-grams, or the longest common subsequence, that an output and a reference share.

Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004; the scores of the package ``rouge-score``.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from transduce.core.errors import MissingPackageError, UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.statistics import references
from transduce.metrics.units import canonical

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

PACKAGE = "rouge-score"


class Rouge:
    """Base class of the metrics. The score is the mean over the examples of an F1 in percent. If there are several
    references, the reference with the largest F1 counts.

    Words are the package's own: lowercase, without affixes (Porter's stemmer, for words of more than three letters), of
    the characters a-z and 0-9. All other characters separate words. So the metrics suit English.

    A row of statistics has two numbers: the F1 in [0, 1], and 1 for the example. Raises MissingPackageError without the
    package. ``statistics`` raises UserError for an example without references, and for one whose references have
    letters but none of a-z or 0-9.
    """

    name: str
    higher_is_better = True
    needs_forcing = False

    def __init__(self) -> None:
        self._scorer = scorer(self.name)
        self._signature = f"score:f1|refs:max|case:lc|words:a-z0-9|stem:porter|version:{PACKAGE}-{version(PACKAGE)}"

    @property
    def signature(self) -> str:
        return self._signature

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        given = [*map(canonical, references(example))]
        if any(map(str.isalpha, "".join(given))) and not any(map(_readable, "".join(given).lower())):
            raise UserError(
                f"{self.name} reads only the characters a-z and 0-9, and the reference {given[0]!r} has none of them: "
                "measure chrf for other scripts"
            )
        return float(self._scorer.score_multi(given, canonical(prediction.text))[self.name].fmeasure), 1.0

    def misfit(self, references: Sequence[str]) -> str:
        letters = [each for text in references for each in text.lower() if each.isalpha()]
        unread = sum(not _readable(each) for each in letters)
        if 10 * unread <= len(letters):
            return ""
        return f"it leaves out {100 * unread / len(letters):.0f} % of their letters, all but a-z; measure chrf"

    def score(self, total: Sequence[float]) -> float:
        f1, examples = total
        return 100.0 * f1 / examples if examples else math.nan


class Rouge1(Rouge):
    """``rouge1``: ROUGE-1 in percent, the mean F1 of the words that output and reference share (Lin 2004)."""

    name = "rouge1"


class Rouge2(Rouge):
    """``rouge2``: ROUGE-2 in percent, the mean F1 of the pairs of neighbouring words that output and reference share
    (Lin 2004).
    """

    name = "rouge2"


class RougeL(Rouge):
    """``rougeL``: ROUGE-L in percent, the mean F1 of the longest common subsequence of the words of output and
    reference (Lin 2004).

    Each text counts as one sentence. For summaries of several sentences, other programs also report ROUGE-Lsum.
    """

    name = "rougeL"


def scorer(name: str) -> RougeScorer:
    """The package's scorer of one metric, with stemming. Raises MissingPackageError if the package is not installed."""
    try:
        module = importlib.import_module("rouge_score.rouge_scorer")
    except ImportError as error:
        raise MissingPackageError(f"{name} needs the package {PACKAGE}: pip install 'transduce[summaries]'") from error
    return module.RougeScorer([name], use_stemmer=True)


def _readable(character: str) -> bool:
    return character.isascii() and character.isalnum()
