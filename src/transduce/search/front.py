"""The rows of a search over tokens. They begin with a prefix, write tokens, and leave the batch when they have
finished.

N rows, B sources, N = B * K; T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor

from transduce.compute.memory import check_memory
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import BOS, EOS, PAD, SPECIALS, Padded
from transduce.search.base import Followers
from transduce.search.reading import capacity, log_probs

R = TypeVar("R")
FEW = 12  # sources that an encoder reads together, if many of different lengths begin


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
    memories: tuple[object, ...]
    prefix: tree.Shared[Padded] | None = None
    reserved: int = 0

    def write(self, tokens_NT: Tensor, followers: Followers) -> Front[S]:
        """The front after the tokens [N, T]. The followers read all of them. The model must already have read all of
        them except the last.
        """
        pairs = zip(followers, self.memories, strict=True)
        memories = tuple([follower.extend(tokens_NT, memory) for follower, memory in pairs])
        return Front(tokens_NT[:, -1], self.state, memories, self.prefix, self.reserved)

    def reorder(self, rows_N: Tensor, sources_B: Tensor | None = None) -> Front[S]:
        """The front whose row n continues row ``rows_N[n]``. ``token_N`` is not reordered, so ``write`` must follow.
        ``sources_B`` are the sources that stay; None if all do.
        """
        parts = self.state, self.memories, self.prefix
        parts = tree.reorder(parts, rows_N) if sources_B is None else tree.select(parts, rows_N, sources_B)
        return Front(self.token_N, *parts, self.reserved)

    def reserve(self, positions: int) -> Front[S]:
        """The front with buffers of ``capacity(positions)``, so that the model can read this number of tokens. No row
        may be longer.
        """
        size = capacity(positions)
        return self if size == self.reserved else replace(self, state=tree.reserve(self.state, size), reserved=size)


# ---------------------------------------------------------------- begin


@dataclass(frozen=True)
class Begun:
    """The forced tokens [B, T] before the first choice of the search, and their log-probabilities in float64. T is the
    length of the shortest prefix, 0 without a prefix.
    """

    tokens_BT: Tensor
    log_probs_BT: Tensor


def begin(
    model: Autoregressive[S], source: Padded, prefix: Padded | None, followers: Followers, max_length: int
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
    front = Front(token_B, _start(model, source), memories, None if prefix is None else tree.Shared(prefix))
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


def _start(model: Autoregressive[S], source: Padded) -> S:
    """The model's state. On the CPU, an encoder reads many sources in parts of similar length: it computes the padding
    too, which may be as much as the sources that a server gets. A model that ``knows_its_batch`` reads all together: it
    has something for each row, such as a list of words.
    """
    known = isinstance(source, Padded) and source.lengths.device.type == "cpu"  # other sources have no lengths
    parts = _similar(source.lengths.tolist()) if known and not getattr(model, "knows_its_batch", False) else []
    if len(parts) < 2:
        return model.start(source)
    states = []
    for rows in parts:
        some = tree.select(source, torch.tensor(rows))
        states.append(model.start(Padded(some.values[:, : int(some.lengths.max())], some.lengths)))
    places = torch.tensor([row for rows in parts for row in rows]).argsort()
    return tree.select(tree.join(states), places)


def _similar(lengths: Sequence[int]) -> list[list[int]]:
    """The rows in parts of similar length with at least ``FEW`` rows each. If at most a quarter is padding, there
    is one part.
    """
    count = len(lengths)
    parts = count // FEW
    if parts < 2 or 4 * sum(lengths) >= 3 * count * max(lengths):
        return [[*range(count)]]
    order = sorted(range(count), key=lengths.__getitem__)
    return [order[count * part // parts : count * (part + 1) // parts] for part in range(parts)]


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


# ---------------------------------------------------------------- repeat, leave and join


def repeated(rows: R, times: int) -> R:
    """Repeats each row of a tree of tensors (tree.py) ``times`` times, the copies adjacent. ``Shared`` parts do not
    change. Raises UserError if the repeated rows need more than the device's total memory.
    """
    own = tree.map(lambda leaf: leaf, rows, lambda leaf: leaf[:0])  # shared leaves are not repeated
    leaves = tree.leaves(own)
    check_memory(times * sum(leaf.nbytes for leaf in leaves), f"size = {times}", leaves[0].device)
    return tree.repeat(rows, times)


def batch_size(active: int, sizes: int = 1) -> int:
    """The number of rows that a batch keeps while ``active`` of them are active: the smallest power of two that is at
    least ``active``, or 0. There are ``sizes`` equally far from each power of two to the next.

    Finished rows do not leave one by one, but when half of the rows are finished. The reason is that moving the others
    costs half a step, and that the CPU builds a kernel in bfloat16 for each new shape. About a tenth of the computation
    is for finished rows. A search that moves its rows in each step anyway has more ``sizes``.
    """
    if not active:
        return 0
    power = 1 << (active - 1).bit_length()  # the next one
    apart = max(1, power // (2 * sizes))
    return -(-active // apart) * apart


def remaining(active: Sequence[bool], sizes: int = 1, full: bool = False) -> list[int]:
    """The rows that stay in the batch. If there are at most ``batch_size`` rows, all stay, in order. Otherwise the
    active rows come first. Then finished rows follow until there are ``batch_size`` rows.

    If a row is ``full``, the model must not read its next token. It has finished, so only the active rows stay.
    """
    if full:
        return [row for row, each in enumerate(active) if each]
    size = batch_size(sum(active), sizes)
    if size >= len(active):
        return list(range(len(active)))
    return sorted(range(len(active)), key=lambda row: not active[row])[:size]


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
