"""What a prediction is compared with."""

from __future__ import annotations

from transduce.errors import UserError
from transduce.types import Example


def references(example: Example) -> tuple[str, ...]:
    """The references of an example; ValueError where there are none, for then no score is defined."""
    if not example.references:
        raise UserError(f"no reference for the source {example.source!r}: every example to be measured needs one")
    return example.references
