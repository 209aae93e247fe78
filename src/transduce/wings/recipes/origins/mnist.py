"""MNIST, from a public copy or the user's own."""

from __future__ import annotations

import gzip
import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transduce.core.files import name_from
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError, Splits, identity
from transduce.wings.documents.npz_arrays import read_npz
from transduce.wings.recipes.origins.album import Bytes, Entry, albums
from transduce.wings.recipes.origins.archives import array
from transduce.wings.recipes.origins.published import download, unpacked

MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
SUMS = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
"""SHA-256 of each published, gzipped file."""
VALID = 5_000  # the last ones of the 60,000 training digits
UNSIGNED_BYTES = 8  # the IDX code of unsigned bytes


@dataclass(frozen=True)
class Mnist:
    """Handwritten digits of 28 by 28 pixels, white on black, and their labels (LeCun et al. 1998).

    55,000 are for training, 5,000 for valid, 10,000 for test. ``folder`` holds a local copy that replaces the download:
    the four published IDX files, plain or gzipped, or train.npz, valid.npz and test.npz with "images" [n, 28, 28] and
    "labels" [n]. The .npz files are the splits, of any size. Downloads are checked by their checksum; a local copy is
    not. ``first`` is the number of examples of each split to keep, from the first, for a trial. None keeps all.
    """

    folder: str | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise DataError(f"first = {self.first}: at least one of each split")

    def prepare(self, folder: Path) -> Splits:
        return albums(folder / self.fingerprint, self._entries)

    @property
    def fingerprint(self) -> str:
        """A name for the digits: a hash of the files in ``folder``, which changes when a file changes. It is "." for
        the download, which never changes.
        """
        if self.folder is None:
            return "."
        copy = sorted(path for path in Path(self.folder).expanduser().glob("*") if path.is_file())
        return name_from([identity(path) for path in copy])

    def _entries(self, split: Split) -> Iterator[Entry]:
        for image, label in zip(*self.read(split), strict=True):
            yield Entry(image, str(label))

    def read(self, split: Split) -> tuple[Bytes, Bytes]:
        """The digits of a split, [n, 28, 28], and their labels [n]: the ``first`` ones if that is given. Raises
        DataError if the files have another form.
        """
        own = None if self.folder is None else Path(self.folder).expanduser()
        if own is not None and (own / f"{split}.npz").exists():
            path = own / f"{split}.npz"
            arrays = read_npz(path)
            images, labels = array(path, arrays, "images"), array(path, arrays, "labels")
        else:
            name = "t10k" if split == "test" else "train"
            images, labels = (_idx(own, f"{name}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
            if split != "test":
                kept = slice(-VALID, None) if split == "valid" else slice(-VALID)
                images, labels = images[kept], labels[kept]
        if images.ndim != 3 or images.dtype != np.uint8 or labels.shape != images.shape[:1]:
            raise DataError(
                f"{split} of {self.folder or MNIST}: {images.dtype} images {images.shape} with labels {labels.shape}, "
                "expected bytes [n, 28, 28] and [n]"
            )
        return images[: self.first], labels[: self.first]


def _idx(folder: Path | None, name: str) -> Bytes:
    """The array of the IDX file ``name`` in ``folder`` or, if that is None, of the download. The format has two zeros,
    the type of its numbers, the number of axes, the size of each axis, the numbers.

    Raises DataError if the file is not whole, or has other numbers than bytes.
    """
    data = _raw(folder, name)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != UNSIGNED_BYTES:
        raise DataError(f"{name} is no file of IDX with bytes: it begins with {data[:4]!r}")
    if len(data) < 4 + 4 * data[3]:
        raise DataError(f"{name} ends inside its head: it is not whole")
    shape = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    if values.size != np.prod(shape):
        raise DataError(f"{name} has {values.size} numbers where its head says {shape}: it is not whole")
    return values.reshape(shape)


def _raw(folder: Path | None, name: str) -> bytes:
    if folder is None:
        packed = download(f"{MNIST}/{name}.gz")
        found = hashlib.sha256(packed).hexdigest()
        if found != SUMS[name]:
            raise DataError(f"{MNIST}/{name}.gz is not the file expected: its SHA-256 is {found}, not {SUMS[name]}")
        return gzip.decompress(packed)
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return unpacked(path.read_bytes(), str(path))
    raise DataError(f"{folder} has neither {SPLITS[0]}.npz nor {name}.gz: give a folder with a copy of MNIST")
