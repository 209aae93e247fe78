"""Text from outside: one policy for its encoding and its lines, and what a file of another kind is called."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from transduce.core.contents import binary, form, likely_encoding
from transduce.core.errors import DataError
from transduce.core.text_files import bounded_lines, read_json, read_text, texts
from transduce.data import corpora


def lines(content: bytes) -> list[str]:
    return list(texts(bounded_lines(io.BytesIO(content), "f"), "f"))


def test_only_line_feeds_end_lines() -> None:
    text = "a\u2028b\r\nc\x0cd\x85e\x0bf\rg\n\nlast"
    assert lines(text.encode()) == ["a\u2028b", "c\x0cd\x85e\x0bf\rg", "", "last"]
    assert lines(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\0c") == ["a", "\ufeffb\0c"]
    assert lines(gzip.compress(b"a\nb", mtime=0)) == ["a", "b"]
    assert lines(b"") == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a\nb\n".encode("utf-16"), "text in UTF-16, .*iconv -f UTF-16 -t UTF-8 f > NEW"),
        ("one line\n".encode("utf-16-be"), "UTF-16BE"),
        ("été\n".encode("utf-16-le"), "UTF-16LE"),
        ("a\nb\n".encode("utf-32"), "UTF-32"),
        ("a line\n".encode("utf-32-le"), "UTF-32LE"),
        (gzip.compress("a\nb\n".encode("utf-16"), mtime=0), "UTF-16"),
        (gzip.compress(gzip.compress(b"a\n", mtime=0), mtime=0), "compressed by gzip"),
        (b"a\rb\rc", "carriage return"),
        (b"\x89PNG\r\n\x1a\n\0\0", "a PNG picture"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "recording"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document"),
        (b"PAR1\x15\x04\x15\0", "a Parquet table"),
        (b"\xfd7zXZ\0\0\x04", "xz -dc f > NEW"),
        (bytes(range(256)) * 4, "binary data"),
        (gzip.compress(b"a\nb\n" * 9, mtime=0)[:-9], "gzip data break off"),
    ],
)
def test_what_is_no_text_is_named(content: bytes, told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=told):
        lines(content)
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(DataError, match=told.replace(" f ", " .*f ")):
        list(corpora.lines(tmp_path / "f"))


def test_archives_are_told_from_workbooks(tmp_path: Path) -> None:
    for name, told in (("a.txt", "a zip archive"), ("xl/workbook.xml", "a document of an office program")):
        with zipfile.ZipFile(tmp_path / "z", "w") as archive:
            archive.writestr(name, "text")
        kind = binary((tmp_path / "z").read_bytes())
        assert kind is not None
        assert kind.name == told


def test_text_with_strange_characters_is_text() -> None:
    for text in ("%PDF- is how it begins\n", "BZh\n", "a\0b" + "c" * 30, "PAR1 x", "\x1b[1mbold\n", "é" * 40_000):
        assert binary(text.encode()[:65536]) is None, text[:20]


def test_the_first_wrong_byte_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a\n" * 99 + "caf\xe9 noir\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"f:100: byte 0xe9 at 3 .* 'caf\xe9 noir'; convert it: iconv -f WINDOWS-1252"):
        list(corpora.text_lines(path))
    path.write_bytes("né\n".encode() + b"caf\xe9\n")
    with pytest.raises(DataError, match=r"f:2: .*the rest is UTF-8, so mend this line.*iconv -c"):
        list(corpora.text_lines(path))
    path.write_bytes(gzip.compress("né\n".encode(), mtime=0))
    list(corpora.text_lines(path))
    zipped = tmp_path / "f.gz"
    zipped.write_bytes(gzip.compress(b"caf\xe9\n", mtime=0))
    with pytest.raises(DataError, match=r": gzip -dc .*f.gz \| iconv -f WINDOWS-1252 -t UTF-8 > NEW"):
        list(corpora.text_lines(zipped))
    path.write_bytes("né".encode()[:-1])
    with pytest.raises(DataError, match=r"f:1: byte 0xc3 at 1"):
        list(corpora.text_lines(path))


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("WINDOWS-1252", "Les élèves étaient à l'école"),
        ("WINDOWS-1252", "Größe"),
        ("WINDOWS-1251", "Сегодня хорошая погода."),
        ("KOI8-R", "Сегодня хорошая погода."),
        ("WINDOWS-1253", "Καλημέρα, τι κάνεις"),
        ("WINDOWS-1250", "Zażółć gęślą jaźń"),
        ("SHIFT_JIS", "今日は天気がいいですね"),
        ("EUC-JP", "今日は天気がいいですね"),
        ("EUC-KR", "오늘 날씨가 좋습니다"),
        ("GB18030", "今天天气很好，我们去公园吧。"),
        ("BIG5", "今天天氣很好，我們去公園吧。"),
    ],
)
def test_the_encoding_is_guessed(encoding: str, text: str) -> None:
    assert likely_encoding(text.encode(encoding)) == (encoding, text)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('<?xml version="1.0"?>\n<!DOCTYPE tmx>\n<tmx version="1.4">\n', "TMX"),
        ("<!DOCTYPE html>\n<p>", "HTML"),
        ('{"a": "b"}\n{"a": "c"}\n', "JSON lines"),
        ('[\n {"a": 1}\n]\n', "a JSON document"),
        ('word,ipa\n"a, b",c\nd,e\n', "a CSV table, separated by ','"),
        ("word;ipa\na, b;c\n", "a CSV table, separated by ';'"),
    ],
)
def test_forms_of_text_are_named(content: str, name: str) -> None:
    found = form(content.encode())
    assert found is not None
    assert found.name.startswith(name)


def test_plain_text_has_no_form() -> None:
    for text in ("One, two.\nThree, four, five.\n", "a\tb,c\nd\te,f\n", "x < y\n", "", "[noise] yes\n", "{a}\n"):
        assert form(text.encode()) is None, text


def test_small_files_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b'{"a":\n"\xff"}')
    for read in (read_text, read_json):
        with pytest.raises(DataError, match=r"state.json:2: byte 0xff is not UTF-8"):
            read(path)
    for damaged in ("{", "9" * 5000, "[" * 100_000):
        path.write_text(damaged)
        with pytest.raises(DataError, match=r"state.json is not JSON"):
            read_json(path)
