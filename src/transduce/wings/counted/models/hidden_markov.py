"""Hidden Markov models of labels. B rows, T steps, L labels, H histories of labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from copy import deepcopy
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.compute.cluster import AnyWorkers
from transduce.core.chain import Trellis, check_lengths
from transduce.core.errors import UserError
from transduce.core.protocols import can
from transduce.core.types import BOS, UNK, Batch, Factory, Padded, real_mask
from transduce.data.pairs import Pairs
from transduce.models.tables import check_rows
from transduce.training.counted import OnePass, check_tokens, empty
from transduce.wings.counted.hidden_markov.base import C, CountedEmissions, Emissions, Estimation
from transduce.wings.counted.hidden_markov.estimation import BaumWelch, Weigh, batches_of, weighted
from transduce.wings.counted.kneser_ney import estimate
from transduce.wings.counted.ngram_counts import Counts, Sequences, count, count_by
from transduce.wings.counted.ngram_lookup import NgramLookup

LARGEST = 2**24  # most transitions of a table
PART = 64  # batches that a worker counts at a time


class HiddenMarkov(nn.Module):
    """p(x, y) = prod_t p(y_t | y_t-n, ..., y_t-1) p(x_t | y_t): each label follows the n = ``order`` labels before it
    and emits a step of the source. Counted from labelled sources; labels may be missing.

    The transitions are smoothed like n-grams (kneser_ney.py). ``emission`` is the model of p(x_t | y_t). A label <unk>
    in training is not known (``missing`` of the unit "symbols"). Then the first transitions are counted in the targets
    without <unk>; if there are none, all are equally probable. The first emissions are estimated at all known labels;
    if there are none, they are random. Each pass is one of expectation maximisation (Baum-Welch) over all sources. The
    first transitions weigh as much as ``prior`` transitions after each history. A source with unknown labels counts
    ``unlabelled`` times (Nigam et al. 2000).

    Raises UserError if ``order`` is less than 1 or its table too large, or unless ``prior`` and ``unlabelled`` are more
    than 0.
    """

    def __init__(
        self,
        target_vocabulary: int,
        emission: Factory[Emissions],
        order: int = 1,
        prior: float = 10.0,
        unlabelled: float = 1.0,
    ) -> None:
        super().__init__()
        if order < 1:
            raise UserError(f"order = {order}: at least 1 label was expected")
        if target_vocabulary ** (order + 1) > LARGEST:
            raise UserError(
                f"order = {order} with {target_vocabulary} labels: a table of {target_vocabulary}^{order + 1} "
                f"transitions is too large; set model.order = {order - 1}, or use fewer labels"
            )
        for name, value in (("prior", prior), ("unlabelled", unlabelled)):
            if not 0 < value < math.inf:
                raise UserError(f"{name} = {value}: a number of more than 0 was expected")
        self.labels, self.order, self.prior, self.unlabelled = target_vocabulary, order, prior, unlabelled
        self.emission = emission(labels=target_vocabulary)
        self.table = empty(
            torch.float32, target_vocabulary + 1
        )  # log p, [1 + H, L + 1]: from the begin, and to the end

    def counts(self, pairs: Pairs) -> LabelCounts:
        return LabelCounts(self, pairs)

    def counts_in_parts(self, pairs: Pairs, workers: Callable[[], AnyWorkers]) -> LabelCounts | None:
        """None if labels are missing, or if the first emissions are no sums over the pairs."""
        if not can(type(self.emission), CountedEmissions):
            return None
        counts = LabelCounts(self, pairs, workers)
        return None if counts.hidden else counts

    def check_tables(self) -> None:
        if len(self.table):
            check_rows(1 + self.labels**self.order, {"table": self.table})

    def trellis(self, source: Padded) -> Trellis:
        if not len(self.table):
            raise UserError("this hidden Markov model has not been counted: train it first")
        unary, table = self.emission(source), self.table
        return Trellis(unary.values.to(table.dtype), unary.lengths, table[1:, :-1], table[0, :-1], table[1:, -1])

    def states(self, source: Padded) -> Trellis:
        return self.trellis(source)

    def allowed(self, target: Padded, lengths_B: Tensor, steps: int) -> Tensor:
        """[B, T, L], T = ``steps``: True for the known label of a step. True for all labels, but not for special
        tokens, if it is not known or past ``lengths_B``. Raises UserError if a row has another number of labels than
        ``lengths_B``.
        """
        check_lengths(lengths_B, target.lengths - 1)
        missing = max(0, steps - target.values.shape[1])
        label_BT = nn.functional.pad(target.values, (0, missing))[:, :steps]
        own_BTL = nn.functional.one_hot(label_BT, self.labels).bool()
        unknown_BT = (label_BT == UNK) | ~real_mask(lengths_B, steps)
        return torch.where(unknown_BT[..., None], named(self.labels, own_BTL), own_BTL)


def named(labels: int, like: Tensor) -> Tensor:
    """[L]: True for labels, False for special tokens. On the device of ``like``."""
    return torch.arange(labels, device=like.device) > UNK


class LabelCounts(OnePass):
    """The counts of a hidden Markov model of labels. If labels are missing, each pass is one of Baum-Welch; otherwise
    the first pass counts, and others only measure. ``workers``, if given, makes the workers that do this; then the
    ``model`` has ``CountedEmissions``, and no label is missing.
    """

    def __init__(self, model: HiddenMarkov, pairs: Pairs, workers: Callable[[], AnyWorkers] | None = None) -> None:
        check_tokens("a hidden Markov model of labels", pairs.target)
        ids, ends = pairs.target.ids, np.asarray(pairs.target.offsets[1:]) - 1
        unknown_K = np.asarray(ids) == UNK
        unknown_K[ends] = False
        tokens, unknown = len(ids), int(unknown_K.sum())
        super().__init__(tokens, tokens - len(pairs) - unknown, model.labels - UNK - 1)
        if model.labels <= UNK + 1 and tokens > len(pairs):
            raise UserError(
                "the training targets name no label: label some lines, or list the labels in data.units.target.always"
            )
        self.model, self.pairs, self.workers = model, pairs, workers
        self.complete_N = np.add.reduceat(unknown_K, np.asarray(pairs.target.offsets[:-1])) == 0
        self.batches = batches_of(pairs.target.lengths, model.labels**model.order)
        self.passes: BaumWelch | None = None
        if unknown:
            self.report = (
                f"{unknown:,} of {tokens - len(pairs):,} labels are not known: each pass is one of "
                "expectation maximisation",
            )
        self.hidden = unknown > 0

    def count(self) -> None:
        model = self.model
        with nullcontext() if self.workers is None else closing(self.workers()) as workers:
            table = self._transitions(count if workers is None else partial(count_by, workers))
            estimation = self._emissions(named(model.labels, model.table), workers)
        if self.hidden:
            self.passes = self._baum_welch(table, estimation)
        else:
            model.table.data = table.log().to(model.table)

    def log_prob(self) -> float:
        if self.workers is None:
            return sum(log_prob(self.model, self.pairs.batch(rows)) for rows in self.batches)
        with closing(self.workers()) as workers:
            model = deepcopy(self.model).cpu()
            jobs = ((model, part, batches) for part, batches in self._parts())
            return sum(each for part in workers(_log_probs, jobs) for each in part)

    def reestimate(self) -> float:
        if not self.hidden:
            return super().reestimate()
        self.store()
        assert self.passes is not None  # by count
        return self.passes.reestimate()

    def _emissions(self, free: Tensor, workers: AnyWorkers | None) -> Estimation:
        emission: Any = self.model.emission
        weigh = partial(known_labels, self.model.labels)
        if workers is None:
            batches = weighted(self.pairs, self.batches, weigh, self.model.table.device)
            return cast(Estimation, emission.estimation(batches, free))
        copy = deepcopy(emission).cpu()  # workers may have no GPU
        jobs = ((copy, weigh, part, batches) for part, batches in self._parts())
        return cast(Estimation, emission.estimation_from(workers(_counted, jobs), free))

    def _parts(self) -> Iterator[tuple[Pairs, list[NDArray[np.int64]]]]:
        """The pairs in parts that workers get: the pairs of several batches, and the batches' row numbers in them."""
        for first in range(0, len(self.batches), PART):
            batches = self.batches[first : first + PART]
            bounds = np.cumsum([0, *map(len, batches)])
            yield self.pairs.select(np.concatenate(batches)), [np.arange(*each) for each in pairwise(bounds)]

    def _baum_welch(self, table: Tensor, estimation: Estimation) -> BaumWelch:
        shares = [
            (rows[self.complete_N[rows] == complete], weight)
            for rows in self.batches
            for complete, weight in ((True, 1.0), (False, self.model.unlabelled))
        ]
        shares = [(rows, weight) for rows, weight in shares if len(rows)]
        return BaumWelch(self.model, self.pairs, estimation, table, self.model.prior, shares)

    def _transitions(self, counting: Callable[[Sequences, int, int], Counts]) -> Tensor:
        """Probabilities [1 + H, L + 1] of each label, and of the end in the last column: at the begin (row 0) and after
        each history. They come from the targets whose labels are all known; all are equal if there is none.
        """
        L, ngrams = self.model.labels, NgramLookup().double()
        rows = [row for row, complete in zip(self.pairs.target.unclosed(), self.complete_N, strict=True) if complete]
        if not rows:
            return uniform(L, L**self.model.order)
        ngrams.learn(estimate(rows, L, self.model.order + 1, counting=counting))
        begun = torch.tensor([ngrams.begun])
        after_H = begun
        for _ in range(self.model.order):  # the oldest label first; BOS stands for the begin
            label_J = torch.arange(L).repeat(len(after_H))
            _, after_N = ngrams(after_H.repeat_interleave(L), label_J)
            after_H = torch.where(label_J == BOS, ngrams.begun, after_N)
        return ngrams.every(torch.cat([begun, after_H]))[:, : L + 1].exp()


def log_prob(model: HiddenMarkov, batch: Batch) -> float:
    """The log-probability of the batch's labels, given its sources."""
    batch = batch.to(model.table.device)
    trellis = model.trellis(batch.source)
    score_B = trellis.score(trellis.own(batch.target.values, batch.target.lengths - 1))
    return float((score_B - trellis.log_normaliser).double().sum())


def known_labels(labels: int, batch: Batch) -> Padded:
    """Values [B, T, L]: 1 for the label of each step if it is known, otherwise 0."""
    label_BT = batch.target.values[:, : max(1, batch.target.values.shape[1] - 1)]
    lengths_B = batch.target.lengths - 1
    known_BT = real_mask(lengths_B, label_BT.shape[1]) & (label_BT != UNK)
    own_BTL = nn.functional.one_hot(label_BT, labels).double()
    return Padded(own_BTL * known_BT[..., None], lengths_B)


def _counted(_: None, job: tuple[CountedEmissions[C], Weigh, Pairs, list[NDArray[np.int64]]]) -> C:
    """Runs in a worker: the counts of the emissions of a part."""
    emission, weigh, part, batches = job
    return emission.count(weighted(part, batches, weigh, torch.device("cpu")))


def _log_probs(_: None, job: tuple[HiddenMarkov, Pairs, list[NDArray[np.int64]]]) -> list[float]:
    """Runs in a worker: the log-probability of each batch."""
    model, part, batches = job
    return [log_prob(model, part.batch(rows)) for rows in batches]


def uniform(labels: int, histories: int) -> Tensor:
    """Probabilities [1 + H, L + 1]: in each row, all labels (not special tokens) and the end, in the last column, have
    the same.
    """
    possible = torch.cat([torch.arange(labels) > UNK, torch.ones(1, dtype=torch.bool)]).double()
    return (possible / possible.sum()).repeat(1 + histories, 1)
