"""The law *resume* for any schedule: rates, checkpoints, validations, averages and accumulation in any rhythm."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_resume import At, KilledError, kill, train

RATES: list[dict[str, Any]] = [
    {"type": "constant"},
    {"type": "inverse-sqrt", "warmup": 2},
    {"type": "cosine", "warmup": 1},
    {"type": "linear", "warmup": 3},
    {"type": "step"},
    {"type": "plateau"},
]


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_any_schedule_goes_on_from_any_update(tiny: dict[str, Any], data: st.DataObject) -> None:
    def number(most: int) -> int:
        return data.draw(st.integers(1, most))

    asked = tiny | {
        "training.schedule": data.draw(st.sampled_from(RATES)),
        "training.checkpoint_every": number(4),
        "training.validation.every": number(4),
        "training.average": number(3),
        "training.accumulate": number(2),
        "training.steps": number(6) + 2,
    }
    killed = number(asked["training.steps"] - 1)
    with tempfile.TemporaryDirectory() as folder:
        whole, cut = Path(folder) / "whole", Path(folder) / "cut"
        train(whole, asked)
        with pytest.raises(KilledError):
            train(cut, asked, At(killed, kill))
        train(cut, (), resume=True)
        names = ["last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"]
        for name in names:
            assert (whole / "checkpoints" / name).read_bytes() == (cut / "checkpoints" / name).read_bytes(), name
