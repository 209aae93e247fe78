"""What the wing alignment adds to test_requests.py."""

from __future__ import annotations

import pytest
from test_requests import model, written  # noqa: F401

import transduce
from transduce.data.tokenizers.text import Words
from transduce.search.beam import Beam


def test_extras_are_for_those_who_ask() -> None:
    model = written(Words(), Beam(4, 2, 6))
    plain, aligned, replaced = model.answer(
        [
            transduce.Request("the cat"),
            transduce.Request("the cat", extras=transduce.Extras(alignments=True)),
            transduce.Request("the cat", extras=transduce.Extras(replace_unknowns={"cat": "Katze"})),
        ]
    )
    assert plain.best.alignment is None
    assert aligned.best.alignment is not None
    assert replaced.best.alignment is None
    assert (
        [one.ids for one in plain.outputs] == [one.ids for one in aligned.outputs] == [o.ids for o in replaced.outputs]
    )
    with pytest.raises(transduce.RequestError, match="attention = 'decoder', and nothing is aligned"):
        transduce.Extras(attention="decoder")
    with pytest.raises(transduce.RequestError, match="head = 0, and nothing is aligned"):
        transduce.Extras(head=0)
    with pytest.raises(transduce.UserError, match="has no frames"):
        next(model.answer([transduce.Request("a", extras=transduce.Extras(frames=True))]))
