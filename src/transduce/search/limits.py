"""The limits of a search: the outputs that it can never write, and the length of its outputs.

B sources, T tokens, V vocabulary. Nothing here needs a model: a filter is a mask over the next token, given the tokens
before it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import EOS, UNK, Padded
from transduce.search.base import Filters
from transduce.search.filters.lengths import LengthLimit


def check_length(max_length: int) -> None:
    """Raises UserError if ``max_length`` is less than 1."""
    if max_length < 1:
        raise UserError(f"max_length = {max_length}: an output has at least one token, its end (id {EOS})")


@runtime_checkable
class Limited(Protocol):
    """A search whose outputs have at most ``max_length`` tokens, EOS included, and are allowed by its ``filters``."""

    @property
    def max_length(self) -> int: ...

    @property
    def filters(self) -> Filters: ...


@runtime_checkable
class Refusing(Protocol):
    """A search that knows which outputs it can never write.

    ``refused`` returns for each of the targets [B, T] the option that forbids it: "max_length", "filters.0" for the
    first filter. An empty text means that the search can write the target. ``vocabulary`` is the size V of the target
    vocabulary.
    """

    def refused(self, source: Padded, target: Padded, vocabulary: int) -> list[str]: ...


# ---------------------------------------------------------------- targets


def refused(search: object, source: Padded, target: Padded, vocabulary: int) -> list[str]:
    """For each of the targets, the option of ``search`` that forbids it, as ``Refusing`` describes. A search without
    known limits forbids nothing.
    """
    if isinstance(search, Refusing):
        return search.refused(source, target, vocabulary)
    if isinstance(search, Limited):
        return _forced(search, source, target, vocabulary)
    return [""] * len(target.lengths)


def _forced(search: Limited, source: Padded, target: Padded, vocabulary: int) -> list[str]:
    """Forces the targets through the filters. As in the search itself, token number ``max_length`` may always be EOS,
    and EOS stays if the filters together forbid every token. It is no fault of a filter if it forbids an id that stands
    for unknown text: <unk>, or one of the filter's ``unknowns``.
    """
    unknown = torch.tensor([UNK, *(id for each in search.filters for id in getattr(each, "unknowns", ()))])
    options = ["max_length" if length > search.max_length else "" for length in target.lengths.tolist()]
    memories = [each.start(source) for each in search.filters]
    for t, token_B in enumerate(target.values.masked_fill(~target.mask, EOS).unbind(1) if memories else ()):
        scores_BV = torch.zeros(len(token_B), vocabulary, device=token_B.device)
        found = []  # for each filter, whether the token of each row is possible after it
        for each, memory in zip(search.filters, memories, strict=True):
            scores_BV = each(scores_BV, memory)
            found.append(_possible(scores_BV, token_B))
        stuck_B = scores_BV.amax(-1) == float("-inf")
        free_B = torch.isin(token_B, unknown.to(token_B.device)) | (
            (token_B == EOS) & (stuck_B | (t + 1 >= search.max_length))
        )
        for row, length in enumerate(target.lengths.tolist()):
            if not options[row] and t < length and not free_B[row]:
                options[row] = next((f"filters.{place}" for place, fits in enumerate(found) if not fits[row]), "")
        memories = [
            each.extend(token_B[:, None], memory) for each, memory in zip(search.filters, memories, strict=True)
        ]
    return options


def _possible(scores_BV: Tensor, token_B: Tensor) -> list[bool]:
    return (scores_BV.gather(1, token_B[:, None])[:, 0] > float("-inf")).tolist()


# ---------------------------------------------------------------- outputs


def longest_output(search: object, source_length: int) -> int | None:
    """The greatest number of tokens, EOS included, that ``search`` writes for a source of this length. None if it has
    no limit.
    """
    if not isinstance(search, Limited):
        return None
    filters = (each for each in search.filters if isinstance(each, LengthLimit))
    return int(min([search.max_length, *(each.longest(source_length) for each in filters)]))
