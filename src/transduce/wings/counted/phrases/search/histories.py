"""The histories of a stack search's hypotheses, and a neural language model's states after them.

B sources, N and R histories, C tokens that the search can write, V vocabulary, G all histories so far.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import AnyAutoregressive, Autoregressive, S
from transduce.core.types import BOS, EOS, PAD, Padded
from transduce.search.reading import capacity, read

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

EVERY = -1  # merge only histories that are equal in every token
AT_ONCE = 512  # histories that the model reads together; each needs memory for the logits of all tokens
NOWHERE = -1


@dataclass(frozen=True)
class _Read:
    """The model's ``state`` after each of R histories, ``history_R``, and its log-probabilities [R, C] of the next
    token.
    """

    history_R: Ids
    state: object
    log_prob_RC: NDArray[np.float64]


class Histories:
    """All target prefixes of a search, each with a number. Number b is the empty prefix of source b.

    Equal prefixes of one source have one number, so that the model reads each prefix only once. The model reads
    prefixes in batches, when the search needs the probabilities of their next tokens. States of the last ``stacks``
    stacks are kept. Other states are computed again if they are needed, from the longest prefix whose state is kept.
    """

    def __init__(self, model: Autoregressive[S], source: Padded, tokens: Ids, stacks: int) -> None:
        B, self.device = len(source.lengths), source.values.device
        self.model: AnyAutoregressive = model
        self.stacks = stacks
        self.token_C = np.unique(np.append(tokens, EOS))
        self.base = int(self.token_C[-1]) + 1
        self.column_V = np.zeros(self.base, np.int64)
        self.column_V[self.token_C] = np.arange(len(self.token_C))
        self.previous_G, self.token_G = np.full(B, NOWHERE), np.full(B, BOS)
        self.length_G = np.ones(B, np.int64)  # in tokens, with BOS
        self.known_K, self.number_K = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.place_G2 = np.full((B, 2), NOWHERE)  # the key in ``parts``, and the row there
        self.parts: dict[int, _Read] = {}
        self.made, self.passing, self.kept = 0, list[int](), deque[int]()
        self._add(self._read(np.arange(B), model.start(source)))

    def follow(self, history_N: Ids, token_N: Ids) -> Ids:
        """The number [N] of each history with one more token."""
        key_U, inverse_N = np.unique(history_N * self.base + token_N, return_inverse=True)
        place_U = np.asarray(np.searchsorted(self.known_K, key_U), np.int64)
        new_U: NDArray[np.bool_] = np.append(self.known_K, NOWHERE)[place_U] != key_U
        first = len(self.token_G)
        number_U: Ids = np.where(new_U, first + np.cumsum(new_U) - 1, np.append(self.number_K, NOWHERE)[place_U])
        self.known_K = np.insert(self.known_K, place_U[new_U], key_U[new_U])
        self.number_K = np.insert(self.number_K, place_U[new_U], number_U[new_U])
        previous, token = key_U[new_U] // self.base, key_U[new_U] % self.base
        self.previous_G, self.token_G = np.append(self.previous_G, previous), np.append(self.token_G, token)
        self.length_G = np.append(self.length_G, 1 + self.length_G[previous])
        self.place_G2 = np.concatenate([self.place_G2, np.full((len(previous), 2), NOWHERE)])
        return number_U[inverse_N]

    def last(self, history_N: Ids, count: int) -> Ids:
        """Equal numbers [N] for histories whose last ``count`` tokens are equal. BOS counts as a token.

        Use them only for histories of one source, because histories of different sources may get the same number.
        """
        columns = list[Ids]()
        for _ in range(count):
            there_N = history_N != NOWHERE
            columns.append(np.where(there_N, self.token_G[history_N], PAD))
            history_N = np.where(there_N, self.previous_G[history_N], NOWHERE)
        if not columns:
            return np.zeros_like(history_N)
        return np.unique(np.stack(columns, 1), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def log_prob(self, history_N: Ids, token_N: Ids) -> Numbers:
        """The model's log-probability [N] of each token after its history."""
        history_U, inverse_N = np.unique(history_N, return_inverse=True)
        self._reach(history_U)
        part_N, row_N = self.place_G2[history_U][inverse_N].T
        log_prob_N, column_N = np.empty(len(history_N)), self.column_V[token_N]
        for part in np.unique(part_N):
            here = part_N == part
            log_prob_N[here] = self.parts[part].log_prob_RC[row_N[here], column_N[here]]
        return log_prob_N

    def keep(self, history_N: Ids) -> None:
        """Keeps the states of these histories, which are the hypotheses of a new stack. Drops the states of shorter
        histories that were only needed to compute them, and the states of the oldest stack.
        """
        history_U = np.unique(history_N[history_N >= len(self.parts[0].history_R)])
        self._reach(history_U)
        gathered = self._gathered(history_U) if len(history_U) else None
        dropped = [self.passing.pop() for _ in range(len(self.passing))]
        if len(self.kept) == self.stacks:
            dropped.append(self.kept.popleft())
        for part in dropped:
            forgotten_R = self.parts.pop(part).history_R
            self.place_G2[forgotten_R[self.place_G2[forgotten_R, 0] == part]] = NOWHERE
        if gathered is not None:
            self.kept.append(self._add(gathered))

    # ------------------------------------------------------------------ details

    def _reach(self, history_U: Ids) -> None:
        """Lets the model read each of these histories that has no state, and first its prefixes without a state."""
        levels, missing = list[Ids](), history_U
        while len(missing := missing[self.place_G2[missing, 0] == NOWHERE]):
            levels.append(missing)
            missing = np.unique(self.previous_G[missing])
        for level in reversed(levels):
            for first in range(0, len(level), AT_ONCE):
                some = level[first : first + AT_ONCE]
                some = some[np.argsort(self.place_G2[self.previous_G[some], 0], kind="stable")]
                self.passing.append(self._add(self._read(some, self._gathered(self.previous_G[some]).state)))

    def _read(self, history_R: Ids, state: object) -> _Read:
        """Lets the model read the last token of each history. ``state`` is the state before it, and is consumed."""
        token_R1 = torch.from_numpy(self.token_G[history_R])[:, None].to(self.device)
        state = tree.reserve(state, capacity(int(self.length_G[history_R].max())))
        log_prob_RV, state = read(self.model, token_R1, state)
        if self.base > log_prob_RV.shape[1]:
            raise UserError(
                f"a language model of {log_prob_RV.shape[1]} words cannot score phrases with the token id "
                f"{self.base - 1}: it must have the same target vocabulary as the phrase-based model; train it with "
                "`--init RUN` of that model"
            )
        return _Read(history_R, state, log_prob_RV[:, torch.from_numpy(self.token_C).to(self.device)].cpu().numpy())

    def _gathered(self, history_N: Ids) -> _Read:
        """The states of these histories from all parts. The histories must be in ascending order of their parts."""
        part_N, row_N = self.place_G2[history_N].T
        order = np.argsort(part_N, kind="stable")
        found = [(self.parts[part], row_N[order][part_N[order] == part]) for part in np.unique(part_N)]
        states = [tree.select(part.state, torch.from_numpy(row_M).to(self.device)) for part, row_M in found]
        log_prob = np.concatenate([part.log_prob_RC[row_M] for part, row_M in found])
        return _Read(history_N[order], states[0] if len(states) == 1 else tree.join(states), log_prob)

    def _add(self, part: _Read) -> int:
        self.place_G2[part.history_R, 0] = self.made
        self.place_G2[part.history_R, 1] = np.arange(len(part.history_R))
        self.parts[self.made] = part
        self.made += 1
        return self.made - 1
