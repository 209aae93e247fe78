"""What a filter is."""

from __future__ import annotations

from typing import Protocol, TypeVar

from torch import Tensor

from transduce.search.follower import Follower

S = TypeVar("S")


class Filter(Follower[S], Protocol[S]):
    """Lowers the scores [N, V] of next tokens, to minus infinity where one is forbidden; it may write into them.

    Scores are log-probabilities, less what filters have taken. They are never raised: a beam stops where those alive
    cannot win any more. What a filter does to one row must not depend on the others. Where all filters together leave
    a row nothing, not even the end, it ends and ranks behind those that were left something. Filters have no say in a
    forced prefix, of which they are told like of all else.
    """

    def __call__(self, scores_NV: Tensor, state: S) -> Tensor: ...
