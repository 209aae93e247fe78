"""Metrics of word alignments: precision, recall, F1 and alignment error rate against sure and possible links.

A is the set of links found, S the sure links and P the possible links, which include the sure ones. N sentence pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from transduce.core.types import Example, Prediction
from transduce.metrics.statistics import Floats, Statistics, references
from transduce.wings.alignment.links import Gold, Links


class AlignmentMetric:
    """Base class of metrics of word alignments. A prediction is the links of one sentence pair in Pharaoh format (``0-0
    1-2``). Its first reference is the gold links, where ``1p2`` is a possible link; further ones are ignored.

    A row of statistics has the numbers of links in A and S, in A and P, in A, and in S. Raises UserError for a text
    that is not in Pharaoh format.
    """

    name: str
    higher_is_better = True
    needs_forcing = False

    @property
    def signature(self) -> str:
        return "links:sure+possible"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        gold, *_ = references(example)
        row: list[float] = link_counts(Links.read([prediction.text]), Gold.read([gold]))[0].tolist()
        return row


class LinkPrecision(AlignmentMetric):
    """``link_precision``: the percentage of found links that are possible, |A and P| / |A|; NaN
    without found links."""

    name = "link_precision"

    def score(self, total: Sequence[float]) -> float:
        _, possible, found, _ = total
        return 100.0 * possible / found if found else math.nan


class LinkRecall(AlignmentMetric):
    """``link_recall``: the percentage of sure links that are found, |A and S| / |S|; NaN without
    sure links."""

    name = "link_recall"

    def score(self, total: Sequence[float]) -> float:
        right, _, _, sure = total
        return 100.0 * right / sure if sure else math.nan


class LinkF1(AlignmentMetric):
    """``link_f1``: the harmonic mean of ``link_precision`` and ``link_recall``. It is 0 if both are 0, and if only one
    side has links. It is NaN without any link.
    """

    name = "link_f1"

    def score(self, total: Sequence[float]) -> float:
        _, _, found, sure = total
        if not (found and sure):
            return 0.0 if found or sure else math.nan
        precision, recall = LinkPrecision().score(total), LinkRecall().score(total)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class AlignmentErrorRate(AlignmentMetric):
    """``aer``: the alignment error rate in percent, 1 - (|A and S| + |A and P|) / (|A| + |S|) (Och and Ney 2003,
    section 5.1).

    If no link is found and none is sure, it is NaN.
    """

    name = "aer"
    higher_is_better = False

    def score(self, total: Sequence[float]) -> float:
        right, possible, found, sure = total
        return 100.0 - 100.0 * (right + possible) / (found + sure) if found + sure else math.nan


LINK_METRICS = (LinkPrecision, LinkRecall, LinkF1, AlignmentErrorRate)


def link_counts(found: Links, gold: Gold) -> Floats:
    """[N, 4]: for each sentence pair |A and S|, |A and P|, |A| and |S|. ``found`` and ``gold`` must have the same
    number of pairs; this is not checked.
    """
    columns = (
        found.pair_L[found.within(gold.sure)],
        found.pair_L[found.within(gold.possible)],
        found.pair_L,
        gold.sure.pair_L,
    )
    return np.stack([np.bincount(pair_L, minlength=found.pairs) for pair_L in columns], 1).astype(float)


def link_statistics(found: Links, gold: Gold) -> list[Statistics]:
    """The statistics of all ``LINK_METRICS``, in this order, with a row per sentence pair."""
    rows_N4 = link_counts(found, gold)
    return [Statistics(metric(), rows_N4) for metric in LINK_METRICS]
