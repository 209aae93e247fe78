"""Well-formed trees: brackets match, and each word of the source is written once. B sources, N rows, V vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import EOS, Padded
from transduce.search.base import Decoding
from transduce.wings.syntax.constituents import CLOSE, WORD

OPENS, CLOSES, WRITES, OTHER = 0, 1, 2, 3  # the kinds of tokens


@dataclass(frozen=True)
class Brackets:
    """Allows only trees in brackets that are well formed and have as many words as the source, for outputs of the unit
    ``tree-brackets`` (Vinyals et al. 2015).

    An output is one tree: each bracket is closed, no constituent is empty, and the output ends after its root. It opens
    at most ``nested`` brackets between two words, so that its length is limited. White space separates the words of a
    source's text. The end at the search's ``max_length`` comes even inside a tree. Raises UserError for ``nested``
    below 1, or if the target vocabulary has no brackets.
    """

    nested: int = 10

    def __post_init__(self) -> None:
        if self.nested < 1:
            raise UserError(f"nested = {self.nested}: at least 1 bracket between two words was expected")

    def with_vocabularies(self, source: Decoding, target: Decoding) -> WellFormed:
        kinds = [_kind(entry) for entry in target.entries]
        if not {OPENS, CLOSES, WRITES} <= set(kinds):
            raise UserError(
                'the filter "brackets" needs outputs of brackets: set data.units.target to "tree-brackets", or remove '
                "the filter from search.filters"
            )
        return WellFormed(self.nested, tuple(kinds), lambda ids: len(source.decode(ids).rpartition("\t")[2].split()))

    def start(self, source: Padded) -> NoReturn:
        raise UserError(
            'the filter "brackets" does not know its vocabulary yet: transduce.load and Transducer.with_search give it'
        )

    def extend(self, tokens_NT: Tensor, state: object) -> object:
        return state

    def __call__(self, scores_NV: Tensor, state: object) -> Tensor:
        return scores_NV


def _kind(entry: object) -> int:
    if entry == CLOSE:
        return CLOSES
    if entry == WORD:
        return WRITES
    return OPENS if isinstance(entry, str) and entry.startswith("(") else OTHER


@dataclass(frozen=True)
class Written:
    """A summary of the output so far, for each row [N].

    ``open_N`` is the number of open brackets, and ``left_N`` the number of words that are not written yet. ``run_N`` is
    the number of brackets that were opened after the last word or closing bracket. ``begun_N`` is True after the first
    bracket.
    """

    open_N: Tensor
    left_N: Tensor
    run_N: Tensor
    begun_N: Tensor


@dataclass(frozen=True)
class WellFormed:
    """The filter that ``Brackets`` makes for the vocabularies of a model. ``nested`` is its option.

    ``kinds`` has the kind of each target id: it OPENS or CLOSES a bracket, WRITES a word, or is OTHER. ``words`` takes
    the ids of a source and returns the number of its words.
    """

    nested: int
    kinds: tuple[int, ...]
    words: Callable[[Sequence[int]], int]

    def start(self, source: Padded) -> Written:
        if not isinstance(source, Padded):
            raise UserError('the filter "brackets" counts the words of a source, and this source is not a sequence')
        rows = zip(source.values.tolist(), source.lengths.tolist(), strict=True)
        left_B = torch.tensor([self.words(ids[:length]) for ids, length in rows], device=source.lengths.device)
        none_B = torch.zeros_like(left_B)
        return Written(none_B, left_B, none_B, none_B.bool())

    def extend(self, tokens_NT: Tensor, state: Written) -> Written:
        kind_V = self._kind_V(tokens_NT.device)
        for token_N in tokens_NT.unbind(1):
            kind_N = kind_V[token_N]
            opens_N, writes_N = kind_N == OPENS, kind_N == WRITES
            state = Written(
                state.open_N + opens_N.long() - (kind_N == CLOSES).long(),
                state.left_N - writes_N.long(),
                (state.run_N + 1) * opens_N,
                state.begun_N | opens_N,
            )
        return state

    def __call__(self, scores_NV: Tensor, state: Written) -> Tensor:
        more_N, inside_N = state.left_N > 0, state.open_N > 0
        allowed_N4 = torch.stack(
            [
                more_N & (state.run_N < self.nested) & (inside_N | ~state.begun_N),
                inside_N & (state.run_N == 0) & ((state.open_N > 1) | ~more_N),
                more_N & inside_N,
                torch.zeros_like(more_N),
            ],
            1,
        )
        allowed_NV = allowed_N4[:, self._kind_V(scores_NV.device)]
        allowed_NV[:, EOS] = ~more_N & ~inside_N
        return scores_NV.masked_fill_(~allowed_NV, float("-inf"))

    def _kind_V(self, device: torch.device) -> Tensor:
        return torch.tensor(self.kinds, device=device)
