"""Small pictures packed into NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transduce.core.files import name_from
from transduce.data.base import SPLITS
from transduce.data.corpora import ColumnNames, DataError, Files, Splits, identity
from transduce.data.rows import read
from transduce.wings.documents.npz_arrays import read_npz
from transduce.wings.recipes.origins.album import Bytes, Entry, albums

TEXTS = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz")
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class PictureArchive:
    """The pictures and targets in the files train.npz, valid.npz and test.npz of a ``folder``.

    An .npz has "images", bytes [n, height, width] or [n, height, width, 3]. For grey pictures of one height and any
    width it has "pixels" instead, the bytes of one picture after the other, each row by row, and "widths" [n]. The
    targets are its "labels" [n], or its "labels" [n, k], each row joined by ``between``. If ``text`` is given (a column
    number from 0, or a name), the targets are that column of a .tsv or .jsonl file instead. The file has the name of
    the .npz and lies beside it (.gz is fine). It has one line per picture. ``where``, for example ["label", "true"],
    keeps only the pictures whose line has this text in this column; it needs ``text``. ``prepare`` raises DataError if
    ``folder`` is None, or if a file is missing or has another form.
    """

    folder: str | None = None
    text: str | int | None = None
    where: tuple[str | int, str] | None = None
    between: str = ""

    def __post_init__(self) -> None:
        if self.where is not None and self.text is None:
            raise DataError(f"where = {list(self.where)!r} is of a file of texts: say which column is written, in text")

    def prepare(self, folder: Path) -> Splits:
        if self.folder is None:
            raise DataError("there is no archive to read: set data.origin.folder to that of train.npz")
        place = Path(self.folder).expanduser()
        paths = {split: place / f"{split}.npz" for split in SPLITS}
        files = [*paths.values(), *(_beside(path) for path in paths.values() if self.text is not None)]
        return albums(folder / name_from([identity(path) for path in files]), lambda split: self._entries(paths[split]))

    def _entries(self, path: Path) -> Iterator[Entry]:
        arrays = read_npz(path)
        pictures = _pictures(path, arrays)
        targets = self._labels(path, arrays) if self.text is None else self._texts(path, self.text)
        if len(pictures) != len(targets):
            raise DataError(f"{path}: {len(pictures)} pictures, and {len(targets)} texts of them: expected as many")
        for picture, target in zip(pictures, targets, strict=True):
            if target is not None:
                yield Entry(picture, target)

    def _labels(self, path: Path, arrays: Arrays) -> list[str | None]:
        labels = array(path, arrays, "labels")
        if labels.ndim not in (1, 2):
            raise DataError(f"{path}: labels {labels.shape} are not one for each picture: [n] or [n, k] expected")
        return [self.between.join(map(str, np.atleast_1d(label))) for label in labels]

    def _texts(self, path: Path, column: str | int) -> list[str | None]:
        """The target of each picture, in order; None if ``where`` leaves the picture out."""
        texts = list(_column(path, column))
        if self.where is None:
            return list(texts)
        place, wanted = self.where
        found = zip(texts, _column(path, place), strict=True)
        return [text if told == wanted else None for text, told in found]


def array(path: Path, arrays: Arrays, name: str) -> np.ndarray:
    """The array ``name`` among ``arrays``. Raises DataError, which names the file ``path`` and the existing arrays, if
    it is missing.
    """
    if name not in arrays:
        raise DataError(f"{path} has no {name!r}: its arrays are {', '.join(arrays) or 'none'}")
    return arrays[name]


def _pictures(path: Path, arrays: Arrays) -> Sequence[Bytes]:
    values = array(path, arrays, "pixels" if "widths" in arrays else "images")
    colours = values.shape[3:]
    if values.dtype != np.uint8 or (
        "widths" not in arrays and (values.ndim not in (3, 4) or colours not in ((), (3,)) or 0 in values.shape[1:])
    ):
        raise DataError(
            f"{path}: {values.dtype} {values.shape} are no pictures: bytes [n, height, width(, 3)] expected"
        )
    if "widths" not in arrays:
        return list(values)
    widths = arrays["widths"]
    if widths.dtype.kind not in "iu" or widths.ndim != 1 or (widths < 1).any():
        raise DataError(f"{path}: {widths.dtype} {widths.shape} are no widths: whole numbers [n] of 1 or more expected")
    widths = widths.astype(np.int64)
    height, over = divmod(values.size, max(1, int(widths.sum())))
    if over or not height:
        raise DataError(f"{path}: {values.size} pixels are no whole number of rows of {widths.sum()}, all the widths")
    return [part.reshape(height, -1) for part in np.split(values.reshape(-1), height * np.cumsum(widths)[:-1])]


def _beside(path: Path) -> Path:
    """The file of texts beside an archive: the first that exists with a suffix of ``TEXTS``. Raises DataError if there
    is none.
    """
    beside = [found for suffix in TEXTS if (found := path.with_suffix(suffix)).exists()]
    if not beside:
        raise DataError(f"{path} has no texts beside it: expected a .tsv or .jsonl file of the same name")
    return beside[0]


def _column(path: Path, column: str | int) -> Iterator[str]:
    """One column of the file of texts beside the archive ``path``, line by line. Raises DataError at a line that cannot
    be used.
    """
    for row in read(Files(path=str(_beside(path))), ColumnNames(target=column)):
        if row.problem is not None:
            raise DataError(f"{row.problem.place}: {row.problem.detail}; mend the line")
        yield row.target or ""
