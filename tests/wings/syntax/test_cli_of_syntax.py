"""What the wing syntax adds to test_cli.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from test_cli import Call, told

from transduce import api


def test_a_line_of_tokens_with_factors_is_a_source(tiny: dict[str, Any], tmp_path: Path, call: Call) -> None:
    (tmp_path / "s").write_text("a|X b|Y\nb|X\na|X a|X a|X\n" * 8)
    (tmp_path / "t").write_text("ab\nb\naaa\n" * 8)
    files = {"source": str(tmp_path / "s"), "target": str(tmp_path / "t")}
    units = {"source": {"type": "factored"}, "target": {"type": "characters"}}
    settings = tiny | {"data.train": files, "data.valid": files, "data.units": units}
    run = tmp_path / "run"
    api.train("reverse", run, settings | {"model.encoder.embedding": "summed"}, device="cpu", progress=False)
    status, out, _ = call("predict", run, "--device=cpu", "--format=jsonl", stdin=b"b|Y a|new\n")
    assert (status, json.loads(out)["source"]) == (0, "b|Y a|new")
    status, out, _ = call("inspect", run, "b|Y a|X", "--target=ab", "--device=cpu")
    assert (status, out.splitlines()[0].split()) == (0, ["b|Y", "a|X", "</s>"])
    line = told(call("predict", run, "--device=cpu", stdin=b"b|Y a\n"))
    assert "input 1: 'b|Y a' has 'a' for token 2, expected 2 factors" in line
