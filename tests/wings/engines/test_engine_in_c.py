"""A program in C answers with the engine, by its header alone."""

from __future__ import annotations

import shutil
import subprocess
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
