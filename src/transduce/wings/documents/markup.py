"""Markup inside a unit, on its way through a model: short names of tags in the text, read again in the output."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from transduce.answers.request import NO_EXTRAS, Extras, Request
from transduce.core.errors import MissingWingError, UserError
from transduce.core.registry import service
from transduce.wings.documents.document import Parts, Tag
from transduce.wings.documents.inline import partners

if TYPE_CHECKING:  # it imports PyTorch
    from transduce.answers.transducer import Transducer

log = logging.getLogger("transduce")
PROTECTED = ("markup", "placeholder", "symbol")  # names of tags, what a program fills in, and what no model can write


def has_spans(text: str) -> bool:
    """True if a text has names of tags, placeholders, or pictures such as emoji."""
    return bool(_protection().read(text).pieces)


def without_spans(text: str) -> str:
    """The text without what stands for itself in any language: tags, addresses, figures, names in programs. The whole
    text where the distribution transduce-engine alone is installed, because that has no wing ``protection``.
    """
    protection = _of_all_kinds()
    return text if protection is None else str(protection.read(text).text)


@cache
def _protection() -> Any:
    return service("protection")(PROTECTED)


@cache
def _of_all_kinds() -> Any:
    try:
        return service("protection")()
    except MissingWingError:
        return None


def places_spans(transducer: Transducer) -> bool:
    """True if the model can say where spans belong in an output. Otherwise a warning says why."""
    try:
        service("check extras")(transducer, _protecting(NO_EXTRAS))
    except UserError as error:
        log.warning("markup inside a text is written after the text, and placeholders may be lost: %s", error)
        return False
    return True


class Protecting:
    """Lets requests ask for the places of spans in their outputs, too."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Extras, Extras]] = {}

    def __call__(self, request: Request) -> Request:
        """The request with the extras that it needs. Equal extras are one object, so that they share a pass."""
        given = request.extras
        if id(given) not in self._known:
            self._known[id(given)] = given, _protecting(given)
        return replace(request, extras=self._known[id(given)][1])


def _protecting(extras: Extras) -> Extras:
    given = extras.protect
    if given is None:
        return replace(extras, protect=_protection())
    return replace(extras, protect=replace(given, kinds=[*dict.fromkeys([*given.kinds, *PROTECTED])]))


@dataclass(frozen=True)
class Marked:
    """The parts of a unit. If ``named``, the text has a name for each tag: <g1> and </g1> for a pair, <x2/> for others.

    Otherwise the text has no tags.
    """

    parts: Parts
    named: bool

    @cached_property
    def _names(self) -> dict[str, Tag]:
        """The tags of the unit by their names in the text, in order."""
        pairs, found = partners(self.parts), dict[str, Tag]()
        for number, part in enumerate(self.parts):
            if isinstance(part, Tag):
                other = pairs.get(number)
                name = f"<x{number}/>" if other is None else f"<g{number}>" if other > number else f"</g{other}>"
                found[name] = part
        return found

    @cached_property
    def text(self) -> str:
        names = iter(self._names)
        written = [part if isinstance(part, str) else next(names) for part in self.parts]
        return "".join(
            part for part, given in zip(written, self.parts, strict=True) if self.named or isinstance(given, str)
        )

    def read(self, text: str) -> tuple[Parts, bool]:
        """The parts of an output, and whether the places of all tags are known. If not, the tags are after the text."""
        tags = self._names
        if not tags:
            return [text], True
        found = re.split("(" + "|".join(map(re.escape, tags)) + ")", text)
        parts = [tags.get(part, part) if number % 2 else part for number, part in enumerate(found)]
        if self.named and self._is_whole(found[1::2]):
            return [part for part in parts if part], True
        plain = "".join(part for part in parts if isinstance(part, str))
        return [re.sub(r"  +", " ", plain), *tags.values()], False

    def _is_whole(self, names: list[str]) -> bool:
        """True if each tag is there once, and pairs do not cross."""
        if sorted(names) != sorted(self._names):
            return False
        waiting = list[str]()
        for name in names:
            if name.startswith("<g"):
                waiting.append(name[1:])
            elif name.startswith("</") and (not waiting or waiting.pop() != name[2:]):
                return False
        return True
