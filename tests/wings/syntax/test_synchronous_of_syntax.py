"""What the wing syntax adds to test_synchronous.py."""

from __future__ import annotations

from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Symbols
from transduce.wings.summaries.tokenizer import Selection
from transduce.wings.syntax.tokenizers.trees import TreeBrackets, TreeTags


def test_the_data_know_what_stands_for_a_word() -> None:
    source = Symbols().learn(["We agree"])
    units = TreeBrackets().learn(["(S (PRP We))"])
    (place,) = Tokenizers(source, units).facts.placeholders
    assert units.tokens([place]) == ["XX"]
    for target in (TreeTags().learn(["(S (PRP We))"]), Selection().learn([]), source):
        assert Tokenizers(source, target).facts.placeholders == ()
