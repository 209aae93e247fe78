"""Published text files: downloaded or read from a local copy, and checked by their checksum."""

from __future__ import annotations

import gzip
import hashlib
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

from transduce.data.corpora import DataError

SECONDS = 30
LARGEST = 16 * 2**20


@dataclass(frozen=True)
class Published:
    """The file ``name`` of a ``corpus``, at a ``url`` that may end in .gz.

    ``sha256`` is the checksum of its text, after runs of white space inside a line have become one space and those at
    its ends are removed. A local copy has one of the names ``copies``, with or without .gz.
    """

    corpus: str
    name: str
    url: str
    sha256: str
    copies: tuple[str, ...]

    def lines(self, folder: str | None) -> list[str]:
        """The lines of the file, with single spaces: read from ``folder`` or, if that is None, downloaded. Raises
        DataError if the file cannot be found or fetched, or if its checksum differs.
        """
        data, where = self._raw(folder)
        lines = [" ".join(line.split()) for line in data.decode("utf-8", "replace").removesuffix("\n").split("\n")]
        found = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
        if found != self.sha256:
            raise DataError(
                f"{where} is not the {self.corpus} file {self.name}: its text has SHA-256 {found}, not {self.sha256}"
            )
        return lines

    def _raw(self, folder: str | None) -> tuple[bytes, str]:
        if folder is None:
            return unpacked(download(self.url), self.url), self.url
        for copy in self.copies:
            for candidate in (f"{copy}.gz", copy):
                path = Path(folder).expanduser() / candidate
                if path.exists():
                    return unpacked(path.read_bytes(), str(path)), str(path)
        raise DataError(f"{folder} has no {self.copies[0]}.gz: give a folder with the files of {self.corpus}")


def download(url: str, largest: int | None = None) -> bytes:
    """The bytes of the file at a URL. Raises DataError for a network error, after 30 seconds without data, or if the
    file has more than ``largest`` bytes (None: 16 MiB).
    """
    largest = largest or LARGEST
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            data: bytes = response.read(largest + 1)
    except OSError as error:
        raise DataError(f"cannot fetch {url}: {error}; without a network, give data.origin.folder a copy") from error
    if len(data) > largest:
        raise DataError(f"{url} is larger than {largest} bytes: not the file expected")
    return data


def unpacked(data: bytes, where: str) -> bytes:
    """The data, decompressed if ``where``, the name of their file, ends in .gz. Raises DataError if they are
    damaged.
    """
    if not where.endswith(".gz"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{where} is not a whole gzip file: {error}") from error
