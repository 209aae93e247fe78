"""Languages: their names, and a small classifier that detects the language of a text.

The classifier is naive Bayes over n-grams of characters. They are counted from the most frequent words of each language
(``languages.toml``), so it knows a text by its small words, its endings and its letters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from importlib import resources

from transduce.core.config.tables import parse

LONGEST = 4  # characters of an n-gram
FLOOR = 1e-5  # probability of an n-gram that a language does not have
READ = 2000  # characters of a text that are read
SHARE = 0.12  # of the log-probabilities, because the n-grams of a word depend on each other; measured
WORD = re.compile(r"[^\W\d_]+")


@cache
def _table() -> dict[str, dict[str, str]]:
    file = resources.files("transduce.wings.serving") / "languages.toml"
    return parse(file.read_bytes(), "languages.toml")


def name_of(code: str) -> str:
    """The English name of a language; its code if the name is not known."""
    return _table().get(code, {}).get("name", code)


def known() -> list[str]:
    """The codes of the languages that ``detect`` knows."""
    return sorted(code for code, each in _table().items() if "words" in each)


def detect(text: str, among: Collection[str] | None = None) -> list[tuple[str, float]]:
    """The probable languages of a text with their probabilities, the most probable first. ``among`` are the languages
    that are possible; None is all that are known. Empty if the text has no letters, or if none of them is known.
    """
    features = Counter(_features(text[:READ]))
    possible = [code for code in known() if among is None or code in among]
    if not features or not possible:
        return []
    unseen = math.log(FLOOR)
    scores = {}
    for code in possible:
        profile = _profile(code)
        scores[code] = sum(count * profile.get(feature, unseen) for feature, count in features.items())
    best = max(scores.values())
    weights = {code: math.exp(SHARE * (score - best)) for code, score in scores.items()}
    whole = sum(weights.values())
    ranked = sorted(((weight / whole, code) for code, weight in weights.items()), key=lambda each: (-each[0], each[1]))
    return [(code, weight) for weight, code in ranked if weight >= 0.01]


@cache
def _profile(code: str) -> dict[str, float]:
    """The log-probability of each n-gram in a language. A word counts less if it is less frequent."""
    counts: Counter[str] = Counter()
    for rank, word in enumerate(_table()[code]["words"].split()):
        weight = 1 / (rank + 10)
        for feature in _features(word):
            counts[feature] += weight  # type: ignore[assignment]
    whole = sum(counts.values())
    return {feature: math.log(count / whole) for feature, count in counts.items()}


def _features(text: str) -> Iterator[str]:
    """The n-grams of the words of a text, the words themselves, and the script of each letter."""
    for word in WORD.findall(unicodedata.normalize("NFC", text).lower()):
        framed = f" {word} "
        for size in range(1, LONGEST + 1):
            for begin in range(len(framed) - size + 1):
                if (gram := framed[begin : begin + size]) != " ":
                    yield gram
        if len(framed) > LONGEST:
            yield framed
        for letter in word:
            yield f"\t{_script(letter)}"


@cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
