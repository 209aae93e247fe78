"""Samples of continuations of a text, which may have several lines.

K samples, M tokens of the prompt, T tokens that the model reads in one call, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S, TextContext
from transduce.core.types import BOS, EOS, Padded
from transduce.search import random_numbers
from transduce.search.base import Truncation
from transduce.search.front import repeated
from transduce.search.reading import capacity, forbid_specials, read
from transduce.search.sampling import Sampling, drawn
from transduce.search.truncation import Nucleus, TopK


class Drawn(NamedTuple):
    """One step: the token of each sample [K], its log-probability by the model [K] in float64, and a mask [K] of the
    samples that had not ended before.
    """

    token_K: Tensor
    log_prob_K: Tensor
    active_K: Tensor


@dataclass(frozen=True)
class Generation:
    """Draws ``samples`` continuations of a text, of at most ``length`` tokens each.

    Each token is drawn from the model's distribution, with logits divided by ``temperature``. If ``top_k`` is given,
    only the ``top_k`` most probable tokens remain. If ``top_p`` is given, only the smallest set of most probable tokens
    with probability ``top_p`` remains. Then the distribution is renormalised. If ``lines`` is False, a sample ends with
    its line. If it is True, the sample continues with the next line, and the model knows the lines before. Equal
    models, prompts and ``seed`` give equal samples for all values of ``samples`` and ``length``. Raises UserError for a
    value that is not allowed.
    """

    length: int = 100
    samples: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 1
    lines: bool = False

    def __post_init__(self) -> None:
        for name in ("length", "samples"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} = {getattr(self, name)}: at least 1 was expected")
        _ = self.sampling  # raises UserError for values that the search does not allow

    @property
    def sampling(self) -> Sampling:
        """The search that has the same distribution for each token."""
        cuts: list[Truncation] = [] if self.top_k is None else [TopK(self.top_k)]
        cuts += [] if self.top_p is None else [Nucleus(self.top_p)]
        return Sampling(temperature=self.temperature, truncations=tuple(cuts))

    @torch.inference_mode()
    def __call__(
        self, model: Autoregressive[S], source: Padded, prompt_M: Tensor, context: TextContext | None = None
    ) -> Iterator[Drawn]:
        """Yields the tokens of all samples, step by step. Stops when all samples have ended.

        ``source`` has one row, for the model's ``start``. The prompt may have EOS at the ends of its lines. ``context``
        says how much of a long text the model reads again. If it is None or has no limit, the model keeps its state.
        """
        sampling, reader = self.sampling, _Reader(model, source, context)
        begun_1T = torch.cat([prompt_M.new_tensor([BOS]), prompt_M])[None]
        log_probs_1V = reader.read(begun_1T)
        log_probs_KV = reader.repeat(log_probs_1V, self.samples)  # too many samples end here
        key_K = random_numbers.keys((source, begun_1T), self.seed, self.samples)
        active_K = torch.ones(self.samples, dtype=torch.bool, device=prompt_M.device)
        for place in range(self.length):
            scores_KV = forbid_specials(log_probs_KV)
            token_K = drawn(sampling.distribution(scores_KV), random_numbers.uniform(key_K, place))
            yield Drawn(token_K, scores_KV.gather(1, token_K[:, None])[:, 0].double(), active_K)
            if not self.lines:
                active_K = active_K & (token_K != EOS)
                if not bool(active_K.any()):
                    return
            if place + 1 < self.length:
                log_probs_KV = reader.read(token_K[:, None])


class _Reader:
    """The model, its state, and the tokens that it has read since it started."""

    def __init__(self, model: Autoregressive[S], source: Padded, context: TextContext | None) -> None:
        self.model, self.source, self.context = model, source, context
        self.state = model.start(source)
        self.read_KM = torch.zeros(1, 0, dtype=torch.long, device=tree.leaves(source)[0].device)

    def read(self, tokens_KT: Tensor) -> Tensor:
        """The log-probabilities [K, V] of the token after these tokens. The model reads BOS instead of EOS."""
        tokens_KT = tokens_KT.masked_fill(tokens_KT == EOS, BOS)
        every_KM = torch.cat([self.read_KM, tokens_KT], 1)
        limit = None if self.context is None else self.context.limit(every_KM.shape[1])
        if limit is not None:  # the model starts anew and reads the last tokens
            tokens_KT = every_KM = every_KM[:, -limit:]
            self.state = self.model.start(self.source)
        place = every_KM.shape[1]
        if tree.grows(self.state) and tokens_KT.shape[1] == 1 and capacity(place - 1) < capacity(place):
            self.state = tree.reserve(self.state, capacity(place))
        log_probs_KV, self.state = read(self.model, tokens_KT, self.state)
        if tokens_KT.shape[1] > 1:
            self.state = tree.reserve(self.state, capacity(place))
        self.read_KM = every_KM
        return log_probs_KV

    def repeat(self, log_probs_1V: Tensor, samples: int) -> Tensor:
        """Continues with ``samples`` copies of the only row. Returns as many copies of its log-probabilities."""
        rows = (log_probs_1V, self.state, self.read_KM)
        log_probs_KV, self.state, self.read_KM = repeated(rows, samples)
        self.source = tree.select(self.source, torch.zeros(samples, dtype=torch.long, device=log_probs_1V.device))
        return log_probs_KV
