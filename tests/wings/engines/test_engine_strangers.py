"""Files from strangers: a file that is cut, damaged or wrong is refused in a line, and no byte outside it is read.

``scripts/sanitize`` runs these tests with the address and undefined-behaviour sanitizers.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_engine_file import SEARCHES, TABLES, content, needs_engine, resolved

import transduce_engine
from transduce.core.errors import UserError
from transduce.wings.engines.engine_files import opened
from transduce_engine import Wanted

pytestmark = needs_engine

TRIES = {"fast": 20, "slow": 500}  # of each kind and way: more than ten thousand files together
KINDS = (
    "edits",
    "transformer, t5 and alibi",
    "transformer, lightweight and dynamic",
    "convs2s",
    "luong, gru, scaled dot, fed",
    "recurrent with counts",
    "fusion",
    "ctc and attention",
)
WRONG: list[Any] = [0, -1, 1, 2, 3, 200_000, 2**40, 10**400, 0.5, float("nan"), True, None, "x", "", [], {}, [1], [{}]]
ROWS = [[5, 6, 7, 2], [4, 2], [8, 8, 8, 8, 8, 8, 2]]
JSON_NOTES = ("model", "source", "target", "search", "limits")


def parts(file: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a file, and its numbers without the checksum."""
    (size,) = struct.unpack("<Q", file[:8])
    return json.loads(file[8 : 8 + size]), file[8 + size : -4]


def joined(header: Any, numbers: bytes) -> bytes:
    """A file with its right checksum."""
    encoded = json.dumps(header).encode()
    whole = struct.pack("<Q", len(encoded)) + encoded + numbers
    return whole + struct.pack("<I", zlib.crc32(whole))


def places(notes: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value of a description, of tables and lists too."""
    if path:
        yield path
    inside = notes.items() if isinstance(notes, dict) else enumerate(notes) if isinstance(notes, list) else ()
    for key, value in inside:
        yield from places(value, (*path, key))


def changed(value: Any, numbers: random.Random, but: tuple[Any, ...] = ()) -> Any:
    """A JSON value in which one value is wrong or missing."""
    paths = [path for path in places(value) if path != but]
    *above, last = numbers.choice(paths)
    within = value
    for key in above:
        within = within[key]
    if numbers.random() < 0.3:
        del within[last]
    else:
        within[last] = numbers.choice(WRONG)
    return value


def with_other_notes(file: bytes, numbers: random.Random) -> bytes:
    header, rest = parts(file)
    name = numbers.choice(JSON_NOTES)
    header["__metadata__"][name] = json.dumps(changed(json.loads(header["__metadata__"][name]), numbers))
    return joined(header, rest)


def with_other_header(file: bytes, numbers: random.Random) -> bytes:
    header, rest = parts(file)
    return joined(changed(header, numbers), rest)


def with_other_text(file: bytes, numbers: random.Random) -> bytes:
    """Bytes of the header itself are other ones, so that it may be no JSON."""
    header, rest = parts(file)
    encoded = bytearray(json.dumps(header).encode())
    for _ in range(numbers.choice([1, 1, 3])):
        encoded[numbers.randrange(len(encoded))] = numbers.randrange(256)
    whole = struct.pack("<Q", len(encoded)) + bytes(encoded) + rest
    return whole + struct.pack("<I", zlib.crc32(whole))


def with_other_numbers(file: bytes, numbers: random.Random) -> bytes:
    """Numbers of tensors are others, such as NaN or 1e38; the checksum is right."""
    header, rest = parts(file)
    found = bytearray(rest)
    for _ in range(numbers.choice([1, 5, 50])):
        at = numbers.randrange(len(found) // 4) * 4
        found[at : at + 4] = struct.pack("<f", numbers.choice([float("nan"), float("inf"), 3e38, -3e38, 1e-45, 1e30]))
    return joined(header, bytes(found))


def cut_or_damaged(file: bytes, numbers: random.Random) -> bytes:
    found = bytearray(file)
    for _ in range(numbers.choice([0, 1, 20])):
        found[numbers.randrange(len(found))] ^= 1 << numbers.randrange(8)
    return bytes(found[: numbers.randrange(len(found) + 1)] if numbers.random() < 0.5 else found)


WAYS = (with_other_notes, with_other_header, with_other_text, with_other_numbers, cut_or_damaged)


def tried(file: bytes) -> None:
    """Opens a file and lets it answer. It may answer, or refuse in a line."""
    try:
        engine = transduce_engine.load(file)
        if engine.generates:
            engine.score(["abc", ""])
            engine.generate("ab", 2, 5)
            return
        for beam in (0, 2):
            engine.answer_ids(ROWS, beam=beam)
        if engine.reads_text:
            engine.answer(["abc", "", "é"])
    except transduce_engine.EngineError as error:
        if not str(error) or "\n" in str(error):
            raise AssertionError(f"no line: {str(error)!r}") from error


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("speed", ["fast", pytest.param("slow", marks=(pytest.mark.slow, pytest.mark.hostile))])
def test_a_wrong_file_is_refused_in_a_line_or_answers(speed: str, kind: str, way: Any) -> None:
    numbers = random.Random(f"{kind} {way.__name__} {speed}")
    search = {
        "type": "beam",
        "size": 3,
        "max_length": 6,
        "ranking": "wu",
        "filters": [{"type": "length", "minimum": 2}],
    }
    _, file = content(TABLES[kind], search, numbers.choice(["float32", "int8"]))
    for _ in range(TRIES[speed]):
        tried(way(file, numbers))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "it is no file of an engine: it has 0 bytes"),
        (b"PK\x03\x04" + bytes(100), "it is no file of an engine, or was cut off"),
        (
            struct.pack("<Q", 2) + b"{}",
            "it is no file of an engine: write one with `transduce export RUN --to engine --out",
        ),
    ],
)
def test_other_files_are_told(file: bytes, message: str) -> None:
    with pytest.raises(transduce_engine.EngineError, match=message.replace("(", r"\(")):
        transduce_engine.load(file)


def test_a_damaged_file_and_a_file_of_another_version_are_told(tmp_path: Path) -> None:
    _, file = content(TABLES["convs2s"], SEARCHES["greedy"])
    damaged = bytearray(file)
    damaged[-100] ^= 1
    with pytest.raises(
        transduce_engine.EngineError, match=r"^it is damaged: its checksum is another one; copy it again$"
    ):
        transduce_engine.load(bytes(damaged))
    (tmp_path / "damaged.engine").write_bytes(damaged)
    with pytest.raises(transduce_engine.EngineError, match=r"damaged\.engine: it is damaged: its checksum"):
        transduce_engine.load(tmp_path / "damaged.engine")
    header, rest = parts(file)
    header["__metadata__"]["transduce-engine"] = "9"
    with pytest.raises(
        transduce_engine.EngineError, match=r"^it has version '9', and this engine reads '1': export the"
    ):
        transduce_engine.load(joined(header, rest))


@pytest.mark.parametrize(
    ("name", "text"),
    [("settings", "[]"), ("settings", "{"), ("settings", "[" * 9000), ("settings", '{"data": 3}'), ("source", "\x01")],
)
def test_notes_that_only_transduce_reads_are_refused_in_a_line_too(name: str, text: str, tmp_path: Path) -> None:
    _, file = content(TABLES["convs2s"], SEARCHES["greedy"], **{name: text})
    (tmp_path / "wrong.engine").write_bytes(file)
    with pytest.raises(UserError) as refused:
        opened(tmp_path / "wrong.engine", 1, None)
    assert "\n" not in str(refused.value)


def test_rows_that_are_no_rows_are_refused() -> None:
    _, file = content(TABLES["convs2s"], SEARCHES["greedy"])
    engine = transduce_engine.load(file)
    for row, message in (
        ([], "input 2: a row of ids that ends with </s>"),
        ([5], "input 2: a row of ids that ends"),
        ([99, 2], "input 2: id 99 is outside a vocabulary of 9"),
        ([-1, 2], "input 2: id -1 is outside"),
    ):
        with pytest.raises(transduce_engine.EngineError, match=message):
            engine.answer_ids([[4, 2], row])
    with pytest.raises(transduce_engine.EngineError, match=r"id 500 cannot stand in an output"):
        engine.score_ids([[4, 2]], [[500, 2]])
    with pytest.raises(transduce_engine.EngineError, match=r"2 outputs for 1 sources"):
        engine.score_ids([[4, 2]], [[2], [2]])


@pytest.mark.parametrize("name", SEARCHES)
def test_a_wrong_search_or_prefix_is_refused_in_a_line_or_answers(name: str) -> None:
    _, file = content(TABLES["convs2s"], SEARCHES["greedy"])
    engine, numbers = transduce_engine.load(file), random.Random(name)
    for _ in range(TRIES["fast"]):
        search = changed({"search": resolved(SEARCHES[name])}, numbers).get("search", {})
        prefixes = [
            [numbers.choice([4, 5, 3, 2, 0, -1, 10, 11, 2**40]) for _ in range(numbers.randrange(9))] for _ in ROWS
        ]
        told = "answered"
        try:
            engine.search_ids(ROWS, json.dumps(search), prefixes and Wanted(prefixes))
        except transduce_engine.EngineError as error:
            told = str(error)
        assert told
        assert "\n" not in told


@pytest.mark.parametrize(
    ("search", "prefix", "message"),
    [
        ({"type": "labels"}, [4], "the search does not fit the model"),
        ({"type": "greedy", "max_length": 3}, [4, 5, 6], "a prefix of 3 tokens and the end do not fit max_length = 3"),
        ({"type": "greedy"}, [2], "id 2 cannot stand in a prefix"),
        ({"type": "greedy"}, [11], "id 11 cannot stand in a prefix"),
    ],
)
def test_a_search_or_a_prefix_that_does_not_fit_is_told(search: Any, prefix: list[int], message: str) -> None:
    _, file = content(TABLES["convs2s"], SEARCHES["greedy"])
    with pytest.raises(transduce_engine.EngineError, match=f"^{message}$"):
        transduce_engine.load(file).search_ids([[5, 2]], json.dumps(resolved(search)), Wanted([prefix]))
