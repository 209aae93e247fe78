"""The steps that all searches over tokens share: begin, advance, and let finished rows leave the batch.

N rows, B sources, N = B * K; T tokens, V vocabulary.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive
from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK, Padded, widened
from transduce.search.base import Filter, Follower
from transduce.search.largest import highest, highest_log_probs
from transduce.search.normalising import allowed_log_softmax, forbid_specials, forbid_unknown, log_softmax

S = TypeVar("S")
T = TypeVar("T")

POSITIONS = 1024  # positions whose logits are in memory at a time, if only the logit of one token is needed for each
SMALLEST = 8  # the smallest capacity of a state's buffers, in positions
STUCK = 1e6  # penalty of an end if filters forbid every token, so that this output ranks behind any other one
WIDE = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Front(Generic[S]):
    """The rows of a search in one tree, so that the rows of all parts are selected and reordered together.

    ``token_N`` is the last token of each row. The model will read it in the next step, and ``state`` is the model's
    state before that. ``memories`` are the states of the followers, which have already read it. ``prefix`` holds the
    tokens that the outputs of each source must start with. ``reserved`` is the capacity of the state's buffers, in
    positions; 0 if none was reserved yet.
    """

    token_N: Tensor
    state: S
    memories: tuple[Any, ...]
    prefix: tree.Shared[Padded] | None = None
    reserved: int = 0

    def write(self, tokens_NT: Tensor, followers: Sequence[Follower[Any]]) -> Front[S]:
        """The front after the tokens [N, T]. The followers read all of them. The model must already have read all of
        them except the last.
        """
        pairs = zip(followers, self.memories, strict=True)
        memories = tuple([follower.extend(tokens_NT, memory) for follower, memory in pairs])
        return Front(tokens_NT[:, -1], self.state, memories, self.prefix, self.reserved)

    def reorder(self, rows_N: Tensor) -> Front[S]:
        """The front whose row n continues row ``rows_N[n]``. ``token_N`` is not reordered, so ``write`` must follow."""
        state, memories = tree.reorder((self.state, self.memories), rows_N)
        return Front(self.token_N, state, memories, self.prefix, self.reserved)

    def reserve(self, positions: int) -> Front[S]:
        """The front with buffers of ``capacity(positions)``, so that the model can read this number of tokens. No row
        may be longer.
        """
        size = capacity(positions)
        return self if size == self.reserved else replace(self, state=tree.reserve(self.state, size), reserved=size)


def join_fronts(fronts: Sequence[Front[S]], positions: int) -> Front[S]:
    """The rows of several fronts in one front, in their order. No row has read more than ``positions`` tokens.

    The rows may have different ages and sources of different lengths, by the law *stagger* of models. Followers must
    allow it (``base.staggers``).
    """
    if any(front.prefix is not None for front in fronts):
        fronts = [_with_prefix(front) for front in fronts]
    return replace(tree.join(fronts), reserved=0).reserve(positions)


def _with_prefix(front: Front[S]) -> Front[S]:
    """The front with a prefix of no tokens for each source, if it has none."""
    if front.prefix is not None:
        return front
    nothing_B0 = front.token_N.new_zeros(len(front.token_N), 0)
    return replace(front, prefix=tree.Shared(Padded(nothing_B0, nothing_B0.sum(1))))


@dataclass(frozen=True)
class Begun:
    """The forced tokens [B, T] before the first choice of the search, and their log-probabilities in float64. T is the
    length of the shortest prefix, 0 without a prefix.
    """

    tokens_BT: Tensor
    log_probs_BT: Tensor


def begin(
    model: Autoregressive[S],
    source: Any,
    prefix: Padded | None,
    followers: Sequence[Follower[Any]],
    max_length: int,
) -> tuple[Front[S], Begun]:
    """Starts with one row per source, and writes the first T tokens of every prefix, where T is the length of the
    shortest one.

    Returns the front after these tokens, and the tokens with their log-probabilities. T is 0 without a prefix.
    Otherwise the model reads all of these tokens except the last, in one call. ``advance`` forces the rest of longer
    prefixes. Raises UserError like ``check_prefix``.
    """
    B, device = tree.rows(source), tree.leaves(source)[0].device
    token_B = torch.full((B,), BOS, device=device)
    memories = tuple(follower.start(source) for follower in followers)
    front = Front(token_B, model.start(source), memories, None if prefix is None else tree.Shared(prefix))
    shortest = 0
    if prefix is not None:
        check_prefix(prefix, B, max_length)
        shortest = int(prefix.lengths.min())
    if prefix is None or not shortest:
        nothing_B0 = torch.zeros(B, 0, dtype=torch.long, device=device)
        return front, Begun(nothing_B0, nothing_B0.double())
    tokens_BT = prefix.values[:, :shortest]
    output, state = model.extend(torch.cat([token_B[:, None], tokens_BT[:, :-1]], 1), front.state)
    log_prob_N, _, _ = log_probs(model, tree.map(lambda leaf: leaf.flatten(0, 1), output), tokens_BT.flatten())
    front = replace(front, state=state).reserve(shortest).write(tokens_BT, followers)
    return front, Begun(tokens_BT, log_prob_N.view(B, shortest))


# ---------------------------------------------------------------- one step


@dataclass(frozen=True)
class Next:
    """The candidates for the next token of each row: the model's log-probabilities [N, V], and the scores [N, V] that
    decide the choice. PAD, BOS and a forbidden UNK have minus infinity in both. The scores are the log-probabilities
    after the filters, the prefix and the maximum length.
    """

    log_probs_NV: Tensor
    scores_NV: Tensor

    @property
    def filtered(self) -> bool:
        """False if the scores are the log-probabilities."""
        return self.scores_NV is not self.log_probs_NV

    def log_prob(self, token_N: Tensor) -> Tensor:
        """The log-probabilities [N] of these tokens, in float64."""
        return self.log_probs_NV.gather(1, token_N[:, None])[:, 0].double()


def advance(
    model: Autoregressive[S],
    filters: Sequence[Filter[Any]],
    front: Front[S],
    places: Sequence[int],
    max_length: int | None = None,
    unknown: bool = False,
) -> tuple[Next, Front[S]]:
    """The model reads the token that each row wrote last. Returns the scores of the tokens that may come next, and the
    front with the model's new state.

    ``places`` are the positions of the next tokens, from 0: one for each source, or a single one for all. ``filters``
    are the first followers of ``front``; other followers come after them. Token number ``max_length`` of a row can only
    be EOS, even if a filter forbids it; None is no limit. If filters forbid every token of a row, EOS stays, with a
    penalty of ``STUCK``. If a prefix forces the next token of a row, only this token is allowed. UNK is forbidden
    unless ``unknown`` is True or a prefix forces it.
    """
    logits_NV, front = _next_logits(model, front, max(places))
    return _next(allowed_log_softmax(logits_NV), filters, front, places, max_length, unknown), front


def advance_highest(
    model: Autoregressive[S],
    filters: Sequence[Filter[Any]],
    front: Front[S],
    places: Sequence[int],
    max_length: int | None = None,
    unknown: bool = False,
) -> tuple[Tensor, list[tuple[int, float]], Front[S]]:
    """Like ``advance``, but returns only the token [N] with the highest score of each row. If scores are equal, it
    takes the first token. The list has each token with its log-probability.
    """
    logits_NV, front = _next_logits(model, front, max(places))
    barred = None if unknown else UNK
    found = None if filters else highest_log_probs(logits_NV, _forced_tokens(front, places, max_length), barred=barred)
    if found is not None:
        token_N, log_prob_N = found
        return token_N, list(zip(token_N.tolist(), log_prob_N.tolist(), strict=True)), front
    following = _next(allowed_log_softmax(logits_NV), filters, front, places, max_length, unknown)
    score_N, token_N = highest(following.scores_NV)
    log_prob_N = following.log_prob(token_N) if following.filtered else score_N.double()
    # a step reads only this from the device, in one copy; float64 holds every id exactly
    read = torch.stack([token_N.double(), log_prob_N], 1).tolist()
    return token_N, [(int(token), log_prob) for token, log_prob in read], front


def _next_logits(model: Autoregressive[S], front: Front[S], longest: int) -> tuple[Tensor, Front[S]]:
    """The logits [N, V] of the next tokens, which the search may change, and the front with the model's new state."""
    if capacity(longest + 1) > front.reserved:
        front = front.reserve(longest + 1)
    logits_NV, state = _logits(model, front.token_N.unsqueeze(1), front.state)
    return logits_NV, Front(front.token_N, state, front.memories, front.prefix, front.reserved)


def _next(
    log_probs_NV: Tensor,
    filters: Sequence[Filter[Any]],
    front: Front[Any],
    places: Sequence[int],
    max_length: int | None,
    unknown: bool,
) -> Next:
    """The scores that ``advance`` describes, from log-probabilities with minus infinity for PAD and BOS."""
    forced_N = _forced_tokens(front, places, max_length)
    scores_NV = log_probs_NV = log_probs_NV if unknown else forbid_unknown(log_probs_NV, forced_N)
    if filters:
        scores_NV = log_probs_NV.clone()
        for each, memory in zip(filters, front.memories, strict=False):
            scores_NV = each(scores_NV, memory)
        stuck_N = scores_NV.amax(-1) == float("-inf")
        scores_NV[:, EOS] = torch.where(stuck_N, log_probs_NV[:, EOS] - STUCK, scores_NV[:, EOS])
    if forced_N is not None:
        scores_NV = torch.where((forced_N != PAD)[:, None], only(log_probs_NV, forced_N), scores_NV)
    return Next(log_probs_NV, scores_NV)


def _forced_tokens(front: Front[Any], places: Sequence[int], max_length: int | None) -> Tensor | None:
    """The token [N] that each row must write next, by its prefix or by ``max_length``; PAD if it is free. None if all
    rows are free.
    """
    rows, device = len(front.token_N), front.token_N.device
    forced_N = None
    if max_length is not None and max(places) >= max_length - 1:
        last_B = torch.tensor(places, device=device) >= max_length - 1
        forced_N = _each_row(torch.where(last_B, EOS, PAD), rows)
    if front.prefix is not None and min(places) < front.prefix.value.values.shape[1]:
        token_N, begun_N = forced(front.prefix.value, places, rows)
        forced_N = token_N if forced_N is None else torch.where(begun_N, token_N, forced_N)
    return forced_N


def capacity(positions: int) -> int:
    """The capacity of buffers for this number of positions: the smallest sufficient number of 0, 8, 12, 16, 24, 32, 48,
    64, 96, 128 and so on.

    A search reserves the next capacity when it needs it, outside the model. Few capacities mean few shapes for a
    compiled step. They grow slowly because a beam copies its buffers whenever it reorders its hypotheses.
    """
    if positions <= SMALLEST:
        return SMALLEST if positions else 0
    double = 1 << (positions - 1).bit_length()
    return double * 3 // 4 if positions <= double * 3 // 4 else double


def step(model: Autoregressive[S], token_N: Tensor, state: S) -> tuple[Tensor, S]:
    """Reads one token per row. Returns log-probabilities [N, V] of the next token, at least in float32, and the new
    state.
    """
    return read(model, token_N.unsqueeze(1), state)


def read(model: Autoregressive[S], tokens_NT: Tensor, state: S) -> tuple[Tensor, S]:
    """Reads the tokens [N, T]. Returns log-probabilities [N, V] of the token after the last one, at least in float32,
    and the new state.
    """
    logits_NV, state = _logits(model, tokens_NT, state)
    return log_softmax(logits_NV), state


def _logits(model: Autoregressive[S], tokens_NT: Tensor, state: S) -> tuple[Tensor, S]:
    output, state = model.extend(tokens_NT, state)
    logits_NV = model.readout(tree.map(_last, output))
    return (logits_NV if logits_NV.dtype in WIDE else logits_NV.to(widened(logits_NV.dtype))), state


def _last(leaf: Tensor) -> Tensor:
    return leaf.select(1, -1)


def log_probs(model: Autoregressive[Any], output: Any, token_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of one given token at each of N positions, from the model's features ``output`` of these
    positions.

    Returns three tensors [N]: the log-probability of the given token (float64), the log-probability of the model's
    first choice there (float64), and whether the two tokens are the same. The first choice is the token that greedy
    search writes, also when several tokens are equally probable.
    """
    own, best, right = [], [], []
    for first in range(0, len(token_N), POSITIONS):
        some_N = torch.arange(first, min(first + POSITIONS, len(token_N)), device=token_N.device)
        logits_NV = model.readout(tree.select(output, some_N))
        logits_NV = logits_NV.to(widened(logits_NV.dtype))
        normaliser_N = logits_NV.logsumexp(-1)
        own.append(logits_NV.gather(1, token_N[some_N, None])[:, 0].double() - normaliser_N)
        highest_N, choice_N = highest(forbid_specials(logits_NV))
        best.append(highest_N.double() - normaliser_N)
        right.append(choice_N == token_N[some_N])
    return torch.cat(own), torch.cat(best), torch.cat(right)


def only(scores_NV: Tensor, token_N: Tensor) -> Tensor:
    """A copy of the scores [N, V] with every token of a row except ``token_N`` at minus infinity."""
    token_N1 = token_N[:, None]
    return torch.full_like(scores_NV, float("-inf")).scatter_(1, token_N1, scores_NV.gather(1, token_N1))


# ---------------------------------------------------------------- memory


def repeated(rows: T, times: int) -> T:
    """Repeats each row of a tree of tensors (tree.py) ``times`` times, the copies adjacent. ``Shared`` parts do not
    change. Raises UserError if the repeated rows need more than the device's total memory.
    """
    own = tree.map(lambda leaf: leaf, rows, lambda leaf: leaf[:0])  # shared leaves are not repeated
    leaves = tree.leaves(own)
    check_memory(times * sum(leaf.nbytes for leaf in leaves), f"size = {times}", leaves[0].device)
    return tree.repeat(rows, times)


def check_memory(needed: int, setting: str, device: torch.device) -> None:
    """Raises UserError if ``needed`` bytes are more than the total memory of the device (on the CPU: of the machine).

    ``setting`` is text for the message, such as "size = 100".
    """
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise UserError(
            f"{setting}: a step of this search needs at least {needed / 2**30:,.1f} GiB for one batch, and there are "
            f"{memory / 2**30:,.1f} GiB: choose a smaller number, or a smaller batch"
        )


# ---------------------------------------------------------------- finished rows


def batch_size(active: int) -> int:
    """The number of rows that a batch keeps while ``active`` of them are active: the smallest power of two that is at
    least ``active``, or 0.

    Finished rows do not leave one by one, but when half of the rows are finished. The reason is that moving the others
    costs half a step, and that the CPU builds a kernel in bfloat16 for each new shape. About a tenth of the computation
    is for finished rows.
    """
    return 1 << (active - 1).bit_length() if active else 0


def remaining(active: Sequence[bool]) -> list[int]:
    """The rows that stay in the batch. If there are at most ``batch_size`` rows, all stay, in order. Otherwise the
    active rows come first. Then finished rows follow until there are ``batch_size`` rows.
    """
    size = batch_size(sum(active))
    if size >= len(active):
        return list(range(len(active)))
    return sorted(range(len(active)), key=lambda row: not active[row])[:size]


# ---------------------------------------------------------------- prefixes


def check_prefix(prefix: Padded, rows: int, max_length: int) -> None:
    """Raises UserError unless there is one prefix for each of ``rows`` sources, without PAD, BOS and EOS, and each with
    room for EOS within ``max_length``.
    """
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


def forced(prefix: Padded, places: Sequence[int], rows: int) -> tuple[Tensor, Tensor]:
    """The tokens [N] that the prefixes [B, T] force at ``places`` (from 0), and a mask [N] that is True for forced
    tokens. ``places`` has one position for each source, or a single one for all. The token is PAD after the end of a
    prefix. ``rows`` is N.
    """
    place_B = torch.tensor(places, device=prefix.lengths.device).expand_as(prefix.lengths)
    forced_B = prefix.lengths > place_B
    token_B = prefix.values.gather(1, place_B.clamp(max=prefix.values.shape[1] - 1)[:, None])[:, 0]
    return _each_row(token_B.where(forced_B, PAD), rows), _each_row(forced_B, rows)


def _each_row(value_B: Tensor, rows: int) -> Tensor:
    """Repeats a value for each source, or a single value, for each of the ``rows``."""
    return value_B.repeat_interleave(rows // len(value_B))


# ---------------------------------------------------------------- sources and options


def source_lengths(source: Any) -> list[int]:
    """The length of each source in tokens (EOS included) or steps; 0 for a source that is not ``Padded``."""
    return source.lengths.tolist() if isinstance(source, Padded) else [0] * tree.rows(source)


def check_length(max_length: int) -> None:
    """Raises UserError if ``max_length`` is less than 1."""
    if max_length < 1:
        raise UserError(f"max_length = {max_length}: an output has at least one token, its end (id {EOS})")
