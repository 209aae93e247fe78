"""Lists of phrases: names, places, companies. Which words of a text do they have?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from transduce.data.corpora import DataError, text_lines

SIGNS = "#@"  # before the words of a message, such as "#London"
Phrase = tuple[str, ...]


class PhraseLists:
    """Named lists of phrases. Each list has two marks: one for the first word of a phrase, and one for the others.

    Words are compared without regard to case, and without "#" and "@" before them. All phrases of a list count, also
    if they overlap; a word that begins one has the first mark only.
    """

    def __init__(self, lists: Mapping[str, Iterable[str]]) -> None:
        self._lists = {name: dict.fromkeys(filter(None, map(_phrase, some))) for name, some in lists.items()}
        self._longest = {name: max(map(len, some), default=0) for name, some in self._lists.items()}

    @property
    def marks(self) -> tuple[str, ...]:
        """The name of each mark: "city" and "+city"."""
        return tuple(mark for name in self._lists for mark in (name, f"+{name}"))

    def found(self, words: Sequence[str]) -> list[list[int]]:
        """For each word, the marks of the lists that have it, by their place in ``marks``."""
        plain = tuple(map(_plain, words))
        found: list[list[int]] = [[] for _ in words]
        for number, (name, some) in enumerate(self._lists.items()):
            begins, goes_on = set[int](), set[int]()
            for start in range(len(plain)):
                for end in range(start + 1, min(start + self._longest[name], len(plain)) + 1):
                    if plain[start:end] in some:
                        begins.add(start)
                        goes_on.update(range(start + 1, end))
            for place in begins | goes_on:
                found[place].append(2 * number + (place not in begins))
        return found

    def as_json(self) -> dict[str, list[str]]:
        return {name: [" ".join(phrase) for phrase in some] for name, some in self._lists.items()}


def read(files: Mapping[str, str]) -> PhraseLists:
    """The lists in files, plain or gzipped, with a phrase on each line. Raises DataError for a file that is missing or
    has no phrase.
    """
    lists = {name: [*text_lines(Path(path).expanduser())] for name, path in files.items()}
    for name, phrases in lists.items():
        if not any(map(_phrase, phrases)):
            raise DataError(f"lists.{name} = {files[name]!r}: there is no phrase in it; write one on each line")
    return PhraseLists(lists)


def _phrase(text: str) -> Phrase:
    return tuple(filter(None, map(_plain, text.split())))


def _plain(word: str) -> str:
    return word.lstrip(SIGNS).lower()
