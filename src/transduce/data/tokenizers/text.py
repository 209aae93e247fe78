"""Text to ids and back, and the units text can be cut into.

A ``TextTokenizer`` is one JSON file of the library ``tokenizers``, and nothing else. Each unit normalises text first
(``normalisation.py``); ``normalize`` is what a round trip returns. All spaces are kept, except by ``Symbols``. If a
unit marks spaces inside its pieces ("▁", U+2581), a "▁" in the text becomes a space.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from transduce.core.config.errors import Table
from transduce.core.registry import service
from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK
from transduce.data.corpora import DataError, text_lines
from transduce.data.tokenizers import storage
from transduce.data.tokenizers.base import Tokenizer, check_whole, checked
from transduce.data.tokenizers.normalisation import Form, Normalised
from transduce.data.tokenizers.panics import expressions, panics_as_errors

SPACE = "▁"
_UNLIMITED = 2**31
LONGEST = (
    1000  # most characters of a word from which merges are learned: time grows with the square of the longest word
)
_CLOSED = processors.TemplateProcessing(single=f"$A {SPECIALS[EOS]}", special_tokens=[(SPECIALS[EOS], EOS)])
_ANY = r"[\s\S]"
_SPACES = r"\s+"
_WORD = rf"{SPACE}?(?:\w+|[^\w{SPACE}])|{SPACE}"
_PIECE = rf"{SPACE}?(?:\w+|[^\w{SPACE}]+)|{SPACE}"
# Models find special tokens by spelling, so a "</s>" in the text must be split. Words and subwords split it where
# letters meet punctuation. Symbols do not, so this expression splits them after the "<".
_SPECIAL = f"<(?={'|'.join(re.escape(special[1:]) for special in SPECIALS)})"
_OWN_EXPRESSIONS = {_ANY, _SPACES, _WORD, _PIECE, _SPECIAL}  # none of them can need too many steps
_CHARACTER = pre_tokenizers.Split(Regex(_ANY), "isolated")
_GUARD = pre_tokenizers.Split(Regex(_SPECIAL), "isolated")


class TextTokenizer:
    """A tokenizer of the library ``tokenizers``, for text without labels. ``labels.py`` handles labels.

    Raises DataError if the first ids of its vocabulary are not the special tokens.
    """

    kind = storage.TEXT
    numeric = False
    signal = False
    labels = 0
    factors = 1
    words = 0
    shapes = 0
    columns = 1

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        found = tuple(library.id_to_token(index) for index in range(len(SPECIALS)))
        if found != SPECIALS:
            raise DataError(
                f"ids 0 to {len(SPECIALS) - 1} of a vocabulary must be {SPECIALS}, not {found}: learn it anew"
            )
        library.post_processor = _CLOSED
        library.encode_special_tokens = True  # "</s>" in the text is text; the library does not store this
        self._library = library
        self._size = library.get_vocab_size()
        self._may_panic = not expressions(_cutting(self.as_json())) <= _OWN_EXPRESSIONS

    def __len__(self) -> int:
        return self._size

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, ending with EOS.

        Raises DataError for half of a surrogate pair, or if the library gives up on a text (``panics.py``).
        """
        try:
            with panics_as_errors(silent=self._may_panic):
                if len(texts) == 1:  # without the library's threads, which take longer to wake than one text takes
                    return [self._library.encode(texts[0]).ids]
                return [encoding.ids for encoding in self._library.encode_batch_fast(list(texts))]
        except TypeError:
            for text in texts:
                check_whole(text)
            raise

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids. Padding, BOS and EOS add nothing, wherever they stand. An unknown token is "<unk>".
        Raises DataError for an id outside the vocabulary.
        """
        spoken = [i for i in checked(ids, len(self)) if i not in (PAD, BOS, EOS)]
        return self._library.decode(spoken, skip_special_tokens=False)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id. Spaces are shown as "▁", and a byte by the character that the
        library uses for it (``byte_characters``). Raises DataError for an id outside the vocabulary.
        """
        return [str(self._library.id_to_token(i)).replace(" ", SPACE) for i in checked(ids, len(self))]

    def length(self, ids: Sequence[int]) -> int:
        """The number of ids without EOS."""
        return len(ids) - 1

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each id in the text. A space belongs to the next piece, or is an id itself; between symbols it
        belongs to neither. Ids that come from one character, such as its bytes, share its span. EOS has an empty span
        at the end.
        """
        with panics_as_errors(silent=self._may_panic):
            return [*self._library.encode(text).offsets[:-1], (len(text), len(text))]

    def normalize(self, text: str) -> str:
        """Returns ``decode(encode(text))``, assuming that the text has no unknown tokens."""
        if self._library.normalizer is None:
            return text
        normal: str = self._library.normalizer.normalize_str(text)
        if self._library.decoder is None or isinstance(self._library.decoder, decoders.ByteLevel):
            return normal
        # Character by character, so that the decoder never sees a special token.
        return str(self._library.decoder.decode(list(normal)))

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(str(self._library.id_to_token(i)) for i in range(len(self)))

    @property
    def pieces(self) -> tuple[str, ...]:
        spoken = self.entries[UNK:]
        if self._library.decoder is None:  # symbols: the library puts a space between them
            spoken = tuple(f" {entry}" for entry in spoken)
        elif self._library.normalizer is not None and self._library.normalizer.normalize_str("x") != "x":
            spoken = tuple(entry.replace(SPACE, " ") for entry in spoken)
        return ("",) * UNK + spoken

    def lowercased(self) -> TextTokenizer:
        """A tokenizer with the same vocabulary that reads texts in lower case."""
        record = self.as_json()
        own = [record["normalizer"]] if record["normalizer"] else []
        return self.from_json(
            record | {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, *own]}}
        )

    def extended(self, other: Tokenizer) -> TextTokenizer:
        """Returns a new tokenizer: the ids of this one stay, and the entries that only ``other`` has follow.

        Pieces (bpe, unigram) grow by the service "grown pieces". Raises DataError if the two cut text differently.
        """
        record, theirs = self.as_json(), other.as_json()
        if record["model"]["type"] != "WordLevel" and _cutting(record) == _cutting(theirs):
            return self.from_json(service("grown pieces")(record, theirs))
        if _cutting(record) != _cutting(theirs):
            raise DataError(
                "the vocabularies cut text in different ways, so that one cannot extend the other; use the same units"
            )
        words = record["model"]["vocab"]
        for word in other.entries:
            words.setdefault(word, len(words))
        return self.from_json(record)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the JSON: equal for equal tokenizers."""
        return hashlib.sha256(self._library.to_str().encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        storage.save(self, path)

    def as_json(self) -> Table:
        """The tokenizer as JSON in the format of the library ``tokenizers``."""
        record: Table = json.loads(self._library.to_str())
        return record

    @classmethod
    def from_json(cls, record: Table) -> TextTokenizer:
        try:
            return cls(tokenizers.Tokenizer.from_str(json.dumps(record)))
        except DataError:
            raise
        except Exception as error:  # the library raises bare Exception
            raise DataError(f"no tokenizer of text: {error}") from error


def _cutting(record: Table) -> Table:
    """The settings that decide how a tokenizer cuts text, for comparing two tokenizers. It is the tokenizer's record
    with the model's type in place of the model, and so without the vocabulary.
    """
    return {**record, "model": record.get("model", {}).get("type")}


@dataclass(frozen=True)
class TextUnit(Normalised):
    """The members that all units of text share. Raises DataError for an unknown ``normalisation``, and if ``size``,
    ``minimum_count`` or ``alphabet`` is below 0 or above 2**31.
    """

    signal = False
    tokenizer = TextTokenizer

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("size", "minimum_count", "alphabet"):
            value = getattr(self, name, None)
            if value is not None and not 0 <= value <= _UNLIMITED:
                raise DataError(f"{name} = {value}: expected 0 to {_UNLIMITED}")


@dataclass(frozen=True)
class Characters(TextUnit):
    """A unit of text: single characters (Unicode code points after normalisation), including spaces.

    Characters rarer than ``minimum_count`` are unknown. ``size`` is the largest vocabulary, including special tokens,
    and keeps the most frequent characters; None keeps all. Raises DataError at learning if ``size`` has room for the
    special tokens only.
    """

    minimum_count: int = 1
    size: int | None = None

    def learn(self, texts: Iterable[str]) -> TextTokenizer:
        library = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIALS[UNK]))
        library.normalizer = normalizers.Sequence(self.normalizers())
        library.pre_tokenizer = _CHARACTER
        library.decoder = decoders.Fuse()
        return _counted(library, texts, self.minimum_count, self.size)


@dataclass(frozen=True)
class Words(TextUnit):
    """A unit of text: words and single punctuation marks. A piece after a space, or at the beginning of the text,
    begins with "▁".

    Pieces rarer than ``minimum_count`` are unknown. ``size`` is the largest vocabulary, including special tokens, and
    keeps the most frequent pieces; None keeps all. Raises DataError at learning if ``size`` has room for the special
    tokens only.
    """

    minimum_count: int = 1
    size: int | None = None

    def learn(self, texts: Iterable[str]) -> TextTokenizer:
        library = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIALS[UNK]))
        _mark_spaces(library, self.normalizers())
        library.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), "isolated")
        # An unknown word has lost its "▁"; most words follow a space.
        spaced = decoders.Replace(SPECIALS[UNK], SPACE + SPECIALS[UNK])
        library.decoder = decoders.Sequence([spaced, library.decoder])
        return _counted(library, texts, self.minimum_count, self.size)


@dataclass(frozen=True)
class Symbols(TextUnit):
    """A unit of text: symbols between white space (phonemes, glosses). Decoding puts one space between them.

    A symbol with the spelling of a special token ("</s>") is split after its "<". Symbols rarer than ``minimum_count``
    are unknown. ``size`` is the largest vocabulary, including special tokens, and keeps the most frequent symbols; None
    keeps all. ``missing`` is a symbol that says that a label is not known: it becomes an unknown token. ``always``
    lists symbols that are in the vocabulary even if the texts do not have them. ``always_in`` is a file with more of
    them, the first word of each line, such as a list of words or a text file of word vectors. Raises DataError if one
    of ``always`` has white space, or if ``missing`` is among them; at learning also if ``size`` has room for the
    special tokens only, or if the file is missing or has a line that is not UTF-8.
    """

    minimum_count: int = 1
    size: int | None = None
    missing: str | None = None
    always: tuple[str, ...] = ()
    always_in: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, symbols in (("missing", () if self.missing is None else (self.missing,)), ("always", self.always)):
            for symbol in symbols:
                if len(symbol.split()) != 1:
                    raise DataError(f"{name} has {symbol!r}: one symbol without white space was expected")
        if self.missing in self.always:
            raise DataError(f"always has {self.missing!r}, which is missing: leave it out of one of them")

    def learn(self, texts: Iterable[str]) -> TextTokenizer:
        library = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIALS[UNK]))
        one_space = [normalizers.Replace(Regex(_SPACES), " "), normalizers.Strip()]
        library.normalizer = normalizers.Sequence([*self.normalizers(), *one_space])
        library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), _GUARD])
        if self.missing is not None:
            texts = (" ".join(symbol for symbol in text.split() if symbol != self.missing) for text in texts)
        listed = (symbol for symbol in (*self.always, *self._words_in_file()) for _ in range(self.minimum_count))
        return _counted(library, chain(texts, listed), self.minimum_count, self.size)

    def _words_in_file(self) -> Iterator[str]:
        for line in [] if self.always_in is None else text_lines(self.always_in):
            yield from (word for word in line.split(maxsplit=1)[:1] if word != self.missing)


@dataclass(frozen=True)
class Bpe(TextUnit):
    """A unit of text: subwords by byte-pair encoding, within words and runs of punctuation (Sennrich et al. 2016).

    ``size`` is the largest vocabulary, including special tokens. The vocabulary is smaller if no more pairs of pieces
    occur ``minimum_count`` times. ``alphabet`` is the number of characters to keep, the most frequent ones; others are
    unknown; None keeps all. Raises DataError at learning if these characters and the special tokens are more than
    ``size``.
    """

    size: int = 8000
    minimum_count: int = 2
    alphabet: int | None = None

    def learn(self, texts: Iterable[str]) -> TextTokenizer:
        library = _subwords(models.BPE(unk_token=SPECIALS[UNK]), self.normalizers())
        library.pre_tokenizer, whole = _pieces(LONGEST), library.pre_tokenizer
        options: dict[str, Any] = {} if self.alphabet is None else {"limit_alphabet": self.alphabet}
        trainer = trainers.BpeTrainer(
            vocab_size=self.size,
            min_frequency=self.minimum_count,
            special_tokens=list(SPECIALS),
            show_progress=False,
            **options,
        )
        library.train_from_iterator(iter(texts), trainer)
        library.pre_tokenizer = whole
        smallest = library.get_vocab_size()
        if smallest > self.size:  # the alphabet alone did not fit
            raise _too_small("bpe", self.size, f"its characters and specials alone are {smallest}; or set alphabet")
        return TextTokenizer(library)


@dataclass(frozen=True)
class Unigram(TextUnit):
    """A unit of text: subwords of a unigram language model, within words and runs of punctuation (Kudo 2018).

    ``size`` is the largest vocabulary, including special tokens. The words ``whole`` are always one token, such as tags
    of languages; each consists of letters, digits and "_" and has a space before it or begins the text. Raises
    DataError for other words, and at learning if the characters of the texts, the words and the special tokens are more
    than ``size``.
    """

    size: int = 8000
    whole: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in self.whole:
            if not re.fullmatch(r"\w+", word):
                raise DataError(f"unigram.whole: {word!r}: expected letters, digits and '_', such as '__en__'")

    def learn(self, texts: Iterable[str]) -> TextTokenizer:
        library = _subwords(models.Unigram(), self.normalizers())
        trainer = trainers.UnigramTrainer(
            vocab_size=max(0, self.size - len(self.whole)),
            unk_token=SPECIALS[UNK],
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        try:
            library.train_from_iterator(iter(texts), trainer)
        except Exception as error:  # the library raises bare Exception
            if "not large enough" not in str(error):
                raise
            raise _too_small("unigram", self.size, "its characters and specials alone are more") from error
        whole = {SPACE + word: 0.0 for word in self.whole}  # the log-probability 0: no other cut is as probable
        pieces = [(piece, score) for piece, score in _in_order(library) if piece not in whole]
        library.model = models.Unigram([*pieces, *whole.items()], unk_id=UNK)
        return TextTokenizer(library)


@dataclass(frozen=True)
class Bytes(TextUnit):
    """A unit of text: the 256 bytes of UTF-8, for any script. Nothing is learned and nothing is unknown. Unlike other
    units of text, it does not normalise by default.
    """

    normalisation: Form = field(default="none", kw_only=True)

    def learn(self, texts: Iterable[str]) -> TextTokenizer:
        vocabulary = {piece: index for index, piece in enumerate([*SPECIALS, *byte_characters()])}
        library = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIALS[UNK]))
        if form := self.normalizers():
            library.normalizer = normalizers.Sequence(form)
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.pre_tokenizer = pre_tokenizers.Sequence([level, _CHARACTER])
        library.decoder = decoders.ByteLevel()
        library.add_special_tokens(list(SPECIALS))
        return TextTokenizer(library)


# --------------------------------------------------------------------- parts


def _mark_spaces(library: tokenizers.Tokenizer, form: list[object]) -> None:
    """Gives the library's tokenizer, in place, a normalizer and a decoder. The normalizer applies ``form``, adds a
    space before the text, so that a word has the same piece at the beginning, and replaces spaces by "▁". The decoder
    undoes the last two.
    """
    marks = [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    library.normalizer = normalizers.Sequence([*form, *marks])
    library.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def _subwords(model: models.Model, form: list[object]) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(model)
    _mark_spaces(library, form)
    library.pre_tokenizer = _pieces()
    return library


def _pieces(longest: int | None = None) -> pre_tokenizers.PreTokenizer:
    """The library's splitter of text into words and runs of punctuation, each with the "▁" before it. They have at most
    ``longest`` characters after the "▁"; None sets no limit.
    """
    piece = _PIECE if longest is None else _PIECE.replace("+", f"{{1,{longest}}}")
    return pre_tokenizers.Split(Regex(piece), "isolated")


def _counted(
    library: tokenizers.Tokenizer, texts: Iterable[str], minimum_count: int, size: int | None
) -> TextTokenizer:
    """Learns the vocabulary of ``library``: the pieces of the texts that occur ``minimum_count`` times or more, the
    most frequent first. Raises DataError if ``size`` has room for the special tokens only.
    """
    if size is not None and size <= len(SPECIALS):
        raise _too_small("vocabulary", size, f"the specials alone are {len(SPECIALS)}")
    trainer = trainers.WordLevelTrainer(
        vocab_size=_UNLIMITED if size is None else size,
        min_frequency=minimum_count,
        special_tokens=list(SPECIALS),
        show_progress=False,
    )
    library.train_from_iterator(iter(texts), trainer)
    return TextTokenizer(library)


def _in_order(library: tokenizers.Tokenizer) -> list[tuple[str, float]]:
    """The pieces of a unigram vocabulary with their scores, in an order that is the same each time.

    The library iterates over a hash table. So sums differ in their last digits, and characters without a piece get the
    lowest score plus multiples of 0.0001 in random order. Here scores are rounded, and those characters share the
    lowest score and come last, in Unicode order. Special tokens stay first, and the other pieces are sorted by score,
    highest first.
    """
    pieces = [(piece, round(score, 6)) for piece, score in json.loads(library.to_str())["model"]["vocab"]]
    learned = pieces[len(SPECIALS) :]
    least = min((score for _, score in learned), default=0.0)
    bound = least + 0.0001 * sum(len(piece) == 1 for piece, _ in learned)
    leftover = {piece for piece, score in learned if len(piece) == 1 and score <= bound}
    ranked = sorted((e for e in learned if e[0] not in leftover), key=lambda entry: (-entry[1], entry[0]))
    return [*pieces[: len(SPECIALS)], *ranked, *((piece, round(least, 2)) for piece in sorted(leftover))]


def byte_characters() -> list[str]:
    """The character that the library uses for each byte, in the order of the bytes: itself if printable, otherwise one
    above U+00FF.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def _too_small(unit: str, size: int, why: str) -> DataError:
    return DataError(f"a {unit} of size {size} cannot hold this text: {why}; make size larger")
