"""Automata that follow the phrases of all rows at once.

B sources, K hypotheses of each, N = B * K rows, M continuations of each source, Q states, E edges, P edges of the
tokenizer's own spelling of the phrases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce_engine.phrases import ANYWHERE, BORDER, BREAK, ENDS, NONE, OPEN, Automaton, Pattern

Phrases = Sequence[Sequence[Pattern]]  # of one source: for each phrase its alternatives


@dataclass(frozen=True)
class Borders:
    """Masks [V] of tokens. ``before_V`` has the tokens that end the word before them. ``behind_V`` has the tokens after
    which no word continues.
    """

    before_V: Tensor
    behind_V: Tensor

    @classmethod
    def of(cls, bits: bytes | None) -> Borders | None:
        """The masks of ``Lexicon.borders``."""
        if bits is None:
            return None
        bits_V = torch.tensor(list(bits))
        return cls((bits_V & ENDS).bool(), (bits_V & OPEN).bool())

    def bits(self) -> bytes:
        """The masks as ``of`` reads them."""
        return bytes((ENDS * self.before_V.long() + OPEN * self.behind_V.long()).tolist())


@dataclass(frozen=True)
class Automata:
    """The patterns of each source as one nondeterministic automaton. Edge e reads ``token_BE`` and leads from state
    ``origin_BE`` to state ``goal_BE``.

    ``finished_BQ`` is True for a state whose phrase is complete. This state stays active. ``waiting_BQ`` is True for
    a state in which the phrase is complete, but its last word may still continue. ``phrase_BQ`` is the finished state
    of a state's phrase. ``worth_BQ`` is the number of the phrase's tokens that are written in a state. ``tokens_B`` is
    the number of tokens of all phrases of a source. Both count the longest alternative of a phrase. ``own_BP`` are the
    edges of the tokenizer's own spelling of the phrases, padded with edge 0.
    """

    origin_BE: Tensor
    token_BE: Tensor
    goal_BE: Tensor
    finished_BQ: Tensor
    waiting_BQ: Tensor
    phrase_BQ: Tensor
    worth_BQ: Tensor
    tokens_B: Tensor
    own_BP: Tensor

    @classmethod
    def of(cls, sources: Sequence[Phrases]) -> Automata:
        rows = [Automaton(phrases) for phrases in sources]
        edges_BE3 = pad_sequence([torch.tensor(row.edges) for row in rows], batch_first=True, padding_value=NONE)
        states_BQ4 = pad_sequence([torch.tensor(row.states) for row in rows], batch_first=True)
        own_BP = pad_sequence([torch.tensor(row.own, dtype=torch.long) for row in rows], batch_first=True)
        origin_BE, token_BE, goal_BE = (each.contiguous() for each in edges_BE3.unbind(2))
        finished_BQ, waiting_BQ, phrase_BQ, worth_BQ = (each.contiguous() for each in states_BQ4.unbind(2))
        return cls(
            origin_BE.clamp(min=0),
            token_BE,
            goal_BE.clamp(min=0),
            finished_BQ.bool(),
            waiting_BQ.bool(),
            phrase_BQ,
            worth_BQ,
            (finished_BQ * worth_BQ).sum(1),
            own_BP,
        )

    def start(self, source: Padded) -> Tensor:
        """A mask [B, Q] of the states that are active before the first token: ``ANYWHERE`` and ``BORDER``. Raises
        UserError if the phrases are for another number of sources.
        """
        if (B := tree.rows(source)) != len(self.token_BE):
            raise UserError(f"there are phrases for {len(self.token_BE)} sources, and {B} sources: give each its own")
        active_BQ = torch.zeros_like(self.finished_BQ)
        active_BQ[:, : BORDER + 1] = True
        return active_BQ

    def extend(self, tokens_NT: Tensor, active_NQ: Tensor, borders: Borders | None) -> Tensor:
        active_BKQ = active_NQ.view(len(self.token_BE), -1, active_NQ.shape[1])
        for token_N in tokens_NT.unbind(1):
            active_BKQ = self.step(active_BKQ, token_N.view(active_BKQ.shape[:2]), borders)
        return active_BKQ.flatten(0, 1)

    def step(self, active_BMQ: Tensor, token_BM: Tensor, borders: Borders | None) -> Tensor:
        """A mask [B, M, Q] of the states that are active after one more token [B, M]. ``active_BMQ`` has the states
        before this token. ``borders`` is None if the vocabulary marks no words.
        """
        fits_BME = self.token_BE[:, None] == token_BM[:, :, None]
        if borders is not None:
            fits_BME |= (self.token_BE == BREAK)[:, None] & borders.before_V[token_BM][:, :, None]
        fires_BME = fits_BME & self.leaving(active_BMQ)
        goal_BME = self.goal_BE[:, None].expand(fires_BME.shape)
        after_BMQ = (active_BMQ & self.finished_BQ[:, None]).byte()
        after_BMQ = after_BMQ.scatter_reduce_(2, goal_BME, fires_BME.byte(), "amax").bool()
        after_BMQ[:, :, ANYWHERE] = True
        after_BMQ[:, :, BORDER] = True if borders is None else borders.behind_V[token_BM]
        return after_BMQ

    def leaving(self, active_BMQ: Tensor) -> Tensor:
        """A mask [B, M, E] of the edges that start in an active state."""
        return active_BMQ.gather(2, self.origin_BE[:, None].expand(-1, active_BMQ.shape[1], -1))

    def written_tokens(self, active_BMQ: Tensor) -> Tensor:
        """The number of phrase tokens [B, M] that are written. It counts all tokens of finished phrases. It also counts
        the written tokens of one unfinished phrase, the one with the most of them. The next token may break the other
        unfinished phrases, so they do not count. A phrase counts as its longest alternative.
        """
        worth_BMQ = self.worth_BQ[:, None] * active_BMQ
        begun_BMQ = ~active_BMQ.gather(2, self.phrase_BQ[:, None].expand(active_BMQ.shape))
        return (worth_BMQ * self.finished_BQ[:, None]).sum(2) + (worth_BMQ * begun_BMQ).amax(2)
