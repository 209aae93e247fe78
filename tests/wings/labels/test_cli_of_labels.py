"""What the wing labels adds to test_cli.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_cli import Call, told

import transduce
from transduce import api


@pytest.fixture(scope="module")
def labelled(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "labelled"
    settings = {key: value for key, value in tiny.items() if not key.startswith("model.encoder")}
    settings |= {"data.origin": {"type": "ordered", "pairs": 120, "longest": 5}, "model.encoder.text.width": 6}
    api.train("labelled", run, settings, device="cpu", progress=False)
    return run


def test_a_line_of_labels_and_text_is_a_source(labelled: Path, call: Call, caplog: pytest.LogCaptureFixture) -> None:
    stdin = b"sort\tcab\nnew\tcab\nsort\t\n"
    status, out, _ = call("predict", labelled, "--device=cpu", "--format=jsonl", stdin=stdin)
    assert status == 0
    assert [json.loads(line)["source"] for line in out.splitlines()] == ["sort\tcab", "new\tcab", "sort\t"]
    rows = call("predict", labelled, "--device=cpu", "--format=tsv", stdin=stdin)[1].splitlines()
    assert [row.split("\t")[0] for row in rows] == ["sort cab", "new cab", "sort "]
    assert call("predict", labelled, "--device=cpu", stdin=b"sort\tcab\ncab\n")[0] == 1
    assert "input 2: 'cab' has 1 tab-separated field" in caplog.text


def test_the_last_column_is_the_target(labelled: Path, call: Call) -> None:
    rows = b"sort\tcab\tabc\nreverse\tcab\tabc\n"
    status, out, _ = call("score", labelled, "--device=cpu", stdin=rows)
    model = transduce.load(labelled, device="cpu")
    expected = [output.log_prob for output in model.score([("sort\tcab", "abc"), ("reverse\tcab", "abc")])]
    assert status == 0
    assert [float(line) for line in out.splitlines()] == pytest.approx(expected, rel=1e-4)
    assert expected[0] != expected[1]
    assert "input 1: 'cab' has 1" in told(call("score", labelled, "--device=cpu", stdin=b"cab\tabc\n"))
    assert "line 1 has one column" in told(call("score", labelled, "--device=cpu", stdin=b"cab\n"))
    line = told(call("score", labelled, "--device=cpu", stdin=b"a\tsort\tcab\tabc\n"))
    assert "line 1 has 4 columns: expected a source, labels included, of at most 2 columns, a tab and a target" in line


def test_labels_are_evaluated_surveyed_and_looked_into(tiny: dict[str, Any], labelled: Path, call: Call) -> None:
    status, out, _ = call("evaluate", labelled, "--json", "--device=cpu", "--beam=1")
    assert (status, json.loads(out)["examples"]) == (0, 100)
    cache = f"--set=data.cache={json.dumps(tiny['data.cache'])}"
    status, out, _ = call("data", "labelled", "--set=data.origin={type='ordered', pairs=120, longest=5}", cache)
    assert status == 0
    assert "<rotate> p h </s>" in out
    status, out, _ = call("inspect", labelled, "sort\tcab", "--target=abc", "--device=cpu")
    assert (status, out.splitlines()[0].split()) == (0, ["c", "a", "b", "</s>"])
