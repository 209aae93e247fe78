"""Dialogues as sources: the last turns of a dialogue in one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

BETWEEN = " | "


def history(turns: Sequence[str], most: int) -> str:
    """The last ``most`` turns of a dialogue as one text, the oldest first, with "|" between two turns. White space
    inside a turn becomes one space, and a "|" inside it a "/".
    """
    return BETWEEN.join(" ".join(turn.replace("|", "/").split()) for turn in turns[-most:])


@dataclass(frozen=True)
class Conversation:
    """A dialogue so far: its ``turns``, the oldest first, and the ``labels`` of its sources, such as a topic or the
    name of the speaker who replies.

    A source has the labels and the last ``most`` turns.
    """

    most: int
    labels: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()

    def with_turn(self, turn: str) -> Conversation:
        """The conversation with one more turn at its end."""
        return replace(self, turns=(*self.turns, turn))

    @property
    def source(self) -> str:
        """The source for the next reply: the labels and ``history``, with a tab between two of them."""
        return "\t".join((*self.labels, history(self.turns, self.most)))
