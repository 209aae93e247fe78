"""The engine from C and from CMake: a program in C answers by the header alone, and the distribution has every file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_engine_file import SEARCHES, TABLES, content, needs_engine

import transduce_engine
from transduce_engine.library import built

HEADER = Path(__file__).parents[3] / "engine" / "src" / "engine.h"
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "engine.h"

int main(int count, char** arguments) {
    static char bytes[1 << 20], message[200];
    FILE* file = fopen(arguments[1], "rb");
    const uint64_t size = fread(bytes, 1, sizeof bytes, file);
    TransduceEngine* engine = transduce_engine_open(bytes, size, message, sizeof message);
    if (engine == NULL) return puts(message), 1;
    const int64_t end = 3;
    const TransduceOptions own = {0, 0, 0};
    const TransduceAnswers* answers = transduce_engine_answer(engine, "abc", &end, 1, own, message, sizeof message);
    printf("%.*s %.4f\n", (int)answers->text_ends[0], answers->texts, answers->score[0]);
    transduce_engine_free(answers);
    transduce_engine_close(engine);
    return transduce_engine_open(bytes, size / 2, message, sizeof message) == NULL ? puts(message), 0 : 1;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
def test_cmake_builds_the_distribution_without_a_warning(tmp_path: Path) -> None:
    build, installed = tmp_path / "build", tmp_path / "site-packages"
    for command in (
        ["-S", HEADER.parents[1], "-B", build, "-DVARIANTS=portable", "-DCMAKE_BUILD_TYPE=Release"],
        ["--build", build],
        ["--install", build, "--prefix", installed],
    ):
        subprocess.run(["cmake", *command], check=True, capture_output=True)
    (tmp_path / "some.engine").write_bytes(content(TABLES["edits"], SEARCHES["greedy"])[1])
    done = subprocess.run(
        [sys.executable, "-m", "transduce_engine", tmp_path / "some.engine"],
        input=b"abc\n",
        capture_output=True,
        check=True,
        env={"PYTHONPATH": str(installed)},
        cwd=tmp_path,
    )
    assert done.stdout.count(b"\n") == 1
    assert {path.name for path in (installed / "transduce_engine").iterdir()} >= {
        "_portable.so",
        "engine.h",
        "py.typed",
    }


@needs_engine
@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler: gcc")
def test_a_program_in_c_answers_and_gets_a_line_for_a_wrong_file(tmp_path: Path) -> None:
    _, file = content(TABLES["convs2s"], SEARCHES["beam 5"])
    (tmp_path / "some.engine").write_bytes(file)
    (tmp_path / "program.c").write_text(PROGRAM)
    library, program = built()["_portable"], tmp_path / "program"
    options = ["-std=c99", "-Wall", "-Werror", f"-I{HEADER.parent}", f"-Wl,-rpath,{library.parent}"]
    subprocess.run(["gcc", *options, tmp_path / "program.c", library, "-o", program], check=True)
    done = subprocess.run([program, tmp_path / "some.engine"], capture_output=True, text=True, check=True)
    best = transduce_engine.load(file).answer(["abc"])[0].best
    assert done.stdout.startswith(f"{best.text} {best.score:.4f}\nit was cut off: tensor ")
