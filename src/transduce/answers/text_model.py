"""A model with its tokenizers: texts to rows of ids or numbers, and rows to batches on the model's device."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from transduce.answers.answer import Truncation
from transduce.answers.batches import SIGNALS_AHEAD, WINDOW, window_size
from transduce.compute.precision import Precision, autocast
from transduce.core.errors import RequestError, UserError
from transduce.core.protocols import AnySearch, Autoregressive, Deriving, Search, Searching, can
from transduce.core.registry import model_name
from transduce.core.types import Derivation, Hypothesis, Padded
from transduce.data.corpora import LineError
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.base import Rows, Scaled, Sourced, Tokenizer, cut, encoded
from transduce.data.tokenizers.passing import passing
from transduce.data.unknown import Unknown, unknown_in
from transduce_engine.phrases import Lexicon

log = logging.getLogger("transduce")

UNFINISHED = "\ufffd"  # what a decoder makes of the first bytes of a character


class SourceRow(NamedTuple):
    """A source as the model reads it: a row of ids or numbers that ends with EOS, or of a signal's steps.

    ``truncated`` is None if the source was not cut. ``unknown`` counts the row's tokens that the model does not know.
    """

    row: Any
    truncated: Truncation | None
    unknown: Unknown

    @property
    def length(self) -> int:
        """``len(row)`` before it was cut: ids (EOS included) or steps."""
        return len(self.row) if self.truncated is None else self.truncated.length


@dataclass(frozen=True, eq=False, repr=False)
class TextModel:
    """A model with its tokenizers. ``search`` is the search that is used unless a call gives another.

    A source longer than ``max_source_length`` tokens (EOS included) or steps is cut; a series of numbers is refused
    instead. If the model's targets are ``token_for_token``, such as labels, a scored target is cut with its source.
    If it ``keeps_empty`` lines, it learned from empty sources, too.

    The model computes products in ``precision``. For "bfloat16" its matrices must be converted first
    (``compute.precision.hold_matrices``).
    """

    model: nn.Module
    search: AnySearch
    tokenizers: Tokenizers
    max_source_length: int = field(default=1000, kw_only=True)
    token_for_token: bool = field(default=False, kw_only=True)
    keeps_empty: bool = field(default=False, kw_only=True)
    precision: Precision = field(default="float32", kw_only=True)

    @cached_property
    def source_tokenizer(self) -> Tokenizer:
        """The source's tokenizer. A model that writes phrase by phrase passes unknown tokens on, so it reads each piece
        of text that is to stay as one of them.
        """
        source = self.tokenizers.source
        return passing(source) if can(type(self.model), Deriving) else source

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizers.target

    @property
    def conditional(self) -> bool:
        """True if the model has a source. A language model learned from targets alone and has none."""
        return self.tokenizers.conditional

    @property
    def device(self) -> torch.device:
        """The device of the model's parameters; the CPU if it has none, as an exported model."""
        first = next(self.model.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    @cached_property
    def searching(self) -> bool:
        """True if the model is of another engine and searches by itself. Asked once: each request needs it."""
        return can(type(self.model), Searching)

    @cached_property
    def scaled_target(self) -> Scaled | None:
        """The target's tokenizer if its rows are scaled numbers, otherwise None."""
        return self.target_tokenizer if isinstance(self.target_tokenizer, Scaled) else None

    @property
    def normalize_target(self) -> Callable[[str], str] | None:
        """The target tokenizer's ``normalize``; None if outputs are numbers, or have parts of their sources."""
        tokenizer = self.target_tokenizer
        return None if tokenizer.numeric or isinstance(tokenizer, Sourced) else tokenizer.normalize

    @cached_property
    def sourced_target(self) -> Sourced | None:
        """The target's tokenizer if its texts have parts of their sources, otherwise None."""
        return self.target_tokenizer if isinstance(self.target_tokenizer, Sourced) else None

    @cached_property
    def lexicon(self) -> Lexicon:
        """How phrases are spelled in the tokens of the target."""
        return Lexicon(self.target_tokenizer)

    def window_size(self, batch_size: int) -> int:
        """How many sources to read at a time, to sort them by length: 64 batches, or 4 for signals, whose rows are
        large; 1 if ``batch_size`` is 1. Raises UserError for a ``batch_size`` below 1.
        """
        return window_size(batch_size, SIGNALS_AHEAD if self.source_tokenizer.signal else WINDOW)

    # ---------------------------------------------------------- the model

    def computing(self) -> AbstractContextManager[object]:
        """The context in which to call the model, for its precision."""
        if self.precision != "bfloat16":  # the usual case, without looking for the device
            return nullcontext()
        return autocast(self.precision, self.device)()

    def search_with(
        self, search: Search[Any], source: Padded, prefix: Padded | None = None
    ) -> list[list[Hypothesis]] | list[list[Derivation]]:
        """For each row of a batch, the hypotheses (derivations of a phrase-based model) that the search finds, best
        first. ``prefix`` [B, T] has ids without EOS.
        """
        with self.computing():
            if self.searching:
                return cast(Searching, self.model).search(search, source, prefix)
            return search(self.model, source, prefix)

    def padded(self, rows: Sequence[Sized], dtype: torch.dtype | None = None) -> Padded:
        """Rows of ids, numbers or steps as one padded batch on the model's device."""
        return Padded.of(rows, dtype).to(self.device)

    @property
    def stepwise(self) -> Autoregressive[object]:
        """The model, for callers that know that it writes token by token."""
        return cast(Autoregressive[object], self.model)

    def check_language_model(self) -> None:
        """Raises RequestError unless the model is a language model that writes token by token."""
        if self.conditional:
            raise RequestError(
                "the model has sources, so a text alone does not decide the next word: give a language model, or use "
                "`transduce predict --prefix`"
            )
        self.check_stepwise("give a recurrent, Transformer or n-gram language model")

    def check_stepwise(self, instead: str = "give a model that does") -> None:
        """Raises RequestError unless the model writes token by token. ``instead`` ends the message: what to give."""
        if self.searching:
            raise RequestError("the engine of this run searches by itself, and shows no steps: use --engine torch")
        if not can(type(self.model), Autoregressive):
            raise RequestError(f"this {model_name(type(self.model))} model does not write token by token: {instead}")

    # ------------------------------------------------------------- texts

    def read(self, sources: Sequence[str], first: int = 1) -> list[SourceRow]:
        """The sources as rows, cut where they are too long. The first source has the number ``first`` in messages.

        Raises RequestError if a source cannot be read, if a series of numbers is too long, or if a language model gets
        a source that is not empty.
        """
        if not self.conditional:
            for number, text in enumerate(sources, first):
                if text:
                    raise RequestError(f"input {number}: {text!r}: a language model has no source; give it empty lines")
        try:
            rows = self.source_tokenizer.encode(sources)
        except LineError as error:  # the tokenizer knows the line and not its number
            raise RequestError(f"input {first + list(sources).index(error.line)}: {error}") from error
        return [
            self._read(row, text, number) for number, (row, text) in enumerate(zip(rows, sources, strict=True), first)
        ]

    def read_told(self, sources: Sequence[str], what: str = "input") -> Rows:
        """The rows of the sources, for callers that return no ``Answer``. Logs a warning for each source that is cut,
        and one for all unknown tokens; ``what`` names a source in them.
        """
        unknown = Unknown()
        read = self.read(sources)
        for number, source in enumerate(read, 1):
            if source.truncated is not None:
                log.warning("%s %d %s", what, number, source.truncated)
            unknown.add(source.unknown)
        if unknown:
            log.warning("%s: %s", what if len(sources) == 1 or what == "input" else f"{what}s", unknown)
        return [source.row for source in read]

    def read_one(self, text: str) -> Any:
        """The row of one source; logs a warning if it is cut, or if it has unknown tokens."""
        return self.read_told([text])[0]

    def read_targets(self, targets: Sequence[str], sources: Sequence[str] | None = None, what: str = "target") -> Rows:
        """The rows of given targets, for callers that return no ``Answer``. Logs a warning for unknown tokens."""
        sources = [""] * len(targets) if sources is None else sources
        rows, unknown = encoded(self.target_tokenizer, targets, sources), Unknown()
        for row, target, source in zip(rows, targets, sources, strict=True):
            unknown.read(self.target_tokenizer, row, target, source)
        if unknown:
            log.warning("%s: %s", what, unknown)
        return rows

    def unknown_of(self, source: str, target: str) -> tuple[Unknown, Unknown]:
        """The unknown tokens of a source and of a target or a prefix, for callers that return no ``Answer``. A text
        that cannot be read has none: the work itself raises its error.
        """
        both = Unknown(), Unknown()
        with suppress(UserError):
            both[0].encode(self.source_tokenizer, source)
            both[1].encode(self.target_tokenizer, target, source)
        return both

    def prefix_ids(self, text: str) -> list[int]:
        """The ids of a prefix of outputs, without EOS; empty for an empty text. The last word of the prefix is a whole
        word.
        """
        return self.target_tokenizer.encode([text])[0][:-1] if text else []

    def read_prefix(self, text: str) -> list[int]:
        """``prefix_ids``, for callers that return no ``Answer``. Logs a warning for unknown tokens."""
        return list(self.read_targets([text], what="prefix")[0][:-1]) if text else []

    def target_row(self, target: Any, source: SourceRow) -> Any:
        """The row ``target``. If its source was cut and targets are token for token, the target is cut to the same
        tokens.
        """
        if source.truncated is None or not self.token_for_token:
            return target
        return cut(target, 1 + self.source_tokenizer.length(source.row), self.target_tokenizer)

    def _read(self, row: Any, text: str, number: int) -> SourceRow:
        row, truncated = self._truncated(row, number)
        return SourceRow(row, truncated, unknown_in(self.source_tokenizer, row, text))

    def _truncated(self, row: Any, number: int) -> tuple[Any, Truncation | None]:
        """Returns the row, cut to the length limit of training if it is longer, so that a line of a megabyte does not
        take all memory.

        Raises RequestError for a series of numbers that is too long, instead of cutting it.
        """
        if len(row) <= self.max_source_length:
            return row, None
        signal = self.source_tokenizer.signal
        if self.source_tokenizer.numeric and not signal:  # the end of a series decides how it continues
            raise RequestError(
                f"input {number} has {len(row) - 1} numbers, more than data.lines.max_source_length allows "
                f"({self.max_source_length}, EOS included): give the last of them"
            )
        shorter = cut(row, self.max_source_length, self.source_tokenizer)
        return shorter, Truncation(len(row), self.max_source_length, "steps" if signal else "tokens")
