"""Hidden Markov models as classifiers: one model for each label. B rows, T steps, V labels, K states of a label."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from transduce.core.chain import Trellis, log_product
from transduce.core.errors import UserError
from transduce.core.types import UNK, Batch, Emission, Factory, Padded, real_mask
from transduce.data.pairs import Pairs
from transduce.models.tables import check_rows
from transduce.training.counted import check_tokens, empty
from transduce.wings.counted.hidden_markov.base import Emissions
from transduce.wings.counted.hidden_markov.estimation import BaumWelch, batches_of, weighted
from transduce.wings.labels.classifier import check_one, one_label


class HiddenMarkovClassifier(nn.Module):
    """p(y | x) in proportion to p(y) p(x | y), where p(x | y) is a hidden Markov model of its own for each label y
    (Rabiner 1989, section V).

    Each model has ``states``. ``topology`` "left-right": a state goes to itself or to any later one, as sounds of a
    word follow each other. ``topology`` "any": it goes to each state of its label. A source begins and ends in any
    state. The estimation is Baum-Welch: each pass is one of expectation maximisation. For the first emissions, each
    source is cut into ``states`` equal parts. The first transitions of a state are equally probable, and weigh as much
    as ``prior`` transitions in each pass. A label <unk> in training is not known (``missing`` of the unit "symbols"):
    its source counts for all labels, by their posterior probabilities.
    """

    def __init__(
        self,
        target_vocabulary: int,
        emission: Factory[Emissions],
        states: int = 5,
        topology: Literal["left-right", "any"] = "left-right",
        prior: float = 1.0,
    ) -> None:
        super().__init__()
        if states < 1:
            raise UserError(f"states = {states}: at least 1 was expected")
        if topology not in ("left-right", "any"):
            raise UserError(f'topology = "{topology}": expected "left-right" or "any"')
        if not 0 < prior < math.inf:
            raise UserError(f"prior = {prior}: a number of more than 0 was expected")
        self.labels, self.per_label, self.topology, self.prior = target_vocabulary, states, topology, prior
        self.emission = emission(labels=target_vocabulary * states)
        self.table = empty(torch.float64, target_vocabulary * states + 1)  # log p, [1 + VK, VK + 1]

    def counts(self, pairs: Pairs) -> ClassCounts:
        return ClassCounts(self, pairs)

    def check_tables(self) -> None:
        if len(self.table):
            check_rows(1 + self.labels * self.per_label, {"table": self.table})

    def states(self, source: Padded) -> Trellis:
        """The trellis of the states of all labels: state k of label v has number v K + k. Raises UserError before
        training.
        """
        if not len(self.table):
            raise UserError("this hidden Markov model has not been counted: train it first")
        unary, table = self.emission(source), self.table
        return Trellis(unary.values.to(table.dtype), unary.lengths, table[1:, :-1], table[0, :-1], table[1:, -1])

    def allowed(self, target: Padded, lengths_B: Tensor, steps: int) -> Tensor:
        """[B, T, VK], T = ``steps``: True for the states of a row's label. If this is <unk>, True for the states of all
        labels, but not of special tokens.
        """
        check_one(target.lengths - 1)
        label_B1, every_V = target.values[:, :1], torch.arange(self.labels, device=target.values.device)
        own_BV = torch.where(label_B1 == UNK, every_V > UNK, every_V == label_B1)
        return own_BV.repeat_interleave(self.per_label, 1)[:, None].expand(-1, steps, -1)

    def start(self, source: Padded) -> Tensor:
        """[B, V]: the joint log p(x, y) of each label, up to a term that is the same for all labels of a source; log
        p(y) for a source without steps.
        """
        trellis, V, K = self.states(source), self.labels, self.per_label
        own_VKK = trellis.transition.view(V, K, V, K).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
        weights_KVK = own_VKK.double().exp().transpose(0, 1)
        unary_BTVK, end_VK = trellis.unary.reshape(*trellis.unary.shape[:2], V, K), trellis.end.view(V, K)
        alpha_BVK = trellis.start.view(V, K) + unary_BTVK[:, 0]
        for t in range(1, unary_BTVK.shape[1]):  # each label apart: their densities differ more than exp can tell
            reached_BVK = log_product(alpha_BVK.transpose(1, 2), weights_KVK) + unary_BTVK[:, t]
            alpha_BVK = torch.where((t < trellis.lengths)[:, None, None], reached_BVK, alpha_BVK)
        empty_B11 = (trellis.lengths == 0)[:, None, None]
        return torch.where(empty_B11, trellis.start.view(V, K), alpha_BVK + end_VK).logsumexp(2)

    def emit(self, state: Tensor, lengths: Tensor | None = None) -> Emission:
        return one_label(state, lengths)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)


class ClassCounts:
    """The ``Counts`` of a classifier of hidden Markov models. ``tokens`` counts labels and ends, as of other models."""

    report: tuple[str, ...] = ()

    def __init__(self, model: HiddenMarkovClassifier, pairs: Pairs) -> None:
        check_tokens("a classifier of hidden Markov models", pairs.target)
        self.model, self.pairs = model, pairs
        self.tokens = int(pairs.target_lengths.sum())
        self.passes: BaumWelch | None = None

    def reestimate(self) -> float:
        if self.passes is None:
            self.passes = self._begin()
        return self.passes.reestimate()

    def store(self) -> None:
        """Stores the first estimate if there was no pass yet. Each pass has stored its own."""
        if self.passes is None:
            self.passes = self._begin()

    def _begin(self) -> BaumWelch:
        model, place = self.model, self.model.table.device
        states = model.labels * model.per_label
        batches = batches_of(self.pairs.source.lengths, states)
        named = torch.arange(model.labels).repeat_interleave(model.per_label) > UNK
        estimation = model.emission.estimation(weighted(self.pairs, batches, self._parts, place), named)
        return BaumWelch(model, self.pairs, estimation, self._table(named), model.prior, [(b, 1.0) for b in batches])

    def _table(self, named_S: Tensor) -> Tensor:
        """Probabilities [1 + VK, VK + 1]: equal ones for all transitions that the topology has, with the begin in row 0
        and the end in the last column. ``named_S`` are the states in which a source can begin.
        """
        S, K = len(named_S), self.model.per_label
        label_S, number_S = torch.arange(S) // K, torch.arange(S) % K
        possible_SS = label_S[:, None] == label_S
        if self.model.topology == "left-right":
            possible_SS &= number_S[:, None] <= number_S
        table = torch.zeros(1 + S, S + 1, dtype=torch.float64)
        table[0, :-1], table[1:, :-1], table[1:, -1] = named_S, possible_SS, 1.0
        return table / table.sum(1, keepdim=True)

    def _parts(self, batch: Batch) -> Padded:
        """Values [B, T, VK]: 1 for the state of each step if each row is cut into K equal parts; 0 at all steps of a
        row whose label is not known.
        """
        check_one(batch.target.lengths - 1)
        model = self.model
        lengths_B = model.emission.lengths(batch.source)
        steps_T = torch.arange(max(1, int(lengths_B.max())), device=lengths_B.device)
        part_BT = (steps_T * model.per_label // lengths_B.clamp(min=1)[:, None]).clamp(max=model.per_label - 1)
        label_B1 = batch.target.values[:, :1]
        own_BTS = nn.functional.one_hot(label_B1 * model.per_label + part_BT, model.labels * model.per_label).double()
        known_BT = real_mask(lengths_B, len(steps_T)) & (label_B1 != UNK)
        return Padded(own_BTS * known_BT[..., None], lengths_B)
