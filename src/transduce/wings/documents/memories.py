"""Translation memories in TMX 1.4: units of one text in several languages. Nothing but the texts is read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from transduce.core.errors import DataError

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
CODES = ("bpt", "ept", "it", "ph", "ut")  # elements whose content is the markup of another format
Unit = dict[str, list[str]]  # the texts of each language, whose name is in lower case


def units(lines: Iterable[bytes], name: str) -> Iterator[Unit]:
    """Yields the units of a file, one at a time. ``name`` stands for the file in messages. Raises DataError if it is no
    XML, or has no unit.
    """
    parser: XMLPullParser[Any] = XMLPullParser(("start", "end"))
    open_elements, count = list[Element](), 0
    for number, line in enumerate(lines, 1):
        try:
            parser.feed(line.decode("utf-8", "replace") + "\n")
            events: list[Any] = [*parser.read_events()]
        except ParseError as error:
            raise DataError(f"{name}:{number}: this is no XML ({error}), and a TMX file was expected") from error
        for event, element in events:
            if event == "start":
                if not open_elements and _local(element) != "tmx":
                    raise DataError(f"{name} is XML of another kind ({_local(element)}), and a TMX file was expected")
                open_elements.append(element)
                continue
            open_elements.pop()
            if _local(element) == "tu":
                count += 1
                yield _unit(element)
                if open_elements:
                    open_elements[-1].remove(element)  # a long file must not fill the memory
    if not count:
        raise DataError(f"{name} has no <tu>, a unit of translations: is it a TMX file?")


def texts(unit: Unit, language: str) -> Sequence[str]:
    """The texts of a ``language``. "de" is also the only language that begins with "de-"."""
    wanted = language.lower()
    similar = [each for each in unit if each.split("-")[0] == wanted]
    return unit.get(wanted) or (unit[similar[0]] if len(similar) == 1 else [])


def _unit(element: Element) -> Unit:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for variant in element:
        language = variant.get(LANGUAGE) or variant.get("lang") or ""
        for segment in variant:
            if _local(segment) == "seg" and language:
                found[language.lower()].append(re.sub(r"\s+", " ", _text(segment)).strip())
    return dict(found)


def _text(element: Element) -> str:
    inner = ((("" if _local(each) in CODES else _text(each)) + (each.tail or "")) for each in element)
    return (element.text or "") + "".join(inner)


def _local(element: Element) -> str:
    """The element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]
