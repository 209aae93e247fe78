"""The nouns: the values that models, searches, objectives and metrics hand to one another.

What those do with them is in protocols.py. The shapes are given in the names: B rows (sentences), K hypotheses of one
sentence, N rows of anything, S source positions, T target positions, D features, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transduce import tree

T_co = TypeVar("T_co", covariant=True)

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
"""The special tokens, at the same ids in every vocabulary; CTC's blank is PAD."""


class Factory(Protocol[T_co]):
    """A constructor some of whose arguments are given: N layers need N cells, not one.

    In a configuration a parameter annotated ``Factory[T]`` receives the table as such a partial.
    The holder calls it with what only it knows (widths, parameters).
    """

    def __call__(self, *args: Any, **kwargs: Any) -> T_co: ...


def real_mask(lengths_B: Tensor, size: int) -> Tensor:
    """[B, size], True at real positions: the first ``lengths_B`` of each row."""
    return torch.arange(size, device=lengths_B.device) < lengths_B[:, None]


def widened(dtype: torch.dtype) -> torch.dtype:
    """At least float32: half of it has too few digits for positions, sums and log-probabilities."""
    return torch.promote_types(dtype, torch.float32)


@dataclass(frozen=True)
class Padded:
    """Rows of unequal length in one tensor: values [B, S] (ids) or [B, S, D] (features), lengths [B]."""

    values: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, rows: Sequence[Any], dtype: torch.dtype | None = None) -> Padded:
        """Rows of ids, numbers or steps as one batch, filled up with PAD; on the CPU."""
        values = pad_sequence([torch.as_tensor(row, dtype=dtype) for row in rows], batch_first=True, padding_value=PAD)
        return cls(values, torch.tensor([len(row) for row in rows]))

    @property
    def mask(self) -> Tensor:
        """[B, S], True at real positions."""
        return real_mask(self.lengths, self.values.shape[1])

    def to(self, device: torch.device) -> Padded:
        return Padded(self.values.to(device), self.lengths.to(device))


@dataclass(frozen=True)
class Memory:
    """What an encoder leaves for a decoder.

    ``states`` [B, S, D] are there to be attended to; ``summary`` is a tree of [B, D'] tensors to start from
    (a recurrent encoder's last h and c per layer, an average); ``source`` is the input itself, for copying.
    Attention compares its queries with ``states`` and reads ``read_BSD``: the same, unless the encoder leaves
    ``values`` [B, S, D] to be read in their place (Gehring et al. 2017).
    """

    states: Padded
    summary: Any
    source: Any
    values: Tensor | None = None

    @property
    def read_BSD(self) -> Tensor:
        return self.states.values if self.values is None else self.values


@dataclass(frozen=True)
class Emission:
    """All of an output at once: ``output``, features [B, T, ...] of its positions, of which the first ``lengths`` [B]
    are real.

    Lengths count what is emitted, an output's tokens without EOS, which stands where the length says. Hence
    ``length_log_probs`` [B, L], log p(n | x) of n = 0 to L - 1; None where the length follows from the source.
    """

    output: Any
    lengths: Tensor
    length_log_probs: Tensor | None = None

    @property
    def mask(self) -> Tensor:
        """[B, T], True at real positions."""
        return real_mask(self.lengths, tree.leaves(self.output)[0].shape[1])

    @property
    def end_log_probs(self) -> Tensor:
        """[B]: log-probabilities of ending there, which are the lengths'; 0 where a length is no choice."""
        if self.length_log_probs is None:
            return torch.zeros(self.lengths.shape, device=self.lengths.device)
        return self.length_log_probs.gather(1, self.lengths[:, None])[:, 0]


@dataclass(frozen=True)
class MemoryWidths:
    """How wide the memory is that an encoder will leave: the last axis of its ``states``, those of its ``summary``'s
    leaves."""

    states: int
    summary: tuple[int, ...]


@dataclass(frozen=True)
class Hypothesis:
    """One output: ``tokens`` with its closing EOS, their log-probabilities under the model (natural
    logarithm, summed in ``log_prob``), and ``score``, by which the search ranked it.

    Of a model that emits all tokens at once, EOS has the log-probability of the length: 0 where that follows from the
    source. Where an output was given (``Search.force``), ``best_log_probs`` has that of the likeliest token in each
    place, so that a token with as much was the model's choice; an end that follows from the source was no choice, and
    is left out. Of a ``Regressor`` the tokens are numbers, which have no probability: ``log_prob`` and ``score`` are 0.
    """

    tokens: tuple[Any, ...]  # ids, or numbers
    log_prob: float
    score: float
    token_log_probs: tuple[float, ...] = ()
    best_log_probs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Encoded pairs. ``source`` and ``target``, ids or numbers, both close with EOS; ``ids`` [B] are the examples' row
    numbers."""

    source: Padded
    target: Padded
    ids: Tensor

    def to(self, device: torch.device) -> Batch:
        return Batch(self.source.to(device), self.target.to(device), self.ids)


@dataclass(frozen=True)
class Loss:
    """Sums, not means: the training loop divides once, after accumulation and after all ranks.

    ``total`` is differentiated; ``parts`` are reported (for cross-entropy ``nll``, without smoothing).
    """

    total: Tensor
    count: int
    parts: dict[str, Tensor] = field(default_factory=dict)

    @property
    def plain(self) -> Tensor:
        """What is comparable whatever the objective's options: nll where there is one, else the total."""
        return self.parts.get("nll", self.total).detach()


@dataclass(frozen=True)
class Facts:
    """What only the data knows. Constructors receive these by parameter name.

    Of numbers the channels are the vocabulary: an embedding has a vector for each, a readout a column. Words that are
    known as wholes are counted apart; their ids follow those of the vocabulary, which spell them.
    """

    source_vocabulary: int
    target_vocabulary: int
    source_factors: int = 1  # ids of each source token
    source_words: int = 0


@dataclass(frozen=True)
class Example:
    """A raw source and every target that is right for it (empty when unknown)."""

    source: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """A raw output, and what the model thinks of it and, where asked, of the first reference.

    Where only the reference is asked for, there is no output: its ``text`` is empty.
    """

    text: str
    log_prob: float = 0.0
    forced_log_prob: float | None = None  # of the first reference, teacher-forced
    forced_length: int | None = None  # its tokens, EOS included where that is a choice of the model's
    forced_right: int | None = None  # of these, the model's first choice
