"""The bias of word vectors in one result: the direction, the occupations on it, WEAT, and the remaining similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transduce.wings.vectors.association import Association, Test, weat
from transduce.wings.vectors.correlation import Estimate
from transduce.wings.vectors.direction import Kind, Pair, direction, explained
from transduce.wings.vectors.occupations import (
    Occupation,
    OccupationAnalogy,
    OccupationResult,
    occupation_analogies,
    occupations,
)
from transduce.wings.vectors.similarity import ScoredPair, SimilarityResult, similarity
from transduce.wings.vectors.table import Floats, Vectors


@dataclass(frozen=True)
class Questions:
    """The inputs of the measures. ``pairs`` and ``kind`` define the direction (see ``direction``). ``listed`` are
    occupations, ``tests`` are WEAT tests, and ``similarities`` are scored pairs of words by name. Each of these three
    may be empty.
    """

    pairs: Sequence[Pair]
    kind: Kind = "pca"
    listed: Sequence[Occupation] = ()
    tests: Sequence[Test] = ()
    similarities: Mapping[str, Sequence[ScoredPair]] | None = None

    @property
    def words(self) -> set[str]:
        """All words that the measures need."""
        of_tests = (word for test in self.tests for part in (test.x, test.y, test.a, test.b) for word in part)
        of_pairs = (word for pair in self.pairs for word in pair)
        scored = (word for each in (self.similarities or {}).values() for pair in each for word in pair[:2])
        return {*of_tests, *of_pairs, *scored, *(each.word for each in self.listed)}


@dataclass(frozen=True)
class Figure:
    """A figure of a task that uses the vectors. Tables show it multiplied by ``factor``, which is 100 for percent."""

    name: str
    value: Estimate
    factor: float = 1.0


@dataclass(frozen=True)
class BiasResult:
    """The bias of the vectors ``name``.

    ``variance`` is the share of the variance of the pairs that their first principal component explains.
    ``occupations`` has the projections of occupations on the vectors' own direction. ``first`` is the mean size of
    their projections on the direction of the first vectors that were measured. If no occupations were given, both are
    None, and ``analogies`` is empty. ``tasks`` has the figures of tasks that use the vectors.
    """

    name: str
    variance: float
    occupations: OccupationResult | None
    first: float | None
    analogies: tuple[OccupationAnalogy, ...]
    associations: tuple[Association, ...]
    similarities: tuple[SimilarityResult, ...]
    tasks: tuple[Figure, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """The result as pairs of a measure and its value. Results of the same questions have the same measures, in the
        same order.
        """
        found = [("variance of the pairs on the direction, %", f"{100 * self.variance:.1f}")]
        if self.occupations is not None:
            known = f"{len(self.occupations.ranked)} of {self.occupations.occupations}"
            found += [
                ("occupations with a vector", known),
                ("their mean |projection| on the direction", f"{self.occupations.bias:.4f}"),
                ("the same on the direction of the first vectors", "-" if self.first is None else f"{self.first:.4f}"),
                ("correlation with people's stereotypes", _with_interval(self.occupations.agreement)),
            ]
        for each in self.associations:
            x, y, a, b = each.test.categories
            p = f"p = {each.p:.4g}{'' if each.exact else ' (sampled)'}"
            known = f"{each.known} of {each.words} words"
            effect = "-" if each.effect != each.effect else f"{each.effect:.2f}, {p}, |s| {each.size:.3f}"
            found.append((f"{each.test.name}: {x} and {y}, {a} and {b}", f"{effect}, {known}"))
        for similar in self.similarities:
            found.append((f"Spearman on {similar.name} ({similar.used} pairs)", _with_interval(similar.spearman)))
        found += [(each.name, _with_interval(each.value, each.factor)) for each in self.tasks]
        return found

    def as_json(self) -> dict[str, object]:
        """The result as values for JSON."""
        return {
            "name": self.name,
            "variance": self.variance,
            "occupations": self.occupations
            and {
                "bias": self.occupations.bias,
                "bias_on_first": self.first,
                "agreement": self.occupations.agreement._asdict(),
                "ranked": self.occupations.ranked,
            },
            "analogies": [each._asdict() for each in self.analogies],
            "weat": [
                {"test": each.test.name, "effect": each.effect, "size": each.size, "p": each.p, "exact": each.exact}
                for each in self.associations
            ],
            "similarity": [
                {"name": each.name, "used": each.used, "spearman": each.spearman._asdict()}
                for each in self.similarities
            ],
            "tasks": [{"name": each.name, **each.value._asdict()} for each in self.tasks],
        }


def bias(
    vectors: Vectors, questions: Questions, name: str, first_D: Floats | None = None, extremes: int = 10
) -> BiasResult:
    """Computes all measures of ``questions`` on the vectors. ``first_D`` is the direction of the first vectors, which
    may be the same vectors; None leaves out its measure. ``extremes`` is the number of analogies of occupations. Raises
    UserError if the vectors have none of the pairs, or none of the occupations.
    """
    along_D = direction(vectors, questions.pairs, questions.kind)
    listed = questions.listed
    return BiasResult(
        name,
        float(explained(vectors, questions.pairs)[0]),
        occupations(vectors, along_D, listed) if listed else None,
        occupations(vectors, first_D, listed).bias if listed and first_D is not None else None,
        tuple(occupation_analogies(vectors, along_D, listed, extremes)) if listed else (),
        tuple(weat(vectors, test) for test in questions.tests),
        tuple(similarity(vectors, each, each_name) for each_name, each in (questions.similarities or {}).items()),
    )


def _with_interval(found: Estimate, factor: float = 1.0) -> str:
    if found.value != found.value:
        return "-"
    value, low, high = (f"{factor * part:.{1 if factor > 1 else 3}f}" for part in found)
    return f"{value} ({low} to {high})"
