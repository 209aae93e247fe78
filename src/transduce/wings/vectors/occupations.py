"""Occupations on a direction: which ones lie far out, and which pairs are analogies of she and he."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transduce.core.errors import UserError
from transduce.wings.vectors.correlation import Estimate, estimate, pearson
from transduce.wings.vectors.direction import projections, read_json
from transduce.wings.vectors.table import Floats, Vectors

FARTHEST = 1.0  # between the unit vectors of the two words of an analogy (Bolukbasi et al. 2016)


class Occupation(NamedTuple):
    """An occupation and people's ratings of it from -1 (she) to 1 (he): by definition and by stereotype. NaN means that
    there is no rating.
    """

    word: str
    definition: float = math.nan
    stereotype: float = math.nan


@dataclass(frozen=True)
class OccupationResult:
    """The projections of occupations on a direction. ``bias`` is the mean of their sizes (the direct bias of Bolukbasi
    et al. 2016, with c = 1). ``agreement`` is Pearson's correlation of minus the projection with people's ratings of
    stereotype; NaN without ratings. ``ranked`` has the known occupations with their projections, the lowest first.
    """

    occupations: int
    bias: float
    agreement: Estimate
    ranked: tuple[tuple[str, float], ...]


class OccupationAnalogy(NamedTuple):
    """she : one = he : other, with the cosine of the two differences."""

    one: str
    other: str
    cosine: float


def read_occupations(path: str | Path) -> list[Occupation]:
    """The occupations of a JSON file: an array of words, or of [word, definition, stereotype]. Raises UserError for
    another form.
    """
    found = read_json(path, "occupations")
    try:
        rows = [[each] if isinstance(each, str) else each for each in found]
        return [Occupation(str(word), *map(float, ratings)) for word, *ratings in rows]
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{path}: a JSON array of occupations was expected, words or [word, definition, stereotype] ({error})"
        ) from error


def occupations(vectors: Vectors, direction_D: Floats, listed: Sequence[Occupation]) -> OccupationResult:
    """Projects occupations on a direction whose positive side is "she". Occupations without a vector are left out.
    Raises UserError if none is left.
    """
    known = [(each, place) for each in listed if (place := vectors.place(each.word)) is not None]
    if not known:
        raise UserError(f"{vectors.name} has none of the {len(listed)} occupations: give words of its vocabulary")
    on_N = projections(vectors, direction_D, [place for _, place in known])
    rating_N = np.array([each.stereotype for each, _ in known])
    rated = ~np.isnan(rating_N)
    ranked = sorted(
        ((each.word, float(on)) for (each, _), on in zip(known, on_N, strict=True)), key=lambda pair: pair[1]
    )
    agreement = estimate(pearson, -on_N[rated], rating_N[rated])
    return OccupationResult(len(listed), float(np.abs(on_N).mean()), agreement, tuple(ranked))


def occupation_analogies(
    vectors: Vectors, direction_D: Floats, listed: Sequence[Occupation], k: int = 10, farthest: float = FARTHEST
) -> list[OccupationAnalogy]:
    """The ``k`` pairs (x, y) of occupations whose difference x - y is most parallel to the direction. They read: she is
    to x as he is to y. The best pairs come first.

    Only pairs whose unit vectors are at most ``farthest`` apart are compared (Bolukbasi et al. 2016, section 4). A word
    is x in at most one pair, and y in at most one pair.
    """
    places = sorted(set(vectors.places(each.word for each in listed)))
    unit_ND = vectors.unit_VD[places].astype(np.float64)
    on_N = unit_ND @ (direction_D / np.linalg.norm(direction_D))
    squared_NN = (2 - 2 * unit_ND @ unit_ND.T).clip(min=0)
    length_NN = np.sqrt(squared_NN)
    near_NN = (length_NN <= farthest) & (length_NN > 1e-6)
    cosine_NN = np.where(near_NN, (on_N[:, None] - on_N[None]) / np.where(near_NN, length_NN, 1), -np.inf)
    found: list[OccupationAnalogy] = []
    while len(found) < k and cosine_NN.size and np.isfinite(cosine_NN.max()):
        x, y = np.unravel_index(int(cosine_NN.argmax()), cosine_NN.shape)
        found.append(OccupationAnalogy(vectors.words[places[x]], vectors.words[places[y]], float(cosine_NN[x, y])))
        cosine_NN[x], cosine_NN[:, y] = -np.inf, -np.inf
    return found
