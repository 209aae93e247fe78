from __future__ import annotations

import codecs
import gzip
import pickle
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data import encoding
from transduce.data.cleaning import Account
from transduce.data.corpora import ColumnNames, DataError, Files, LineError, lines
from transduce.data.rows import CorpusRow, check, read
from transduce.data.settings import Lines
from transduce.data.tokenizers.signal_files import SignalError
from transduce.data.tokenizers.text import Characters


def files(folder: Path, **contents: bytes) -> Files:
    """Writes files with these contents. The argument ``source_gz`` is the source as a gzip file."""
    paths = {}
    for name, content in contents.items():
        side, _, suffix = name.partition("_")
        path = folder / (side + {"": ".txt", "gz": ".txt.gz"}.get(suffix, "." + suffix.replace("_", ".")))
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        paths[side] = str(path)
    return Files(**paths)


def texts(split: Files, **options: dict[str, str | int]) -> list[tuple[str, str | None]]:
    return [(row.source, row.target) for row in read(split, **options)]


@pytest.mark.parametrize("names", [("source", "target"), ("source_gz", "target"), ("source_gz", "target_gz")])
def test_parallel_files_plain_or_gzipped(tmp_path, names):
    split = files(tmp_path, **dict(zip(names, (b"a\nb\n", b"x\ny"), strict=True)))
    assert texts(split) == [("a", "x"), ("b", "y")]
    assert [row.number for row in read(split)] == [1, 2]
    assert check(split) == 2


@pytest.mark.parametrize("suffix", ["tsv", "tsv_gz"])
def test_tsv_by_number_and_by_name(tmp_path, suffix):
    split = files(tmp_path, **{f"path_{suffix}": b"en\tid\tde\none\t1\teins\n"})
    assert texts(split, columns=ColumnNames(source=2, target=0)) == [("de", "en"), ("eins", "one")]
    assert texts(split, columns=ColumnNames(source="de", target="en")) == [("eins", "one")]
    assert texts(split, columns=ColumnNames(source="de", target=0)) == [("eins", "one")]
    assert texts(split) == [("en", "id"), ("one", "1")]
    assert texts(split, columns=ColumnNames(source=0)) == [("en", None), ("one", None)]
    assert [row.number for row in read(split, ColumnNames(source="de"))] == [2]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "jsonl_gz"])
def test_json_lines(tmp_path, suffix):
    split = files(tmp_path, **{f"path_{suffix}": b'{"source": "a\\n", "target": "\\u00e9"}\n{"q": "b", "r": "c"}\n'})
    assert texts(split)[0] == ("a\n", "é")
    assert texts(split, columns=ColumnNames(source="q", target="r"))[1] == ("b", "c")


def test_several_target_files_give_a_row_for_each(tmp_path):
    for name, content in {"s": b"a\nb\n", "t0": b"x\ny\n", "t1": b"p\nq\xff\n", "short": b"p\n"}.items():
        (tmp_path / name).write_bytes(content)
    path = {name: str(tmp_path / name) for name in ("s", "t0", "t1", "short")}
    split = Files(source=path["s"], target=(path["t0"], path["t1"]))
    assert check(split) == 2
    assert [(row.number, row.source, row.target) for row in read(split)] == [
        (1, "a", "x"),
        (1, "a", "p"),
        (2, "b", "y"),
        (2, "b", "q\ufffd"),
    ]
    assert [row.problem and row.problem.place for row in read(split)] == [None, None, None, path["t1"] + ":2"]
    unequal = Files(source=path["s"], target=(path["t0"], path["short"]))
    for function in (check, lambda split: list(read(split))):
        with pytest.raises(DataError, match=r"s has 2 lines, .*short has 1;"):
            function(unequal)
    with pytest.raises(DataError, match=r"target=\[\] names no file"):
        Files(source="s", target=())


def test_an_array_of_targets_in_json_gives_a_row_for_each(tmp_path):
    lines = [
        b'{"source": "a", "target": ["x", "y"]}',
        b'{"source": "b", "target": []}',
        b'{"source": "c", "target": [1]}',
    ]
    split = files(tmp_path, path_jsonl=b"\n".join(lines))
    assert texts(split)[:2] == [("a", "x"), ("a", "y")]
    problems = [row.problem for row in read(split)]
    assert [problem and problem.kind for problem in problems] == [None, None, "malformed", "malformed"]
    assert "source and target must be strings, or arrays of strings" in problems[2].detail


def test_an_array_of_sentences_in_json_is_one_source(tmp_path):
    lines = [b'{"source": ["A dog.", "It runs."], "target": "x"}', b'{"source": ["a", 1], "target": "x"}']
    split = files(tmp_path, path_jsonl=b"\n".join(lines))
    assert texts(split)[0] == ("A dog. It runs.", "x")
    assert [row.problem and row.problem.kind for row in read(split)] == [None, "malformed"]


def test_labels_are_the_first_fields_of_the_source(tmp_path):
    tsv = files(tmp_path, path_tsv=b"text\tgenre\trating\tout\nof a\tnoir\t4\tx\n\tnoir\t5\ty\n")
    named = ColumnNames(source="text", target="out", labels=("rating", "genre"))
    assert texts(tsv, columns=named) == [("4\tnoir\tof a", "x"), ("5\tnoir\t", "y")]
    assert texts(tsv, columns=ColumnNames(source=0, labels=(2,)))[1] == ("4\tof a", None)
    assert texts(tsv, columns=ColumnNames(target="out", labels=("genre",))) == [("noir", "x"), ("noir", "y")]
    with pytest.raises(DataError, match="no column 'topic': its columns are 'text', 'genre'"):
        texts(tsv, columns=ColumnNames(source="text", labels=("topic",)))


def test_labels_of_json_may_be_numbers_and_cannot_break_the_form(tmp_path):
    lines = [
        b'{"source": "a\\tb", "target": "x", "label": 4, "sure": true}',
        b'{"source": "b", "target": "y", "label": "two\\tparts\\n", "sure": 0.5}',
        b'{"source": "b", "target": "y", "label": ["z"], "sure": true}',
    ]
    split = files(tmp_path, path_jsonl=b"\n".join(lines))
    rows = list(read(split, ColumnNames("source", "target", ("label", "sure"))))
    assert [row.source for row in rows] == ["4\ttrue\ta\tb", "two parts \t0.5\tb", ""]
    assert "a label must be a string or a number, not list" in rows[2].problem.detail


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=9)))
def test_only_newlines_end_lines(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("lines")
    # A file with a zero byte is refused: it is no text.
    lines = [f".{line}" for line in lines]  # a byte order mark at the beginning of a file is not text
    split = files(folder, source="".join(f"{line}\n" for line in lines).encode())
    assert texts(split) == [(line, None) for line in lines]


def test_line_separators_are_text_and_carriage_returns_are_not(tmp_path):
    odd = "a\u2028b\x0bc\x0cd\x85e"
    split = files(tmp_path, source=f"\ufeff{odd}\r\nf\rg\r\n".encode(), target=b"x\ny\n")
    assert texts(split) == [(odd, "x"), ("f\rg", "y")]
    assert check(split) == 2


@pytest.mark.parametrize(("source", "target"), [(5, 3), (3, 5), (0, 1)])
def test_unequal_lengths_name_both_counts(tmp_path, source, target):
    split = files(tmp_path, source=b"a\n" * source, target=b"b\n" * target)
    message = rf"source\.txt has {source} lines.*target\.txt has {target}\b"
    with pytest.raises(DataError, match=message):
        check(split)
    with pytest.raises(DataError, match=message):
        list(read(split))


def test_a_missing_file_is_named(tmp_path):
    for function in (check, lambda split: list(read(split))):
        with pytest.raises(DataError, match=r"no such file: .*nowhere\.txt"):
            function(Files(source=str(tmp_path / "nowhere.txt")))
    with pytest.raises(DataError, match="this is a folder, and a file was expected"):
        check(Files(source=str(tmp_path)))


def test_truncated_and_false_gzip_are_named_with_the_line(tmp_path):
    path = tmp_path / "cut.txt.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % n for n in range(50_000)))[:-2000])
    split = Files(source=str(path))
    with pytest.raises(DataError, match=r"cut\.txt\.gz: the gzip data break off .* after line \d{4}"):
        list(read(split))
    with pytest.raises(DataError, match="break off"):
        check(split)
    path.write_bytes(b"plain text")
    with pytest.raises(DataError, match=r"cut\.txt\.gz"):
        list(read(split))


def test_undecodable_lines_are_problems_at_their_side(tmp_path):
    split = files(tmp_path, source=b"a\nb\xff\nc\n", target=b"x\ny\nz\xfe\n")
    rows = list(read(split))
    assert [row.problem and row.problem.kind for row in rows] == [None, "undecodable", "undecodable"]
    assert rows[1].problem.place == str(tmp_path / "source.txt:2")
    assert rows[2].problem.place == str(tmp_path / "target.txt:3")
    assert (rows[1].source, rows[2].target) == ("b\ufffd", "z\ufffd")
    assert "0xff at 1" in rows[1].problem.detail


def test_malformed_lines_are_problems_and_the_others_are_read(tmp_path):
    tsv = files(tmp_path, path_tsv=b"a\tb\nonly\nc\td\n")
    assert [row.problem and row.problem.kind for row in read(tsv)] == [None, "malformed", None]
    objects = [
        b'{"source": "a", "target": "b"}',
        b"{broken",
        b'{"source": "a"}',
        b'{"source": 1, "target": "b"}',
        b"[]",
    ]
    json = files(tmp_path, path_jsonl=b"\n".join([*objects, b'{"source": "a\\ud800", "target": "b"}', b'{"s\xff": 1}']))
    rows = list(read(json))
    kinds = [row.problem and row.problem.kind for row in rows]
    assert kinds == [None, "malformed", "malformed", "malformed", "malformed", "undecodable", "malformed"]
    assert rows[2].problem.place == str(tmp_path / "path.jsonl:3")
    assert rows[2].problem.detail == "keys 'source', 'target' expected, 'source' found"
    assert list(read(tsv))[1].problem.detail == "1 tab-separated column found, at least 2 expected for columns 0, 1"
    assert rows[5].source.encode()  # no half of a surrogate pair is left


def test_settings_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(DataError, match="either one file"):
        Files()
    with pytest.raises(DataError, match="either one file"):
        Files(path="a.tsv", source="b")
    with pytest.raises(DataError, match="has both sides"):
        Files(path="a.tsv", target="b")
    with pytest.raises(DataError, match=r"cannot tell the format of 'a\.xls'"):
        read(Files(path="a.xls"))
    with pytest.raises(DataError, match="cannot tell the format"):
        check(Files(path="corpus.gz"))
    tsv = files(tmp_path, path_tsv=b"a\tb\n")
    with pytest.raises(DataError, match="no column 'c': its columns are 'a', 'b'"):
        list(read(tsv, ColumnNames(source="c", target=1)))
    with pytest.raises(DataError, match="expected at least one of them, or labels"):
        ColumnNames()
    for columns in ({"source": -3, "target": 1}, {"target": -1}, {"source": 0, "labels": (1, -1)}):
        with pytest.raises(DataError, match=r"there is no column -\d; they are numbered from 0"):
            ColumnNames(**columns)
    with pytest.raises(DataError, match="give a key"):
        list(read(files(tmp_path, path_jsonl=b"{}\n"), ColumnNames(source=0, target=1)))


# ---------------------------------------------------------------------- limits


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.tsv", "a.jsonl", "a.conllu"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_line_of_too_many_bytes_is_refused_before_it_is_read(tmp_path, name, end) -> None:
    """Lines of exactly the limit pass, also after a byte order mark. A longer line is an error that names the line, and
    most of it is not read.
    """
    open_file = gzip.open if name.endswith("gz") else open
    files = Files(path=str(tmp_path / name))
    with open_file(tmp_path / name, "wb") as file:
        file.write(codecs.BOM_UTF8 + b"x" * 30 + b"\r\n" + b"y" * 30 + end)
    assert [len(line) for line in lines(tmp_path / name, longest=30)] == [30, 30]
    if not name.endswith("conllu"):
        assert check(files, 30) == 2
    with open_file(tmp_path / name, "wb") as file:
        file.write(b"x" * 30 + b"\n" + b"y" * 31 + end + b"z")
    path = tmp_path / f"longer-{name}"
    longer = Files(path=str(path))
    with open_file(path, "wb") as file:
        file.write(b"x" * 30 + b"\n" + b"y" * 1_000_000 + end)
    for read_all in (
        lambda: [*lines(Path(longer.path), 30)],
        lambda: [*read(longer, None, 30)],
        lambda: check(longer, 30),
    ):
        tracemalloc.start()
        with pytest.raises(DataError, match=":2: the line has more than 30 bytes"):
            read_all()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 500_000
    expected = rf"^{re.escape(files.path or '')}:2: the line has more than 30 bytes; divide .* data\.lines\.max_bytes$"
    for read_all in (lambda: [*lines(tmp_path / name, 30)], lambda: [*read(files, None, 30)], lambda: check(files, 30)):
        with pytest.raises(DataError, match=expected):
            read_all()


def test_a_zipped_line_of_gigabytes_takes_no_memory(tmp_path) -> None:
    path = tmp_path / "bomb.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(200):
            file.write(b"a" * 1_000_000)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"bomb\.txt\.gz:1: the line has more than 1,000,000 bytes"):
        next(read(Files(path=str(path))))
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_long_lines_are_encoded_in_small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(encoding, "CHARACTERS", 100)
    rows = [CorpusRow(number, "x" * 60, "y") for number in range(5)]
    letters = Characters().learn(["xy"])
    account = Account(Files(path="a.tsv"), Lines())
    assert [len(chunk.rows) for chunk in encoding.chunks(rows, (letters, letters), account)] == [2, 2, 1]


@pytest.mark.parametrize("error", [LineError("a b", "has no label"), SignalError("a.wav", "is empty")], ids=str)
def test_a_worker_process_raises_the_same_error_here(error: LineError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.line, again.problem) == (type(error), str(error), error.line, error.problem)
