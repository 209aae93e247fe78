"""What the wing recipes adds to test_config.py."""

from __future__ import annotations

from test_config import refused

from transduce.core import config, recipes
from transduce.training.settings import read_settings


def test_parts_are_missed_before_anything_is_made() -> None:
    """A missing part is an error before anything is built, even if another part builds it: a builder hands over
    numbers, never parts.
    """
    table = recipes.read("multi30k-de-en-recurrent")
    read_settings(table)
    with refused("model.decoder.wiring.attention: missing; Bahdanau needs attention, a table"):
        read_settings(config.assign(table, "model.decoder.wiring", {"type": "bahdanau"}))
