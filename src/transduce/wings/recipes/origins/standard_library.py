"""Source code for language models of characters: the standard library of the Python that runs."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce.core.files import write_text
from transduce.data.base import SPLITS
from transduce.data.corpora import DataError, Files, Splits

LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__", "turtledemo"}
TENTH = 10  # of ten files in the order of their names, the ninth is for validation and the tenth for the test


@dataclass(frozen=True)
class StandardLibrary:
    """The modules of Python's standard library, about ten million characters of source code that every installation
    has. Tests and demonstrations are left out, and files with characters outside ASCII.

    Of ten files, eight are for training, one is for validation and one for the test. Training stops at ``characters``.
    Lines keep their white space, and an empty line follows each file. Another version of Python has another text.
    ``folder`` holds the modules; the default is the place of the running Python's. Raises DataError for a folder
    without modules, and if ``characters`` is below 1.
    """

    folder: str | None = None
    characters: int = 4_000_000

    def __post_init__(self) -> None:
        if self.characters < 1:
            raise DataError(f"characters = {self.characters}: at least 1 was expected")

    def prepare(self, folder: Path) -> Splits:
        paths = [folder / f"{split}.txt" for split in SPLITS]
        if not all(path.exists() for path in paths):
            for path, text in zip(paths, self._texts(), strict=True):
                write_text(path, text)
        return Splits(*(Files(path=str(path)) for path in paths))

    def _texts(self) -> list[str]:
        root = Path(sysconfig.get_path("stdlib") if self.folder is None else self.folder).expanduser()
        texts = [text for _, text in sorted(_modules(root))]
        if len(texts) < TENTH:
            raise DataError(f"{root} has {len(texts)} modules in ASCII: at least {TENTH} were expected")
        parts: list[list[str]] = [[], [], []]
        for number, text in enumerate(texts):
            parts[{TENTH - 2: 1, TENTH - 1: 2}.get(number % TENTH, 0)].append(text)
        kept = list[str]()
        for text in parts[0]:
            if sum(map(len, kept)) >= self.characters:
                break
            kept.append(text)
        return ["\n".join(part) for part in (kept, *parts[1:])]


def _modules(root: Path) -> Iterator[tuple[str, str]]:
    """The path of each module below ``root``, and its text with one line feed at its end."""
    for path in root.rglob("*.py"):
        name = path.relative_to(root)
        if LEFT_OUT.isdisjoint(name.parts):
            data = path.read_bytes()
            if data.isascii() and data.strip():
                yield name.as_posix(), data.decode().replace("\r\n", "\n").rstrip("\n") + "\n"
