"""Lines of Python with their descriptions: Django and CoNaLa, from public repositories or a local copy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.core.files import write_lines
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import ColumnNames, DataError, Files, Splits
from transduce.data.rows import read
from transduce.wings.recipes.origins.published import download
from transduce.wings.syntax.code_tokens import cut, joined

DJANGO = "https://raw.githubusercontent.com/odashi/ase15-django-dataset/c37fa281ced0de16aa7868415522905f8380686e/django"
CONALA = "https://raw.githubusercontent.com/yuxiang2/CoNaLa/ef779b8fcdf23997ae7e8a2e0e039ba08c81ffda/corpus"
SUMS = {
    "django.train": "f22ec56123aed6986974436ba38e9ef1ec996de3160eafd43bbf957b7814b7e4",
    "django.valid": "d873ebff23a00a6f509e17f3b96a3e4892af4dd3a90c4802b3eb9e9b4f52f549",
    "django.test": "631a7ada7e74a74a59dca4f6e0aafc263714937be7d40de2a7dcac78e4a2cd59",
    "conala.train": "beda4fecb7ceae016ba73bbb2c195912eb6b90a7598611dd840c32f0c24c03dc",
    "conala.valid": "65080ade5b516dc019e6bf3130fc706c927d6c47b8e602271e151a2c8935dd60",
    "conala.test": "ebee4a4cf0e692331b4a97aabad500657caafc9088e1fd84dd56f6923ee4006c",
}
"""SHA-256 of each split as it is written here: JSON lines with the keys source and target."""

DJANGO_TRAIN, DJANGO_VALID = 16_000, 1_000
Pair = tuple[str, str]


@dataclass(frozen=True)
class Django:
    """The source lines of the web framework Django and an English description of each (Oda et al. 2015).

    The first 16,000 lines are for training, the next 1,000 for validation and the last 1,805 for the test, as in later
    papers. Lines have one space between tokens and no indentation, which a description does not say. ``folder`` holds a
    local copy that replaces the download: train.tsv, valid.tsv and test.tsv, plain or gzipped, with description and
    code. The checksums of the converted text are checked; those of the original files are not known.
    """

    folder: str | None = None

    def prepare(self, folder: Path) -> Splits:
        def pairs() -> dict[Split, list[Pair]]:
            found = _django() if self.folder is None else _copied(self.folder, "tsv", 0, 1)
            return {split: [(each, joined(cut(code))) for each, code in found[split]] for split in found}

        return _written("django", folder, pairs)


@dataclass(frozen=True)
class Conala:
    """Questions of Stack Overflow, rewritten so that they name the identifiers, and short Python code for each (Yin et
    al. 2018).

    The test set is the official one. The SHA-1 of the question modulo 100 is below 10 for validation; the other
    questions of the official training set are for training. ``folder`` holds a local copy that replaces the download:
    train.jsonl, valid.jsonl and test.jsonl, plain or gzipped, with the keys intent and code. The checksums of the
    converted text are checked; those of the original files are not known.
    """

    folder: str | None = None

    def prepare(self, folder: Path) -> Splits:
        def pairs() -> dict[Split, list[Pair]]:
            return _conala() if self.folder is None else _copied(self.folder, "jsonl", "intent", "code")

        return _written("conala", folder, pairs)


def _written(corpus: str, folder: Path, pairs: Callable[[], Mapping[Split, Sequence[Pair]]]) -> Splits:
    """The splits of a corpus as files of JSON lines in ``folder``. If one is missing, all are written from ``pairs()``.
    Raises DataError if a checksum differs.
    """
    paths = {split: folder / f"{split}.jsonl" for split in SPLITS}
    if not all(path.exists() for path in paths.values()):
        found = pairs()
        lines = {split: [_line(*pair) for pair in found[split]] for split in SPLITS}
        for split in SPLITS:
            _check(f"{corpus}.{split}", lines[split])
        for split in SPLITS:
            write_lines(paths[split], lines[split])
    return Splits(*(Files(path=str(path)) for path in paths.values()))


def _line(description: str, code: str) -> str:
    return json.dumps({"source": " ".join(description.split()), "target": code.strip()}, ensure_ascii=False)


def _check(name: str, lines: Iterable[str]) -> None:
    found = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    if found != SUMS[name]:
        raise DataError(f"{name} is not the text expected: its lines have SHA-256 {found}, not {SUMS[name]}")


def _copied(folder: str, suffix: str, source: str | int, target: str | int) -> dict[Split, list[Pair]]:
    """The pairs of a local copy. Raises DataError for a missing file or a line that cannot be read."""
    columns = ColumnNames(source=source, target=target)
    pairs: dict[Split, list[Pair]] = {}
    for split in SPLITS:
        path = Path(folder).expanduser() / f"{split}.{suffix}.gz"
        path = path if path.exists() else path.with_suffix("")
        rows = list(read(Files(path=str(path)), columns))
        for row in rows:
            if row.problem is not None:
                raise DataError(f"{row.problem.place}: {row.problem.detail}; mend the line")
        pairs[split] = [(row.source or "", row.target or "") for row in rows]
    return pairs


def _django() -> dict[Split, list[Pair]]:
    sides = [download(f"{DJANGO}/all.{name}").decode("utf-8", "replace").splitlines() for name in ("anno", "code")]
    if len(sides[0]) != len(sides[1]):
        raise DataError(f"{DJANGO} has {len(sides[0])} descriptions of {len(sides[1])} lines: expected equally many")
    pairs = list(zip(*sides, strict=True))
    valid = DJANGO_TRAIN + DJANGO_VALID
    return {"train": pairs[:DJANGO_TRAIN], "valid": pairs[DJANGO_TRAIN:valid], "test": pairs[valid:]}


def _conala() -> dict[Split, list[Pair]]:
    given: dict[str, list[Pair]] = {}
    for name in ("train", "test"):
        records = json.loads(download(f"{CONALA}/{name}.json"))
        given[name] = [(each["intent"], each["code"]) for each in records]
    held = [_hundredth(description) < 10 for description, _ in given["train"]]
    marked = list(zip(given["train"], held, strict=True))
    return {
        "train": [pair for pair, is_valid in marked if not is_valid],
        "valid": [pair for pair, is_valid in marked if is_valid],
        "test": given["test"],
    }


def _hundredth(text: str) -> int:
    return int(hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), 16) % 100
