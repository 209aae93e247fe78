"""Code that Python's tokenizer accepts: whole tokens, and brackets that match. N rows, B sources, V vocabulary."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import EOS, Padded
from transduce.search.base import Decoding
from transduce.wings.syntax import code_tokens
from transduce.wings.syntax.code_tokens import PAIRS

OPENERS: Final = tuple(PAIRS.values())
DEEPEST = 30  # a stack of brackets is one number of at most 62 bits, with two bits for each bracket
_PLACEHOLDER: Final = re.compile(r"<(name|string|number) \d+>")


@dataclass(frozen=True)
class Python:
    """Allows only code that Python's tokenizer accepts, for outputs of the unit ``code``.

    Each token is a whole name, number, string or operator of Python. Each closing bracket closes the last open one, and
    the output ends only when none is open. An output never has more than ``nested`` open brackets. A placeholder is
    allowed only if the source has a token for it, and the token is a name, string or number. The end at the search's
    ``max_length`` comes even inside brackets. The filter does not parse: "if else" is allowed. Raises UserError if
    ``nested`` is not between 1 and 30, or if the target vocabulary is of another unit.
    """

    nested: int = 20

    def __post_init__(self) -> None:
        if not 1 <= self.nested <= DEEPEST:
            raise UserError(f"nested = {self.nested}: 1 to {DEEPEST} open brackets were expected")

    def with_vocabularies(self, source: Decoding, target: Decoding) -> Accepted:
        entries = [str(entry) for entry in target.entries]
        if not any(map(_PLACEHOLDER.fullmatch, entries)) and not set(OPENERS) & set(entries):
            raise UserError(
                'the filter "python" needs outputs of code: set data.units.joint or data.units.target to "code", or '
                "remove the filter from search.filters"
            )
        placeholders = tuple(bool(_PLACEHOLDER.fullmatch(entry)) for entry in entries)
        accepted = tuple(map(code_tokens.is_token, entries))
        opens = tuple(OPENERS.index(entry) + 1 if entry in OPENERS else 0 for entry in entries)
        closes = tuple(OPENERS.index(PAIRS[entry]) + 1 if entry in PAIRS else 0 for entry in entries)
        return Accepted(self.nested, accepted, placeholders, opens, closes)

    def start(self, source: Padded) -> NoReturn:
        raise UserError(
            'the filter "python" does not know its vocabulary yet: transduce.load and Transducer.with_search give it'
        )

    def extend(self, tokens_NT: Tensor, state: object) -> object:
        return state

    def __call__(self, scores_NV: Tensor, state: object) -> Tensor:
        return scores_NV


@dataclass(frozen=True)
class Open:
    """The open brackets of each row, and the tokens that its source allows.

    ``stack_N`` is a number in base 4, and its last digit is the last open bracket: 1, 2 or 3 for the kinds of
    ``OPENERS``. ``depth_N`` is the number of open brackets. ``allowed_NV`` is True for whole tokens, and for
    placeholders that the source has.
    """

    stack_N: Tensor
    depth_N: Tensor
    allowed_NV: Tensor


@dataclass(frozen=True)
class Accepted:
    """The filter that ``Python`` makes for a target vocabulary. ``nested`` is its option.

    The other fields have an item for each id. They tell whether it is one token of Python, and whether it is a
    placeholder of a name, string or number. They also have the kind of bracket that it opens or closes (1 to 3 as in
    ``OPENERS``; 0 for none).
    """

    nested: int
    accepted: tuple[bool, ...]
    placeholders: tuple[bool, ...]
    opens: tuple[int, ...]
    closes: tuple[int, ...]

    @property
    def unknowns(self) -> tuple[int, ...]:
        """The ids of placeholders. A target has one that its source lacks where a name or a literal is unknown."""
        return tuple(place for place, is_placeholder in enumerate(self.placeholders) if is_placeholder)

    def start(self, source: Padded) -> Open:
        if not isinstance(source, Padded):
            raise UserError('the filter "python" reads the tokens of a source, and this source is not a sequence')
        device, size = source.lengths.device, len(self.accepted)
        in_source_BV = torch.zeros(source.values.shape[0], size, dtype=torch.bool, device=device)
        known_BS = (source.values < size) & source.mask
        in_source_BV.scatter_(1, source.values.where(known_BS, EOS), True)
        placeholders_V = torch.tensor(self.placeholders, device=device)
        allowed_BV = torch.tensor(self.accepted, device=device) | (placeholders_V & in_source_BV)
        zero_B = torch.zeros_like(source.lengths)
        return Open(zero_B, zero_B, allowed_BV)

    def extend(self, tokens_NT: Tensor, state: Open) -> Open:
        opens_V, closes_V = (torch.tensor(each, device=tokens_NT.device) for each in (self.opens, self.closes))
        stack_N, depth_N = state.stack_N, state.depth_N
        for token_N in tokens_NT.unbind(1):
            opened_N, closing_N = opens_V[token_N], closes_V[token_N] > 0
            stack_N = torch.where(opened_N > 0, stack_N * 4 + opened_N, torch.where(closing_N, stack_N // 4, stack_N))
            depth_N = (depth_N + (opened_N > 0).long() - closing_N.long()).clamp(min=0)
        return Open(stack_N, depth_N, state.allowed_NV)

    def __call__(self, scores_NV: Tensor, state: Open) -> Tensor:
        opens_V, closes_V = (torch.tensor(each, device=scores_NV.device) for each in (self.opens, self.closes))
        last_N1 = (state.stack_N % 4)[:, None]
        wrong_NV = (closes_V > 0) & (closes_V != last_N1)
        too_deep_NV = (opens_V > 0) & (state.depth_N >= self.nested)[:, None]
        allowed_NV = state.allowed_NV & ~wrong_NV & ~too_deep_NV
        allowed_NV[:, EOS] = state.depth_N == 0
        return scores_NV.masked_fill_(~allowed_NV, float("-inf"))
