"""Parquet files are read like JSON lines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from transduce.core.errors import DataError
from transduce.data.corpora import ColumnNames, Files
from transduce.data.rows import check, read


def test_parquet_reads_like_json_lines(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    records: list[dict[str, Any]] = [
        {"source": "a b", "target": ["x", "y"], "n": 1},
        {"source": None, "target": ["x"], "n": 2},
        {"source": "c", "target": ["z"], "n": 3},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "a.parquet", row_group_size=2)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    own, other = (Files(path=str(tmp_path / name)) for name in ("a.parquet", "a.jsonl"))
    assert list(read(own)) == [row if row.problem is None else row_of(row, tmp_path) for row in read(other)]
    assert check(own) == check(other) == 3
    with pytest.raises(DataError, match=r"no column 'text': its columns are 'source', 'target', 'n'"):
        list(read(own, ColumnNames(source="source", target="text")))
    (tmp_path / "b.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="as Parquet"):
        check(Files(path=str(tmp_path / "b.parquet")))


def row_of(row: Any, folder: Path) -> Any:
    """The row with the place that it has in the Parquet file."""
    place = row.problem.place.replace("a.jsonl", "a.parquet")
    return replace(row, problem=replace(row.problem, place=place))
