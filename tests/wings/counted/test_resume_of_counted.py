"""What the wing counted adds to test_resume.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_resume import Report, append, own_data

from transduce import api
from transduce.core.errors import UserError


def test_a_counted_model_is_counted_again_only_on_request(tiny: dict[str, Any], tmp_path: Path) -> None:
    files = {key: value for key, value in own_data(tmp_path, tiny).items() if key.startswith("data.")}
    (tmp_path / "words.txt").write_text(
        "".join(f"{word}\n" for word in ("abc", "cab", "yx"))
    )  # the list of English is long
    run, settings = tmp_path / "run", files | {"data.lines.empty": "skip", "model.words": str(tmp_path / "words.txt")}
    api.train("spelling-channel", run, settings | {"training.epochs": 1}, device="cpu", progress=False)
    append(tmp_path / "train.tsv", "xy\tyx\n")
    with pytest.raises(UserError, match="1 were appended"):
        api.train("spelling-channel", run, resume=True, device="cpu", progress=False)
    report = Report()
    api.train("spelling-channel", run, resume="new-data", device="cpu", callbacks=[report], progress=False)
    assert "counted already" not in report.started.report
    assert "1 were appended" in "\n".join(report.started.report)
