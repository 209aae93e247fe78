"""Contexts: the part of the text before a line that a language model reads when it scores the line.

M tokens of a text, W tokens of a window, B windows, V vocabulary. A line begins with BOS and ends with EOS, alone and
in a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import BOS, Hypothesis, Padded
from transduce.search.forcing import forced_hypotheses, shifted_text
from transduce.search.reading import log_probs

CHUNK = 1024  # tokens to score in one call


class Scores(NamedTuple):
    """The results of ``step.log_probs`` for each of the M tokens of a text, on the CPU. They are the token's
    log-probability, the log-probability of the model's first choice, and whether the token is that choice.
    """

    log_prob_M: Tensor
    best_M: Tensor
    right_M: Tensor


class _OfText:
    """Base class of contexts: scores the lines of a text as one sequence of tokens."""

    @torch.inference_mode()
    def force(self, model: Autoregressive[S], source: Padded, lines: Sequence[Sequence[int]]) -> list[Hypothesis]:
        """A hypothesis for each of the ``lines``, like ``Search.force``. The lines follow each other in a text, and
        each ends with EOS. ``source`` has one row, for ``model.start``.
        """
        if not lines:
            return []
        device = tree.leaves(source)[0].device
        ids_M = torch.cat([torch.as_tensor(line) for line in lines]).to(device)
        found = Scores(*(each.cpu() for each in self.scores(model, source, ids_M)))
        return forced_hypotheses([len(line) for line in lines], ids_M.cpu(), *found)

    def scores(self, model: Autoregressive[S], source: Padded, ids_M: Tensor) -> Scores:
        raise NotImplementedError


@dataclass(frozen=True)
class Carried(_OfText):
    """The model reads the whole text before a line: its state after a line is the state before the next one.

    Raises UserError for a model with attention, because its state grows with each token. Use ``Window`` for it.
    """

    @property
    def signature(self) -> str:
        return "carried"

    def limit(self, count: int) -> int | None:
        return None

    def scores(self, model: Autoregressive[S], source: Padded, ids_M: Tensor) -> Scores:
        state, before_11 = model.start(source), torch.full((1, 1), BOS, device=ids_M.device)
        if tree.grows(state):
            raise UserError(
                "context carried: the state of this model grows with each token, because attention keeps all keys; "
                "take a window, such as --context 256/128"
            )
        found = []
        for target_T in torch.split(ids_M, CHUNK):
            output, state = model.extend(shifted_text(target_T[None], before_11), state)
            found.append(log_probs(model, tree.map(lambda leaf: leaf[0], output), target_T))
            before_11 = target_T[None, -1:]
        return _joined(found)


@dataclass(frozen=True)
class Window(_OfText):
    """The model reads a window of ``size`` tokens at a time. Windows are ``stride`` tokens apart.

    The first window scores all its tokens, and the other windows score only their last ``stride`` tokens. So each token
    has at least ``size`` - ``stride`` earlier tokens as its context, unless it is near the beginning of the text. A
    small stride gives each token more context and takes more time. Raises UserError unless 1 <= ``stride`` <= ``size``.
    """

    size: int = 256
    stride: int = 128

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= self.size:
            raise UserError(
                f"window: size = {self.size}, stride = {self.stride}: a stride from 1 to the size was expected"
            )

    @property
    def signature(self) -> str:
        return f"window-{self.size}/{self.stride}"

    def limit(self, count: int) -> int | None:
        return None if count <= self.size else max(1, self.size - self.stride)

    def scores(self, model: Autoregressive[S], source: Padded, ids_M: Tensor) -> Scores:
        M, size = len(ids_M), min(self.size, len(ids_M))
        read_1M = shifted_text(ids_M[None], ids_M.new_full((1, 1), BOS))
        ends = [size, *range(size + self.stride, M, self.stride)]
        found = [self._of_windows(model, source, ids_M, read_1M[0], ends[:1], size, size)]
        batch = max(1, CHUNK // size)
        for first in range(1, len(ends), batch):
            found.append(
                self._of_windows(model, source, ids_M, read_1M[0], ends[first : first + batch], size, self.stride)
            )
        if (left := M - ends[-1]) > 0:
            found.append(self._of_windows(model, source, ids_M, read_1M[0], [M], size, left))
        return _joined(found)

    @staticmethod
    def _of_windows(
        model: Autoregressive[S],
        source: Padded,
        ids_M: Tensor,
        read_M: Tensor,
        ends: Sequence[int],
        size: int,
        scored: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The scores of the last ``scored`` tokens of the windows of ``size`` tokens that end before ``ends``."""
        end_B1 = torch.tensor(ends, device=ids_M.device)[:, None]
        place_BW = end_B1 - size + torch.arange(size, device=ids_M.device)
        rows_B = torch.zeros(len(ends), dtype=torch.long, device=ids_M.device)
        output, _ = model.extend(read_M[place_BW], model.start(tree.select(source, rows_B)))
        last = tree.map(lambda leaf: leaf[:, size - scored :].flatten(0, 1), output)
        return log_probs(model, last, ids_M[place_BW[:, size - scored :]].flatten())


def _joined(found: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Scores:
    return Scores(*(torch.cat(column) for column in zip(*found, strict=True)))


def context(text: str) -> Carried | Window | None:
    """The context that a text names. "line" gives None, which means each line alone. "carried" gives ``Carried``, and
    "SIZE/STRIDE" gives a ``Window``. Raises UserError for any other text.
    """
    if text in ("line", "carried"):
        return Carried() if text == "carried" else None
    size, slash, stride = text.partition("/")
    if not (slash and size.isdecimal() and stride.isdecimal()):
        raise UserError(f"context {text!r}: line, carried, or a window such as 256/128 was expected")
    return Window(int(size), int(stride))
