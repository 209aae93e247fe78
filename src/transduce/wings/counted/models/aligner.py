"""Word aligners as models: counted from sentence pairs, in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Aligner
from transduce.core.types import Factory, Padded
from transduce.data.pairs import Pairs
from transduce.wings.counted.alignment.estimation import TwoWayCounts
from transduce.wings.counted.alignment.position import Position
from transduce.wings.counted.alignment.two_ways import TwoWays


class WordAligner(nn.Module):
    """p(target | source) and p(source | target) of sentence pairs, each the sum over all alignments of their words.

    ``position`` is the model of which words are linked. Each direction has its own. Counting begins with ``warm_up``
    passes of IBM model 1. If ``agreement`` is True, the lexicons count each link with the product of both directions'
    posteriors (Liang et al. 2006). ``prior`` is the concentration of a Dirichlet prior over the translations of each
    word (Johnson 2007); 0 gives maximum likelihood. Raises UserError if ``warm_up`` or ``prior`` is negative.
    """

    def __init__(
        self, position: Factory[Position], warm_up: int = 5, agreement: bool = True, prior: float = 0.0
    ) -> None:
        super().__init__()
        for name, value in (("warm_up", warm_up), ("prior", prior)):
            if value < 0:
                raise UserError(f"{name} = {value}: at least 0 was expected")
        self.warm_up, self.agreement, self.prior = warm_up, agreement, prior
        self.ways = TwoWays(position)

    def counts(self, pairs: Pairs) -> TwoWayCounts:
        return TwoWayCounts(self.ways, pairs, self.warm_up, self.agreement, self.prior)

    def align(self, source: Padded, target: Padded) -> Tensor:
        return self.ways.align(source, target)[0]

    def pair_log_prob(self, source: Padded, target: Padded) -> Tensor:
        both = [self.ways.align(source, target, turned)[1].double().sum(1) for turned in (False, True)]
        return both[0] + both[1]

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


@dataclass(frozen=True)
class NoSearch:
    """No search, because the model aligns two given texts and writes nothing. Each use raises UserError."""

    def __call__(self, model: Aligner, source: Padded, prefix: Padded | None = None) -> NoReturn:
        raise UserError(_reason(model))

    def force(self, model: Aligner, source: Padded, target: Padded) -> NoReturn:
        raise UserError(_reason(model))

    def resized(self, size: int | None = None, nbest: int | None = None) -> NoReturn:
        raise UserError("a word aligner has no search: use `transduce align RUN FILE`")


def _reason(model: Aligner) -> str:
    return (
        "this model aligns two given texts, and neither writes nor scores outputs: use "
        "`transduce align RUN FILE`, or `transduce predict OTHER-RUN --alignments --aligner RUN`"
    )
