"""What the wing recipes adds to test_streams.py."""

from __future__ import annotations

from typing import Any

import pytest
from test_streams import SETTINGS

from transduce.core.config.errors import ConfigError
from transduce.training.settings import read_settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"units": {"joint": "characters"}}}, "only a language model, whose data.units have a target alone"),
        ({"objective": {"type": "cross-entropy", "forcing": "word-dropout"}}, "must read the text's own words"),
        ({"distillation": {"teacher": "runs/other"}}, "leave out distillation"),
        ({"model": {"type": "ngram"}}, "is counted, and not trained by gradients: leave training.streams out"),
    ],
)
def test_what_reads_no_streams_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings({**SETTINGS, **changes})
