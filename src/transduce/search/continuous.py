"""Continuous batching: sources leave the batch when they finish, and waiting sources replace them.

In a fixed batch, a step costs almost as much for the last few sources as for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Generic

from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import Padded
from transduce.search.base import Continuous, Finished, G

SHARE = 0.125  # if more of the batch is active, no sources enter: until the old ones end, each step is two steps


class ContinuousBatch(Generic[G]):
    """A batch of at most ``size`` sources that enter and leave while the search runs.

    The caller names each source by a key, a number that no other active source has. It calls ``step`` until ``step``
    returns the source's key. The hypotheses of a source do not depend on the other sources, up to rounding. Raises
    UserError if ``size`` is less than 1, or if sources of different ages cannot share a batch of this search.

    A group is a state of the search, such as ``beam.BeamState``, and each step replaces it by the next one. If many
    sources enter, they form their own group, and both groups are stepped separately. A single group would need states
    of the length of the oldest source for all sources, and a beam copies its states at each step.
    """

    def __init__(self, search: Continuous[G], model: Autoregressive[S], size: int) -> None:
        if size < 1:
            raise UserError(f"batch_size = {size}: at least one sentence goes in a batch")
        if not search.staggered:
            raise UserError(
                f"sources cannot enter and leave a batch of this search ({search}): an observer or a filter needs all "
                "sources to have the same age; use fixed batches"
            )
        self.search, self.model, self.size = search, model, size
        self._groups: list[G] = []  # at most two groups with active sources, the older one first

    @property
    def active(self) -> list[int]:
        """The keys of the sources that are not finished."""
        return [key for group in self._groups for key in group.active]

    @property
    def free(self) -> int:
        """The number of sources that may enter now."""
        return self.size - len(self.active)

    @property
    def has_room(self) -> bool:
        """True if few sources are active, so that the entry of new sources is worth its cost."""
        return len(self.active) <= SHARE * self.size

    def enter(self, source: Padded, keys: Sequence[int], prefix: Padded | None = None) -> Finished:
        """Adds new sources and does their first step. Returns the sources that have finished in this step.

        ``source`` has one row for each of ``keys``. ``prefix``, if given, has the tokens that its outputs begin with.
        Raises UserError if there are more than ``free`` new sources.
        """
        if len(keys) > self.free:
            raise UserError(f"{len(keys)} sources cannot enter a batch with {self.free} free places")
        many = len(keys) > len(self.active)
        entered, finished = self.search.enter(self.model, source, keys, prefix)
        if many:  # a group of their own, beside one group of all older sources
            self._groups = _active([*self._joined(self._groups), entered])
        else:
            self._groups = self._joined([*self._groups, entered])
        return finished

    def step(self) -> Finished:
        """Does one step for all active sources. Returns the sources that have finished in this step."""
        stepped = [self.search.step(self.model, self.search.leave(group)) for group in self._groups]
        self._groups = _active(group for group, _ in stepped)
        return [each for _, finished in stepped for each in finished]

    def drop(self, keys: Collection[int]) -> None:
        """Removes these sources from the batch without returning them."""
        self._groups = _active(group.without(keys) for group in self._groups)

    def _joined(self, groups: Sequence[G]) -> list[G]:
        """A list with the active sources of all groups in one group. It is empty if no source is active."""
        groups = _active(groups)
        return [self.search.join(groups)] if len(groups) > 1 else groups


def _active(groups: Iterable[G]) -> list[G]:
    return [group for group in groups if group.active]
