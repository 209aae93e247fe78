"""Word aligners as models: counted from sentence pairs, in both directions."""

from __future__ import annotations

from torch import Tensor, nn

from transduce.data.pairs import Pairs
from transduce.statistical.alignment.estimation import TwoWayCounts
from transduce.statistical.alignment.position import Position
from transduce.statistical.alignment.two_ways import TwoWays
from transduce.types import Factory, Padded


class WordAligner(nn.Module):
    """p(target | source) and p(source | target) of sentence pairs, each the sum over all alignments of their words.

    ``position`` is the model of which words are linked: ``Uniform`` (IBM model 1), ``Absolute`` (IBM model 2),
    ``Diagonal``, ``Jumps`` (a hidden Markov model) or ``Fertility``. Each direction has its own. ``TwoWayCounts``
    explains ``warm_up``, ``agreement`` and ``prior``.
    """

    def __init__(
        self, position: Factory[Position], warm_up: int = 5, agreement: bool = True, prior: float = 0.0
    ) -> None:
        super().__init__()
        self.warm_up, self.agreement, self.prior = warm_up, agreement, prior
        self.ways = TwoWays(position)

    def counts(self, pairs: Pairs) -> TwoWayCounts:
        return TwoWayCounts(self.ways, pairs, self.warm_up, self.agreement, self.prior)

    def align(self, source: Padded, target: Padded) -> Tensor:
        return self.ways.align(source, target)[0]

    def reverse(self) -> Reverse:
        return Reverse(self.ways)


class Reverse(nn.Module):
    """The other direction of a ``WordAligner``, with the same parameters: ``align`` takes the aligner's target as its
    source.
    """

    def __init__(self, ways: TwoWays) -> None:
        super().__init__()
        self.ways = ways

    def align(self, source: Padded, target: Padded) -> Tensor:
        return self.ways.align(target, source, turned=True)[0]
