"""Two texts with their differences marked: by words, or by characters if each text is one word and no label."""

from __future__ import annotations

from difflib import SequenceMatcher

from transduce.wings.pages.markup import Markup, element, joined


def compared(text: str, wanted: str, whole: bool = False) -> Markup:
    """``text`` with the parts that are not in ``wanted`` marked (mark). Missing parts of ``wanted`` are inserted,
    struck (del).

    The parts are words, or characters if both texts have at most one word and words are not ``whole``, as labels are.
    Words are written with one space between them.
    """
    words = whole or len(text.split()) > 1 or len(wanted.split()) > 1
    have, want = (each.split() if words else list(each) for each in (text, wanted))
    between = " " if words else ""
    parts: list[Markup] = []
    for kind, i, j, m, n in SequenceMatcher(None, have, want, autojunk=False).get_opcodes():
        missing, extra = between.join(want[m:n]), between.join(have[i:j])
        if kind == "equal":
            parts.append(joined([extra]))
            continue
        if missing:
            parts.append(element("del", missing))
        if extra:
            parts.append(element("mark", extra))
    return joined(parts, between)
