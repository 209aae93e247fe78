"""Directions in the space of word vectors, such as gender, and the projections of words on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from transduce.core.errors import UserError
from transduce.wings.vectors.table import Floats, Vectors, normalised

Kind = Literal["pca", "mean"]
Pair = tuple[str, str]


def direction(vectors: Vectors, pairs: Sequence[Pair], kind: Kind = "pca") -> Floats:
    """The unit vector [D] of a direction that pairs of words define, such as (woman, man), (she, he).

    All vectors are divided by their lengths first. The ``kind`` "mean" is the mean of the differences of the pairs.
    The ``kind`` "pca" is the first principal component of the words, after the mean of its pair is subtracted from each
    word (Bolukbasi et al. 2016, section 5). The first words of the pairs lie on the positive side. Pairs with a word
    that has no vector are left out. Raises UserError if no pair is left, or if the words of all pairs have equal
    vectors.
    """
    difference_PD = differences(vectors, pairs)
    if kind == "mean":
        found_D = difference_PD.mean(0)
    else:  # each pair has the rows +d/2 and -d/2, so the component of the differences is the same
        _, _, component_DD = np.linalg.svd(difference_PD, full_matrices=False)
        found_D = component_DD[0]
        found_D = found_D * np.sign(difference_PD.mean(0) @ found_D or 1.0)
    if not np.abs(difference_PD).max() or not np.linalg.norm(found_D):
        raise UserError("the pairs define no direction: their words have equal vectors; give other pairs")
    return normalised(found_D)


def explained(vectors: Vectors, pairs: Sequence[Pair]) -> Floats:
    """The share of the variance of the centred words that each principal component explains, the largest first."""
    singular = np.linalg.svd(differences(vectors, pairs), compute_uv=False)
    share: Floats = singular**2 / (singular**2).sum()
    return share


def differences(vectors: Vectors, pairs: Sequence[Pair]) -> Floats:
    """The differences [P, D] of the unit vectors of P pairs of words, first minus second, in float64. Pairs with a word
    that has no vector are left out. Raises UserError if no pair is left.
    """
    unit_VD = vectors.unit_VD
    rows = [(vectors.place(one), vectors.place(other)) for one, other in pairs]
    kept = [(one, other) for one, other in rows if one is not None and other is not None]
    if not kept:
        raise UserError(f"{vectors.name} has none of the {len(pairs)} pairs of words: give pairs of its vocabulary")
    one_P, other_P = np.array(kept).T
    found: Floats = unit_VD[one_P].astype(np.float64) - unit_VD[other_P]
    return found


def projections(vectors: Vectors, direction_D: Floats, places: Sequence[int]) -> Floats:
    """The cosines [N] of N words, given by their rows, with a direction."""
    return vectors.unit_VD[list(places)].astype(np.float64) @ normalised(direction_D)


def read_json(path: str | Path, what: str) -> Any:
    """The JSON value of a file. ``what`` describes the expected contents in messages. Raises UserError if the file is
    missing or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {what} expected ({error})") from error


def read_word_pairs(path: str | Path) -> list[Pair]:
    """The pairs of words of a JSON file: [["woman", "man"], ["she", "he"]]. Raises UserError for another form."""
    found = read_json(path, "pairs of words")
    if not isinstance(found, list) or not found or not all(_is_pair(each) for each in found):
        raise UserError(f'{path}: pairs of words were expected, as a JSON array: [["woman", "man"], ["she", "he"]]')
    return [(one, other) for one, other in found]


def read_words(path: str | Path) -> list[str]:
    """The words of a JSON file: ["actress", "aunt"]. Raises UserError for another form."""
    found = read_json(path, "words")
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise UserError(f'{path}: words were expected, as a JSON array: ["actress", "aunt"]')
    return found


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(word, str) for word in value)
