"""XLIFF 1.2 and 2.x: units with a source, and a target that is written. A target that has text stays."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from transduce.core.errors import DataError
from transduce.wings.documents.document import Document, Edit, Spliced, Tag, Unit, has_words
from transduce.wings.documents.encoded import decoded
from transduce.wings.documents.inline import Run, edit_of
from transduce.wings.documents.xml_tokens import DECLARED, Token, end_of, escape, text_of, tokens

log = logging.getLogger("transduce")

CODES = ("bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp")
"""Elements whose content, if any, is the markup of another format."""
OPENING, CLOSING = ("bpt", "bx", "sc", "sm"), ("ept", "ex", "ec", "em")
IDS = ("startRef", "rid", "i", "id")  # attributes that join both ends of a pair
APART = ("alt-trans", "ignorable", "matches", "bin-source", "bin-target", "glossary")  # no texts to translate in them


def parse(content: bytes, name: str) -> Document:
    """The document of an XLIFF file. Raises DataError if it is no XLIFF."""
    text, encode = decoded(content, name, DECLARED, "xmlcharrefreplace")
    every = tokens(text, name)
    root = next(token for token in every if token.kind in ("open", "empty"))
    if root.name != "xliff":
        raise DataError(f"{name} is XML of another kind ({root.name}), and an XLIFF file was expected")
    edits, kept = list[Edit](), 0
    for source, target in _segments(every):
        found = _edit(text, source, target)
        kept += found is None and has_words([_plain(text, source)])
        edits += [] if found is None else [found]
    if edits and root.attributes.get("version", "").startswith("2") and not root.attributes.get("trgLang"):
        log.warning('%s has no trgLang, which XLIFF 2 needs beside targets: add trgLang="…" to <xliff>', name)
    return Spliced(text, edits, encode, kept)


def _segments(every: Sequence[Token]) -> Iterator[tuple[Sequence[Token], Sequence[Token]]]:
    """Yields the tokens of each source that is to be translated and of its target (empty if there is none), both with
    their own tags. A segmented source (seg-source) stands for the source.
    """
    apart, untranslated = 0, list[bool]()
    source, target, place = list[Token](), list[Token](), 0
    while place < len(every):
        token = every[place]
        if token.kind == "open" and token.name in APART:
            apart += 1
        elif token.kind == "close" and token.name in APART:
            apart -= 1
        elif token.kind == "open" and token.name in ("file", "group", "body", "trans-unit", "unit", "segment"):
            said = token.attributes.get("translate")
            untranslated.append(said == "no" if said else bool(untranslated and untranslated[-1]))
            source, target = [], []
        elif token.kind == "close" and token.name in ("file", "group", "body", "trans-unit", "unit", "segment"):
            if source and not untranslated[-1]:
                yield source, target
            untranslated.pop()
            source, target = [], []
        elif not apart and token.kind in ("open", "empty") and token.name in ("source", "seg-source", "target"):
            end = place if token.kind == "empty" else end_of(every, place)
            found = list(every[place : end + 1])
            source, target = (source, found) if token.name == "target" else (found, target)
            place = end
        place += 1


def _edit(text: str, source: Sequence[Token], target: Sequence[Token]) -> Edit | None:
    """The edit that writes the target of a source; None if the target has text, or the source has none."""
    if any(has_words([_plain(text, target)]) for _ in target[:1]):
        return None
    inner = source[1:-1]
    if not inner or not has_words([_plain(text, source)]):
        return None
    parts = list[str | Unit]()
    place = inner[0].start
    for segment in _marked(inner):
        edit = edit_of(runs(text, segment), escape)
        if edit is not None:
            parts += [text[place : edit.start], *edit.parts]
            place = edit.end
    parts.append(text[place : inner[-1].end])
    if target:
        first = text[target[0].start : target[0].end]
        opening = first if target[0].kind == "open" else re.sub(r"\s*/>\Z", ">", first)
        return Edit(target[0].start, target[-1].end, [opening, *parts, _closing(text, source, "target")])
    prefix = _prefix(text, source)
    indent = re.search(r"\n[ \t]*\Z", text[: source[0].start])
    opening = f"{indent[0] if indent else ''}<{prefix}target>"
    return Edit(source[-1].end, source[-1].end, [opening, *parts, f"</{prefix}target>"])


def _prefix(text: str, element: Sequence[Token]) -> str:
    found = re.match(r"<([\w.\-]+:)", text[element[0].start : element[0].end])
    return found[1] if found else ""


def _closing(text: str, source: Sequence[Token], name: str) -> str:
    return f"</{_prefix(text, source)}{name}>"


def _marked(inner: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yields the contents of the segments (mrk of the type "seg") of a source, or all of it if it has none."""
    starts = [n for n, token in enumerate(inner) if token.name == "mrk" and token.attributes.get("mtype") == "seg"]
    if not starts:
        yield inner
    for start in starts:
        yield inner[start + 1 : end_of(inner, start)]


def runs(text: str, inner: Sequence[Token], codes: Sequence[str] = CODES) -> list[Run]:
    """The texts and tags of a source. Elements of ``codes`` are one tag each, with their content."""
    found, place, literal = list[Run](), 0, False
    while place < len(inner):
        token = inner[place]
        end = place
        raw = text[token.start : token.end]
        if token.kind == "other" and (raw.endswith("<![CDATA[") or raw.startswith("]]>")):
            literal = raw.endswith("<![CDATA[")
            found.append(Run(token.start, token.end, ""))  # the text takes its place
        elif token.kind == "text":
            found.append(Run(token.start, token.end, raw if literal else text_of(raw)))
        else:
            if token.kind == "open" and token.name in codes:
                end = end_of(inner, place)
            found.append(_tag(text, token, inner[end].end))
        place = end + 1
    return _joined(found)


def _tag(text: str, token: Token, end: int) -> Run:
    tag = Tag(text[token.start : end])
    if token.kind in ("open", "empty") and token.name in (*OPENING, *CLOSING):
        number = next((token.attributes[each] for each in IDS if each in token.attributes), "")
        tag = replace(tag, role="open" if token.name in OPENING else "close", name=f"#{number}")
    elif token.kind in ("open", "close") and token.name not in CODES and end == token.end:
        tag = replace(tag, role=token.kind, name=token.name)
    return Run(token.start, end, tag)


def _joined(found: list[Run]) -> list[Run]:
    """The runs with neighbouring texts joined."""
    result = list[Run]()
    for run in found:
        before = result[-1] if result else None
        if before is not None and isinstance(before.part, str) and isinstance(run.part, str):
            result[-1] = Run(before.start, run.end, before.part + run.part)
        else:
            result.append(run)
    return result


def _plain(text: str, element: Sequence[Token]) -> str:
    found = runs(text, element[1:-1])
    return "".join(run.part for run in found if isinstance(run.part, str))
