"""The rank of a true target among other targets, by a model or by several."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from transduce.answers.answer import Answer
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.types import Example
from transduce.wings.combining.reranking.base import Reranker


@dataclass(frozen=True)
class Ranks:
    """The ``ranks`` of true targets, from 1 for the best, each among ``choices`` targets."""

    ranks: Sequence[int]
    choices: int

    def first(self, k: int = 1) -> float:
        """The share of true targets among the first ``k``, from 0 to 1. By chance it is k / ``choices``."""
        return sum(rank <= k for rank in self.ranks) / len(self.ranks)

    @property
    def mean_reciprocal(self) -> float:
        """The mean of 1 / rank."""
        return sum(1 / rank for rank in self.ranks) / len(self.ranks)


def ranks(
    transducer: Transducer,
    examples: Sequence[Example],
    reranker: Reranker,
    others: int = 9,
    seed: int = 1,
    batch_size: int = 64,
) -> Ranks:
    """Ranks the first reference of each example among ``others`` targets, drawn from the other examples. The targets
    are scored by ``transducer`` and ordered by ``reranker``.

    The targets of a choice have different texts. Equal scores count against the true target. ``seed`` decides the
    draws. Raises UserError if ``others`` is below 1, or if the examples have too few different targets.
    """
    targets = [example.references[0] for example in examples]
    if not 1 <= others < len(set(targets)):
        raise UserError(
            f"others = {others}: the examples have {len(set(targets)):,} different targets, so 1 to "
            f"{max(1, len(set(targets)) - 1):,} others can be drawn for each"
        )
    chosen = [list(texts) for texts in _choices(targets, others, random.Random(seed))]
    sources = [example.source for example in examples]
    pairs = ((source, text) for source, texts in zip(sources, chosen, strict=True) for text in texts)
    scored = transducer.score(pairs, batch_size)
    answers = [
        Answer(Request(source), [replace(next(scored), text=text) for text in texts])
        for source, texts in zip(sources, chosen, strict=True)
    ]
    return Ranks([_rank(answer, texts[0]) for answer, texts in zip(reranker(answers), chosen, strict=True)], 1 + others)


def _choices(targets: Sequence[str], others: int, generator: random.Random) -> Iterator[Sequence[str]]:
    """Yields for each target the different texts to choose from: the target, then ``others`` drawn ones."""
    for target in targets:
        texts = {target: None}
        while len(texts) <= others:
            texts[generator.choice(targets)] = None
        yield [*texts]


def _rank(answer: Answer, true: str) -> int:
    (score,) = (output.score for output in answer.outputs if output.text == true)
    return sum(output.score >= score for output in answer.outputs)
