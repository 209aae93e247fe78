"""The speeches of plays as a dialogue: what a named speaker answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce.core.files import write_lines
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError, Files, Splits, text_lines
from transduce.wings.language.dialogue import history

SPEECH = re.compile(r"((?:[A-Z][A-Z'.-]+)(?: [A-Z][A-Z'.-]+)*) (\S.*)")
STRETCH = 50
STRETCHES = 20
Speech = tuple[str, str]


@dataclass(frozen=True)
class Plays:
    """Replies in plays. A line has the speaker who replies, the history and the speech.

    ``path`` is a text file, plain or gzipped, relative to the current directory. It has one speech on a line: the
    speaker's name in capitals, a space and the speech. A name has one or more words of at least two characters. Any
    other line ends a dialogue: a title, a speech whose speaker is not in capitals. The history is the last ``turns``
    speeches before the reply in the same dialogue (``dialogue.history``), each cut to its last ``words`` words. The
    reply is cut to its first ``words`` words.

    Every dialogue is cut after 50 speeches. In each group of 20 parts, the tenth is for validation and the last for
    the test. Raises DataError if ``path`` is None, if it has fewer than 20 parts, or if ``turns`` or ``words`` is
    below 1.
    """

    path: str | None = None
    turns: int = 3
    words: int = 30

    def __post_init__(self) -> None:
        if self.turns < 1 or self.words < 1:
            raise DataError(
                f"turns = {self.turns}, words = {self.words}: a reply answers at least 1 turn of at least 1 word"
            )

    def prepare(self, folder: Path) -> Splits:
        paths = {split: folder / f"{split}.jsonl" for split in SPLITS}
        if not all(path.exists() for path in paths.values()):
            parts = self._parts()
            for split, path in paths.items():
                chosen = (part for number, part in enumerate(parts) if _split(number) == split)
                write_lines(path, (line for part in chosen for line in self._lines(part)))
        return Splits(*(Files(path=str(path)) for path in paths.values()))

    def _parts(self) -> list[list[Speech]]:
        if self.path is None:
            raise DataError(
                "there are no plays to read: set data.origin.path to a text file with a speech on each line, such as "
                "'HAMLET To be, or not to be'"
            )
        read = text_lines(Path(self.path).expanduser())
        parts = [part for dialogue in dialogues(read) for part in _cut(dialogue)]
        if len(parts) < STRETCHES:
            raise DataError(
                f"{self.path} has {len(parts)} dialogues, and at least {STRETCHES} were expected: a speech is a line "
                "that begins with the speaker's name in capitals, such as 'HAMLET To be, or not to be'"
            )
        return parts

    def _lines(self, speeches: Iterable[Speech]) -> Iterator[str]:
        said: list[str] = []
        for speaker, speech in speeches:
            words = speech.split()
            if said:
                reply = " ".join(words[: self.words])
                row = {"speaker": speaker, "source": history(said, self.turns), "target": reply}
                yield json.dumps(row, ensure_ascii=False)
            said.append(" ".join(words[-self.words :]))


def dialogues(lines: Iterable[str]) -> Iterator[list[Speech]]:
    """Yields the dialogues of lines: speaker and speech of each line, for lines without a break between them. A line
    that is no speech is a break.
    """
    speeches: list[Speech] = []
    for line in lines:
        if found := SPEECH.fullmatch(line.strip()):
            speeches.append((found[1], found[2]))
        elif speeches:
            yield speeches
            speeches = []
    if speeches:
        yield speeches


def _cut(dialogue: list[Speech]) -> list[list[Speech]]:
    return [dialogue[start : start + STRETCH] for start in range(0, len(dialogue), STRETCH)]


def _split(number: int) -> Split:
    """The split of the part with this number."""
    place = number % STRETCHES
    return "test" if place == STRETCHES - 1 else "valid" if place == STRETCHES // 2 - 1 else "train"
