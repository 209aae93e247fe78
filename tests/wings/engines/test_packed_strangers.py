"""Packed runs from strangers: a damaged .zip file is refused in a line, or it answers as the whole one does.

``scripts/sanitize`` runs the slow test here with the address and undefined-behaviour sanitizers.
"""

from __future__ import annotations

import random
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import transduce
from transduce.core.errors import UserError
from transduce.wings.engines.sharing.packing import pack

WORDS = ["ab", "ba", "x"]
TRIES = {"fast": 60, "slow": 2_000}
Damage = Callable[[bytearray, random.Random], None]


def flip(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def flip_in_directory(data: bytearray, draw: random.Random) -> None:
    """Names, sizes, methods and places of the files stand at the end."""
    start = data.index(b"PK\x01\x02")
    data[draw.randrange(start, len(data))] = draw.randrange(256)


def flip_in_a_header(data: bytearray, draw: random.Random) -> None:
    starts = [place for place in range(len(data) - 4) if data[place : place + 4] == b"PK\x03\x04"]
    data[draw.choice(starts) + draw.randrange(60)] = draw.randrange(256)


def cut(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def cut_out(data: bytearray, draw: random.Random) -> None:
    first = draw.randrange(len(data))
    del data[first : first + draw.randrange(1, 500)]


def repeat(data: bytearray, draw: random.Random) -> None:
    first = draw.randrange(len(data))
    data[first:first] = data[first : first + draw.randrange(1, 500)]


def fill(data: bytearray, draw: random.Random) -> None:
    first = draw.randrange(len(data))
    data[first : first + 8] = draw.choice((b"\0" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7))


DAMAGES: list[Damage] = [flip, flip_in_directory, flip_in_a_header, cut, cut_out, repeat, fill]


@pytest.fixture(scope="module")
def packed(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("packs") / "run.zip"
    pack(trained, file)
    return file


def answers(file: Path) -> list[str]:
    return transduce.load(file, device="cpu")(WORDS)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "tries", [TRIES["fast"], pytest.param(TRIES["slow"], marks=(pytest.mark.slow, pytest.mark.hostile))]
)
def test_damaged_packs_are_refused_or_answer_as_the_whole_one(
    tries: int, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, right, refused = packed.read_bytes(), answers(packed), 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(tries):
        data, draw = bytearray(whole), random.Random(number)
        draw.choice(DAMAGES)(data, draw)
        file = tmp_path / "damaged.zip"
        file.write_bytes(data)
        try:
            found = answers(file)
        except UserError as error:
            refused, line = refused + 1, str(error)
        else:
            assert found == right, number
            line = ""
        assert "\n" not in line, number
    assert refused > tries / 3


FOREIGN = ["../out.toml", "/etc/out.toml", "a/../../out.toml", "config.toml", "x.py", "C:\\x.toml"]


@pytest.mark.parametrize("name", FOREIGN)
def test_files_that_no_pack_has_are_refused(name: str, packed: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    file.write_bytes(packed.read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile itself warns of the second config.toml
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(name, "model = {}")
    with pytest.raises(UserError, match=r"do not use it|copy it again"):
        answers(file)
