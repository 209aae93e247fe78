"""The metric of compression by deletion: which words of the source an output keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.core.errors import UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.labels import f1
from transduce.metrics.statistics import references
from transduce.metrics.suitability import needs_spaces
from transduce.metrics.units import canonical
from transduce.wings.labels.spans import KEPT, word_marks


class KeptF1:
    """``kept_f1``: the F1 in percent of the words of the source that are kept (Filippova et al. 2015):
    2 right / (output + reference), over the whole corpus.

    Words stand between white space. An output keeps the words of its longest common subsequence with the source, and so
    does a reference. A word is right if both keep it at the same place of the source. Words that are not kept but added
    count as wrong, or as missing. If there are several references, the first counts. Without
    any word that is kept, the score is NaN.

    A row of statistics has the number of right words, of words of the output, and of words of the reference. Raises
    UserError for an example without a reference, or with an empty source.
    """

    name = "kept_f1"
    higher_is_better = True
    needs_forcing = False
    signature = "unit:word|case:mixed|match:lcs|average:corpus|refs:first"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        reference = canonical(references(example)[0]).split()
        if not (source := canonical(example.source).split()):
            raise UserError("no source: kept_f1 compares each output with its source; give --source, or measure rouge1")
        output = canonical(prediction.text).split()
        marks = zip(word_marks(source, output), word_marks(source, reference), strict=True)
        return float(sum(one == other == KEPT for one, other in marks)), float(len(output)), float(len(reference))

    def misfit(self, references: Sequence[str]) -> str:
        return needs_spaces(references, "separate the words of sources and references by spaces")

    def score(self, total: Sequence[float]) -> float:
        return 100.0 * f1(*total) if any(total) else math.nan
