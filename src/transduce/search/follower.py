"""What follows a search: it remembers something of each hypothesis, and is told each token that is written.

N rows, of which a source may have several (``tree.repeat``), T tokens.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from torch import Tensor

S = TypeVar("S")


class Follower(Protocol[S]):
    """``start`` once a batch, a row for each source; ``extend`` with what each row has written next, as a model's:
    a whole prefix [N, T], or a step of T = 1 (the beginning of a sentence is never told). The state is a tree, moved
    about with the model's own."""

    def start(self, source: Any) -> S: ...

    def extend(self, tokens_NT: Tensor, state: S) -> S: ...


class Forgetful:
    """A follower that remembers nothing."""

    def start(self, source: Any) -> None:
        return None

    def extend(self, tokens_NT: Tensor, state: None) -> None:
        return None
