"""XML documents, and prefixes of documents with the tags that close them."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce.core.errors import UserError
from transduce.data.corpora import DataError, Splits
from transduce.data.origins import made_up


@dataclass(frozen=True)
class Xml:
    """Prefixes of XML documents and the tags that close them: "<ab><cd></cd><ef>" -> "</ef></ab>".

    After the task of Jozefowicz et al. 2015. The first of up to ``steps`` steps opens a tag. Each further step opens a
    tag or closes the last open one, with equal probability; if it should close and no tag is open, the document ends.
    Names have 2 to 10 lower-case letters. A prefix ends after a random tag with something open, and is in one split
    only. ``pairs`` are for training; valid and test have a tenth of that each, at least 100. The same ``seed`` gives
    the same documents. Raises DataError if ``steps`` is below 1.
    """

    pairs: int = 50_000
    steps: int = 50
    seed: int = 1

    def __post_init__(self) -> None:
        check_steps(self.steps)

    def prepare(self, folder: Path) -> Splits:
        return made_up(folder, self.pairs, self.seed, self._beginning, lambda text, _: f"{text}\t{closing(text)}")

    def _beginning(self, draw: random.Random) -> str:
        return draw.choice([text for text, depth in growing(draw, self.steps) if depth])


@dataclass(frozen=True)
class XmlDocuments:
    """Whole XML documents, for a language model: "<ab><cd></cd><ef></ef></ab>".

    The task of Jozefowicz et al. 2015. Documents grow as in ``Xml``; after ``steps`` steps all open tags are closed.
    Names have 2 to ``longest`` letters. No document is in two splits. ``documents`` are for training; valid and test
    have a tenth of that each, at least 100. The same ``seed`` gives the same documents. Raises DataError if ``steps``
    is below 1 or ``longest`` below 2.
    """

    documents: int = 50_000
    steps: int = 50
    longest: int = 10
    seed: int = 1

    def __post_init__(self) -> None:
        check_steps(self.steps)
        if self.longest < 2:
            raise DataError(f"longest = {self.longest}: a name has 2 letters at least")

    def prepare(self, folder: Path) -> Splits:
        return made_up(folder, self.documents, self.seed, self._document)

    def _document(self, draw: random.Random) -> str:
        *_, (text, _) = growing(draw, self.steps, self.longest)
        return text + closing(text)


def check_steps(steps: int) -> None:
    if steps < 1:
        raise DataError(f"steps = {steps}: at least one tag must be opened")


def growing(draw: random.Random, steps: int, longest: int = 10) -> Iterator[tuple[str, int]]:
    """Yields the document after each of its tags, at most ``steps``, and the number of tags open there.

    Names have 2 to ``longest`` letters. ``Xml`` has the other rules.
    """
    text = ""
    names: list[str] = []
    for _ in range(steps):
        opens = not text or draw.random() < 0.5
        if not opens and not names:
            break
        if opens:
            names.append("".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, longest))))
            text += f"<{names[-1]}>"
        else:
            text += f"</{names.pop()}>"
        yield text, len(names)


def closing(beginning: str) -> str:
    """The tags that close all tags that ``beginning`` leaves open. Raises UserError if a tag closes another than the
    last open one.
    """
    names: list[str] = []
    for closes, name in re.findall(r"<(/?)([a-z]+)>", beginning):
        if not closes:
            names.append(name)
        elif not names or names.pop() != name:
            raise UserError(f"{beginning!r} is not well-formed: </{name}> does not close the last open tag")
    return "".join(f"</{name}>" for name in reversed(names))
