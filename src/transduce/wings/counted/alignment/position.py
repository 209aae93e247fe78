"""Which source position a target word comes from: models in which the target positions are independent.

B, S, T and I as in blocks.py. K different pairs of lengths (S, T); R = the sum of their T.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.models.tables import check, check_ascending, check_range, check_rows
from transduce.training.counted import empty
from transduce.wings.counted.alignment.blocks import Block

Ids = NDArray[np.int64]

WIDEST = 2**31  # more than any length
LOOSE, TIGHT, NEWTON_STEPS = 0.1, 50.0, 12  # the bounds of Diagonal's tension


@dataclass(frozen=True)
class Expectation:
    """The result of an E-step for a block.

    ``posterior_BTI`` is p(target position t comes from source position i | both sentences), 0 at padding. The sum of
    ``log_prob_BT`` over T is log p(target | source, its length). ``statistics`` computes sums over the block's pairs
    for ``Position.learn``; by default there are none. The logarithm is natural.
    """

    posterior_BTI: Tensor
    log_prob_BT: Tensor
    statistics: Callable[[], tuple[Tensor, ...]] = tuple


class Position(Protocol):
    """A model of which source position each target word comes from, without the lexicon. It is an ``nn.Module``.

    ``begin`` sets the first parameters, from the lengths of all pairs [N]; all source ids are below ``source_words``.
    ``earlier`` are simpler models that this one starts from: each is trained for one pass, in order. ``expect`` is the
    E-step for a block, from the ``emission_BTI`` of ``Lexicon``. ``learn`` is the M-step, in place, from the sums of
    ``Expectation.statistics`` over all blocks.
    """

    def begin(self, source_length_N: Ids, target_length_N: Ids, source_words: int) -> None: ...

    def earlier(self) -> Sequence[Position]: ...

    def expect(self, block: Block, emission_BTI: Tensor) -> Expectation: ...

    def learn(self, statistics: tuple[Tensor, ...]) -> None: ...


def check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise UserError(f"{name} = {value}: a probability of more than 0 and less than 1 was expected")


class Independent(nn.Module, ABC):
    """Target positions choose their source positions independently: p(y | x) = prod_t sum_i p(i | t, S, T) t(y_t |
    x_i).

    The null word has the probability ``null``.
    """

    def __init__(self, null: float) -> None:
        super().__init__()
        check_share("null", null)
        self.null = null

    def begin(self, source_length_N: Ids, target_length_N: Ids, source_words: int) -> None:
        """Does nothing: there are no parameters to set."""

    def earlier(self) -> Sequence[Position]:
        return ()

    @abstractmethod
    def prior(self, block: Block) -> Tensor:
        """p(i | t, S, T) as [B, T or 1, I]; 0 at padding of the source."""

    def expect(self, block: Block, emission_BTI: Tensor) -> Expectation:
        joint_BTI = self.prior(block).to(emission_BTI) * emission_BTI
        total_BT1 = joint_BTI.sum(-1, keepdim=True)
        real_BT1 = block.target.mask[..., None]
        posterior_BTI = joint_BTI / total_BT1 * real_BT1
        log_prob_BT = total_BT1.log().masked_fill(~real_BT1, 0.0)[..., 0]
        return Expectation(posterior_BTI, log_prob_BT, partial(self.statistics, block, posterior_BTI))

    def statistics(self, block: Block, posterior_BTI: Tensor) -> tuple[Tensor, ...]:
        return ()

    def learn(self, statistics: tuple[Tensor, ...]) -> None:
        """Does nothing: there are no parameters to learn."""


def with_null(words_BTS: Tensor, null: float) -> Tensor:
    """[B, T, I]: the null word has probability ``null``, and the words share the rest like ``words_BTS``."""
    total_BT1 = words_BTS.sum(-1, keepdim=True)
    shares_BTS = words_BTS * ((1 - null) / total_BT1)
    return torch.cat([torch.full_like(total_BT1, null), shares_BTS], -1)


class Uniform(Independent):
    """IBM model 1 (Brown et al. 1993, section 4.1): all source words are equally probable."""

    def __init__(self, null: float = 0.1) -> None:
        super().__init__(null)

    def prior(self, block: Block) -> Tensor:
        return with_null(block.source.mask[:, None].double(), self.null)


class Lengths:
    """The K different pairs of lengths (S, T) of a corpus: ``S_K`` and ``T_K``, the columns of ``lengths_K2``, whose
    rows must be sorted.

    A table over target positions has T rows for each pair of lengths, one block after the other. ``row_K`` is the
    first row of each block, and ``rows`` is the number of all rows.
    """

    def __init__(self, lengths_K2: Tensor) -> None:
        self.S_K, self.T_K = lengths_K2.unbind(1)
        self.row_K = self.T_K.cumsum(0) - self.T_K
        self.rows = int(self.T_K.sum())

    @classmethod
    def of(cls, source_length_N: Ids, target_length_N: Ids) -> Lengths:
        both = np.unique(np.stack([source_length_N, target_length_N], 1), axis=0)
        return cls(torch.from_numpy(both[both.min(1) > 0].astype(np.int64)))

    def find(self, block: Block) -> tuple[Tensor, Tensor]:
        """The index k of each pair's lengths in ``S_K`` and ``T_K`` [B], and whether they are there [B]. An index of
        lengths that are not there has no meaning.
        """
        S_B, T_B = block.source.lengths, block.target.lengths
        if not len(self.S_K):
            return torch.zeros_like(S_B), torch.zeros_like(S_B, dtype=torch.bool)
        number_B = torch.searchsorted(self.S_K * WIDEST + self.T_K, S_B * WIDEST + T_B).clamp(max=len(self.S_K) - 1)
        return number_B, (self.S_K[number_B] == S_B) & (self.T_K[number_B] == T_B)


class Absolute(Independent):
    """IBM model 2 (Brown et al. 1993, section 4.2): a table p(i | t, S, T), counted. Its column i = 0 is the null word.

    ``null`` is the null word's probability before the first pass; it is then learned. Lengths that were not counted
    have the probabilities of ``Uniform``.
    """

    def __init__(self, null: float = 0.1) -> None:
        super().__init__(null)
        self.lengths = empty(torch.long, 2)  # [K, 2], sorted
        self.probability = empty()  # for each K a table [T, 1 + S], one after the other

    def check_tables(self) -> None:
        check_range("lengths", self.lengths, 1, WIDEST - 1)
        S_K, T_K = self.lengths.unbind(1)
        check_ascending("lengths", S_K * WIDEST + T_K)
        check_rows(int((T_K.double() * (1 + S_K)).sum()), {"probability": self.probability})

    def begin(self, source_length_N: Ids, target_length_N: Ids, source_words: int) -> None:
        lengths = Lengths.of(source_length_N, target_length_N)
        self.lengths.data = torch.stack([lengths.S_K, lengths.T_K], 1)
        S_R = lengths.S_K.repeat_interleave(lengths.T_K)
        first_R = (1 + S_R).cumsum(0) - (1 + S_R)
        self.probability.data = ((1 - self.null) / S_R.double()).repeat_interleave(1 + S_R)
        self.probability.data[first_R] = self.null

    def prior(self, block: Block) -> Tensor:
        uniform_B1I = with_null(block.source.mask[:, None].to(self.probability), self.null)
        place_BTI, counted_B = self._places(block)
        if not counted_B.any():
            return uniform_B1I
        found_BTI = self.probability[place_BTI] * (uniform_B1I > 0)
        return torch.where(counted_B[:, None, None], found_BTI, uniform_B1I)

    def statistics(self, block: Block, posterior_BTI: Tensor) -> tuple[Tensor, ...]:
        place_BTI, _ = self._places(block)
        count_C = torch.zeros_like(self.probability)
        return (count_C.index_add_(0, place_BTI.reshape(-1), posterior_BTI.reshape(-1)),)

    def learn(self, statistics: tuple[Tensor, ...]) -> None:
        (count_C,) = statistics
        lengths = Lengths(self.lengths)
        row_C = torch.arange(lengths.rows).repeat_interleave((1 + lengths.S_K).repeat_interleave(lengths.T_K))
        total_R = torch.zeros(lengths.rows, dtype=count_C.dtype).index_add_(0, row_C, count_C)
        self.probability.data = count_C / total_R[row_C]

    def _places(self, block: Block) -> tuple[Tensor, Tensor]:
        """The index in ``probability`` of each target word and source position [B, T, I], and whether the lengths of
        each pair were counted [B].

        Indices at padding, and of lengths that were not counted, have no meaning.
        """
        lengths = Lengths(self.lengths)
        number_B, counted_B = lengths.find(block)
        width_K = lengths.T_K * (1 + lengths.S_K)
        first_B = (width_K.cumsum(0) - width_K)[number_B] if len(width_K) else number_B
        t_T1 = torch.arange(block.target.values.shape[1], device=first_B.device)[:, None]
        i_I = torch.arange(1 + block.source.values.shape[1], device=first_B.device)
        place_BTI = first_B[:, None, None] + t_T1 * (1 + block.source.lengths)[:, None, None] + i_I
        return place_BTI.clamp(max=max(0, len(self.probability) - 1)), counted_B


class Diagonal(Independent):
    """p(i | t, S, T) is proportional to exp(-tension * |i / S - t / T|), words counted from 1 (Dyer et al. 2013).

    ``tension`` is the value before the first pass, from 0.1 to 50. It is then learned by Newton's method, within the
    same bounds. The null word has the probability ``null``.
    """

    def __init__(self, null: float = 0.1, tension: float = 4.0) -> None:
        super().__init__(null)
        if not LOOSE <= tension <= TIGHT:
            raise UserError(f"tension = {tension}: at least {LOOSE} and at most {TIGHT} was expected")
        self.first = tension
        self.tension = empty()  # [1]

    def check_tables(self) -> None:
        check(len(self.tension) <= 1, "tension", "one number")

    def begin(self, source_length_N: Ids, target_length_N: Ids, source_words: int) -> None:
        self.tension.data = torch.full((1,), self.first, dtype=torch.float64)
        self.lengths = Lengths.of(source_length_N, target_length_N)

    def prior(self, block: Block) -> Tensor:
        distance_BTS = _distance(block)
        weight_BTS = (-self.tension.to(distance_BTS) * distance_BTS).exp() * block.source.mask[:, None]
        return with_null(weight_BTS, self.null)

    def statistics(self, block: Block, posterior_BTI: Tensor) -> tuple[Tensor, ...]:
        """The expected sum of distances; and the expected number of target words that come from a source word [R], for
        each target position of each pair of lengths.
        """
        words_BTS = posterior_BTI[..., 1:]
        number_B, _ = self.lengths.find(block)
        row_BT = self.lengths.row_K[number_B][:, None] + torch.arange(words_BTS.shape[1])
        count_R = words_BTS.new_zeros(self.lengths.rows)
        count_R.index_add_(0, row_BT.clamp(max=self.lengths.rows - 1).reshape(-1), words_BTS.sum(-1).reshape(-1))
        return (words_BTS * _distance(block)).sum(), count_R

    def learn(self, statistics: tuple[Tensor, ...]) -> None:
        """Sets the tension by Newton steps, in place. The likelihood is concave in the tension. If a step leaves the
        interval that holds the maximum, the middle of the interval is taken instead.
        """
        total, count_R = statistics
        S_R, T_R = (column.repeat_interleave(self.lengths.T_K) for column in (self.lengths.S_K, self.lengths.T_K))
        t_R = torch.arange(len(S_R)) - self.lengths.row_K.repeat_interleave(self.lengths.T_K)
        i_S = torch.arange(1, int(S_R.max()) + 1)
        distance_RS = (i_S / S_R[:, None].double() - ((t_R + 1) / T_R.double())[:, None]).abs()
        low, high, tension = LOOSE, TIGHT, float(self.tension)
        for _ in range(NEWTON_STEPS):
            p_RS = (-tension * distance_RS).masked_fill(i_S > S_R[:, None], -torch.inf).softmax(-1)
            mean_R = (p_RS * distance_RS).sum(-1)
            slope = float(count_R @ mean_R - total)
            curve = float(count_R @ ((p_RS * distance_RS**2).sum(-1) - mean_R**2))
            low, high = (tension, high) if slope > 0 else (low, tension)
            step = tension + slope / max(curve, 1e-12)
            tension = step if low <= step <= high else (low + high) / 2
        self.tension.data = torch.full_like(self.tension, tension)


def _distance(block: Block) -> Tensor:
    """[B, T, S]: |i / S - t / T| for all target words t and source words i, both counted from 1."""
    t_BT, i_BS = (
        torch.arange(1, side.values.shape[1] + 1, device=side.lengths.device) / side.lengths[:, None].double()
        for side in (block.target, block.source)
    )
    return (i_BS[:, None] - t_BT[..., None]).abs()
