"""Pairs of sentences as one source, for models that compare two sentences.

"A man sings<TAB>A man is singing" is a pair. Its row of ids is the first sentence with its EOS, and then the second
sentence with its EOS. Both sentences share one vocabulary. The first tab divides them; later tabs are text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from transduce.core.config.errors import Table
from transduce.core.types import EOS
from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.base import Tokenizer, Unit, checked, shifted
from transduce.data.tokenizers.json_records import Recorded
from transduce.data.tokenizers.storage import from_record, record_of


class PairTokenizer(Recorded):
    """Converts lines of two sentences to ids and back. ``sentence`` is the tokenizer of one sentence.

    Raises DataError if the rows of ``sentence`` are numbers, labels, factors or words of several pieces: the first EOS
    of a row must be the end of the first sentence.
    """

    kind = "pair"
    numeric = False
    signal = False
    labels = 0
    factors = 1

    def __init__(self, sentence: Tokenizer) -> None:
        if sentence.numeric or sentence.labels or sentence.factors > 1 or sentence.words or sentence.columns > 1:
            raise DataError(
                "a pair has two plain texts: set data.units.source.text to words, symbols, characters, bytes, bpe or "
                "unigram"
            )
        self.sentence = sentence

    @property
    def columns(self) -> int:
        """2: one for each sentence."""
        return 2

    def __len__(self) -> int:
        return len(self.sentence)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line: the first sentence, EOS, the second sentence, EOS. Raises LineError for a line without
        a tab.
        """
        pairs = [split(line) for line in texts]
        both = self.sentence.encode([text for pair in pairs for text in pair])
        return [[*first, *second] for first, second in zip(both[::2], both[1::2], strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        """The line of a row of ids: the two sentences with a tab between them. The tab stands for the first EOS of the
        row that is not its end. Raises DataError for an id outside the vocabulary.
        """
        spoken = list(checked(ids, len(self)))
        place = spoken.index(EOS) if EOS in spoken else len(spoken)
        sentences = [spoken[:place], spoken[place + 1 :]]
        return "\t".join(self.sentence.decode(part) for part in (sentences if sentences[1] else sentences[:1]))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id; EOS is "</s>"."""
        return self.sentence.tokens(ids)

    def length(self, ids: Sequence[int]) -> int:
        """The number of ids without the EOS of each sentence."""
        return len(ids) - 2

    def spans(self, line: str) -> list[tuple[int, int]]:
        """The span of each id in the line. Each EOS has an empty span, at the end of its sentence."""
        first, second = split(line)
        return [*self.sentence.spans(first), *shifted(self.sentence.spans(second), len(first) + 1)]

    def normalize(self, text: str) -> str:
        """Returns ``decode(encode(text))``, assuming that the line ``text`` has no unknown tokens."""
        return "\t".join(self.sentence.normalize(part) for part in split(text))

    @property
    def entries(self) -> tuple[Hashable, ...]:
        return self.sentence.entries

    @property
    def pieces(self) -> tuple[str, ...]:
        return self.sentence.pieces

    def extended(self, other: Tokenizer) -> PairTokenizer:
        """Returns a new tokenizer that also has the entries of ``other``. Raises DataError if ``other`` has no pairs,
        or
        if the vocabulary cannot grow.
        """
        if not isinstance(other, PairTokenizer):
            raise DataError("pairs of sentences cannot be extended by a unit without pairs; use the same units")
        return PairTokenizer(self.sentence.extended(other.sentence))

    def as_json(self) -> Table:
        return {"sentence": record_of(self.sentence)}

    @classmethod
    def from_json(cls, record: Table) -> PairTokenizer:
        return cls(from_record(record["sentence"]))


def split(line: str) -> list[str]:
    """The two sentences of a line. Raises LineError, which quotes the line, if it has no tab."""
    sentences = line.split("\t", 1)
    if len(sentences) < 2:
        raise LineError(
            line,
            "has one sentence, and a pair was expected: two sentences with a tab between them; for columns of a file "
            "set data.columns.labels to the first sentence and data.columns.source to the second",
        )
    return sentences


@dataclass(frozen=True)
class Pair:
    """A unit for pairs of sentences: a line is two sentences with a tab between them. ``text`` is the unit of both.

    For a file with a column for each sentence, ``data.columns.labels`` names the column of the first sentence and
    ``data.columns.source`` the column of the second.
    """

    text: Unit

    signal = False
    tokenizer = PairTokenizer

    def learn(self, texts: Iterable[str]) -> PairTokenizer:
        return PairTokenizer(self.text.learn(_sentences(texts)))


def _sentences(lines: Iterable[str]) -> Iterator[str]:
    """Yields the first and then the second sentence of each line."""
    for line in lines:
        yield from split(line)
