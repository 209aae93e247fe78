"""Word aligners that learn from the same pairs that they align, without a run directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.stages import counted
from transduce.core.types import Factory
from transduce.data.pairs import Pairs, Ragged
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Symbols
from transduce.search.greedy import Greedy
from transduce.wings.counted.alignment.estimation import TwoWayCounts
from transduce.wings.counted.alignment.fertility import Fertility
from transduce.wings.counted.alignment.jumps import Jumps
from transduce.wings.counted.alignment.position import Absolute, Diagonal, Position, Uniform
from transduce.wings.counted.models.aligner import WordAligner


@dataclass(frozen=True)
class Recipe:
    """The training of a word aligner: ``warm_up`` passes of IBM model 1, then ``passes`` of the aligner itself.
    ``position`` makes its model of positions. ``TwoWayCounts`` explains ``agreement``.
    """

    position: Factory[Position]
    warm_up: int = 5
    passes: int = 5
    agreement: bool = False


RECIPES: Mapping[str, Recipe] = {
    "ibm1": Recipe(Uniform, warm_up=0, passes=10),
    "ibm2": Recipe(Absolute),
    "diagonal": Recipe(Diagonal, agreement=True),
    "hmm": Recipe(Jumps, agreement=True),
    "fertility": Recipe(Fertility, agreement=True),
}
"""The models of ``transduce align --model``."""


def learn_aligner(
    pairs: Sequence[tuple[str, str]],
    model: str = "hmm",
    further: Iterable[tuple[str, str]] = (),
    passes: int | None = None,
) -> Transducer:
    """Returns a word aligner, as a transducer, that has learned from ``pairs`` of a source and a target text, and from
    ``further`` pairs.

    White space separates words. Upper and lower case count as equal. ``model`` is a name in ``RECIPES``. ``passes``
    replaces its number of passes, but not the passes of the warm-up. Raises UserError for another name, for fewer than
    one pass, and if no pair has words on both sides.
    """
    if model not in RECIPES:
        raise UserError(f"model = {model!r}: one of {', '.join(RECIPES)} was expected")
    recipe = RECIPES[model]
    if passes is not None and passes < 1:
        raise UserError(f"passes = {passes}: at least 1 was expected")
    every = [*pairs, *further]
    tokenizers, aligner, counts = count_pairs(every, replace(recipe, passes=passes or recipe.passes))
    counts.store()
    longest = max((1 + len(source.split()) for source, _ in every), default=1)
    return Transducer(aligner.eval(), Greedy(), tokenizers, max_source_length=longest)


def count_pairs(pairs: Sequence[tuple[str, str]], recipe: Recipe) -> tuple[Tokenizers, WordAligner, TwoWayCounts]:
    """The tokenizers of both sides, and a word aligner with its counts after all passes of ``recipe`` over ``pairs``.

    ``TwoWayCounts.directions`` has the links of these pairs. The counts are not yet stored in the aligner.
    """
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    tokenizers = Tokenizers(*(Symbols(lowercase=True).learn(side) for side in sides))
    rows = [tokenizer.encode(side) for tokenizer, side in zip(tokenizers.both, sides, strict=True)]
    aligner = WordAligner(recipe.position, recipe.warm_up, recipe.agreement)
    counts = aligner.counts(Pairs(_ragged(rows[0]), _ragged(rows[1])))
    for _ in counted(range(recipe.passes), "passes"):
        counts.reestimate()
    return tokenizers, aligner, counts


def _ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    offsets = np.cumsum([0, *map(len, rows)])
    return Ragged(np.array([id for row in rows for id in row], np.int64), offsets)
