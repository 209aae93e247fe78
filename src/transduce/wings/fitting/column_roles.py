"""Which columns of a table are the source and the target: by their names or by their content."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.core.errors import UserError
from transduce.data.notices import NAMES

FEW = 200  # largest number of labels
SOURCE_NAMES = """
    audio file grapheme graphemes image input lemma path question sentence source source_text src text word words
"""
TARGET_NAMES = """
    answer category class form inflected ipa label output phoneme phonemes pronunciation sentiment summary tag tags
    target target_text tgt topic transcription translation
"""


def choose_columns(
    cells: Sequence[Sequence[str]], path: str, header: Sequence[str] | None = None
) -> tuple[list[int], str, list[str]]:
    """Which columns are the source and the target, by their content: their numbers, the form of the pairs, and lines
    for people. ``cells`` are the columns.

    One column is text alone. Of two, a column of few labels is the target. If one of three columns has features
    ("V;PST;3;SG"), the others are a word and its form. Raises UserError for other columns, unless a header names a
    source and a target.
    """
    if header and (named := _by_name(header)) is not None:
        return named, "text", []
    if len(cells) == 1:
        return [0], "text", []
    if len(cells) == 2:
        labels = [_label_like(column, other) for column, other in ((cells[0], cells[1]), (cells[1], cells[0]))]
        if labels[0] and not labels[1]:
            return [1, 0], "text", []
        return [0, 1], "text", []
    features = [place for place, column in enumerate(cells) if _feature_like(column)]
    if len(cells) == 3 and len(features) == 1:
        source, target = (place for place in range(3) if place != features[0])
        names = [header[place] if header else str(place) for place in (source, features[0], target)]
        why = f"{path}: column {names[1]} has features, {names[0]} the words and {names[2]} their forms"
        return [source, target, features[0]], "features", [why]
    shown = ", ".join(header) if header else f"0 to {len(cells) - 1}"
    raise UserError(
        f"{path} has {len(cells)} columns ({shown}): choose two, --source COLUMN --target COLUMN (and --labels COLUMN "
        "for features or labels before the source)"
    )


def _by_name(header: Sequence[str]) -> list[int] | None:
    """The columns of the source and the target, if exactly one column each has a name that says so."""
    lowered = [name.lower().strip() for name in header]
    both = SOURCE_NAMES.split(), TARGET_NAMES.split()
    found = [[place for place, name in enumerate(lowered) if name in known] for known in both]
    return [found[0][0], found[1][0]] if all(len(places) == 1 for places in found) else None


def _label_like(column: Sequence[str], other: Sequence[str]) -> bool:
    """True if the cells are few labels that occur again and again beside different texts."""
    return _labels(column) and 2 * len(set(column)) < len(set(other))


def _labels(column: Sequence[str]) -> bool:
    """True if the cells are few texts that occur again and again."""
    return len(set(column)) <= min(FEW, len(column) / 4)


def _feature_like(column: Sequence[str]) -> bool:
    """True if the cells are symbols between ";" or "|", or few words in capitals."""
    separated = sum(";" in cell or "|" in cell or cell.isupper() for cell in column)
    spaces = sum(" " in cell for cell in column)
    return separated > 0.9 * len(column) and spaces < 0.1 * len(column) and len(set(column)) < 0.8 * len(column) + 3


def has_header(rows: Sequence[Sequence[str]], expected: bool = False) -> bool:
    """True if the first row names columns. Each of its cells is a usual name, or one is and the others are single
    words. No cell occurs again in its column. If a header is ``expected``, as in CSV, single words are enough.
    """
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    first = [cell.strip() for cell in rows[0]]
    known = [f" {cell.lower().replace(' ', '_')} " in NAMES for cell in first]
    words = all(cell and not any(c.isspace() for c in cell) and cell[0].isalpha() for cell in first)
    again = any(len(row) > place and row[place] == cell for place, cell in enumerate(first) for row in rows[1:])
    return (all(known) or ((any(known) or expected) and words)) and not again


def roles(path: str, named: Sequence[str | int], pairs: Sequence[tuple[str, str]]) -> list[str]:
    """A line about which column is the source and which the target, with the options that choose otherwise. ``named``
    are both columns, by name or number; for one column or three nothing is told.
    """
    if len(named) != 2:
        return []
    source, target = (
        f"the column {each}" if isinstance(each, str) else f"the {('first', 'second')[each]} column" for each in named
    )
    targets = [each for _, each in pairs]
    label = f" (a label: {len(set(targets)):,} different)" if _labels(targets) else ""
    reverse = f"--source {named[1]} --target {named[0]}"
    return [f"{path}: {source} is the source, {target} is the target{label}; if it is the reverse: {reverse}"]
