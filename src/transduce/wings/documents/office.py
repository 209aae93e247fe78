"""Documents, slides and tables of office programs (.docx, .pptx, .xlsx): archives of XML, of which the texts change.
Books (.epub) are archives of web pages.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from transduce.core.errors import DataError
from transduce.wings.documents import web
from transduce.wings.documents.document import Document, Edit, Spliced, Translations, Unit
from transduce.wings.documents.encoded import MOST, decoded
from transduce.wings.documents.paragraphs import paragraphs
from transduce.wings.documents.xml_tokens import DECLARED, Token, tokens

WORDS = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes)\.xml")
SLIDES = re.compile(r"ppt/(slides|notesSlides)/[^/]+\.xml")
CELLS = re.compile(r"xl/(sharedStrings|worksheets/[^/]+)\.xml")
PAGES = re.compile(r".+\.x?html?", re.IGNORECASE)
WORKBOOK = "xl/workbook.xml"
TABLES = re.compile(r"xl/tables/[^/]+\.xml")
PARTS = 10_000  # files of an archive


@dataclass(frozen=True)
class Archive:
    """A document whose ``parts``, files of an archive by name, are documents. All other files are copied."""

    content: bytes
    parts: Mapping[str, Spliced]
    kept: int = 0
    units: Sequence[Unit] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", [unit for part in self.parts.values() for unit in part.units])

    def written(self, translations: Translations) -> bytes:
        result = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self.content)) as old, zipfile.ZipFile(result, "w") as new:
            for each in old.infolist():
                part = self.parts.get(each.filename)
                new.writestr(each, old.read(each) if part is None else part.written(translations))
        return result.getvalue()


def parse_docx(content: bytes, name: str) -> Document:
    """The document of Word: body, tables, headers, footers and notes. Raises DataError as ``archive`` does."""
    return archive(content, name, WORDS, "word/document.xml", paragraphs)


def parse_pptx(content: bytes, name: str) -> Document:
    """The document of PowerPoint: slides and their notes. Raises DataError as ``archive`` does."""
    return archive(content, name, SLIDES, "ppt/presentation.xml", paragraphs)


def parse_xlsx(content: bytes, name: str) -> Document:
    """The document of Excel: the texts of cells. Formulas, names of sheets and the headers of tables, to which formulas
    refer, stay. Raises DataError as ``archive`` does.
    """
    headers = set[str]()
    for part, data in _files(content, name, TABLES, WORKBOOK):
        text, _ = decoded(data, f"{name}, {part}", DECLARED)
        headers |= {token.attributes.get("name", "") for token in tokens(text, part) if token.name == "tableColumn"}
    return archive(content, name, CELLS, WORKBOOK, partial(paragraphs, kept=headers))


def parse_epub(content: bytes, name: str) -> Document:
    """The document of a book: its pages. Raises DataError as ``archive`` does."""
    pages = _files(content, name, PAGES, "META-INF/container.xml")
    return Archive(content, {part: web.parse(data, f"{name}, {part}") for part, data in pages})


def archive(
    content: bytes,
    name: str,
    wanted: re.Pattern[str],
    needed: str,
    edits_of: Callable[[str, Sequence[Token]], Iterable[Edit]],
) -> Document:
    """The document of an archive. ``edits_of`` gives the edits of the text of each ``wanted`` file. Raises DataError if
    the archive is damaged, lacks the ``needed`` file, is encrypted, or larger than ``MOST`` unpacked.
    """
    parts = dict[str, Spliced]()
    for part, data in _files(content, name, wanted, needed):
        if part.startswith("xl/worksheets") and b"inlineStr" not in data:
            continue
        text, encode = decoded(data, f"{name}, {part}", DECLARED, "xmlcharrefreplace")
        if edits := [*edits_of(text, tokens(text, f"{name}, {part}"))]:
            parts[part] = Spliced(text, edits, encode)
    return Archive(content, parts)


def _files(content: bytes, name: str, wanted: re.Pattern[str], needed: str) -> Iterator[tuple[str, bytes]]:
    """Yields the ``wanted`` files of an archive. Reads the others, too: they are copied when the document is
    translated, and a damaged one must be found before that.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            every = archive.infolist()
            if len(every) > PARTS or sum(each.file_size for each in every) > MOST:
                raise DataError(f"{name} unpacks to more than {MOST // 2**20} MiB: divide it, or do not trust it")
            if needed not in archive.namelist():
                raise DataError(f"{name} is an archive without {needed}: a file of another kind was expected")
            room = MOST
            for each in every:
                with archive.open(each) as file:
                    data = file.read(room + 1)  # a header may lie about the size
                room -= len(data)
                if room < 0:
                    raise DataError(f"{name} unpacks to more than {MOST // 2**20} MiB: do not trust it")
                if wanted.fullmatch(each.filename):
                    yield each.filename, data
    except DataError:
        raise
    except Exception as error:  # the errors of zipfile for strange bytes have no common class
        raise DataError(f"{name} is no archive that can be read ({error}): save it again, without a password") from None
