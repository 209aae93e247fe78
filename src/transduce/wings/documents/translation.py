"""The translation of a document: its units become requests, and the answers become the texts of a new document."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.answers.answer import Answer, with_warnings
from transduce.answers.request import Request, requests_for
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.files import write_file
from transduce.wings.documents.document import Document, Parts, Unit, has_words, margins
from transduce.wings.documents.formats import is_document, open_document
from transduce.wings.documents.markup import Marked, Protecting, places_markup
from transduce.wings.documents.sentences import Sentences

log = logging.getLogger("transduce")

Answering = Callable[[Iterable[Request]], Iterable[Answer]]
Asking = Callable[[Iterable[str]], Iterable[Request]]


@dataclass
class Counts:
    """What became of the units of a document."""

    translated: int = 0
    wordless: int = 0
    unanswered: int = 0
    unplaced: int = 0
    kept: int = 0

    def __str__(self) -> str:
        told = {
            "had a translation and stay": self.kept,
            "without a letter stay": self.wordless,
            "could not be answered and stay": self.unanswered,
            "have their markup after the text, because its place is not known": self.unplaced,
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


def translate(
    document: Document, ask: Asking, answer: Answering, sentences: Sentences | None = None, markup: bool = True
) -> tuple[bytes, Counts]:
    """The content of the document with the translations of its units, and what became of them.

    ``ask`` makes a request of each text, and ``answer`` answers requests in order. A text of several lines is read line
    by line; ``sentences`` divides lines further. If ``markup`` is True, requests of units with markup ask for its place
    in the output.
    """
    counts = Counts(kept=document.kept)
    tasks = list(_tasks(document, sentences, markup, counts))
    texts = [(task, text) for task in tasks for line in task.lines for text, _ in line.sentences]
    protected = Protecting()
    asked = zip(texts, ask(text for _, text in texts), strict=True)
    requests = (protected(request) if task.marked.named else request for (task, _), request in asked)
    answers = iter(answer(requests))
    translations: dict[Unit, Parts] = {}
    for task in tasks:
        parts = _answered(task, answers, counts)
        if parts is not None:
            translations[task.unit] = parts
    for _ in answers:  # so that what comes at the end is told
        pass
    return document.written(translations), counts


def _tasks(document: Document, sentences: Sentences | None, markup: bool, counts: Counts) -> Iterator[_Task]:
    for unit in document.units:
        if not has_words(unit.parts):
            counts.wordless += 1
            continue
        marked = Marked(unit.parts, markup and bool(unit.tags))
        lines = [_line(line, sentences) for line in re.split(r"(?<=\n)", marked.text)]
        yield _Task(unit, marked, lines)


def _line(text: str, sentences: Sentences | None) -> _Line:
    before, after = margins(text)
    body = text.strip()
    found = list[tuple[str, str]]()
    for sentence in [] if not has_words([body]) else [body] if sentences is None else sentences(body):
        space = margins(sentence)[1] if sentence.strip() else 0
        found.append((sentence[: len(sentence) - space], sentence[len(sentence) - space :]))
    if not found:
        return _Line(text, "", [])
    return _Line(text[:before], text[len(text) - after :] if after else "", found)


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


def write_translation(
    source: Path,
    out: Path,
    ask: Asking,
    answer: Answering,
    transducer: Transducer,
    column: str | None = None,
    sentences: str | None = None,
) -> Counts:
    """Translates the document ``source`` to the file ``out``, and tells what became of its units. ``sentences`` is the
    language of the source, if its texts are to be divided into sentences. The others are as for ``translate``.

    Raises UserError if the two files have different endings.
    """
    if source.suffix.lower() != out.suffix.lower():
        raise UserError(f"{out} would be a file of the same kind as {source}: give it the ending {source.suffix}")
    divide = None if sentences is None else Sentences(sentences)
    document = open_document(source, column)
    if not document.units and not document.kept:
        log.warning("%s has no text to translate, and %s is a copy of it", source, out)
    markup = any(unit.tags for unit in document.units) and places_markup(transducer)
    content, counts = translate(document, ask, answer, divide, markup)
    write_file(out, lambda scratch: _put(scratch, content))
    if document.units or document.kept:
        log.warning("%s: %s", out, counts)
    return counts


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def translate_document(
    transducer: Transducer,
    source: str | Path,
    out: str | Path,
    column: str | None = None,
    sentences: str | None = None,
    batch_size: int = 64,
) -> Counts:
    """Translates the document ``source`` to the file ``out`` with a model. Returns what became of its units.

    ``column`` has the texts of a table, or is the key of JSON lines. ``sentences`` is the language of the source, if
    its texts are to be divided into sentences. Raises DataError if the file cannot be read as its ending says.
    """

    def answered(requests: Iterable[Request]) -> Iterator[Answer]:
        return with_warnings(transducer.answer(requests, None, batch_size, tolerant=True))

    return write_translation(Path(source), Path(out), requests_for, answered, transducer, column, sentences)
