"""Forced beginnings: language tags, prompts, the part of an output that somebody has written already. B sources, N rows
of theirs."""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.errors import UserError
from transduce.types import BOS, EOS, PAD, SPECIALS, Padded


def check_prefix(prefix: Padded, rows: int, max_length: int) -> None:
    """Raise ValueError unless there is a beginning for each source, which an output of ``max_length`` can have."""
    if len(prefix.lengths) != rows:
        raise UserError(f"prefix has {len(prefix.lengths)} rows for {rows} sources: give each one, of length 0 if none")
    if (longest := int(prefix.lengths.max())) >= max_length:
        raise UserError(
            f"a prefix of {longest} tokens and the end do not fit max_length = {max_length}: set it to at least "
            f"{longest + 1}"
        )
    for token in (PAD, BOS, EOS):
        if bool(((prefix.values == token) & prefix.mask).any()):
            raise UserError(
                f"a prefix holds {SPECIALS[token]} (id {token}): give the tokens that outputs begin with, without an "
                "end; a search writes the first one itself"
            )


def forced(prefix: Padded, place: int, rows: int) -> tuple[Tensor, Tensor]:
    """Which token [N] is forced at ``place``, counted from 0, and where one is; PAD where none is."""
    forced_B = prefix.lengths > place
    token_B = torch.where(forced_B, prefix.values[:, place], PAD)
    each = rows // len(forced_B)
    return token_B.repeat_interleave(each), forced_B.repeat_interleave(each)
