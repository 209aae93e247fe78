"""The words of a text, and the script that it is written in."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

from transduce_engine.phrases import UNSPACED

WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")
JAPANESE = {"HIRAGANA", "KATAKANA", "CJK"}  # scripts of one language


def words(text: str) -> list[str]:
    """The words of a text in lower case. Signs are words, and so are the letters of scripts without spaces."""
    return WORD.findall(text.lower())


def script(text: str) -> str:
    """The script of most letters, such as LATIN; empty if there is no letter."""
    counts = Counter(filter(None, map(_script, text)))
    return counts.most_common(1)[0][0] if counts else ""


@lru_cache(maxsize=20_000)
def _script(letter: str) -> str:
    """The first word of the name of a letter, which is its script."""
    if not letter.isalpha():
        return ""
    name = unicodedata.name(letter, "").partition(" ")[0]
    return "CJK" if name in JAPANESE else name
