"""A tag for each word: CRFsuite with twenty usual features."""

from __future__ import annotations

from typing import Any

from sklearn_crfsuite import CRF

from simple_methods.base import Examples, Splits, outputs, sources, targets
from transduce.core.types import Prediction

Words = list[str]
EDGES = ("^", "$")


def perceptron(data: Splits) -> list[Prediction]:
    """The averaged perceptron."""
    return tagged(data, CRF(algorithm="ap", max_iterations=20, all_possible_transitions=True))


def random_field(data: Splits) -> list[Prediction]:
    """The conditional random field, with a little regularisation."""
    return tagged(data, CRF(algorithm="lbfgs", c1=0.1, c2=0.01, max_iterations=100, all_possible_transitions=True))


def tagged(data: Splits, model: Any) -> list[Prediction]:
    model.fit(_features(data.train), [target.split() for target in targets(data.train)])
    return outputs([" ".join(tags) for tags in model.predict(_features(data.test))])


def _features(examples: Examples) -> list[list[Words]]:
    return [[features(words, place) for place in range(len(words))] for words in map(str.split, sources(examples))]


def features(words: Words, place: int) -> Words:
    """Twenty features with a constant: the word, its ends and its shape, and two words on either side."""
    word = words[place]
    padded = [EDGES[0], EDGES[0], *(each.lower() for each in words), EDGES[1], EDGES[1]]
    two, one, own, following, after = padded[place : place + 5]
    found = {f"-{size}": word[-size:].lower() for size in (1, 2, 3, 4)} | {f"{n}-": word[:n].lower() for n in (1, 2, 3)}
    found |= {"w": own, "-2w": two, "-1w": one, "+1w": following, "+2w": after}
    found |= {"-1w,w": f"{one} {own}", "w,+1w": f"{own} {following}", "-1-3": one[-3:], "+1-3": following[-3:]}
    found |= {"shape": shape(word), "first": str(word[:1].isupper()), "digit": str(any(map(str.isdigit, word)))}
    return [f"{name}={value}" for name, value in found.items()] + ["bias"]


def shape(word: str) -> str:
    """Capital letters as X, small ones as x, digits as 0; equal neighbours once: "McDonald's" is XxXx'x."""
    kinds = ["X" if each.isupper() else "x" if each.isalpha() else "0" if each.isdigit() else each for each in word]
    return "".join(kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before)
