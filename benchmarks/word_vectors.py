"""Compares word vectors with each other and with random vectors, by similarity, analogies and misspellings.

The random vectors have the words of the first file. Pairs and questions with a word that has no vector of its own are
left out, except in the columns "with subwords", which are for files with subwords. A misspelling without a vector
counts as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from report import Report

from transduce.wings.vectors.analogies import analogies, read_questions
from transduce.wings.vectors.correlation import Estimate
from transduce.wings.vectors.files import load
from transduce.wings.vectors.misspellings import misspellings, random_vectors, read_misspellings
from transduce.wings.vectors.similarity import read_pairs, similarity
from transduce.wings.vectors.table import Vectors

SYNTACTIC = "gram"  # the names of syntactic sections in questions-words.txt begin so


def written(found: Estimate, factor: float = 1.0) -> str:
    """An estimate with its interval; "-" if there is none."""
    if found.value != found.value:
        return "-"
    digits = 1 if factor == 100 else 3
    value, low, high = (f"{factor * part:.{digits}f}" for part in found)
    return f"{value} ({low} to {high})"


def table(heading: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of Markdown under its heading; the first row has the titles."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [f"## {heading}", "", lines[0], "|" + " --- |" * len(rows[0]), *lines[1:], ""]


def similarities(vectors: Mapping[str, Vectors], files: Sequence[Path]) -> list[str]:
    """A table with Spearman's correlation for each data set and each table of vectors."""
    with_subwords = {name: each for name, each in vectors.items() if each.subwords is not None}
    rows = [["pairs", "all", "known", *vectors, *(f"{name}, with subwords" for name in with_subwords)]]
    for path in sorted(files):
        pairs = read_pairs(path)
        own = [similarity(each, pairs) for each in vectors.values()]
        more = [similarity(each, pairs, unknown="subwords") for each in with_subwords.values()]
        known = f"{100 * own[0].coverage:.0f} %"
        cells = [written(each.spearman) for each in (*own, *more)]
        rows.append([path.name.split(".")[0], str(len(pairs)), known, *cells])
    return table("Similarity: Spearman's correlation (95 %)", rows)


def answers(vectors: Mapping[str, Vectors], file: Path) -> list[str]:
    """A table with the accuracy of semantic and syntactic analogies by both scores."""
    sections = read_questions(file)
    parts = {
        "semantic": {name: each for name, each in sections.items() if not name.startswith(SYNTACTIC)},
        "syntactic": {name: each for name, each in sections.items() if name.startswith(SYNTACTIC)},
    }
    rows = [["questions", "all", "covered", *(f"{name}, {way}" for name in vectors for way in ("3CosAdd", "3CosMul"))]]
    for part, chosen in parts.items():
        totals = [analogies(each, chosen, way)[-1] for each in vectors.values() for way in ("add", "mul")]
        covered = f"{100 * totals[0].covered / totals[0].questions:.0f} %"
        rows.append([part, str(totals[0].questions), covered, *(written(each.accuracy, 100) for each in totals)])
    return table("Analogies: accuracy on covered questions, % (95 %)", rows)


def corrections(vectors: Mapping[str, Vectors], file: Path) -> list[str]:
    """A table that tells how often the right word is near its misspelling."""
    pairs = read_misspellings(file)
    rows = [["vectors", "pairs", "right word has a vector", "misspelling has one", "nearest, %", "among ten, %"]]
    for name, each in vectors.items():
        found = misspellings(each, pairs)
        counts = [str(found.pairs), str(found.reachable), str(found.covered)]
        rows.append([name, *counts, *(written(share, 100) for share in found.accuracy)])
    chance = f"{100 * found.chance:.2f}"
    return table(f"Misspellings of {file.name}; ten random words have the right one in {chance} %", rows)


def main(
    report: Report, vectors: Sequence[Path], *, similarity: Sequence[Path], analogies: Path, misspellings: Path
) -> None:
    opened = {path.name: load(path) for path in vectors}
    every = {**opened, "random": random_vectors(next(iter(opened.values())))}
    report.tell(*similarities(every, similarity), *answers(every, analogies), *corrections(every, misspellings))
