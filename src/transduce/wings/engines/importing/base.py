"""A checkpoint of another toolkit as a value, and how its tokens are numbered here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.types import BOS, PAD, SPECIALS, UNK
from transduce.wings.engines.foreign.marian import HUGGING_FACE, Numerics
from transduce.wings.engines.sentencepiece import SentencePieceTokenizer


@dataclass(frozen=True)
class Side:
    """The source's or the target's text. ``files`` are the paths of the SentencePiece model and, if there is one, of
    its vocabulary. ``model`` are the bytes of the former. ``tokens`` has the checkpoint's token of each id.
    """

    files: tuple[Path, ...]
    model: bytes
    tokens: Sequence[str]


@dataclass(frozen=True)
class Foreign:
    """A Marian Transformer in the terms of Hugging Face's format. The file may have another format.

    ``config`` has the values of config.json, ``tensors`` the parameters by Hugging Face's names, and ``generation`` the
    options of the search. ``silent`` is True if the search never writes padding and counts no probability of it.
    ``notes`` are lines for people.
    """

    folder: Path
    config: Table
    tensors: Mapping[str, Tensor]
    source: Side
    target: Side
    generation: Table = field(default_factory=dict)
    silent: bool = False
    numerics: Numerics = HUGGING_FACE
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Numbering:
    """How the tokens of one side are numbered here: ``rows`` has the checkpoint's id of each of ours.

    Ours begin with PAD, BOS, EOS and UNK. BOS is the token that starts a decoder, which may be padding: then one row
    of the checkpoint has two ids here.
    """

    tokenizer: SentencePieceTokenizer
    rows: list[int]

    @classmethod
    def of(cls, side: Side, config: Table) -> Numbering:
        """Raises UserError if the vocabulary has no token for an id of ``config``, or no unknown token."""
        if SPECIALS[UNK] not in side.tokens:
            raise UserError(f"the vocabulary has no {SPECIALS[UNK]}, which stands for unknown pieces; copy it again")
        names = ("pad_token_id", "decoder_start_token_id", "eos_token_id")
        pad, start, end = (config[name] for name in names)
        for name in names:
            if not 0 <= config[name] < len(side.tokens):
                raise UserError(f"{name} = {config[name]}: 0 to {len(side.tokens) - 1}, an id of the vocabulary")
        special = [pad, start, end, side.tokens.index(SPECIALS[UNK])]
        others = [place for place in range(len(side.tokens)) if place not in special]
        tokenizer = SentencePieceTokenizer(side.model, [side.tokens[place] for place in others])
        return cls(tokenizer, [*special, *others])

    def silenced(self, padding: bool) -> list[int]:
        """The ids of ours without a logit of their own: BOS, and PAD if ``padding``."""
        return [PAD, BOS] if padding else [BOS]


def read_json(path: Path) -> Table:
    """The table in a JSON file. Raises FileNotFoundError if there is no file, and UserError if it is no table."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; copy the whole folder")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is no JSON ({error}); copy it again") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} is no table in JSON; copy it again")
    return found
