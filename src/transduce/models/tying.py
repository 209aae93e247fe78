"""Two tables as one parameter."""

from __future__ import annotations

from transduce.errors import UserError
from transduce.protocols import Table


def share(taker: Table, giver: Table, what: str) -> None:
    """Make ``taker.weight`` the parameter ``giver.weight``. Raises ValueError where there is none, or they differ."""
    if getattr(taker, "weight", None) is None:
        raise UserError(
            f"tie: cannot share {what}: {type(taker).__name__} makes vectors of a signal and has no table of words; "
            'set tie = "target" or "none"'
        )
    theirs, ours = tuple(taker.weight.shape), tuple(giver.weight.shape)
    if theirs != ours:
        raise UserError(
            f"tie: cannot share {what}: they are {theirs} and {ours} [vocabulary, width]; make the widths equal, and "
            "for tie = 'all' learn one vocabulary (data.units.joint)"
        )
    taker.weight = giver.weight
