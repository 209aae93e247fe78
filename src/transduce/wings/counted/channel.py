"""A channel that copies a word with errors: p(x | y), one token of the word y after the other.

N pairs; S tokens of the copy x and T of the word y, both without EOS; C contexts of a token of y, D shorter contexts of
it; K = 1 + the vocabulary of x: number 0 is nothing, number 1 + v the token v.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transduce.core.types import BOS
from transduce.data.pairs import Pairs

CHUNK = 2048  # pairs that are processed at once; this bounds the memory of a pass
COPIED, DROPPED, ALONE = 0.8, 0.06, 0.95  # before anything is counted: p(copy), p(nothing), p(nothing more)


@dataclass(frozen=True)
class Channel:
    """p(x | y), if each token of the word y writes up to two tokens of x, or none, and all choices are independent
    given y.

    ``first_CK`` is p(first token | the token of y, the one before it and the one after it), and nothing is a choice
    too. ``more_DK`` is p(second token | the token of y and the one after it), if there is a first one. ``context_C``
    and ``context_D`` are the keys of the contexts (``keys``), in rising order.
    """

    first_CK: Tensor
    more_DK: Tensor
    context_C: Tensor
    context_D: Tensor

    def places(self, before: Tensor, token: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """The places of the contexts in ``first_CK`` and in ``more_DK``, for tokens of words with their neighbours, all
        of one shape. A token has BOS before it or EOS after it at the ends of a word. A context that the channel does
        not know gets an arbitrary place.
        """
        known = (self.context_C, self.context_D)
        place_C, place_D = (
            torch.searchsorted(there, key.contiguous()).clamp(max=len(there) - 1)
            for there, key in zip(known, keys(before, token, after), strict=True)
        )
        return place_C, place_D


def keys(before: Tensor, token: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """The context of each token of a word as one number, with and without the token before it."""
    short = token * LARGEST + after
    return before * LARGEST**2 + short, short


LARGEST = 2**20  # no vocabulary is larger, so that the three tokens of a context fit in one number


class ChannelCounts:
    """Expectation maximisation of a channel on ``pairs`` of a copy (the source) and its word (the target).

    ``contexts`` are further contexts that the channel must know: three tensors [M] of tokens before, at and after a
    place of a word. ``copies`` has for each source id the target id of the same text, or PAD. ``smoothing`` is the
    number of observations that a shorter context is worth (Dirichlet smoothing): a context backs off to the mean of the
    token with its left and with its right neighbour, then to the token alone, then to a fixed guess. In the guess, 80 %
    of the tokens are copied and 6 % dropped. ``uncut`` are the rows of ``pairs`` whose copy has more than two tokens
    for each token of the word; they are left out, and so are pairs with an empty word.
    """

    def __init__(
        self,
        pairs: Pairs,
        contexts: tuple[Tensor, Tensor, Tensor],
        copies: Tensor,
        vocabulary: int,
        smoothing: float,
    ) -> None:
        S_N, T_N = (lengths.astype(np.int64) - 1 for lengths in (pairs.source_lengths, pairs.target_lengths))
        fits_N = (T_N > 0) & (S_N <= 2 * T_N)
        self.pairs, self.smoothing, self.uncut = pairs, smoothing, np.flatnonzero(~fits_N)
        rows = np.flatnonzero(fits_N)
        self.rows = rows[np.argsort(T_N[rows], kind="stable")]
        found = [torch.stack(contexts, 1), *(_contexts(y_NT, T_N) for _, y_NT, _, T_N in self._chunks())]
        self.contexts = torch.unique(torch.cat(found), dim=0)
        before, token, after = self.contexts.unbind(1)
        key_C, key_D = keys(before, token, after)
        short_D, self._short_C = torch.unique(key_D, return_inverse=True)
        self._groups = [torch.unique(key, return_inverse=True)[1] for key in (token, before * LARGEST + token, key_D)]
        self._token_D = torch.zeros_like(short_D).scatter_(0, self._short_C, self._groups[0])
        same_CK = torch.cat([torch.zeros(len(token), 1, dtype=torch.bool), copies[None] == token[:, None]], 1)
        others_C1 = (vocabulary - same_CK.sum(1, keepdim=True)).clamp(min=1)
        self._guess_CK = torch.where(same_CK, COPIED, (1 - COPIED - DROPPED) / others_C1).double()
        self._guess_CK[:, 0] = DROPPED
        self._guess_CK /= self._guess_CK.sum(1, keepdim=True)
        nothing_CK, nothing_DK = torch.zeros_like(self._guess_CK), torch.zeros(len(short_D), 1 + vocabulary).double()
        self.channel = Channel(*self._smoothed(nothing_CK, nothing_DK), key_C, short_D)

    def reestimate(self) -> float:
        """One pass. Returns the log-probability (natural logarithm) of the copies given their words before it, summed
        over the pairs that are not left out.
        """
        channel, total = self.channel, 0.0
        first_CK, more_DK = torch.zeros_like(channel.first_CK), torch.zeros_like(channel.more_DK)
        for x_NS, y_NT, S_N, T_N in self._chunks():
            place_C, place_D = channel.places(*_neighbours(y_NT))
            none_NT, one_NTS, two_NTS = steps(channel, x_NS, place_C, place_D)
            ahead = _forward(none_NT, one_NTS, two_NTS)
            behind = _backward(none_NT, one_NTS, two_NTS, S_N, T_N)
            whole_N = ahead[torch.arange(len(S_N)), T_N, S_N]
            total += float(whole_N.log().sum())
            ahead = ahead[:, :-1] / whole_N[:, None, None]
            none_NT = (ahead * none_NT[..., None] * behind[:, 1:]).sum(2)
            one_NTS = ahead[..., :-1] * one_NTS * behind[:, 1:, 1:]
            two_NTS = ahead[..., :-2] * two_NTS * behind[:, 1:, 2:]
            token_NTS = 1 + x_NS[:, None].expand_as(one_NTS)
            _add(first_CK, place_C, torch.zeros_like(place_C), none_NT)
            _add(first_CK, place_C, token_NTS, one_NTS)
            _add(first_CK, place_C, token_NTS[..., :-1], two_NTS)
            _add(more_DK, place_D, torch.zeros_like(place_D), one_NTS.sum(2))
            _add(more_DK, place_D, token_NTS[..., 1:], two_NTS)
        self.channel = Channel(*self._smoothed(first_CK, more_DK), channel.context_C, channel.context_D)
        return total

    def _smoothed(self, first_CK: Tensor, more_DK: Tensor) -> tuple[Tensor, Tensor]:
        """The probabilities of a channel from expected counts."""
        token_C, left_C, right_C = self._groups
        alone_CK = self._backed_off(first_CK, token_C, self._guess_CK)
        left_CK, right_CK = (self._backed_off(first_CK, group_C, alone_CK) for group_C in (left_C, right_C))
        every_C = torch.arange(len(token_C))
        first_CK = self._backed_off(first_CK, every_C, (left_CK + right_CK) / 2)
        guess_K = torch.full_like(more_DK[0], (1 - ALONE) / (more_DK.shape[1] - 1))
        guess_K[0] = ALONE
        alone_DK = self._backed_off(more_DK, self._token_D, guess_K.expand_as(more_DK))
        return first_CK, self._backed_off(more_DK, torch.arange(len(more_DK)), alone_DK)

    def _backed_off(self, count_CK: Tensor, group_C: Tensor, shorter_CK: Tensor) -> Tensor:
        """[C, K]: the relative frequencies in each context's group, smoothed by the probabilities ``shorter_CK`` of a
        shorter context. Contexts in one group have the same number in ``group_C``.
        """
        count_GK = torch.zeros_like(count_CK).index_add_(0, group_C, count_CK)
        total_G1 = count_GK.sum(1, keepdim=True)
        return (count_GK[group_C] + self.smoothing * shorter_CK) / (total_G1[group_C] + self.smoothing)

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Yields pairs of about one length: x [N, S] and y [N, T + 1] with EOS, both padded, and their lengths without
        EOS, [N] each.
        """
        for first in range(0, len(self.rows), CHUNK):
            batch = self.pairs.batch(self.rows[first : first + CHUNK])
            S_N, T_N = batch.source.lengths - 1, batch.target.lengths - 1
            yield batch.source.values[:, :-1], batch.target.values, S_N, T_N


def _neighbours(y_NT: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each token of words [N, T + 1] except the last one: the token before it, itself, and the token after it."""
    before_NT = torch.cat([torch.full_like(y_NT[:, :1], BOS), y_NT[:, :-2]], 1)
    return before_NT, y_NT[:, :-1], y_NT[:, 1:]


def _contexts(y_NT: Tensor, T_N: Tensor) -> Tensor:
    """[M, 3]: the different contexts in words [N, T + 1] of T_N tokens."""
    real_NT = torch.arange(y_NT.shape[1] - 1) < T_N[:, None]
    found_M3: Tensor = torch.unique(torch.stack(_neighbours(y_NT), -1)[real_NT], dim=0)
    return found_M3


def steps(channel: Channel, x_NS: Tensor, place_C: Tensor, place_D: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each token t of the words: the probability that it writes nothing [N, T], the one token at s [N, T, S], or
    the two tokens from s on [N, T, S - 1].
    """
    token_NTS = 1 + x_NS[:, None].expand(*place_C.shape, -1)
    first_NTS = channel.first_CK[place_C[..., None], token_NTS]
    more_NTS = channel.more_DK[place_D[..., None], token_NTS]
    alone_NT1 = channel.more_DK[place_D, 0][..., None]
    return channel.first_CK[place_C, 0], first_NTS * alone_NT1, first_NTS[..., :-1] * more_NTS[..., 1:]


def advanced(at_NS: Tensor, none_N: Tensor, one_NS: Tensor, two_NS: Tensor) -> Tensor:
    """[N, S + 1]: the probabilities that the first s tokens are written, after one more token of the word. ``at_NS``
    has those before it. The other arguments are its choices, as ``steps`` gives them.
    """
    after_NS = at_NS * none_N[:, None]
    after_NS[:, 1:] += at_NS[:, :-1] * one_NS
    after_NS[:, 2:] += at_NS[:, :-2] * two_NS
    return after_NS


def _forward(none_NT: Tensor, one_NTS: Tensor, two_NTS: Tensor) -> Tensor:
    """[N, T + 1, S + 1]: the probability that the first t tokens of a word write the first s tokens of the copy."""
    N, T, S = one_NTS.shape
    at_NS = one_NTS.new_zeros(N, S + 1)
    at_NS[:, 0] = 1.0
    every = [at_NS]
    for t in range(T):
        every.append(advanced(every[-1], none_NT[:, t], one_NTS[:, t], two_NTS[:, t]))
    return torch.stack(every, 1)


def _backward(none_NT: Tensor, one_NTS: Tensor, two_NTS: Tensor, S_N: Tensor, T_N: Tensor) -> Tensor:
    """[N, T + 1, S + 1]: the probability that the other tokens of a word write the other tokens of the copy."""
    N, T, S = one_NTS.shape
    behind = one_NTS.new_zeros(N, T + 1, S + 1)
    behind[torch.arange(N), T_N, S_N] = 1.0
    for t in reversed(range(T)):
        after_NS = behind[:, t + 1]
        behind[:, t] += after_NS * none_NT[:, t, None]
        behind[:, t, :-1] += after_NS[:, 1:] * one_NTS[:, t]
        behind[:, t, :-2] += after_NS[:, 2:] * two_NTS[:, t]
    return behind


def _add(count_CK: Tensor, place_NT: Tensor, token: Tensor, value: Tensor) -> None:
    """Adds values [N, T] or [N, T, S] to the counts at their contexts and tokens, in place."""
    place = place_NT if value.ndim == place_NT.ndim else place_NT[..., None].expand_as(value)
    flat = place * count_CK.shape[1] + token
    count_CK.view(-1).index_add_(0, flat.flatten(), value.flatten())
