"""An empty source has an empty output, on every way to an answer; and a search writes no <unk> unless asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from transduce.core.types import EOS, UNK
from transduce.search.greedy import Greedy


@pytest.fixture
def eager(trained: Path) -> transduce.Transducer:
    """A model that likes to write something, and <unk> most of all."""
    model = transduce.load(trained, device="cpu")
    with torch.no_grad():
        model.model.decoder.projection.bias[EOS] -= 20
        model.model.decoder.projection.bias[UNK] += 20
    return model


def test_what_a_request_or_the_data_asks_for_is_written(eager: transduce.Transducer) -> None:
    model = eager.with_search(Greedy(4))
    assert next(model.predict([""], prefix="ab"))[0].text.startswith("ab")
    assert len(next(replace(model, keeps_empty=True).predict([""]))[0].tokens) == 4


def test_a_search_may_be_told_to_write_unk(trained: Path, call: Callable[..., Any]) -> None:
    assert transduce.load(trained, device="cpu", settings={"search.unknown": True}).search.unknown
