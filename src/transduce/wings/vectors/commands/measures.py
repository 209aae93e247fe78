"""``transduce vectors similarity``, ``analogies`` and ``misspellings``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.core.errors import UserError
from transduce.wings.vectors.commands.options import AsJson, ExactCase, VectorOptions, show, show_json, written

if TYPE_CHECKING:
    from transduce.wings.vectors.correlation import Estimate


def similarity(
    opened: VectorOptions,
    files: Annotated[list[Path], typer.Argument(help="Files of pairs: word, word, score, separated by tabs.")],
    unknown: Annotated[
        str,
        typer.Option(help="Pairs with a word without a vector: skip them, count them as zero, or use subwords."),
    ] = "skip",
    exact_case: ExactCase = False,
    as_json: AsJson = False,
) -> None:
    """Correlate cosines with the scores that people gave to pairs of words: Spearman, Pearson and coverage."""
    from transduce.wings.vectors.similarity import Unknown, read_pairs
    from transduce.wings.vectors.similarity import similarity as measure

    choices = Unknown.__args__  # type: ignore[attr-defined]
    if unknown not in choices:
        raise UserError(f"--unknown {unknown!r}: expected {', '.join(choices)}")
    pairs = {_stem(path): read_pairs(path) for path in files}
    wanted = {word for each in pairs.values() for pair in each for word in pair[:2]}
    vectors = opened.open(wanted)
    case = not exact_case
    results = [measure(vectors, each, name, unknown, case) for name, each in pairs.items()]  # type: ignore[arg-type]
    if as_json:
        show_json([{**asdict(r), "spearman": _json(r.spearman), "pearson": _json(r.pearson)} for r in results])
        return
    rows = [["pairs", "all", "known", "used", "Spearman (95 %)", "Pearson (95 %)"]]
    for each in results:
        counts = [str(each.pairs), f"{100 * each.coverage:.1f} %", str(each.used)]
        rows.append([each.name, *counts, written(each.spearman), written(each.pearson)])
    show(rows, [f"Pairs with an unknown word: {unknown}. Intervals: bootstrap over pairs."])


def analogies(
    opened: VectorOptions,
    questions: Annotated[Path, typer.Argument(help="Questions in the form of word2vec's questions-words.txt.")],
    exact_case: ExactCase = False,
    as_json: AsJson = False,
) -> None:
    """Answer a : b = c : ? by 3CosAdd and by 3CosMul, and write the accuracy of each section."""
    from transduce.wings.vectors.analogies import METHODS, read_questions
    from transduce.wings.vectors.analogies import analogies as answer

    sections = read_questions(questions)
    vectors = opened.open()
    by_method = {method: answer(vectors, sections, method, not exact_case) for method in METHODS}
    if as_json:
        show_json(
            {
                method: [asdict(each) | {"accuracy": _json(each.accuracy)} for each in found]
                for method, found in by_method.items()
            }
        )
        return
    rows = [["section", "questions", "covered", "3CosAdd % (95 %)", "3CosMul % (95 %)"]]
    for add, mul in zip(*by_method.values(), strict=True):
        both = [written(each.accuracy, 1, 100) for each in (add, mul)]
        rows.append([add.name, str(add.questions), str(add.covered), *both])
    show(rows, [f"Questions with an unknown word are left out. Chance: {100 / len(vectors):.4f} %."])


def misspellings(
    opened: VectorOptions,
    pairs: Annotated[Path, typer.Argument(help="Lines of a misspelling, a tab and the right word.")],
    as_json: AsJson = False,
) -> None:
    """Tell how often the right word is among the nearest words of a misspelling."""
    from transduce.wings.vectors.misspellings import misspellings as measure
    from transduce.wings.vectors.misspellings import read_misspellings

    found = measure(opened.open(), read_misspellings(pairs))
    first, ten = found.accuracy
    if as_json:
        show_json(asdict(found) | {"accuracy": {"1": _json(first), "10": _json(ten)}})
        return
    show(
        [
            ["pairs", str(found.pairs)],
            ["right word has a vector", str(found.reachable)],
            ["misspelling has one too", str(found.covered)],
            ["right word is the nearest, % of those with a vector", written(first, 1, 100)],
            ["right word is among the ten nearest, %", written(ten, 1, 100)],
            ["among ten random words, %", f"{100 * found.chance:.4f}"],
        ]
    )


def _stem(path: Path) -> str:
    return path.name.split(".")[0]


def _json(estimate: Estimate) -> dict[str, object]:
    return dict(estimate._asdict())
