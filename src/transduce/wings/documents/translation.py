"""The translation of a document: its units become requests, and the answers become the texts of a new document."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.answers.answer import Answer, with_warnings
from transduce.answers.request import Request, requests_for
from transduce.core.errors import UserError
from transduce.core.files import write_file
from transduce.wings.documents.context import Context
from transduce.wings.documents.document import Document, Parts, Unit, has_words, margins
from transduce.wings.documents.formats import is_document, open_document
from transduce.wings.documents.markup import Marked, Protecting, has_spans, places_spans, without_spans
from transduce.wings.documents.sentences import Sentences
from transduce_engine.phrases import UNSPACED

if TYPE_CHECKING:  # it imports PyTorch
    from transduce.answers.transducer import Transducer

log = logging.getLogger("transduce")

_NAMES = r"(?:</?[gx]\d+/?>)*"  # of markup (``Marked``)
_SIGNS = "•‣⁃◦▪▫●○■□◆◇►▶▸➤→⇒✓✔✗✘☐☑★☆♪♫♩♬·※"
_OPENING = re.compile(
    rf"\s*(?:{_NAMES}(?:[{_SIGNS}]\s*|[\-–—*+]\s+|[\-–—](?=[^\W\d_])|\(?(?:\d{{1,3}}|[A-Za-z])\)\s+))*"
)
# Soft hyphens and the like: a model would read other words. Between words of scripts without spaces, U+200B is a space.
_INVISIBLE = re.compile(rf"[\u00ad\u2060\ufeff]|(?<![{UNSPACED}])\u200b")
_CLOSING = re.compile(rf"(?:\s*{_NAMES}[{_SIGNS}]{_NAMES})+\s*\Z")

Answering = Callable[[Iterable[Request]], Iterable[Answer]]
Asking = Callable[[Iterable[str]], Iterable[Request]]


@dataclass
class Counts:
    """How many units of a document were translated, and how many were not."""

    translated: int = 0
    wordless: int = 0
    unanswered: int = 0
    unplaced: int = 0
    kept: int = 0

    def __str__(self) -> str:
        told = {
            "already translated": self.kept,
            "without a word": self.wordless,
            "not answered": self.unanswered,
            "with their markup after the text, because its place is not known": self.unplaced,
        }
        more = [f"{count:,} {what}" for what, count in told.items() if count]
        return ", ".join([f"{self.translated:,} units translated", *more])


@dataclass(frozen=True)
class _Line:
    """A line of a unit: white space, and sentences, each of which is a request, with the space after it."""

    before: str
    after: str
    sentences: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class _Task:
    """A unit, with its text as the requests have it, in lines."""

    unit: Unit
    marked: Marked
    lines: Sequence[_Line]

    @property
    def texts(self) -> list[str]:
        return [text for line in self.lines for text, _ in line.sentences]


@dataclass(frozen=True)
class Translation:
    """A document that is being translated: its texts, in order, and what became of its units.

    ``document`` is read line by line, and ``sentences`` divides lines further. If ``markup`` is True, the texts have
    names for the markup inside units, and ``requests`` ask for the places of these names and of placeholders in the
    output.
    """

    document: Document
    sentences: Sentences | None = None
    markup: bool = True
    counts: Counts = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", Counts(kept=self.document.kept))

    @cached_property
    def _tasks(self) -> list[_Task]:
        return list(_tasks(self.document, self.sentences, self.markup, self.counts))

    @cached_property
    def texts(self) -> list[str]:
        """The texts for the model."""
        return [text for task in self._tasks for text in task.texts]

    def requests(self, asked: Iterable[Request]) -> Iterator[Request]:
        """The requests for the ``texts``, of which ``asked`` has the rest that is wanted."""
        protected = Protecting()
        return (protected(each) if self.markup and has_spans(each.source) else each for each in asked)

    def content(self, answers: Iterable[Answer]) -> bytes:
        """The content of the file, with the answers to the ``requests``. Sets the ``counts``."""
        given = iter(answers)
        translations: dict[Unit, Parts] = {}
        for task in self._tasks:
            parts = _answered(task, given, self.counts)
            if parts is not None:
                translations[task.unit] = parts
        for _ in given:  # so that what comes at the end is told
            pass
        return self.document.written(translations)


def _tasks(document: Document, sentences: Sentences | None, markup: bool, counts: Counts) -> Iterator[_Task]:
    for unit in document.units:
        if not has_words(unit.parts):
            counts.wordless += 1
            continue
        marked = Marked(unit.parts, markup and bool(unit.tags))
        lines = [_line(line, sentences) for line in re.split(r"(?<=\n)", marked.text)]
        if not any(line.sentences for line in lines):
            counts.wordless += 1
            continue
        yield _Task(unit, marked, lines)


def _line(text: str, sentences: Sentences | None) -> _Line:
    before, after = _ends(text)
    body = _INVISIBLE.sub("", text[before : len(text) - after])
    found = list[tuple[str, str]]()
    for sentence in [] if not has_words([without_spans(body)]) else [body] if sentences is None else sentences(body):
        space = margins(sentence)[1] if sentence.strip() else 0
        found.append((sentence[: len(sentence) - space], sentence[len(sentence) - space :]))
    if not found:
        return _Line(text, "", [])
    return _Line(text[:before], text[len(text) - after :] if after else "", found)


def _ends(text: str) -> tuple[int, int]:
    """The number of characters before and after the words of a line: white space, signs of lists, notes of songs, the
    dash of a speaker. Models lose them.
    """
    opening = _OPENING.match(text)
    before = 0 if opening is None else opening.end()
    closing = _CLOSING.search(text, max(before, len(text) - 99))
    return before, margins(text)[1] if closing is None else len(text) - closing.start()


def _answered(task: _Task, answers: Iterator[Answer], counts: Counts) -> Parts | None:
    """The parts of the translation of a unit; None if a part of it could not be answered."""
    text, problem = "", False
    for line in task.lines:
        text += line.before
        for _, space in line.sentences:
            found = next(answers)
            problem |= bool(found.problem)
            text += "" if found.problem else re.sub(r"\s*\n\s*", " ", found.best.text) + space
        text += line.after
    if problem:
        counts.unanswered += 1
        return None
    counts.translated += 1
    parts, placed = task.marked.read(text)
    counts.unplaced += not placed
    return parts


def document_among(files: Sequence[Path], out: Path | None, asked: bool, unfit: bool) -> Path | None:
    """The document that ``files`` are; None if they are lines of text. ``asked`` says that a document is expected, and
    ``unfit`` that there are options which a document cannot have.

    Raises UserError for several files with a document among them, for one without ``out``, and for an ``unfit`` one.
    """
    found = [path for path in files if is_document(path, asked) and (path.is_file() or not path.exists())]
    if not found:
        if asked:
            raise UserError("a document is a file, and none is named: transduce predict RUN FILE --out NEW")
        return None
    document = found[0]
    if len(files) > 1:
        raise UserError(f"{document} is a document, and only one is translated at a time: leave out other files")
    if out is None:
        raise UserError(
            f"{document} is a document: name its translation with --out NEW{document.suffix}; or if each line is a "
            f"source of its own, give the lines: transduce predict RUN < {document}"
        )
    if unfit:
        raise UserError(
            f"{document} is a document, which has one translation and nothing beside it: leave out --nbest, --resume, "
            "--stream, --alignments, --frames and --format"
        )
    return document


def keeps_spans(document: Document, transducer: Transducer) -> bool:
    """True if the document has markup or placeholders inside its units, and the model can say where they belong. If it
    cannot, a warning says so.
    """
    return any(unit.tags or has_spans(unit.text) for unit in document.units) and places_spans(transducer)


def write_translation(
    source: Path,
    out: Path,
    ask: Asking,
    answer: Answering,
    transducer: Transducer,
    column: str | None = None,
    sentences: str | None = None,
    previous: int = 0,
) -> Counts:
    """Translates the document ``source`` to the file ``out``, and tells what became of its units. ``sentences`` is the
    language of the source, if its texts are to be divided into sentences. The model reads each text with so many
    ``previous`` ones (``Context``). ``ask`` makes a request of each text, and ``answer`` answers requests in order.

    Raises UserError if the two files have different endings.
    """
    context = Context(previous)
    if source.suffix.lower() != out.suffix.lower():
        raise UserError(f"{out} would be a file of the same kind as {source}: give it the ending {source.suffix}")
    divide = None if sentences is None else Sentences(sentences)
    document = open_document(source, column)
    if not document.units and not document.kept:
        log.warning("%s has no text to translate, and %s is a copy of it", source, out)
    translation = Translation(document, divide, keeps_spans(document, transducer))
    answers = answer(translation.requests(ask(translation.texts)))
    content = translation.content(_with_context(context, answers, answer) if context.count else answers)
    write_file(out, lambda scratch: _put(scratch, content))
    if document.units or document.kept:
        log.warning("%s: %s", out, translation.counts)
    return translation.counts


def _with_context(context: Context, answers: Iterable[Answer], answer: Answering) -> Iterable[Answer]:
    first = list(answers)
    asked = context.asked(first)
    found = context.merged(first, dict(zip(asked, answer(asked.values()), strict=True)))
    alone = sum(found[number] is first[number] for number in asked)
    if alone:
        log.warning(
            "%d of %d texts keep the translation that they have alone: the model wrote nothing whole after the texts "
            "before them; it may know single sentences only (training.augmentation: joined)",
            alone,
            len(asked),
        )
    return found


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def translate_document(
    transducer: Transducer,
    source: str | Path,
    out: str | Path,
    column: str | None = None,
    sentences: str | None = None,
    batch_size: int = 64,
    previous: int = 0,
) -> Counts:
    """Translates the document ``source`` to the file ``out`` with a model. Returns what became of its units.

    ``column`` has the texts of a table, or is the key of JSON lines. ``sentences`` is the language of the source, if
    its texts are to be divided into sentences. The model reads each text with so many ``previous`` ones. Raises
    DataError if the file cannot be read as its ending says.
    """

    def answered(requests: Iterable[Request]) -> Iterator[Answer]:
        return with_warnings(transducer.answer(requests, None, batch_size, tolerant=True))

    return write_translation(Path(source), Path(out), requests_for, answered, transducer, column, sentences, previous)
