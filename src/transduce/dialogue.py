"""Dialogues as sources: the last turns of a dialogue in one text."""

from __future__ import annotations

from collections.abc import Sequence

BETWEEN = " | "


def history(turns: Sequence[str], most: int) -> str:
    """The last ``most`` turns of a dialogue as one text, the oldest first, with "|" between two turns. White space
    inside a turn becomes one space, and a "|" inside it a "/".
    """
    return BETWEEN.join(" ".join(turn.replace("|", "/").split()) for turn in turns[-most:])
