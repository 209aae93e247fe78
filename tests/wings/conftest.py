"""Fixtures of the wings."""

from __future__ import annotations

import pytest
import torch

from transduce.wings.records import machine


@pytest.fixture
def quick_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the measurement of this machine's GFLOP/s, which takes a second or more, by fixed numbers."""
    monkeypatch.setattr(machine, "measure_gflops", lambda dtype, **_: 12.5 if dtype is torch.float32 else 25.0)
