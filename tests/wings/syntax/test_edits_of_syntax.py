"""What the wing syntax adds to test_edits.py."""

from __future__ import annotations

from transduce.core.types import PAD
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.wings.syntax.tokenizers.features import Features


def test_the_data_know_what_a_copy_writes() -> None:
    source = Features(Characters()).learn(["V;PST\tab", "N\tbc"])
    target = Characters().learn(["cab", "d"])
    copies = Tokenizers(source, target).facts.copies
    assert len(copies) == len(source)
    found = {source.tokens([i])[0]: target.tokens([to])[0] for i, to in enumerate(copies) if to != PAD}
    assert found == {"a": "a", "b": "b", "c": "c"}
    assert set(Tokenizers(source, Symbols().learn(["x y"])).facts.copies) == {PAD}
