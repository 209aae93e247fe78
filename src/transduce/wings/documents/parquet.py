"""Parquet files as records: one dictionary for each row, read in batches, so that a file need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from transduce.core.errors import MissingPackageError
from transduce.data.addresses import Address, Stored
from transduce.data.corpora import DataError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

ROWS = 4096  # in memory at a time


def records(path: Stored, columns: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yields the rows of a Parquet file as dictionaries with the values of ``columns``.

    Raises DataError if the file cannot be read or lacks a column.
    """
    file = _opened(path)
    found = file.schema_arrow.names
    if missing := [column for column in columns if column not in found]:
        raise DataError(f"{path} has no column {missing[0]!r}: its columns are {', '.join(map(repr, found))}")
    for batch in file.iter_batches(ROWS, columns=list(columns)):
        yield from batch.to_pylist()


def count(path: Stored) -> int:
    """The number of rows of a Parquet file. Raises DataError if the file cannot be read."""
    return int(_opened(path).metadata.num_rows)


def _opened(path: Stored) -> ParquetFile:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPackageError(f"{path} needs pyarrow: pip install 'transduce[parquet]'") from error
    try:
        return pyarrow.parquet.ParquetFile(path.open() if isinstance(path, Address) else path)
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"cannot read {path} as Parquet: {error}") from error
