"""A pipe knows whether a line has come. Its bytes are those of Python's own files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.answers.batches import windows
from transduce.answers.paused_input import Arrivals
from transduce.core.pipes import Pipe
from transduce.core.text_files import bounded_lines, texts


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for end in (reading, writing):
        with suppress(OSError):
            os.close(end)


def test_what_has_come_is_answered_when_the_pipe_pauses(ends: tuple[int, int]) -> None:
    pipe = Pipe(ends[0])
    lines = texts(bounded_lines(pipe, "it"), "it")  # type: ignore[arg-type]
    found = windows(Arrivals(lines, partial(pipe.ready, 0.01)), 3)
    os.write(ends[1], b"a\nb")
    assert next(found) == ["a"]  # the second line has no end yet
    os.write(ends[1], b"c\n")
    assert next(found) == ["bc"]
    os.write(ends[1], b"d\ne\nf\ng\n")
    assert next(found) == ["d", "e", "f"]  # a full window needs no pause
    os.close(ends[1])
    assert next(found) == ["g"]
    assert list(found) == []


@given(st.binary(max_size=60), st.lists(st.one_of(st.integers(-1, 9), st.just("line"), st.just("peek")), max_size=12))
def test_its_bytes_are_those_of_a_file(content: bytes, steps: list[int | str]) -> None:
    content = content.replace(b"\x00", b"\n")
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    pipe, file = Pipe(reading), io.BytesIO(content)
    for size, step in enumerate(steps):
        if step == "peek":
            assert content[file.tell() :].startswith(pipe.peek())
        elif step == "line":
            assert pipe.readline(size) == file.readline(size)
        else:
            assert pipe.read(int(step)) == file.read(int(step))
    assert pipe.readline() == file.readline()
    assert pipe.read() == file.read()
    os.close(reading)
