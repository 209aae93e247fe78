"""What the wing recipes adds to test_mixing.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from transduce.data.corpora import DataError, Files, Splits
from transduce.wings.recipes.origins import multi30k
from transduce.wings.recipes.origins.multi30k import Multi30kDirections


def test_directions_are_corpora_with_the_language_of_the_target_as_the_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    def brought(self: Any, folder: Path) -> Splits:
        return Splits(*(Files(source=f"{split}.{self.source}", target=f"{split}.{self.target}") for split in "abc"))

    monkeypatch.setattr(multi30k.Multi30k, "prepare", brought)
    train = Multi30kDirections(("de-en", "en-fr")).prepare(Path()).train
    assert train is not None
    assert [(each.source, each.target, each.tag, each.name) for each in train.parts] == [
        ("a.de", "a.en", "__en__", "de-en"),
        ("a.en", "a.fr", "__fr__", "en-fr"),
    ]
    for wrong in (("de-de",), ("de-pl",), ("de",), ()):
        with pytest.raises(DataError, match="directions"):
            Multi30kDirections(wrong)
