"""Where the files of a corpus are: on this machine, or at an address that fsspec reads, such as
``s3://bucket/a.jsonl``.

A name may be a pattern ("shards/*.tsv.gz"). It stands for all files that match, sorted by name.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from transduce.core.errors import MissingPackageError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


@dataclass(frozen=True)
class Address:
    """A file at an address with a scheme, ``scheme://…``. The package fsspec reads it (the extra ``remote``); each
    scheme may need one more package, such as s3fs.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return PurePosixPath(self.url).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.url).suffix

    def open(self) -> IO[bytes]:
        """Opens the file for reading bytes. Raises OSError if it cannot be read."""
        system, path = _system(self.url)
        opened: IO[bytes] = system.open(path, "rb")
        return opened

    def identity(self) -> tuple[str, int, str]:
        """Stands for the content of the file: its address, its size in bytes, and what else the file system tells of
        its version. Raises OSError if there is no such file.
        """
        system, path = _system(self.url)
        about = system.info(path)
        kept = {key: str(about[key]) for key in sorted(about) if key in VERSION}
        return self.url, int(about.get("size") or 0), str(kept)


Stored = Path | Address
VERSION = ("mtime", "created", "LastModified", "last_modified", "updated", "ETag", "etag", "md5Hash")


def stored(text: str) -> Stored:
    """The file that a setting names. "~" is replaced by the user's home folder."""
    return Address(text) if "://" in text else Path(text).expanduser()


def matching(text: str) -> tuple[str, ...]:
    """The files that match a pattern with ``*``, ``?`` or ``[…]``, sorted by name; empty if there are none. A name
    that is no pattern, or that is a file, stands for itself.
    """
    if not glob.has_magic(text):
        return (text,)
    if "://" in text:
        system, pattern = _system(text)
        return tuple(sorted(system.unstrip_protocol(path) for path in system.glob(pattern)))
    path = Path(text).expanduser()
    return (text,) if path.exists() else tuple(sorted(glob.glob(str(path), recursive=True)))


def _system(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of an address, and the path of the file in it."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingPackageError(f"{url} needs fsspec: pip install 'transduce[remote]'") from error
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # an unknown scheme, or a scheme whose package is missing
        raise MissingPackageError(f"fsspec cannot read {url}: {error}") from error
    return system, path
