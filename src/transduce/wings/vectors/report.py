"""The page about bias: the same measures of several tables of vectors, such as before and after debiasing."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.wings.pages.markup import Markup, element, table
from transduce.wings.pages.page import document, notes, section
from transduce.wings.vectors.bias import BiasResult

EXTREMES = 10


def bias_page(results: Sequence[BiasResult]) -> str:
    """The HTML page of results that asked the same questions, one column for each."""
    names = [each.name for each in results]
    about = f"{', '.join(names)}: the same measures side by side"
    parts = [section("Measures", compared(results), notes(*EXPLANATIONS))]
    for each in results:
        if each.occupations is not None:
            parts.append(section(f"Occupations: {each.name}", _extremes(each), *_analogies(each)))
    return document("Bias of word vectors", about, *parts, summary=_summary(results))


def _summary(results: Sequence[BiasResult]) -> str:
    """The mean projection of occupations for each file of vectors, or the variance that the direction explains."""
    told = []
    for each in results:
        if each.occupations is not None:
            told.append(f"occupations of {each.name} lie {each.occupations.bias:.3f} from the middle on average")
        else:
            told.append(f"the direction explains {100 * each.variance:.0f} % of the pairs of {each.name}")
    text = "; ".join(told)
    return f"{text[:1].upper()}{text[1:]}."


def compared(results: Sequence[BiasResult]) -> Markup:
    """A table with a row for each measure and a column for each result."""
    every = zip(*(each.rows() for each in results), strict=True)
    rows = [[measures[0][0], *(value for _, value in measures)] for measures in every]
    return table(["", *(each.name for each in results)], rows)


def _extremes(result: BiasResult) -> Markup:
    assert result.occupations is not None  # the caller has checked it
    ranked = result.occupations.ranked
    he, she = ranked[:EXTREMES], ranked[::-1][:EXTREMES]
    rows = [[*_cells(one), *_cells(other)] for one, other in zip(she, he, strict=True)]
    return table(["nearest to the first words", "projection", "nearest to the second words", "projection"], rows)


def _cells(ranked: tuple[str, float]) -> list[str]:
    return [ranked[0], f"{ranked[1]:.3f}"]


def _analogies(result: BiasResult) -> list[Markup]:
    if not result.analogies:
        return [element("p", "No two occupations are near enough to be an analogy.")]
    rows = [[each.one, each.other, f"{each.cosine:.3f}"] for each in result.analogies]
    return [table(["first : x", "second : y", "cosine of x - y with the direction"], rows, "Analogies of occupations")]


EXPLANATIONS = (
    "The direction points from the second words of the pairs to the first ones.",
    "WEAT: the effect size, the one-sided p-value of a permutation test, the mean size |s| of the associations of the "
    "target words, and the words that have a vector. The effect size is relative: it can stay while |s| gets small.",
    "A correlation with stereotypes is between minus the projection and people's ratings; 0 is no bias of this kind.",
)
