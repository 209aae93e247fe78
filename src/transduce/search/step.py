"""The steps that all searches over tokens share: begin, advance, and let finished rows leave the batch.

N rows, B sources, N = B * K; T tokens, V vocabulary.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from transduce import tree
from transduce.errors import UserError
from transduce.protocols import Autoregressive
from transduce.search.base import Filter, Follower
from transduce.types import BOS, EOS, PAD, SPECIALS, Padded, widened

S = TypeVar("S")
T = TypeVar("T")

POSITIONS = 1024  # positions whose logits are held at a time when each needs the logits of one token only
SMALLEST = 8  # the smallest capacity of a state's buffers, in positions
STUCK = 1e6  # penalty of an end that filters forbid together with every other token: it ranks behind any other output
BLOCK = 100  # columns that ``largest`` and ``highest`` search together
FEW = 50_000  # scores; for fewer, one call of ``topk`` takes less time than a dozen small operators
WIDE = (torch.float32, torch.float64)
ROWS = 8  # from this number of rows, blocks are faster for ``highest``


@dataclass(frozen=True)
class Front(Generic[S]):
    """The rows of a search, in one tree, so that rows of all parts move together.

    ``token_N`` is the token that each row wrote last. The model will read it in the next step; ``state`` is the model's
    state before that. ``memories`` are the states of the followers, which already read it. ``prefix`` holds the tokens
    that the outputs of each source must start with. ``reserved`` is the capacity of the state's buffers, in positions;
    0 if none was reserved yet.
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
        memories = tuple(follower.extend(tokens_NT, memory) for follower, memory in pairs)
        return replace(self, token_N=tokens_NT[:, -1], memories=memories)

    def reserve(self, positions: int) -> Front[S]:
        """The front with buffers of ``capacity(positions)``: the model can read up to this number of tokens. No row may
        be longer.
        """
        size = capacity(positions)
        return self if size == self.reserved else replace(self, state=tree.reserve(self.state, size), reserved=size)


def join_fronts(fronts: Sequence[Front[S]], positions: int) -> Front[S]:
    """The rows of several fronts in one, in their order. No row has read more than ``positions`` tokens.

    The rows may have different ages and sources of different lengths: that is the law *stagger* of models. Followers
    must allow it (``base.staggers``).
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
    """The tokens [B, T] that are written before the search has a choice, and their log-probabilities in float64. T is
    the length of the shortest prefix, 0 without a prefix.
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
    prefixes. Raises UserError as ``check_prefix`` does.
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
    """The next token of each row: the model's log-probabilities [N, V], and the scores [N, V] to choose by. In both,
    PAD and BOS have minus infinity. The scores are the log-probabilities after the filters, the prefix and the maximum
    length.
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
) -> tuple[Next, Front[S]]:
    """The model reads the token that each row wrote last. Returns the scores of the tokens that may come next, and the
    front with the model's new state.

    ``places`` are the places of the next tokens, from 0: one for each source, or a single one for all. ``filters`` are
    the first followers of ``front``; other followers come after them. The token number ``max_length`` of a row can only
    be EOS, even if a filter forbids it; None is no limit. If filters forbid every token of a row, EOS stays, with a
    penalty of ``STUCK``. A row that its prefix still forces has only the prefix's token.
    """
    longest = max(places)
    if capacity(longest + 1) > front.reserved:
        front = front.reserve(longest + 1)
    log_probs_NV, state = step(model, front.token_N, front.state)
    scores_NV = log_probs_NV = forbid_specials(log_probs_NV)
    if filters:
        scores_NV = log_probs_NV.clone()
        for each, memory in zip(filters, front.memories, strict=False):
            scores_NV = each(scores_NV, memory)
        stuck_N = scores_NV.amax(-1) == float("-inf")
        scores_NV[:, EOS] = torch.where(stuck_N, log_probs_NV[:, EOS] - STUCK, scores_NV[:, EOS])
    if max_length is not None and longest >= max_length - 1:
        end_NV = only(log_probs_NV, torch.full_like(front.token_N, EOS))
        last_N = _each_row(torch.tensor(places, device=front.token_N.device) >= max_length - 1, len(front.token_N))
        scores_NV = torch.where(last_N[:, None], end_NV, scores_NV)
    if front.prefix is not None and min(places) < front.prefix.value.values.shape[1]:
        token_N, forced_N = forced(front.prefix.value, places, len(front.token_N))
        scores_NV = torch.where(forced_N[:, None], only(log_probs_NV, token_N), scores_NV)
    return Next(log_probs_NV, scores_NV), replace(front, state=state)


def capacity(positions: int) -> int:
    """The capacity of buffers for this number of positions: the smallest that suffices of 0, 8, 12, 16, 24, 32, 48, 64,
    96, 128 and so on.

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
    output, state = model.extend(tokens_NT, state)
    logits_NV = model.readout(tree.map(_last, output))
    if logits_NV.dtype not in WIDE:
        logits_NV = logits_NV.to(widened(logits_NV.dtype))
    # in place: half the time of a separate normaliser, which stores every exponential
    return torch.log_softmax(logits_NV, -1, out=logits_NV), state


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


def forbid_specials(scores_NV: Tensor) -> Tensor:
    """Gives PAD and BOS minus infinity, in place, and returns the scores [N, V]. The other tokens are not renormalised:
    the probability of these two is lost.
    """
    scores_NV.narrow(1, PAD, BOS + 1 - PAD).fill_(float("-inf"))  # half the time of an assignment
    return scores_NV


def highest(scores_NV: Tensor) -> tuple[Tensor, Tensor]:
    """The largest value [N] of each row and its column [N], the first of equal ones.

    For many rows it searches only the first block of columns with the largest maximum: PyTorch's search for a column
    takes three times as long as one for a value.
    """
    N, V = scores_NV.shape
    if N < ROWS or V < 2 * BLOCK:
        return scores_NV.max(-1)
    padded_NV = nn.functional.pad(scores_NV, (0, -V % BLOCK), value=float("-inf")) if V % BLOCK else scores_NV
    in_blocks = padded_NV.view(N, -1, BLOCK)
    block_N1 = in_blocks.amax(-1).max(-1, keepdim=True).indices
    chosen = in_blocks.gather(1, block_N1[:, :, None].expand(N, 1, BLOCK))[:, 0]
    value_N, place_N = chosen.max(-1)
    return value_N, block_N1[:, 0] * BLOCK + place_N


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Like ``topk`` over the last axis: values and columns, the largest first. Returns all columns if there are fewer
    than ``count``.

    It searches only the ``count`` blocks of columns with the largest maxima, which must contain the result. A maximum
    takes a tenth of the time of ``topk``.
    """
    *rows, V = scores.shape
    blocks = V // BLOCK
    if count >= blocks or scores.numel() <= FEW:
        return scores.topk(min(count, V))
    in_blocks = scores[..., : blocks * BLOCK].view(*rows, blocks, BLOCK)
    block = in_blocks.amax(-1).topk(count).indices
    chosen = in_blocks.gather(-2, block[..., None].expand(*rows, count, BLOCK)).flatten(-2)
    value, place = torch.cat([chosen, scores[..., blocks * BLOCK :]], -1).topk(count)
    column = block.gather(-1, (place // BLOCK).clamp(max=count - 1)) * BLOCK + place % BLOCK
    return value, torch.where(place < count * BLOCK, column, place + (blocks - count) * BLOCK)


def first_largest(scores_BC: Tensor, count: int) -> Tensor:
    """The columns [B, K] of the ``count`` largest scores of each row, the largest first. Of equal ones, unlike
    ``topk``, it takes the first columns, in their order.
    """
    least_B1 = scores_BC.topk(count).values[:, -1:]
    larger_BC, equal_BC = scores_BC > least_B1, scores_BC == least_B1
    missing_B1 = count - larger_BC.sum(1, keepdim=True)
    place_BK = (larger_BC | (equal_BC & (equal_BC.cumsum(1) <= missing_B1))).nonzero()[:, 1].view(-1, count)
    order_BK = scores_BC.gather(1, place_BK).sort(dim=1, descending=True, stable=True).indices
    return place_BK.gather(1, order_BK)


# ---------------------------------------------------------------- memory


def repeated(rows: T, times: int) -> T:
    """Repeats each row of a tree of tensors (tree.py) ``times`` times, the copies adjacent. ``Shared`` parts do not
    change. Raises UserError if the repeated rows need more than the device's total memory.
    """
    own = tree.map(lambda leaf: leaf, rows, lambda leaf: leaf[:0])  # what is shared is not repeated
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

    Finished rows leave by halves, not one by one: moving the others costs half a step, and in bfloat16 the CPU builds a
    kernel for each new shape. About a tenth of the computation is for finished rows.
    """
    return 1 << (active - 1).bit_length() if active else 0


def remaining(active: Sequence[bool]) -> list[int]:
    """The rows that stay in the batch. If there are at most ``batch_size`` rows, all stay, in order. Otherwise the
    active ones come first, then as many finished ones as fill ``batch_size``.
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
    """The tokens [N] that the prefixes [B, T] force at ``places`` (from 0), and a mask [N] that is True where there is
    one. ``places`` has one place for each source, or a single one for all. The token is PAD after the end of a prefix.
    ``rows`` is N.
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
