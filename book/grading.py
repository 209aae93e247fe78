"""The grading sheet: `python -m book.grading FOLDER`, or `bash scripts/book --grade FOLDER`.

The folder has chapters that a student has filled in, as notebooks (.ipynb) or as MyST Markdown (.md). Each exercise is
one cell with `check(NUMBER, ...)`. The cell runs alone, so a slow experiment costs nothing.
"""

from __future__ import annotations

import ast
import csv
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from book import chapter, parts
from book.exercise import Verdict, exercises, judge


def grade(path: Path) -> list[Verdict]:
    """The verdicts on the three exercises of a student's chapter. The book's solutions (hide-cell) do not count."""
    name = path.stem
    verdicts = []
    for number, exercise in enumerate(exercises(name), 1):
        found = Verdict(False, "no answer")
        for cell in _cells(path):
            checked = _checked(cell.code, number)
            if checked and "hide-cell" not in cell.tags:
                found = _verdict(cell.code, checked, exercise)
                break
        verdicts.append(found)
    return verdicts


def _verdict(code: str, checked: str, exercise: Any) -> Verdict:
    """Runs the cell without its `check`, and judges the value of the expression that was checked."""
    space: dict[str, Any] = {}
    kept = "\n".join(line for line in code.splitlines() if not line.startswith("check("))
    try:
        with redirect_stdout(StringIO()):
            exec(compile(f"import math\nimport numpy as np\n{kept}", "answer", "exec"), space)  # a student's own code
            answer = eval(checked, space)
    except Exception as error:
        return Verdict(False, f"the cell raised {type(error).__name__}: {error}")
    return Verdict(False, "no answer") if answer is ... else judge(exercise, answer)


def _checked(code: str, number: int) -> str:
    """The second argument of `check(number, ...)` in a cell; empty if the cell has no such call."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check":
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and first.value == number and len(node.args) == 2:
                return ast.unparse(node.args[1])
    return ""


def _cells(path: Path) -> list[parts.Cell]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return parts.cells(text)
    found = json.loads(text)["cells"]
    return [
        parts.Cell("".join(cell["source"]), tuple(cell.get("metadata", {}).get("tags", ())))
        for cell in found
        if cell["cell_type"] == "code"
    ]


def sheet(folder: Path) -> Iterator[list[str]]:
    """The rows of the sheet: the chapter, a 1 or a 0 for each exercise, the sum, and what was said to wrong answers."""
    yield ["chapter", "1", "2", "3", "right", "messages"]
    for name in chapter.chapters():
        path = next((each for each in (folder / f"{name}.ipynb", folder / f"{name}.md") if each.exists()), None)
        verdicts = [Verdict(False, "no file")] * 3 if path is None else grade(path)
        points = [str(int(each.right)) for each in verdicts]
        messages = " | ".join(f"{n}: {each.message}" for n, each in enumerate(verdicts, 1) if not each.right)
        yield [name, *points, str(sum(each.right for each in verdicts)), messages]


if __name__ == "__main__":
    csv.writer(sys.stdout).writerows(sheet(Path(sys.argv[1])))
