"""Changed sources, and what is odd about the model's output for them.

A change is a function of a source and a random generator. It returns the changed source, or None if the source cannot
be changed so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from transduce.wings.looking.examination.said import Said, bare, similarity, words

FULL_STOPS = ".。।؟?!"
JOINED = 8  # sources in one very long source

Change = Callable[[str, Random], str | None]
Judge = Callable[[Said, Said], bool | None]  # of the outputs for the unchanged source and for the changed one


@dataclass(frozen=True)
class Probe:
    """A way to change sources, and how to judge the outputs. ``meaning`` says what a case is."""

    name: str
    meaning: str
    change: Change
    odd: Judge


def swapped(source: str, random: Random) -> str | None:
    """The source with two neighbouring letters exchanged inside one word, as a typing error. None if no word has two
    different neighbours among its letters.
    """
    places = [n for n in range(1, len(source) - 1) if source[n : n + 2].isalpha() and source[n] != source[n + 1]]
    if not places:
        return None
    at = random.choice(places)
    return source[:at] + source[at + 1] + source[at] + source[at + 2 :]


def without_full_stop(source: str, random: Random) -> str | None:
    """The source without the full stop, question mark or exclamation mark at its end. None if it has none."""
    bare_source = source.rstrip()
    shorter = bare_source.rstrip(FULL_STOPS).rstrip()
    return shorter if shorter and shorter != bare_source else None


def halved(source: str, random: Random) -> str | None:
    """The first half of a source of at least six words. None for a shorter source."""
    parts = source.split()
    return " ".join(parts[: len(parts) // 2]) if len(parts) >= 6 else None


def shuffled(source: str, random: Random) -> str | None:
    """The words of a source of at least four words in a random order. None for a shorter source, or if the order is the
    same.
    """
    parts = source.split()
    if len(parts) < 4:
        return None
    other = random.sample(parts, len(parts))
    return None if other == parts else " ".join(other)


def junk(source: str, random: Random) -> str | None:
    """Random letters in the place of the letters, which are drawn from the source itself and ordered anew. All other
    characters keep their places. None if the source has fewer than four different letters.
    """
    letters = [each for each in source if each.isalpha()]
    if len(set(letters)) < 4:
        return None
    drawn = iter(random.choices(letters, k=len(letters)))
    return "".join(next(drawn) if each.isalpha() else each for each in source)


def _changed_much(before: Said, after: Said) -> bool:
    return similarity(before.text, after.text) < 0.5


def _words_changed(before: Said, after: Said) -> bool:
    return bare(before.text) != bare(after.text)


def _as_long(before: Said, after: Said) -> bool:
    return len(words(after.text)) >= 0.9 * len(words(before.text)) > 0


def _unchanged(before: Said, after: Said) -> bool:
    return bool(before.text.strip()) and after.text == before.text


def _as_certain(before: Said, after: Said) -> bool | None:
    if before.certainty is None or after.certainty is None:
        return None
    return after.certainty >= before.certainty


PROBES = (
    Probe("typing error", "two letters exchanged: less than half of the output stays", swapped, _changed_much),
    Probe("full stop", "no full stop at the end: other words in the output", without_full_stop, _words_changed),
    Probe("half", "the first half of the source: an output as long as for the whole", halved, _as_long),
    Probe("shuffled", "source words in random order: the same output", shuffled, _unchanged),
    Probe("junk", "random letters: the model is as certain as of the source itself", junk, _as_certain),
)


def joined(sources: Sequence[str]) -> list[str]:
    """Very long sources: each is eight of the sources in one line. Sources at the end that make no eight are left
    out.
    """
    starts = range(0, len(sources) - JOINED + 1, JOINED)
    return [" ".join(sources[start : start + JOINED]) for start in starts]
