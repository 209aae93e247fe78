"""What the wing looking adds to test_instant.py."""

from __future__ import annotations

import pytest

from families import PARALLEL, build
from transduce.answers.transducer import Transducer
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters
from transduce.search.length_beam import LengthBeam
from transduce.wings.looking.inspection.attention import attention


def test_attention_is_not_shown_of_what_is_written_at_once() -> None:
    letters = Characters()
    model = build(PARALLEL["instant, lstm to dense"])
    transducer = Transducer(model, LengthBeam(), Tokenizers(letters.learn(["abcde"]), letters.learn(["tuvwxyz"])))
    with pytest.raises(ValueError, match="this instant model does not write word by word, so it has no attention"):
        attention(transducer, "abc")
