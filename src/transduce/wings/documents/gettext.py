"""Messages of gettext (.po, .pot): entries without a translation get one. Plural forms, contexts and flags stay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from transduce.core.errors import DataError
from transduce.wings.documents.document import Document, Edit, Parts, Spliced, Unit, has_words, joined
from transduce.wings.documents.encoded import decoded
from transduce.wings.documents.escapes import NAMES, escaped

CHARSET = re.compile(rb"charset=(?!CHARSET)([A-Za-z0-9_.:\-]+)")
KEYWORD = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)[ \t]*("(?:[^"\\\n]|\\.)*")[ \t]*\r?')
MORE = re.compile(r'[ \t]*("(?:[^"\\\n]|\\.)*")[ \t]*\r?')
FORMS = re.compile(r"nplurals\s*=\s*(\d+)")
ESCAPES = {**NAMES, "a": "\a", "b": "\b", "v": "\v"}
MOST_FORMS = 10


@dataclass
class _Entry:
    """An entry: its strings by their keyword, and where the strings of translations begin and end."""

    texts: dict[str, str] = field(default_factory=dict)
    places: list[tuple[int, int]] = field(default_factory=list)
    fuzzy: bool = False


def parse(content: bytes, name: str) -> Document:
    """The document of a PO file. An entry marked fuzzy gets a translation, and stays marked. Raises DataError for a
    line that cannot be read.
    """
    text, encode = decoded(content, name, CHARSET)
    edits, kept, forms = list[Edit](), 0, 0
    newline = "\r\n" if "\r\n" in text else "\n"
    for entry in _entries(text, name):
        source = entry.texts.get("msgid", "")
        if not source and "msgctxt" not in entry.texts:
            said = FORMS.search(entry.texts.get("msgstr", ""))
            forms = int(said[1]) if said else 0
        elif entry.fuzzy or not any(value for key, value in entry.texts.items() if key.startswith("msgstr")):
            edits += _edit(entry, min(forms, MOST_FORMS), newline)
        else:
            kept += 1
    return Spliced(text, edits, encode, kept)


def _entries(text: str, name: str) -> Iterator[_Entry]:
    entry, key, place = _Entry(), "", 0
    for number, line in enumerate(text.split("\n"), 1):
        start, place = place, place + len(line) + 1
        if (found := KEYWORD.fullmatch(line)) is not None:
            if found[1] in ("msgctxt", "msgid") and any(each.startswith("msgstr") for each in entry.texts):
                yield entry
                entry = _Entry()
            key = found[1]
            entry.texts[key] = _read(found[2])
            if key.startswith("msgstr"):
                entry.places.append((start, start + len(line.rstrip("\r"))))
        elif (found := MORE.fullmatch(line)) is not None and key:
            entry.texts[key] += _read(found[1])
            if key.startswith("msgstr"):
                entry.places[-1] = entry.places[-1][0], start + len(line.rstrip("\r"))
        elif line.strip() and not line.startswith("#"):
            raise DataError(
                f"{name}:{number}: {line.strip()[:60]!r} is no line of a PO file: mend it (msgfmt -c tells more)"
            )
        else:
            key = ""
            if any(each.startswith("msgstr") for each in entry.texts):
                yield entry
                entry = _Entry()
            entry.fuzzy |= line.startswith("#,") and "fuzzy" in line
    if any(each.startswith("msgstr") for each in entry.texts):
        yield entry


def _edit(entry: _Entry, forms: int, newline: str) -> Iterator[Edit]:
    """The edit of the strings of an entry: one, or ``forms`` plural forms, the first of which is the singular."""
    sources = [entry.texts.get("msgid", "")]
    keys = [key for key in entry.texts if key.startswith("msgstr")]
    if (plural := entry.texts.get("msgid_plural")) is not None:
        count = forms or len(keys)
        keys = [f"msgstr[{number}]" for number in range(count)]
        sources = sources * min(1, count - 1) + [plural] * max(1, count - 1)
    if not has_words(sources):
        return
    parts = list[str | Unit]()
    for number, (key, source) in enumerate(zip(keys, sources, strict=False)):
        parts += [*([newline] if number else []), _unit(key, source, newline)]
    yield Edit(entry.places[0][0], entry.places[-1][1], parts)


def _unit(key: str, source: str, newline: str) -> Unit:
    def write(parts: Parts) -> str:
        lines = re.findall(r"[^\n]*\n|[^\n]+", joined(parts))
        if len(lines) < 2:
            return f'{key} "{_written("".join(lines))}"'
        return newline.join([f'{key} ""', *(f'"{_written(line)}"' for line in lines)])

    return Unit([source], write)


def _read(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), quoted[1:-1])


def _written(text: str) -> str:
    return escaped(text, '"\\', ESCAPES)
