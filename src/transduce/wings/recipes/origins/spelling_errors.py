"""The noise of the noisy channel (Kernighan, Church and Gale 1990): a model of English spelling errors.

A misspelling is a few edits of a word. A weight decides the kind of each edit; all places of a kind are equally
probable. The numbers and kinds of edits roughly follow the training part of Mitton's Birkbeck corpus, by people who
find spelling hard. Only ``neighbour``, a typing error, does not occur there, because much of that corpus is
handwritten.
"""

from __future__ import annotations

import itertools
import random
import string
from collections import defaultdict
from collections.abc import Callable, Iterator

Edit = Callable[[str], list[str]]

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
"""The letters of a keyboard. Each row is shifted by half a key to the right of the row above it."""

SOUNDS = (
    "a e i o u",
    "i y",
    "ee ea ie ei e i y",
    "ai ay ei a",
    "o oa ow ough",
    "u oo ew ou",
    "or er ar ur ir re our",
    "au aw or",
    "c k ck ch q",
    "c s ss sc z",
    "ch tch t",
    "g j dge",
    "f ff ph gh v",
    "m n",
    "n kn gn",
    "r wr rr",
    "w wh u",
    "t d",
    "b p",
    "x cks ks cs",
    "le el al",
    "tion sion ssion cion shun",
    "able ible",
    "ance ence",
    "ant ent",
    "ough uff",
)
"""Spellings that sound alike, or nearly alike. If several begin at one place, all are equally probable."""


def deletion(word: str) -> list[str]:
    """All words that arise if one letter is left out. A word may occur several times in the list, here and in the other
    edits.
    """
    return [word[:i] + word[i + 1 :] for i in range(len(word))]


def insertion(word: str) -> list[str]:
    """All words that arise if one lower-case letter is added anywhere."""
    return [word[:i] + letter + word[i:] for i in range(len(word) + 1) for letter in string.ascii_lowercase]


def transposition(word: str) -> list[str]:
    """All words that arise if two adjacent, different letters are exchanged."""
    pairs = enumerate(itertools.pairwise(word))
    return [word[:i] + second + first + word[i + 2 :] for i, (first, second) in pairs if first != second]


def doubling(word: str) -> list[str]:
    """All words that arise if one letter is doubled that has no equal letter beside it."""
    return [word[: i + 1] + word[i:] for i in range(len(word)) if word[i] not in (word[i - 1 : i], word[i + 1 : i + 2])]


def undoubling(word: str) -> list[str]:
    """All words that arise if one of two adjacent equal letters is left out."""
    return [word[:i] + word[i + 1 :] for i in range(len(word) - 1) if word[i] == word[i + 1]]


def neighbour(word: str) -> list[str]:
    """All words that arise if one lower-case letter is replaced by the letter of an adjacent key on the keyboard."""
    return [word[:i] + key + word[i + 1 :] for i, letter in enumerate(word) for key in NEIGHBOURS.get(letter, "")]


def sound(word: str) -> list[str]:
    """All words that arise if a spelling of a sound is replaced at one place by another spelling of the same sound
    (``SOUNDS``).
    """
    return [
        word[:start] + other + word[end:]
        for start in range(len(word))
        for end in range(start + 1, min(start + LONGEST, len(word)) + 1)
        for other in ALIKE.get(word[start:end], ())
    ]


def misspelling(word: str, draw: random.Random) -> str:
    """Draws a misspelling of a word: one to four random edits, but at most one plus one for every four letters. A kind
    of edit that is nowhere possible changes nothing, and an edit may undo another one, so the result may equal the
    word.
    """
    edits = draw.choices(range(1, len(NUMBERS) + 1), NUMBERS)[0]
    text = word
    for _ in range(min(edits, 1 + len(word) // 4)):
        edit = draw.choices(list(KINDS), list(KINDS.values()))[0]
        text = draw.choices(edit(text) or [text])[0]
    return text


def _neighbours() -> Iterator[tuple[str, str]]:
    """Yields each key with the letters of its adjacent keys."""
    for y, row in enumerate(KEYBOARD):
        for x, key in enumerate(row):
            beside = [(y, x - 1), (y, x + 1), (y - 1, x), (y - 1, x + 1), (y + 1, x - 1), (y + 1, x)]
            near = [KEYBOARD[v][u] for v, u in beside if 0 <= v < len(KEYBOARD) and 0 <= u < len(KEYBOARD[v])]
            yield key, "".join(near)


def _alike() -> dict[str, list[str]]:
    """For each spelling in ``SOUNDS``, the other spellings of a group that it is in."""
    alike: dict[str, list[str]] = defaultdict(list)
    for group in map(str.split, SOUNDS):
        for spelling in group:
            alike[spelling] += [other for other in group if other != spelling and other not in alike[spelling]]
    return dict(alike)


NEIGHBOURS = dict(_neighbours())
ALIKE = _alike()
LONGEST = max(map(len, ALIKE))

NUMBERS = (38, 28, 20, 14)
"""Percentages of misspellings with one, two, three and four edits."""

KINDS: dict[Edit, int] = {
    sound: 35,
    deletion: 25,
    insertion: 14,
    undoubling: 8,
    doubling: 6,
    transposition: 6,
    neighbour: 6,
}
"""Percentages of the kinds of edits."""
