"""Words in pieces: "dogs bark" as <s> d o g s <s> b a r k </s>, so that a model sees where words begin.

White space separates words. The mark "<s>", which no other unit writes into a source, stands before each word. The
word's pieces may have any text unit. So predictions per word (labels, one for each word) do not depend on the pieces. A
word that is also known as a whole has its own mark instead of "<s>": <dog> d o g <bark> b a r k. With shapes, the shape
of the word follows the mark: <s> <Xx> D o g s. With lists of phrases, the lists that have the word come next: <s> <Xx>
<city> P a r i s. If a text is a question about a passage, <question> or <asked> comes then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from transduce.core.config.errors import Table
from transduce.core.types import BOS, EOS, SPECIALS, UNK
from transduce.data.corpora import DataError
from transduce.data.tokenizers.base import Tokenizer, Unit, checked, shifted
from transduce.data.tokenizers.json_records import Recorded
from transduce.data.tokenizers.storage import from_record, record_of
from transduce.wings.labels.phrase_lists import PhraseLists, read
from transduce.wings.labels.questions import MARKS, QUESTION, asked
from transduce.wings.labels.spans import Span, sentence_spans, word_spans

SHAPES = ("x", "Xx", "XX", "9")


def shape(word: str) -> int:
    """The index of a word's shape in ``SHAPES``. If it begins with a capital: 2 if it is longer than this letter and
    has no small letters, otherwise 1. If it does not: 3 if it has a digit, otherwise 0.
    """
    if word[:1].isupper():
        return 2 if len(word) > 1 and word.isupper() else 1
    return 3 if any(map(str.isdigit, word)) else 0


class SpelledTokenizer(Recorded):
    """Converts lines of words to ids and back: the ids of the pieces' tokenizer, with a mark before each word.

    The mark is BOS. A word in the vocabulary of the tokenizer ``known`` has a mark of its own instead, whose id follows
    the pieces' ids. If ``shaped`` is True, the id of the word's shape follows the mark. Then come the marks of the
    ``lists`` that have the word, and the mark of ``questions.asked`` if ``about_passages`` is True. The ids of lists
    and of these marks come after the ids of pieces, then those of shapes and of words. Raises DataError if one of the
    two tokenizers has numbers, labels, factors or whole words.
    """

    kind = "spelled"
    spans_of: Callable[[str], list[Span]] = staticmethod(word_spans)
    numeric = False
    signal = False
    labels = 0
    factors = 1

    def __init__(
        self,
        pieces: Tokenizer,
        known: Tokenizer | None = None,
        shaped: bool = False,
        lists: PhraseLists | None = None,
        about_passages: bool = False,
    ) -> None:
        for of_text in filter(None, (pieces, known)):
            if of_text.numeric or of_text.labels or of_text.factors > 1 or of_text.words:
                raise DataError(
                    "words are cut into pieces of text: set pieces of the unit to characters, bpe or another, and its "
                    "words, if they are to be known as wholes too, to symbols"
                )
        self._pieces = pieces
        self._known = known
        self._wholes = known.entries[len(SPECIALS) :] if known else ()
        self._shapes = SHAPES if shaped else ()
        self._lists = lists or PhraseLists({})
        self._about_passages = about_passages
        self._listed = (*self._lists.marks, *(MARKS if about_passages else ()))

    def __len__(self) -> int:
        return self._first + self.words

    @property
    def _first(self) -> int:
        """The id of the first known word."""
        return len(self._pieces) + len(self._listed) + self.shapes

    @property
    def words(self) -> int:
        return len(self._wholes)

    @property
    def shapes(self) -> int:
        return len(self._shapes)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, ending with EOS: for each word its mark, the id of its shape if there are shapes, the
        marks of its lists, and its pieces.
        """
        lines = [self._divided(text) for text in texts]
        words = list(dict.fromkeys(word for line in lines for word in line))
        cut = zip(words, self._marks(words), self._pieces.encode(words), strict=True)
        spelled = {word: ([mark, *self._shape(word)], ids[:-1]) for word, mark, ids in cut}
        return [[*self._spelled(text, line, spelled), EOS] for text, line in zip(texts, lines, strict=True)]

    def _spelled(
        self, text: str, line: Sequence[str], spelled: Mapping[str, tuple[list[int], list[int]]]
    ) -> Iterator[int]:
        """Yields the ids of a line, between whose two parts for each word the marks of lists stand."""
        for word, listed in zip(line, self._found(text, line), strict=True):
            before, after = spelled[word]
            yield from before
            yield from (len(self._pieces) + mark for mark in listed)
            yield from after

    def _found(self, text: str, words: Sequence[str]) -> list[list[int]]:
        """For each word of a text, its marks by their place in ``_listed``. Raises LineError as ``questions.asked``."""
        found = self._lists.found(words)
        if self._about_passages:
            for own, mark in zip(found, asked(text), strict=True):
                own += [] if mark is None else [len(self._lists.marks) + mark]
        return found

    def _divided(self, text: str) -> list[str]:
        return [text[start:end] for start, end in self.spans_of(text)]

    def _marks(self, words: Sequence[str]) -> list[int]:
        """The mark of each word: its own if ``known`` has the word as one known id, otherwise BOS."""
        if self._known is None:
            return [BOS] * len(words)
        first = self._first - len(SPECIALS)
        return [first + ids[0] if len(ids) == 2 and ids[0] != UNK else BOS for ids in self._known.encode(words)]

    def _shape(self, word: str) -> list[int]:
        """The id of the word's shape, in a list that is empty without shapes."""
        return [self._first - self.shapes + shape(word)] if self._shapes else []

    def _is_mark(self, i: int) -> bool:
        return i == BOS or i >= self._first

    def decode(self, ids: Sequence[int]) -> str:
        """The words of the ids, with one space between them, and a tab between a question and its passage. Marks begin
        words, and marks and shapes add no text: the text of a word comes from its pieces. Raises DataError for an id
        outside the vocabulary.
        """
        words: list[list[int]] = []
        question = 0  # words
        for i in checked(ids, len(self)):
            if self._is_mark(i) or not words:
                words.append([])
            if i < len(self._pieces) and i != BOS:
                words[-1].append(i)
            question += self._about_passages and i == len(self._pieces) + len(self._lists.marks) + QUESTION
        parts = (words[:question], words[question:]) if self._about_passages else (words,)
        return "\t".join(" ".join(filter(None, map(self._pieces.decode, part))) for part in parts)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id. The mark of a known word is "<word>", a shape is "<Xx>", and
        a list is "<name>".
        """
        first, named = len(self._pieces), (*self._listed, *self._shapes, *self._wholes)
        return [self._pieces.tokens([i])[0] if i < first else f"<{named[i - first]}>" for i in checked(ids, len(self))]

    def length(self, ids: Sequence[int]) -> int:
        """The number of words, which is the number of marks."""
        return sum(map(self._is_mark, ids))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each id in the text. Marks, shapes and lists have an empty span at the beginning of their word,
        and EOS one at the end of the text.
        """
        found: list[tuple[int, int]] = []
        places = self.spans_of(text)
        for (start, end), listed in zip(places, self._found(text, self._divided(text)), strict=True):
            marks = [(start, start)] * ((2 if self._shapes else 1) + len(listed))
            found += [*marks, *shifted(self._pieces.spans(text[start:end])[:-1], start)]
        return [*found, (len(text), len(text))]

    def normalize(self, text: str) -> str:
        if self._about_passages:  # the tab has a meaning
            return "\t".join(" ".join(map(self._pieces.normalize, part.split())) for part in text.split("\t", 1))
        return " ".join(map(self._pieces.normalize, self._divided(text)))

    @property
    def entries(self) -> tuple[Hashable, ...]:
        """The entries of the pieces, then the lists, the shapes and each whole word, in forms that differ from a piece
        with the same spelling.
        """
        lists = (("list", each) for each in self._listed)
        shapes = (("shape", each) for each in self._shapes)
        return (*self._pieces.entries, *lists, *shapes, *(("word", word) for word in self._wholes))

    @property
    def pieces(self) -> tuple[str, ...]:
        return (*self._pieces.pieces, *("" for _ in (*self._listed, *self._shapes, *self._wholes)))

    def extended(self, other: Tokenizer) -> SpelledTokenizer:
        """Returns a new tokenizer that also has the pieces and the whole words of ``other``. The ids of lists, shapes
        and whole words may change, because they follow the pieces'.

        Raises DataError if ``other`` is of another kind, if only one of the two knows words or has shapes, if their
        lists differ, or if a vocabulary cannot grow.
        """
        if (
            type(other) is not type(self)
            or (self._known is None) != (other._known is None)
            or self._shapes != other._shapes
            or self._lists.as_json() != other._lists.as_json()
            or self._about_passages != other._about_passages
        ):
            raise DataError("words in pieces can be extended by their like alone; use the same units")
        known = self._known and other._known and self._known.extended(other._known)
        pieces = self._pieces.extended(other._pieces)
        return type(self)(pieces, known, bool(self._shapes), self._lists, self._about_passages)

    def as_json(self) -> Table:
        known = {"known": record_of(self._known)} if self._known else {}
        shapes, lists = {"shapes": True} if self._shapes else {}, self._lists.as_json()
        about = {"about_passages": True} if self._about_passages else {}
        return {"words": record_of(self._pieces), **known, **shapes, **({"lists": lists} if lists else {}), **about}

    @classmethod
    def from_json(cls, record: Table) -> SpelledTokenizer:
        known, lists = record.get("known"), PhraseLists(record.get("lists", {}))
        shapes, about = record.get("shapes", False), record.get("about_passages", False)
        return cls(from_record(record["words"]), known and from_record(known), shapes, lists, about)


@dataclass(frozen=True)
class Spelled:
    """A unit for words in pieces: words between white space, each cut by the text unit ``pieces``, with the mark <s>
    before each word.

    ``words``, a unit such as "symbols", learns which words are also known as wholes; each has its own mark instead of
    <s>. Without it there are none. If ``shapes`` is True, a further piece after the mark says whether the word is
    capitalised, all in capitals, or has digits. Encoders that return one state per word read this unit: ``embedding =
    {type = "spelled"}``, or ``first-piece``.

    ``lists`` has files of phrases (gazetteers) by their names: {city = "cities.txt"}. A file is plain or gzipped, and
    has a phrase on each line. A word of such a phrase has one more piece: one for the first word of the phrase, and
    another for the others. Case does not matter, nor do "#" and "@" before a word. The run keeps the lists. ``learn``
    raises DataError for a file that is missing or empty.

    If ``about_passages`` is True, each text is a question, a tab and a passage. A word of the question has a further
    piece, and a word of the passage that the question has, too. Encoding raises LineError for a text without a tab.
    """

    pieces: Unit
    words: Unit | None = None
    shapes: bool = False
    lists: Mapping[str, str] | None = None
    about_passages: bool = False

    signal = False
    tokenizer = SpelledTokenizer

    def learn(self, texts: Iterable[str]) -> SpelledTokenizer:
        counts = Counter(word for text in texts for word in text.split())
        known = None if self.words is None else self.words.learn(counts.elements())
        pieces, lists = self.pieces.learn(counts.elements()), read(self.lists or {})
        return SpelledTokenizer(pieces, known, self.shapes, lists, self.about_passages)


class SentencesTokenizer(SpelledTokenizer):
    """Converts texts to ids and back: the ids of each sentence, with the mark BOS before it. The words of
    ``SpelledTokenizer`` are the sentences here (``selection.sentence_spans``), and no sentence is known as a whole.
    """

    kind = "sentences"
    spans_of = staticmethod(sentence_spans)


@dataclass(frozen=True)
class Sentences:
    """A unit for texts as sentences, each cut by the text unit ``pieces``, with the mark <s> before each sentence.

    The embedding "spelled" reads each sentence as it reads a word of the unit "spelled". An encoder inside it reads the
    pieces, and the model's encoder gets one vector for each sentence. The target's unit "selection" with ``parts``
    "sentences" divides texts by the same rules.
    """

    pieces: Unit

    signal = False
    tokenizer = SentencesTokenizer

    def learn(self, texts: Iterable[str]) -> SentencesTokenizer:
        return SentencesTokenizer(
            self.pieces.learn(text[start:end] for text in texts for start, end in sentence_spans(text))
        )
