"""What any search over tokens does: it begins, and steps. N rows, B sources, N = B * K; T tokens, V vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from transduce import tree
from transduce.errors import UserError
from transduce.protocols import Autoregressive
from transduce.search.filters.base import Filter
from transduce.search.follower import Follower
from transduce.search.largest import largest
from transduce.search.prefix import check_prefix, forced
from transduce.types import BOS, EOS, PAD, Padded, widened

S = TypeVar("S")

POSITIONS = 1024  # whose logits are held at a time, where only those of given tokens are wanted
STUCK = 1e6  # what an end costs that filters forbid, as they do all else: it ranks behind any other


@dataclass(frozen=True)
class Front(Generic[S]):
    """The rows of a search: the token that each wrote last and the model has yet to read, the model's state before it,
    what each follower remembers, and what is forced on their sources. One tree: rows are moved in all of it."""

    token_N: Tensor
    state: S
    memories: tuple[Any, ...]
    prefix: tree.Shared[Padded] | None = None

    def write(self, tokens_NT: Tensor, followers: Sequence[Follower[Any]]) -> Front[S]:
        """After these tokens of each row, all of which the model has read but for the last."""
        pairs = zip(followers, self.memories, strict=True)
        memories = tuple(follower.extend(tokens_NT, memory) for follower, memory in pairs)
        return replace(self, token_N=tokens_NT[:, -1], memories=memories)


@dataclass(frozen=True)
class Begun:
    """What is written before a search has a choice: tokens [B, T] and their log-probabilities."""

    tokens_BT: Tensor
    log_probs_BT: Tensor


def begin(
    model: Autoregressive[S],
    source: Any,
    prefix: Padded | None,
    followers: Sequence[Follower[Any]],
    max_length: int,
) -> tuple[Front[S], Begun]:
    """A row for each source. As many tokens as all prefixes have are read in one call."""
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
    front = replace(front, state=state).write(tokens_BT, followers)
    return front, Begun(tokens_BT, log_prob_N.view(B, shortest))


@dataclass(frozen=True)
class Next:
    """What may be written next: log-probabilities [N, V] as the model has them, and the scores by which to choose: the
    same, as filters, a prefix and the end of all outputs leave them."""

    log_probs_NV: Tensor
    scores_NV: Tensor

    def log_prob(self, token_N: Tensor) -> Tensor:
        """[N], in float64."""
        return self.log_probs_NV.gather(1, token_N[:, None])[:, 0].double()


def advance(
    model: Autoregressive[S], filters: Sequence[Filter[Any]], front: Front[S], place: int, last: bool
) -> tuple[Next, Front[S]]:
    """The model reads what was written last; what may come at ``place``, counted from 0, which is EOS if it is the
    ``last``. Followers of a search that are no filters come after them."""
    log_probs_NV, state = step(model, front.token_N, front.state)
    scores_NV = log_probs_NV = forbid_specials(log_probs_NV)
    if last:
        scores_NV = only(log_probs_NV, torch.full_like(front.token_N, EOS))
    elif filters:
        scores_NV = log_probs_NV.clone()
        for each, memory in zip(filters, front.memories, strict=False):
            scores_NV = each(scores_NV, memory)
        nothing_N = scores_NV.amax(-1) == float("-inf")
        scores_NV[:, EOS] = torch.where(nothing_N, log_probs_NV[:, EOS] - STUCK, scores_NV[:, EOS])
    if front.prefix is not None and place < front.prefix.value.values.shape[1]:
        token_N, forced_N = forced(front.prefix.value, place, len(front.token_N))
        scores_NV = torch.where(forced_N[:, None], only(log_probs_NV, token_N), scores_NV)
    return Next(log_probs_NV, scores_NV), replace(front, state=state)


def only(scores_NV: Tensor, token_N: Tensor) -> Tensor:
    """The scores of one token of each row, and minus infinity."""
    token_N1 = token_N[:, None]
    return torch.full_like(scores_NV, float("-inf")).scatter_(1, token_N1, scores_NV.gather(1, token_N1))


def step(model: Autoregressive[S], token_N: Tensor, state: S) -> tuple[Tensor, S]:
    """Log-probabilities [N, V] of the next token, at least in float32, and the state."""
    return read(model, token_N[:, None], state)


def read(model: Autoregressive[S], tokens_NT: Tensor, state: S) -> tuple[Tensor, S]:
    """Log-probabilities [N, V] of what comes after the last of these tokens, at least in float32, and the state."""
    output, state = model.extend(tokens_NT, state)
    logits_NV = model.readout(tree.map(lambda leaf: leaf[:, -1], output))
    logits_NV = logits_NV.to(widened(logits_NV.dtype))
    # in place, and half the time of a normaliser on its own, which stores every exponential
    return torch.log_softmax(logits_NV, -1, out=logits_NV), state


def log_probs(model: Autoregressive[Any], output: Any, token_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of one given token at each of N positions, from the model's features of these positions.

    Returns [N] in float64, then the log-probability of the model's first choice there [N], and whether the given token
    is that choice [N]. The first choice is the token that greedy search writes, also when several tokens are equally
    probable.
    """
    own, best, right = [], [], []
    for first in range(0, len(token_N), POSITIONS):
        some_N = torch.arange(first, min(first + POSITIONS, len(token_N)), device=token_N.device)
        logits_NV = model.readout(tree.select(output, some_N))
        logits_NV = logits_NV.to(widened(logits_NV.dtype))
        normaliser_N = logits_NV.logsumexp(-1)
        own.append(logits_NV.gather(1, token_N[some_N, None])[:, 0].double() - normaliser_N)
        highest_N1, choice_N1 = largest(forbid_specials(logits_NV), 1)
        best.append(highest_N1[:, 0].double() - normaliser_N)
        right.append(choice_N1[:, 0] == token_N[some_N])
    return torch.cat(own), torch.cat(best), torch.cat(right)


def forbid_specials(scores_NV: Tensor) -> Tensor:
    """What is never an output made impossible: padding, and a second beginning. Their probability stays lost."""
    scores_NV[:, PAD : BOS + 1] = float("-inf")
    return scores_NV


def source_lengths(source: Any) -> list[int]:
    """How long each source is; 0 of what is no sequence."""
    return source.lengths.tolist() if isinstance(source, Padded) else [0] * tree.rows(source)


def check_length(max_length: int) -> None:
    if max_length < 1:
        raise UserError(f"max_length = {max_length}: an output has at least one token, its end (id {EOS})")
