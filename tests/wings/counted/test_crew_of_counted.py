"""What the wing counted adds to test_crew.py."""

from __future__ import annotations

import pytest

from transduce.compute.crew import ALONE, Crew
from transduce.core import recipes
from transduce.core.errors import UserError
from transduce.training.begin import check_crew
from transduce.training.settings import read_settings


def test_counted_models_and_streams_need_one_process() -> None:
    counted = recipes.change(recipes.read("g2p-joint"), {})
    with pytest.raises(UserError, match="counted by one process"):
        check_crew(read_settings(counted), Crew(0, 2))
    streamed = recipes.change(recipes.read("ptb-lstm"), {})
    with pytest.raises(UserError, match=r"training\.streams"):
        check_crew(read_settings(streamed), Crew(0, 2))
    check_crew(read_settings(streamed), ALONE)
