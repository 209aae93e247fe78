"""The protection of spans: what a request asks for, and the way from an aligned output to one with its spans."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from transduce.answers.answer import Answer, Output
from transduce.answers.pipeline import Pipeline
from transduce.answers.text_model import TextModel
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, Deriving, Searching, can
from transduce.core.registry import model_name
from transduce.data.tokenizers.base import Tokenizer
from transduce.wings.alignment.alignments import check_text
from transduce.wings.alignment.token_alignment import TokenAlignment
from transduce.wings.protection.elements import elements_of
from transduce.wings.protection.figures import Figures
from transduce.wings.protection.kinds import KINDS, OWN, Span, chosen_kinds, find_spans, own_patterns, read_patterns
from transduce.wings.protection.projection import Element, Numbers, place_all, unit_weights
from transduce.wings.protection.rendering import sequence, write
from transduce.wings.protection.text import Piece, ProtectedText, units


@dataclass(frozen=True)
class KeptSpan:
    """A protected span in an output. ``written`` is its text there, and ``place`` where it begins and ends; None if it
    could not be placed, and ``problem`` says why.
    """

    span: Span
    written: str
    place: tuple[int, int] | None
    problem: str = ""

    @property
    def values(self) -> Mapping[str, object]:
        """The span as values for JSON."""
        span = self.span
        found = {"text": span.text, "kind": span.kind, "source": (span.start, span.end), "output": self.place}
        return found | ({"written": self.written} if self.written != span.text else {})

    def __str__(self) -> str:
        return f"the span {self.span.text[:60]!r} is not in the output: {self.problem}"


@dataclass(frozen=True)
class Protection:
    """Which spans of a source are protected: those of the ``kinds``, and those that the ``patterns`` of the user find,
    which come first. ``figures``, such as "de-en", converts numbers from the notation of one language to that of
    another.

    Raises UserError for an unknown kind or language, and for a wrong pattern.
    """

    kinds: Sequence[str] = tuple(KINDS)
    patterns: Sequence[str] = ()
    figures: str | None = None

    def __post_init__(self) -> None:
        self._patterns, self._figures  # noqa: B018  # they raise the errors

    @cached_property
    def _patterns(self) -> Mapping[str, re.Pattern[str]]:
        own = own_patterns(self.patterns)
        return ({} if own is None else {OWN: own}) | chosen_kinds(self.kinds)

    @cached_property
    def _figures(self) -> Figures | None:
        return None if self.figures is None else Figures.between(self.figures)

    @classmethod
    def of(
        cls,
        kinds: Sequence[str] = (),
        patterns: Sequence[str] = (),
        file: Path | None = None,
        figures: str | None = None,
    ) -> Protection:
        """The protection that the options of a command ask for; without ``kinds`` all of them."""
        return cls(kinds or tuple(KINDS), [*patterns, *([] if file is None else read_patterns(file))], figures)

    def read(self, source: str) -> ProtectedText:
        """A source with its protected spans."""
        return ProtectedText(source, find_spans(source, self._patterns))

    def check(self, model: TextModel) -> None:
        """Raises UserError if the model's sources or outputs are no text that spans can stand in."""
        check_text(model.source_tokenizer)
        source, target = model.source_tokenizer, model.target_tokenizer
        what = None
        if not model.conditional:
            what = "a language model has no source"
        elif source.numeric or target.numeric:
            what = "the model reads or writes numbers"
        elif model.sourced_target is not None or model.token_for_token:
            what = "the model writes labels of its source"
        elif not any(can(type(model.model), way) for way in (Autoregressive, Deriving, Searching)):
            what = f"this {model_name(type(model.model))} model does not write token by token"
        elif _symbols(target) and not _symbols(source):
            what = "the model writes symbols, such as phonemes, for a text"
        if what is not None:
            raise UserError(f"protected spans are for models that write a text for a text, and {what}: leave them out")

    def complete(
        self, model: Pipeline, answers: Sequence[Answer], rows: Sequence[Sequence[int]], batch_size: int
    ) -> list[Answer]:
        """The answers with the spans of their sources (``with_spans``)."""
        from transduce.wings.protection.placing import with_spans

        return with_spans(model, answers, rows, batch_size)

    def placed(
        self, text: ProtectedText, output: Output, found: TokenAlignment | None, falls_TW: Numbers | None = None
    ) -> Output:
        """An output with the protected spans of its source. ``found`` aligns the two; it is needed only if the text
        that the model has read is not empty. ``falls_TW`` says how much each token of the output needs each unit of the
        text; None if that is not known.
        """
        if not text.pieces:
            return replace(output, spans=())
        pieces = [replace(piece, text=self._written(piece)) for piece in text.pieces]
        if not text.text:  # no word remained
            whole, starts = _verbatim(text, pieces)
            return replace(output, text=whole, spans=tuple(map(self._kept, pieces, starts)))
        assert found is not None
        target = units(output.text)
        read = max((end for _, end in found.source.spans[:-1]), default=0)
        problem = "" if target else "the model wrote nothing"
        lost = {number for number, piece in enumerate(pieces) if problem or piece.at > read}
        source = text.units
        gaps = [sum(end <= piece.at for _, end in source) for piece in pieces]
        elements = elements_of(pieces, gaps)
        if lost and not problem:
            problem = "the source was cut before it"
            elements = [each for each in elements if not lost & set(_numbers(each))]
            lost = set(range(len(pieces))) - {number for each in elements for number in _numbers(each)}
        if problem and len(lost) == len(pieces):
            return replace(output, spans=tuple(KeptSpan(piece.span, "", None, problem) for piece in pieces))
        place_all(elements, unit_weights(found, source, target, falls_TW))
        whole, starts = write(output.text, target, sequence(elements, (0, len(target))), pieces)
        spans = [
            KeptSpan(piece.span, "", None, problem) if number in lost else self._kept(piece, start)
            for number, (piece, start) in enumerate(zip(pieces, starts, strict=True))
        ]
        return replace(output, text=whole, spans=tuple(spans))

    def _written(self, piece: Piece) -> str:
        if self._figures is None or piece.span.kind != "number":
            return piece.text
        return piece.text.replace(piece.span.text, self._figures.converted(piece.span.text), 1)

    def _kept(self, piece: Piece, start: int) -> KeptSpan:
        written = piece.span.text
        if self._figures is not None and piece.span.kind == "number":
            written = self._figures.converted(written)
        first = start + piece.text.index(written)
        return KeptSpan(piece.span, written, (first, first + len(written)))


def _verbatim(text: ProtectedText, pieces: Sequence[Piece]) -> tuple[str, list[int]]:
    """The source with its pieces as they will be written, and the places where these begin."""
    whole, starts, place = "", list[int](), 0
    for old, new in zip(text.pieces, pieces, strict=True):
        start = old.span.start - old.offset
        whole += text.source[place:start]
        starts.append(len(whole))
        whole, place = whole + new.text, start + len(old.text)
    return whole + text.source[place:], starts


def _numbers(element: Element) -> list[int]:
    return element.pieces + [number for each in element.inner for number in _numbers(each)]


def _symbols(tokenizer: Tokenizer) -> bool:
    """True if the tokens of a text are symbols between white space."""
    entry = tokenizer.entries[-1]
    return bool(tokenizer.decode([len(tokenizer) - 1] * 2) == f"{entry} {entry}")
