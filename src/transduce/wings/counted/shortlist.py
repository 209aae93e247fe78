"""Search over a shortlist: the target words that go with the words of the source.

B sources, N rows, T tokens, V vocabulary, C columns: the words that are on at least one list of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import AnyAutoregressive, Autoregressive, S, Search, lacking_for
from transduce.core.types import EOS, PAD, SPECIALS, Hypothesis, Padded
from transduce.models.weights import save_tensors
from transduce.search.base import Filter, ends_freely, stream
from transduce.search.beam import Beam
from transduce.search.limits import Limited


@dataclass(frozen=True)
class CandidateWords:
    """The candidates for lists. ``best_SN`` has the ids of n target words for each id of the source vocabulary [S, n].
    ``always_A`` has the ids that are on every list.
    """

    best_SN: Tensor
    always_A: Tensor

    def save(self, path: Path) -> None:
        save_tensors({"best": self.best_SN.int(), "always": self.always_A.int()}, path)

    @classmethod
    def load(cls, path: Path) -> CandidateWords:
        """Reads a shortlist. Raises FileNotFoundError if there is no file, and UserError if it is not a shortlist."""
        try:
            tensors = load_file(path)
            return cls(tensors["best"].long(), tensors["always"].long())
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path}: there is no shortlist; learn it from the training pairs with `transduce shortlist RUN`"
            ) from None
        except (SafetensorError, KeyError) as error:
            raise UserError(f"{path} is no shortlist ({error}); learn it with `transduce shortlist RUN`") from error

    def of(self, source: Padded, prefix: Padded | None = None) -> BatchLists:
        """The list of each source: the candidates of its words, the words on every list, and the words of its prefix.

        Raises UserError if the source holds numbers, or an id that is not in the source vocabulary of the candidates.
        """
        if source.values.is_floating_point() or int(source.values.max()) >= len(self.best_SN):
            raise UserError(
                f"this shortlist knows {len(self.best_SN)} source tokens, the source has others: it was learned for "
                "another model; learn one with `transduce shortlist RUN`"
            )
        device = source.values.device
        words_BSN = self.best_SN.to(device)[source.values].masked_fill(~source.mask[:, :, None], EOS)
        always_BA = self.always_A.to(device).expand(len(words_BSN), -1)
        words_BL = torch.cat([words_BSN.flatten(1), always_BA], 1)
        if prefix is not None:
            words_BL = torch.cat([words_BL, prefix.values.masked_fill(~prefix.mask, EOS)], 1)
        words_C, column_BL = torch.unique(words_BL, return_inverse=True)
        listed_BC = torch.zeros(len(words_BL), len(words_C), dtype=torch.bool, device=device)
        return BatchLists(words_C, listed_BC.scatter_(1, column_BL, True))


@dataclass(frozen=True)
class BatchLists:
    """``words_C`` are the ids on the lists of a batch, in rising order. ``listed_BC`` says which of them are on each
    source's list.
    """

    words_C: Tensor
    listed_BC: Tensor

    def columns(self, tokens: Padded) -> Padded:
        """Replaces each token [B, T] by its index in ``words_C``. All tokens must be in ``words_C``; this is not
        checked. Padding becomes column 0.
        """
        return Padded(torch.searchsorted(self.words_C, tokens.values.masked_fill(~tokens.mask, PAD)), tokens.lengths)

    def has(self, tokens: Padded) -> Tensor:
        """A mask [B, T] of the tokens that are on their source's list. False at padding."""
        column_BT = torch.searchsorted(self.words_C, tokens.values).clamp(max=len(self.words_C) - 1)
        found_BT = self.words_C[column_BT] == tokens.values
        return found_BT & self.listed_BC.gather(1, column_BT) & tokens.mask


@dataclass(frozen=True)
class Shortlist:
    """Runs ``search`` among the target words that a shortlist has for the source. ``path`` is a file written by
    ``transduce shortlist``.

    Each sentence has its own list, so its outputs do not depend on the batch. The search uses the model restricted to
    the list: p(w | ...) divided by the sum of p over the list. The ``log_prob`` of an output is its log-probability by
    the restricted model. ``force`` uses the whole model. Filters receive scores of the columns of the lists instead of
    the vocabulary; special tokens have the same ids there. Raises UserError for a search that does not go token by
    token.
    """

    path: Path
    search: Search[Any] = field(default_factory=Beam)

    def __post_init__(self) -> None:
        if lacking := lacking_for(type(self.search), ListedModel):
            raise UserError(
                f"a shortlist is for searches that go token by token, and {type(self.search).__name__} asks its model "
                f"to {' and '.join(lacking)}: leave it out (--shortlist), or set search.type to beam, greedy, exact or "
                "sampling, where the model can be searched so"
            )

    @property
    def ends_freely(self) -> bool:
        return ends_freely(self.search)

    @cached_property
    def candidates(self) -> CandidateWords:
        return CandidateWords.load(self.path)

    def __call__(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> list[list[Hypothesis]]:
        lists = self.candidates.of(source, prefix)
        columns = None if prefix is None else lists.columns(prefix)
        found = cast(list[list[Hypothesis]], self.search(ListedModel(model, lists), source, columns))
        words = lists.words_C.tolist()
        return [
            [replace(hypothesis, tokens=tuple(words[column] for column in hypothesis.tokens)) for hypothesis in row]
            for row in found
        ]

    def stream(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """Yields tuples of ids of the whole vocabulary, whenever ``search`` yields one (``base.stream``)."""
        lists = self.candidates.of(source, prefix)
        words = lists.words_C.tolist()
        for columns in stream(
            self.search, ListedModel(model, lists), source, None if prefix is None else lists.columns(prefix)
        ):
            yield tuple(words[column] for column in columns)

    def force(self, model: Autoregressive[S], source: Padded, target: Padded) -> list[Hypothesis]:
        return self.search.force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Shortlist:
        return replace(self, search=self.search.resized(size, nbest))

    @property
    def max_length(self) -> int:
        return self._limits.max_length

    @property
    def filters(self) -> tuple[Filter[object], ...]:
        return self._limits.filters

    @property
    def _limits(self) -> Limited:
        return cast(Limited, self.search)  # each search that goes token by token has limits

    def refused(self, source: Padded, target: Padded, vocabulary: int) -> list[str]:
        """The targets with words that are not on their source's list. Filters see lists, so they are not asked."""
        listed_BT = self.candidates.of(source, None).has(target) | ~target.mask
        written = zip(listed_BT.all(1).tolist(), target.lengths.tolist(), strict=True)
        return [
            "path" if not listed else "max_length" if length > self.max_length else "" for listed, length in written
        ]


@dataclass(frozen=True)
class ListedState:
    """The model's state, and a mask [B, C] of the columns on each source's list."""

    model: object
    listed_BC: tree.Shared[Tensor]


class ListedModel:
    """A model whose vocabulary is the columns of a batch's lists. It reads and writes columns instead of ids."""

    training = False
    knows_its_batch = True

    def __init__(self, model: Autoregressive[S], lists: BatchLists) -> None:
        self.model: AnyAutoregressive = model
        self.lists = lists

    def start(self, source: Padded) -> ListedState:
        return ListedState(self.model.start(source), tree.Shared(self.lists.listed_BC))

    def extend(self, tokens_NT: Tensor, state: ListedState) -> tuple[tuple[object, Tensor], ListedState]:
        output, after = self.model.extend(self.lists.words_C[tokens_NT], state.model)
        N, T = tokens_NT.shape
        listed_BC = state.listed_BC.value
        listed_NC = listed_BC.repeat_interleave(N // len(listed_BC), 0)
        return (output, listed_NC[:, None].expand(-1, T, -1)), ListedState(after, state.listed_BC)

    def readout(self, output: tuple[object, Tensor], candidates: Tensor | None = None) -> Tensor:
        features, listed_C = output
        words = self.lists.words_C
        if candidates is not None:
            words, listed_C = words[candidates], listed_C[..., candidates]
        return self.model.readout(features, words).masked_fill_(~listed_C, float("-inf"))


def on_every_list(frequent: Tensor) -> Tensor:
    """The ids on every list, in rising order: the special tokens and ``frequent``. So the columns of special tokens
    equal their ids.
    """
    listed: Tensor = torch.unique(torch.cat([torch.arange(len(SPECIALS)), frequent]))
    return listed
