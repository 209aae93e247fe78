"""Tokenizer files of every kind can be loaded, also files of a user's own units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from transduce.core.protocols import Parallel, can, lacking_verbs
from transduce.data.corpora import DataError
from transduce.data.tokenizers.storage import record_of


def test_a_tokenizer_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    class Mine:
        def as_json(self) -> Any:
            return {}

    with pytest.raises(DataError, match=r"a Mine could be saved but not loaded: give Mine a kind .* tokenizer = Mine"):
        record_of(Mine())  # type: ignore[arg-type]


def test_a_model_needs_the_methods_that_its_protocol_inherits() -> None:
    """``Parallel`` defines ``emit``, and inherits ``start`` and ``readout``."""

    class Half:
        def emit(self, source: Any, lengths: Any = None) -> None: ...

    assert not can(Half, Parallel)
    assert lacking_verbs(Half, Parallel) == ["start", "readout"]
