"""Text in the pieces of a SentencePiece model (Kudo and Richardson 2018) that was learned elsewhere.

An OPUS-MT model has a vocabulary of its own: its order differs from the SentencePiece model's, and it has more tokens.
So the tokenizer has both: the model cuts text into pieces, and the vocabulary gives pieces their ids.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.core.config import Table
from transduce.core.errors import MissingPackageError
from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK
from transduce.data.corpora import DataError
from transduce.data.tokenizers.base import Tokenizer, check_whole, checked
from transduce.data.tokenizers.json_records import Recorded
from transduce.data.tokenizers.text import SPACE

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

UNKNOWN = f"{SPACE}{SPECIALS[UNK]}"
LARGEST = 2**28  # bytes of a file: larger ones are no vocabulary
LANGUAGE = ">>", "<<"  # around a token that names the language of the output


class SentencePieceTokenizer(Recorded):
    """Converts text to ids and back with a SentencePiece ``model``, the bytes of its file.

    ``spoken`` are the tokens of the ids from 4 on: pieces of the model, and tokens between ">>" and "<<" that name the
    language of the output. A text that begins with such a token starts with its id. A piece that is not among
    ``spoken`` is unknown. The model decides about spaces and Unicode forms. Raises DataError if the bytes are no model,
    or if a token occurs twice or is a special one. Raises MissingPackageError if the library sentencepiece is not
    installed.
    """

    kind = "sentencepiece"
    numeric = False
    signal = False
    labels = 0
    factors = 1

    def __init__(self, model: bytes, spoken: Sequence[str]) -> None:
        self.model = model
        self._library = _library(model)
        self._tokens = (*SPECIALS, *spoken)
        self._ids = {token: len(SPECIALS) + place for place, token in enumerate(spoken)}
        if len({*self._ids, *SPECIALS}) < len(self._tokens):
            twice = next(t for place, t in enumerate(self._tokens) if t in self._tokens[:place])
            raise DataError(f"the vocabulary has {twice!r} twice: each token needs one id, and {SPECIALS} are taken")

    def __len__(self) -> int:
        return len(self._tokens)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, ending with EOS. Raises DataError for half of a surrogate pair."""
        for text in texts:
            check_whole(text)
        divided = [self._divided(text) for text in texts]
        cut = self._library.encode([text for _, text in divided], out_type=str)
        find = self._ids.get
        return [
            [*(find(piece, UNK) for piece in (*code, *pieces)), EOS]
            for (code, _), pieces in zip(divided, cut, strict=True)
        ]

    def _divided(self, text: str) -> tuple[list[str], str]:
        """The language token that begins the text, in a list that is empty without one, and the rest of the text."""
        opening, closing = LANGUAGE
        end = text.find(closing) + len(closing)
        code = text[:end] if text.startswith(opening) and end >= len(closing) else ""
        return ([code], text[end:]) if code in self._ids else ([], text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids. Padding, BOS and EOS add nothing, wherever they stand. An unknown token is "<unk>".
        Raises DataError for an id outside the vocabulary.
        """
        pieces: list[str] = []
        for i in checked(ids, len(self)):
            if i == UNK and pieces and pieces[-1] == SPACE:
                pieces.pop()  # the space before an unknown word is a piece of its own
            if i not in (PAD, BOS, EOS):
                pieces.append(UNKNOWN if i == UNK else self._tokens[i])
        return self._joined(pieces)

    def _joined(self, pieces: list[str]) -> str:
        return str(self._library.decode_pieces(pieces)).replace(SPACE, " ").strip(" ") if pieces else ""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces for people to read, one per id; "▁" is a space. Raises DataError for an id outside the
        vocabulary.
        """
        return [self._tokens[i] for i in checked(ids, len(self))]

    def length(self, ids: Sequence[int]) -> int:
        """The number of ids without EOS."""
        return len(ids) - 1

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each id in the text. A space belongs to the next piece. Bytes of one character share its span.
        EOS has an empty span at the end.
        """
        check_whole(text)
        code, rest = self._divided(text)
        first = len(text) - len(rest)
        place = [0]  # of each byte of the rest: the number of characters before it
        for number, character in enumerate(rest):
            place += [number] * (len(character.encode()) - 1) + [number + 1]
        found = self._library.encode(rest, return_type="proto").pieces
        pieces = [(first + place[piece.begin], first + place[piece.end]) for piece in found]
        return [*[(0, first) for _ in code], *pieces, (len(text), len(text))]

    def normalize(self, text: str) -> str:
        """Returns ``decode(encode(text))``, assuming that the text has no unknown tokens."""
        code, rest = self._divided(text)
        return self._joined([*code, *self._library.encode(rest, out_type=str)])

    @property
    def entries(self) -> tuple[str, ...]:
        return self._tokens

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        spoken = (token.replace(SPACE, " ") for token in self._tokens[len(SPECIALS) :])
        return ("",) * UNK + (SPECIALS[UNK], *spoken)

    def extended(self, other: Tokenizer) -> SentencePieceTokenizer:
        """Always raises DataError: a new piece would change how the model cuts text."""
        raise DataError(
            "a vocabulary of SentencePiece pieces cannot be extended: a new piece would change how the old ones cut "
            "text; keep the vocabulary, or learn your own"
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the model and the vocabulary: equal for equal tokenizers."""
        return hashlib.sha256(self.model + json.dumps(self._tokens).encode()).hexdigest()

    def as_json(self) -> Table:
        return {"model": base64.b64encode(self.model).decode(), "spoken": list(self._tokens[len(SPECIALS) :])}

    @classmethod
    def from_json(cls, record: Table) -> SentencePieceTokenizer:
        try:
            model, spoken = base64.b64decode(record["model"], validate=True), record["spoken"]
        except (KeyError, TypeError, binascii.Error) as error:
            raise DataError(f"no tokenizer of SentencePiece: {error!r}; copy the file again") from error
        if not isinstance(spoken, list) or not all(isinstance(token, str) for token in spoken):
            raise DataError("no tokenizer of SentencePiece: spoken is no list of texts; copy the file again")
        return cls(model, spoken)


@dataclass(frozen=True)
class SentencePiece:
    """A unit of text: the pieces of a SentencePiece model that another program has learned. Nothing is learned.

    ``model`` is the path of the model's file, such as ``source.spm``. ``vocabulary`` is the path of a JSON file that
    maps tokens to ids, as Marian's ``vocab.json``; its tokens get new ids in the same order. None takes the pieces of
    the model in their own order. Relative paths are relative to the current directory. Raises DataError at learning if
    a file is missing or has another content, and MissingPackageError if the library sentencepiece is not installed.
    """

    model: Path
    vocabulary: Path | None = None
    content: str = field(init=False, default="")  # prepared data are named by a unit's repr: by the files' content

    signal = False
    tokenizer = SentencePieceTokenizer

    def __post_init__(self) -> None:
        files = [path.expanduser() for path in (self.model, self.vocabulary) if path is not None]
        whole = (path for path in files if path.is_file() and path.stat().st_size <= LARGEST)
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in whole))
        object.__setattr__(self, "content", digest.hexdigest())

    def learn(self, texts: Iterable[str]) -> SentencePieceTokenizer:
        model = _read(self.model)
        if self.vocabulary is None:
            library = _library(model)
            return SentencePieceTokenizer(model, spoken(map(library.id_to_piece, range(len(library)))))
        return SentencePieceTokenizer(model, spoken(read_vocabulary(self.vocabulary)))


def spoken(tokens: Iterable[str]) -> list[str]:
    """The tokens that are not special, in their order."""
    return [token for token in tokens if token not in SPECIALS]


def read_vocabulary(path: Path) -> list[str]:
    """The tokens of a JSON file that maps each token to its id, in the order of the ids.

    Raises DataError if the file is missing, is no such file, or if its ids are not 0 to their number less 1.
    """
    try:
        ids = json.loads(_read(path))
        found = sorted(ids, key=ids.__getitem__)
        if not isinstance(ids, dict) or [ids[token] for token in found] != list(range(len(found))):
            raise TypeError("its ids are not 0, 1, 2 and so on")
    except RecursionError:
        raise DataError(f"{path} is no vocabulary in JSON: it is nested too deep") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is no vocabulary in JSON, a table of tokens and their ids: {error}") from error
    return found


def _read(path: Path) -> bytes:
    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): name the file of a SentencePiece model") from error


def _library(model: bytes) -> SentencePieceProcessor:
    """The SentencePiece model in the bytes of its file."""
    try:
        import sentencepiece
    except ImportError as error:
        raise MissingPackageError(
            "a tokenizer of SentencePiece needs sentencepiece, which is not installed: pip install 'transduce[marian]'"
        ) from error
    try:
        library = sentencepiece.SentencePieceProcessor()
        library.LoadFromSerializedProto(model)  # also if it is empty, which the constructor would take for none
        return library
    except RuntimeError as error:
        raise DataError(f"this is no SentencePiece model: {error}; name a file such as source.spm") from error
