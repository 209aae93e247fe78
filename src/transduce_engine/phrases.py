"""Writes phrases of text in the tokens of a vocabulary, and finds them in outputs."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Protocol

from transduce_engine.library import EngineError

UNK, SPECIALS = 3, 4  # the id of unknown text, and the number of ids that are no text
ENDS, OPEN = 1, 2  # bits of a token: it ends the word before it; no word continues after it
ANYWHERE, BORDER, DONE, OWN = 0, 1, 2, 3  # three states that every pattern has, and the first of its own states
BREAK, NONE = -2, -1  # tokens of edges: any that ends the word before it, and none
UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Letters of scripts that put no spaces between words, for a regular expression: Thai, Lao, Burmese, Khmer, Japanese,
Chinese."""
_UNSPACED = re.compile(f"[{UNSPACED}]")

Edge = tuple[int, int, int]  # state, token, next state
Spans = list[tuple[int, int, int]]  # start, token, end: a spelling, by positions in a text


class Spelling(Protocol):
    """The part of a tokenizer that a lexicon needs: the ids of a text with EOS last, the piece of text of each id, and
    the normalised text."""

    @property
    def pieces(self) -> tuple[str, ...]: ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...

    def normalize(self, text: str) -> str: ...


@dataclass(frozen=True, eq=False)
class Pattern:
    """A nondeterministic automaton over tokens that finds a phrase in an output.

    The state ``ANYWHERE`` is always active. ``BORDER`` is active where no word continues, and ``DONE`` after the
    phrase. States from ``OWN`` on are positions in the phrase. An edge is (state, token, next state). ``edges`` allow
    every way to cut the phrase into tokens. The edges ``own`` are the tokenizer's own spelling, of at most ``length``
    tokens. ``own`` is empty if the vocabulary cannot write the phrase. ``covered`` is the number of these tokens before
    each position. In the state ``waiting``, the last word may still continue; None if it cannot.
    """

    edges: tuple[Edge, ...]
    own: tuple[Edge, ...]
    covered: tuple[int, ...]
    length: int
    waiting: int | None


class Lexicon:
    """Finds and spells phrases in a vocabulary.

    If tokens mark words, a phrase matches whole words in any cut into tokens: "cat" is in "a cat, a dog" and not in
    "category". Symbols that are separated by spaces are words, even if they contain no letters. Scripts without spaces,
    and texts of characters or bytes, have no words, so a phrase matches anywhere.
    """

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._pieces = spelling.pieces
        texts = [piece for _, piece in self._known()]
        # if tokens mark words, they also mark the first word of a text
        self._words = any(self._pieces[ids[0]][:1] == " " for ids in spelling.encode([text.strip() for text in texts]))
        self._symbols = all(piece[0] == " " for piece in texts)
        self._continued = any(self._joins(piece[0]) for piece in texts)  # whether a token can continue a word
        self._patterns: dict[str, Pattern] = {}
        self._parts: dict[str, list[tuple[int, bool, bool]]] = defaultdict(list)
        # parts of tokens that end at word borders, and whether the token has text before or after them
        for token, piece in self._known():
            cuts = [0, *(cut for cut in range(1, len(piece)) if self._border(piece, cut)), len(piece)]
            for start, end in combinations(cuts, 2):
                self._parts[piece[start:end]].append((token, start > 0, end < len(piece)))
        self._longest = max(map(len, self._parts), default=0)

    def borders(self) -> bytes | None:
        """The bits ``ENDS`` and ``OPEN`` of each token; None if the vocabulary marks no words."""
        if not self._words:
            return None
        found = bytearray([ENDS | OPEN]) * len(self._pieces)
        for token, piece in self._known():
            found[token] = ENDS * (not self._joins(piece[0])) | OPEN * (not self._joins(piece[-1]))
        return bytes(found)

    def text(self, phrase: str) -> str:
        """The phrase in the form that outputs have: normalised, without spaces around it. Raises EngineError if no text
        is left.
        """
        ids = self._encoded(phrase)
        spelled = self._spelling.normalize(phrase) if UNK in ids else "".join(self._pieces[token] for token in ids)
        text = spelled.strip(" ") if self._words else spelled
        if not text:
            raise EngineError(f"a phrase is {phrase!r}: some text was expected, and the tokenizer finds none in it")
        return text

    def pattern(self, phrase: str) -> Pattern:
        """The pattern of a phrase. Its ``own`` is empty if the vocabulary cannot write the phrase. Raises EngineError
        like ``text``.
        """
        if phrase not in self._patterns:
            self._patterns[phrase] = self._pattern(self.text(phrase))
        return self._patterns[phrase]

    def within(self, phrase: str, other: str) -> bool:
        """True if the phrase ``other`` contains the phrase ``phrase``, as whole words if the vocabulary marks words."""
        return self._found(self.text(phrase), self.text(other))

    def written(self, phrase: str, ids: Sequence[int]) -> bool:
        """True if the text of the output ``ids`` contains the phrase, as whole words if the vocabulary marks words. The
        cut of the text into tokens does not matter.
        """
        return self._found(self.text(phrase), "".join(self._pieces[token] for token in ids))

    def spelled(
        self, required: Sequence[Sequence[str]], forbidden: Sequence[str]
    ) -> tuple[tuple[tuple[Pattern, ...], ...], tuple[Pattern, ...]]:
        """The patterns of required phrases, each with its alternatives, and of forbidden phrases.

        Drops alternatives that the vocabulary cannot write, and alternatives that contain a forbidden phrase. Also
        drops forbidden phrases that the vocabulary cannot write. Raises EngineError if a required phrase has no
        alternative left.
        """
        found = []
        for some in required:
            known = [phrase for phrase in some if self.pattern(phrase).own]
            if not known:
                raise EngineError(
                    f"the required {alternatives_text(some)} cannot be written: "
                    "the model's vocabulary lacks a part of it"
                )
            inside = [[unwanted for unwanted in forbidden if self.within(unwanted, phrase)] for phrase in known]
            free = [phrase for phrase, unwanted in zip(known, inside, strict=True) if not unwanted]
            if not free:
                raise EngineError(
                    f"the required {known[0]!r} has the forbidden {inside[0][0]!r} in it: leave one of them out"
                )
            found.append(tuple(map(self.pattern, free)))
        return tuple(found), tuple(pattern for phrase in forbidden if (pattern := self.pattern(phrase)).edges)

    @staticmethod
    def automata(required: Sequence[Sequence[Pattern]], forbidden: Sequence[Pattern]) -> tuple[list[int], list[int]]:
        """The ``numbers`` of automata for what ``spelled`` returns; empty for no phrases. Forbidden phrases are the
        alternatives of one.
        """
        return Automaton(required).numbers() if required else [], Automaton([forbidden]).numbers() if forbidden else []

    # --------------------------------------------------------------- details

    def _known(self) -> Iterator[tuple[int, str]]:
        return ((token, piece) for token, piece in enumerate(self._pieces) if token >= SPECIALS and piece)

    def _encoded(self, text: str) -> list[int]:
        return self._spelling.encode([text])[0][:-1]

    def _joins(self, character: str) -> bool:
        """True if the character belongs to a word. The word continues if the next character belongs to a word, too."""
        if self._symbols or not self._words:
            return self._words and character != " "
        return _of_a_word(character)

    def _border(self, text: str, cut: int) -> bool:
        return not (0 < cut < len(text) and self._joins(text[cut - 1]) and self._joins(text[cut]))

    def _found(self, text: str, longer: str) -> bool:
        places = (found.start() for found in re.finditer(f"(?={re.escape(text)})", longer))
        return any(self._border(longer, place) and self._border(longer, place + len(text)) for place in places)

    def _spellings(self, text: str) -> list[Spans]:
        """The spellings of a text inside running text, without those that contain UNK: at most two.

        If tokens mark words, position 0 is the space before the text. A text that may follow a letter also has a
        spelling without the space.
        """
        size = int(self._words) + len(text)
        ways = [self._spans(self._encoded(text), size)]
        if self._words and not self._joins(text[0]):
            behind = [span for span in self._spans(self._encoded("x" + text), size) if span[0] >= 1]
            ways += [behind] if behind and behind[0][0] == 1 else []
        return [way for way in ways if UNK not in (token for _, token, _ in way)]

    def _spans(self, ids: Sequence[int], end: int) -> Spans:
        spans = []
        for token in reversed(ids):
            start = end - len(self._pieces[token])
            spans.append((start, token, end))
            end = start
        return spans[::-1]

    def _pattern(self, text: str) -> Pattern:
        first = int(self._words)  # after the space that may come before the first word
        whole, ways = " " * first + text, self._spellings(text)
        begins = BORDER if self._joins(text[0]) else ANYWHERE
        waits = self._continued and self._joins(text[-1])  # never, if each token starts a word
        spaced = any(end == first for way in ways for _, _, end in way)  # whether a space is a token
        states: dict[int, int] = {}

        def goal(end: int) -> int:
            return states.setdefault(end, OWN + len(states)) if end < len(whole) or waits else DONE

        edges: set[Edge] = set()
        for start in range(len(whole)):
            for end in range(start + 1, min(len(whole), start + self._longest) + 1):
                if end == first and not spaced:
                    continue
                for token, before, behind in self._parts.get(whole[start:end], ()):
                    if (before and start > first) or (behind and end < len(whole)):
                        continue  # the token would put other text inside the phrase
                    origins = {ANYWHERE} if before or start == 0 else {states[start]} if start in states else set()
                    origins |= {begins} if start == first and not before else set()
                    edges.update((origin, token, DONE if behind else goal(end)) for origin in origins)
        own = {
            (ANYWHERE if start in (0, way[0][0]) else states[start], token, goal(end))
            for way in ways
            for start, token, end in way
        }
        if len(whole) in states:
            edges.add((states[len(whole)], BREAK, DONE))
        covered = [max((sum(end <= place for _, _, end in way) for way in ways), default=0) for place in states]
        length = max(map(len, ways), default=0)
        return Pattern(tuple(sorted(edges)), tuple(sorted(own)), tuple(covered), length, states.get(len(whole)))


class Automaton:
    """The phrases of a source as one nondeterministic automaton. Each phrase is a list of alternatives; one is enough.

    An edge is (state, token, next state), where the token may be ``BREAK``, or ``NONE`` for no token. A state is
    described by (whether its phrase is complete, whether the phrase is complete although its last word may still
    continue, the state in which its phrase is complete, the number of its tokens that are written). ``own`` are the
    places of the edges of the tokenizer's own spelling.
    """

    def __init__(self, phrases: Sequence[Sequence[Pattern]]) -> None:
        self.edges: list[tuple[int, int, int]] = [(ANYWHERE, NONE, ANYWHERE)]
        self.states: list[tuple[int, int, int, int]] = [(0, 0, ANYWHERE, 0), (0, 0, ANYWHERE, 0)]
        self.own: list[int] = []
        for alternatives in phrases:
            self._add(alternatives)

    def numbers(self) -> list[int]:
        """The automaton as the engine's library reads it (engine.h)."""
        own = set(self.own)
        edges = ((*edge, int(place in own)) for place, edge in enumerate(self.edges))
        return [len(self.states), *(number for four in (*self.states, *edges) for number in four)]

    def _add(self, alternatives: Sequence[Pattern]) -> None:
        finish, length = len(self.states), max(pattern.length for pattern in alternatives)
        self.states.append((1, 0, finish, length))
        for pattern in alternatives:
            number = {ANYWHERE: ANYWHERE, BORDER: BORDER, DONE: finish}
            for state, covered in enumerate(pattern.covered, OWN):
                number[state] = len(self.states)
                worth = length - pattern.length + covered if covered else 0
                self.states.append((0, int(state == pattern.waiting), finish, worth))
            own = set(pattern.own)
            for edge in pattern.edges:
                if edge in own:
                    self.own.append(len(self.edges))
                origin, token, goal = edge
                self.edges.append((number[origin], token, number[goal]))


def alternatives_text(some: Sequence[str]) -> str:
    """Quotes the alternatives and joins them with "or", for messages."""
    return " or ".join(map(repr, some))


@cache
def _of_a_word(character: str) -> bool:
    """True for a letter, a mark, a digit or an underscore of a script that separates words by spaces."""
    return (unicodedata.category(character)[0] in "LMN" or character == "_") and not _UNSPACED.match(character)
