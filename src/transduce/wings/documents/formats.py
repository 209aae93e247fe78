"""The formats of documents, by the ending of a file's name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

from transduce.core.errors import DataError, UserError
from transduce.wings.documents.document import Document
from transduce.wings.documents.encoded import read

FORMATS = {
    ".xliff": "xliff:parse",
    ".xlf": "xliff:parse",
    ".po": "gettext:parse",
    ".pot": "gettext:parse",
    ".srt": "subtitles:parse",
    ".vtt": "subtitles:parse",
    ".html": "web:parse",
    ".htm": "web:parse",
    ".xhtml": "web:parse",
    ".tmx": "memory_documents:parse_tmx",
    ".odt": "odf:parse",
    ".odp": "odf:parse",
    ".ods": "odf:parse",
    ".docx": "office:parse_docx",
    ".docm": "office:parse_docx",
    ".pptx": "office:parse_pptx",
    ".pptm": "office:parse_pptx",
    ".xlsx": "office:parse_xlsx",
    ".xlsm": "office:parse_xlsx",
    ".epub": "office:parse_epub",
    ".csv": "column_documents:parse_csv",
    ".tsv": "column_documents:parse_tsv",
    ".jsonl": "column_documents:parse_json_lines",
    ".txt": "prose:parse_text",
    ".md": "prose:parse_markdown",
    ".sdlxliff": "xliff:parse",
    ".mqxliff": "xliff:parse",
    ".mxliff": "xliff:parse",
    ".json": "messages:parse_json",
    ".arb": "messages:parse_arb",
    ".properties": "messages:parse_properties",
    ".strings": "messages:parse_strings",
    ".xml": "resources:parse_android",
    ".resx": "resources:parse_resx",
    ".ts": "resources:parse_qt",
    ".ttml": "web:parse",
    ".dfxp": "web:parse",
    ".sbv": "subtitles:parse",
    ".ass": "subtitles:parse_ass",
    ".ssa": "subtitles:parse_ass",
}
LINES = (".tsv", ".jsonl", ".txt", ".md")  # also files of lines, each of which may be a source of its own
FOREIGN = (
    *(".doc", ".xls", ".xlsb", ".ppt", ".rtf", ".pdf", ".pages", ".numbers", ".key", ".idml", ".tex", ".rst", ".adoc"),
    *(".yaml", ".yml", ".mo", ".stringsdict", ".plist", ".sub", ".ipynb"),
)
"""Endings of documents that nobody reads here; their lines are no sources."""
COLUMNS = ("column_documents", "memory_documents")


def is_document(path: Path, asked: bool) -> bool:
    """True if a file is a document by its name. A file of lines is one only if it is ``asked`` for. Raises UserError
    for an ending of documents that nobody reads here.
    """
    ending = path.suffix.lower()
    if ending in FOREIGN or (asked and ending not in FORMATS):
        raise unknown(str(path))
    return ending in FORMATS and (asked or ending not in LINES)


def unknown(name: str) -> UserError:
    """The error for a document that nobody reads here."""
    return UserError(f"{name}: documents with this ending are not read; known: {', '.join(FORMATS)}")


def open_document(path: Path, column: str | None = None, name: str | None = None) -> Document:
    """The document of a file. ``column`` names the column of the texts of a table, or the key of JSON lines.

    Raises UserError for an ending that is not in ``FORMATS``. Raises DataError for a file that is damaged or too large,
    or has no such ``column``. ``name`` stands for the file in messages.
    """
    return parse(read(path), path.suffix.lower(), name or str(path), column)


def parse(content: bytes, ending: str, name: str, column: str | None = None) -> Document:
    """The document of a content, whose format is that of the ``ending``; otherwise as ``open_document``."""
    if ending not in FORMATS:
        raise unknown(name)
    module, _, function = FORMATS[ending].partition(":")
    found: Callable[..., Document] = getattr(import_module(f"transduce.wings.documents.{module}"), function)
    if module in COLUMNS:
        found = partial(found, column=column)
    elif column is not None:
        raise DataError(f"{name} has no columns, so --column {column} finds nothing: leave it out")
    return found(content, name)
