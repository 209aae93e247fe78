"""Web pages (.html): the text of paragraphs and other blocks, and of some attributes. Scripts and styles stay."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import accumulate, pairwise

from transduce.wings.documents.document import Edit, Spliced, Tag, has_words, replaced
from transduce.wings.documents.encoded import decoded
from transduce.wings.documents.inline import Run, edit_of

CHARSET = re.compile(rb"""(?:<meta[^>]*?charset\s*=\s*["']?|<\?xml[^>]*?encoding=["'])\s*([A-Za-z0-9_.:\-]+)""", re.I)
INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "img", "ins"),
    *("label", "mark", "nobr", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr"),
}
CODE = {"code", "kbd", "samp", "var"}  # in a sentence, and as they are
KEPT = {"script", "style", "pre", "textarea", "template", "svg", "math", "object", "noscript", "iframe"}
VOID = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"),
}
ATTRIBUTES = ("alt", "title", "placeholder", "aria-label", "summary")
TAG = re.compile("<[^<>]*>")
VALUE = re.compile(r"""([^\s"'<>/=]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
DESCRIBED = re.compile(r"description|keywords|(og|twitter):(title|description|site_name)", re.I)


@dataclass(frozen=True)
class _Token:
    kind: str  # open, close, text, other
    start: int
    end: int
    name: str = ""
    attributes: Sequence[tuple[str, str | None]] = ()


class _Reader(HTMLParser):
    """Collects where each tag and text begins."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.events = list[tuple[int, str, str, Sequence[tuple[str, str | None]]]]()
        self.feed(text)
        self.close()
        self.events.append((len(text), "other", "", ()))

    def _add(self, kind: str, name: str = "", attributes: Sequence[tuple[str, str | None]] = ()) -> None:
        line, column = self.getpos()
        self.events.append((self.lines[line - 1] + column, kind, name, attributes))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("open", tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("open" if tag in VOID else "empty", tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    def handle_data(self, data: str) -> None:
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    def handle_charref(self, name: str) -> None:
        self._add("text")

    def handle_comment(self, data: str) -> None:
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        self._add("other")

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """A section of an unknown kind is a comment, as in browsers. Python's parser ends with an AssertionError."""
        place = self.getpos()
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:  # which may have moved the place
            self.lineno, self.offset = place
            return self.parse_bogus_comment(i)


def parse(content: bytes, name: str) -> Spliced:
    """The document of an HTML page. A page that is not well-formed is read as far as browsers do."""
    text, encode = decoded(content, name, CHARSET, "xmlcharrefreplace")
    events = pairwise(_Reader(text).events)
    every = [_Token(kind, start, end, name, given) for (start, kind, name, given), (end, *_) in events]
    edits = [edit for stretch in _stretches(text, every) if (edit := edit_of(stretch, escape)) is not None]
    inside = [(edit.start, edit.end) for edit in edits]
    for token in _translated(text, every):
        if token.kind == "open" or token.kind == "empty":
            edits += [each for each in _attributes(text, token) if not _within(each.start, inside)]
    return Spliced(text, edits, encode)


def escape(text: str) -> str:
    return html.escape(text, quote=False)


def _within(place: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """True for a tag inside a unit, which moves with the words around it."""
    return any(start <= place < end for start, end in ranges)


def _translated(text: str, every: Sequence[_Token]) -> Iterator[_Token]:
    """Yields the tokens, without elements that stay as they are: their opening tag is followed by one token of the
    kind "kept", which has their content.
    """
    place = 0
    while place < len(every):
        token = every[place]
        yield token
        place += 1
        if token.kind != "open" or token.name in VOID:
            continue
        if token.name in KEPT | CODE or token.name == "sup" or _is_kept(token):
            end = _close(every, place, token.name)
            if end == len(every) and token.name in INLINE | CODE:  # nothing closes it
                continue
            last = every[end - 1].end if end > place else token.end
            if token.name == "sup" and not _is_kept(token) and has_words([TAG.sub("", text[token.end : last])]):
                continue  # other than the mark of a note, or a power
            yield _Token("kept", token.end, last, token.name)
            place = end


def _is_kept(token: _Token) -> bool:
    found = dict(token.attributes)
    return found.get("translate") == "no" or "notranslate" in (found.get("class") or "").split()


def _close(every: Sequence[_Token], place: int, name: str) -> int:
    """The index of the tag that closes an element whose content begins at ``place``."""
    depth = 1
    for number in range(place, len(every)):
        if every[number].name == name:
            depth += {"open": 1, "close": -1}.get(every[number].kind, 0)
        if not depth:
            return number
    return len(every)


def _stretches(text: str, every: Sequence[_Token]) -> Iterator[list[Run]]:
    """Yields the texts and inline tags between two block elements."""
    found = list[Run]()
    for token in _translated(text, every):
        raw = text[token.start : token.end]
        if token.kind == "text":
            plain = html.unescape(raw)
            if found and isinstance(before := found[-1].part, str):
                joined = html.unescape(text[found[-1].start : token.end])
                found[-1] = Run(found[-1].start, token.end, joined if before else plain)
            else:
                found.append(Run(token.start, token.end, plain))
        elif (token.kind == "kept" and token.name in INLINE | CODE) or (
            token.kind == "other" and raw.startswith("<!--")
        ):
            found.append(Run(token.start, token.end, Tag(raw)))
        elif token.name in INLINE | CODE and token.kind != "kept":
            alone = token.name in VOID or token.kind == "empty"
            found.append(Run(token.start, token.end, Tag(raw, "alone" if alone else token.kind, token.name)))  # type: ignore[arg-type]
        else:
            yield found
            found = []
    yield found


def _attributes(text: str, token: _Token) -> Iterator[Edit]:
    """Yields an edit for each attribute of a tag that has text for readers."""
    raw, given = text[token.start : token.end], dict(token.attributes)
    described = DESCRIBED.fullmatch(given.get("name") or given.get("property") or "")
    shown = token.name == "input" and given.get("type") in ("submit", "button", "reset")
    for match in VALUE.finditer(raw, len(token.name) + 1):
        key, value = match[1].lower(), match[2]
        bare = value[1:-1] if value[0] in "\"'" else value
        wanted = key in ATTRIBUTES or (key == "content" and described) or (key == "value" and shown)
        if wanted and has_words([html.unescape(bare)]):
            quote = value[0] if value[0] in "\"'" else '"'
            start, end = token.start + match.start(2), token.start + match.end(2)
            edit = replaced(start, end, html.unescape(bare), lambda text: html.escape(text, quote=True))
            yield Edit(start, end, [quote, *edit.parts, quote])
