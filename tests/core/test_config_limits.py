"""Limits of a stranger's configuration. Each impossible value is refused at once, in one line."""

from __future__ import annotations

import contextlib
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from transduce.core import config, recipes, registry
from transduce.core.config.checking import check_value
from transduce.core.config.spec import parameters_of
from transduce.training.settings import read_settings


def refused(call: Any) -> str:
    with pytest.raises(config.ConfigError) as caught:
        call()
    (line,) = str(caught.value).splitlines()
    assert len(line) < 500
    return line


@pytest.mark.parametrize(
    "call",
    [
        lambda: config.override({}, ".".join(["a"] * 100_000) + "=1"),
        lambda: config.assign({}, ".".join(["a"] * 100_000), 1),
        lambda: config.override({}, "a=" + "[" * 100_000 + "]" * 100_000),
        lambda: config.override({}, "a=" + "{a=" * 200 + "1" + "}" * 200),
        lambda: config.parse(".".join(["a"] * 400_000).encode() + b"=1", "stranger.toml"),
        lambda: config.parse(b"a = " + b"[" * 100_000 + b"]" * 100_000, "stranger.toml"),
        lambda: config.parse(b"[" + b".".join([b"a"] * 101) + b"]", "stranger.toml"),
        lambda: config.parse(b"x = {" + b".".join([b'"a.b"'] * 100_000) + b" = 1}", "stranger.toml"),
        lambda: config.parse(b"#" * 1_000_001, "stranger.toml"),
    ],
)
def test_keys_tables_and_files_without_end_are_refused(call: Any) -> None:
    assert re.search("100,000 parts; at most 100|nested more than 100 deep|more than 1,000,000 bytes", refused(call))


def test_a_configuration_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path / "pipe.toml", Path("/dev/zero")):
        assert refused(lambda path=path: config.read(path)).startswith(f"{path}: is a device or a pipe")


def test_long_values_are_read_in_no_time() -> None:
    word = b"a" * 900_000
    assert config.parse(b'x = "' + word + b'"', "long.toml") == {"x": word.decode()}
    assert config.parse(b"# " + b"." * 900_000 + b"\nx = 1", "ruler.toml") == {"x": 1}


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "9" * 5000, "[0x" + "9" * 5000 + "]", "-0x" + "9" * 5000])
def test_integers_of_thousands_of_digits_are_refused_in_a_line(text: str) -> None:
    setting = f"training.batching.tokens={text}"
    refused(lambda: read_settings(recipes.change(recipes.read("reverse"), [setting])))


def test_no_number_of_a_configuration_is_infinite() -> None:
    taken = set()
    for protocol, name in [(table, name) for table in registry.NAMES for name in registry.installed(table)]:
        for key, parameter in parameters_of(registry.find(protocol, name)).items():
            for value in (math.inf, -math.inf, 1e300, math.nan):
                with contextlib.suppress(config.ConfigError):
                    check_value(value, parameter.annotation, key, {})
                    taken.add((key, value))
    assert {key for key, _ in taken} <= {"beam", "threshold"}  # infinity removes no hypothesis
    assert {value for _, value in taken} <= {math.inf, 1e300}
