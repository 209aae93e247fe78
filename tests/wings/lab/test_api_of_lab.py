"""What the wing lab adds to test_api.py."""

from __future__ import annotations

import pytest

import transduce


def test_public_names_are_pinned() -> None:
    expected = [
        "Answer",
        "Callback",
        "Constraints",
        "Extras",
        "Output",
        "Protection",
        "Request",
        "RequestError",
        "Transducer",
        "UserError",
        "Wishes",
        "Workers",
        "distance",
        "fit",
        "inspect",
        "load",
        "recipes",
        "register",
        "sweep",
        "train",
        "translate_document",
    ]
    assert sorted(transduce.__all__) == sorted(expected)
    assert all(getattr(transduce, name) is not None for name in expected)
    assert set(expected) < set(dir(transduce))
    with pytest.raises(AttributeError, match="trane"):
        transduce.trane  # noqa: B018
