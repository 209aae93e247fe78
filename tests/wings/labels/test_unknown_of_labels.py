"""What the wing labels adds to test_unknown.py."""

from __future__ import annotations

from typing import Any

import pytest

from transduce.answers.shares import Shares
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Symbols, Unigram, Words
from transduce.data.unknown import unknown_in
from transduce.wings.labels.pairs import Pair
from transduce.wings.labels.spelled import Spelled
from transduce.wings.labels.tokenizer import Labelled
from transduce.wings.syntax.tokenizers.factors import Factored
from transduce.wings.syntax.tokenizers.features import Features

UNITS: dict[str, tuple[Any, list[str], str, tuple[int, int, tuple[str, ...]]]] = {
    # a unit, the text that it learns, a line, and its unknown tokens: their number, all tokens, spellings
    "characters": (Characters(), ["ab a"], "aк b", (1, 4, ("к",))),
    "words": (Words(), ["a dog"], "a cat", (1, 2, ("cat",))),
    "symbols": (Symbols(), ["A B"], "A X A", (1, 3, ("X",))),
    "bpe": (Bpe(size=20), ["abab abab"], "abк", (1, 3, ("к",))),
    "unigram": (Unigram(size=20), ["abab abab ab"], "aк", (1, 2, ("к",))),
    "bytes": (Bytes(), ["a"], "к", (0, 2, ())),
    "spelled": (Spelled(Characters(), Symbols()), ["ab ba"], "aa кb", (1, 4, ("к",))),
    "factors": (Factored(), ["a|N b|V"], "a|X c|V", (2, 4, ("X", "c"))),
    "labelled": (Labelled(Characters()), ["x\tab"], "y\taк", (2, 3, ("y", "к"))),
    "features": (Features(Characters()), ["V;N\tab"], "V;X\ta", (1, 3, ("V;X",))),
    "pair": (Pair(Characters()), ["ab\tab"], "aк\tb", (1, 3, ("к",))),
}


@pytest.mark.parametrize("name", UNITS)
def test_unknown_tokens_are_counted_and_named_for_each_unit(name: str) -> None:
    unit, learned, line, (count, tokens, first) = UNITS[name]
    tokenizer = unit.learn(learned)
    (row,) = tokenizer.encode([line])
    found = unknown_in(tokenizer, row, line)
    assert (found.count, [each.strip() for each in found.first]) == (count, list(first))
    assert name in ("bpe", "unigram") or found.tokens == tokens  # their pieces are the library's affair
    assert (found.lines, found.affected) == (1, int(count > 0))


def test_references_that_no_tokenizer_reads_are_left_out() -> None:
    shares = Shares()
    shares.compare_with(Factored().learn(["a|N"]), ["no factors", "b|N"], "")
    assert (shares.references.count, shares.references.lines) == (1, 1)
