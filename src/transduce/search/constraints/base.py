"""Lexical constraints: phrases that an output must contain, and phrases that it must not contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import torch

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Search
from transduce.search.allocation.best import BestContinuations
from transduce.search.base import AnyAllocation, Filters
from transduce.search.constraints.automata import Automata, Borders, Phrases
from transduce.search.constraints.banks import Banks
from transduce.search.constraints.forbidden import Forbidden
from transduce.search.constraints.phrases import Tokenized
from transduce.search.filters.lengths import LengthLimit
from transduce_engine.phrases import Lexicon

M = TypeVar("M")  # a model
S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True, eq=False)
class BatchConstraints:
    """The constraints of all sources of a batch. They give a search a filter and an allocation.

    ``required`` or ``forbidden`` is None if no source has such phrases. ``borders`` is None if the vocabulary marks no
    words. ``longest`` is the length of the longest required phrase. The length of a phrase is the length of its
    shortest alternative.
    """

    required: Automata | None
    forbidden: Automata | None
    borders: Borders | None
    longest: int  # in tokens

    @classmethod
    def of(cls, sources: Sequence[Tokenized], borders: bytes | None, device: torch.device) -> BatchConstraints:
        def automata(phrases: Sequence[Phrases]) -> Automata | None:
            if not any(phrases):
                return None
            different = {each: number for number, each in enumerate(dict.fromkeys(phrases))}
            rows = torch.tensor([different[each] for each in phrases])
            return tree.map(lambda leaf: leaf.to(device), tree.select(Automata.of(list(different)), rows))

        lengths = [min(pattern.length for pattern in some) for each in sources for some in each.required]
        return cls(
            automata([each.required for each in sources]),
            automata([(each.forbidden,) if each.forbidden else () for each in sources]),
            tree.map(lambda leaf: leaf.to(device), Borders.of(borders)),
            max(lengths, default=0),
        )

    def filters(self, usual: Filters, max_length: int) -> Filters:
        """The search's ``usual`` filters. If phrases are forbidden, a filter for them is added. It obeys ``max_length``
        and every ``LengthLimit`` among the ``usual`` filters.
        """
        if self.forbidden is None:
            return usual
        limits = tuple(each for each in usual if isinstance(each, LengthLimit))
        return (*usual, Forbidden(self.forbidden, self.borders, max_length, limits))

    def check_nothing_required(self, search: str) -> None:
        if self.required is not None:
            raise UserError(
                f"required phrases need hypotheses to choose among, and {search} search has none: use a beam, --beam 10"
            )

    def allocation(self, usual: AnyAllocation, max_length: int) -> AnyAllocation:
        """The allocation for the required phrases, or the search's ``usual`` one if there are none.

        Raises UserError if the ``usual`` one is not the default, or if a required phrase and EOS do not fit
        ``max_length``.
        """
        if self.required is None:
            return usual
        if usual != BestContinuations():
            raise UserError(
                f"required phrases share out the beam themselves, and {type(usual).__name__} does too: set "
                "search.allocation=top-k"
            )
        if self.longest >= max_length:
            raise UserError(
                f"a required phrase of {self.longest} tokens and the end do not fit max_length = {max_length}: set it "
                f"to at least {self.longest + 1}"
            )
        return Banks(self.required, self.borders, int(self.required.tokens_B.max()))


@runtime_checkable
class Constrainable(Protocol[S_co]):
    """A search that obeys constraints. ``constrained`` returns the search for the sources of one batch."""

    def constrained(self, constraints: BatchConstraints) -> S_co: ...


def constrained(
    search: Search[M], sources: Sequence[Tokenized | None], lexicon: Lexicon, device: torch.device
) -> Search[M]:
    """The search for a batch of ``sources``, given the constraints of each (None: no constraints). Raises UserError if
    the search cannot obey phrases of this kind.
    """
    if not isinstance(search, Constrainable):
        raise UserError(
            f"{type(search).__name__} cannot obey phrases: use a beam without a shortlist, or, if no phrase is "
            "required, greedy search or sampling"
        )
    held: Search[M] = search.constrained(
        BatchConstraints.of([each or Tokenized() for each in sources], lexicon.borders(), device)
    )
    return held
