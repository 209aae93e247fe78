"""Fills the embeddings of a new model with the word vectors of files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch
from torch import nn

from transduce.core.config.errors import ConfigError
from transduce.core.protocols import TakesVectors, can
from transduce.core.types import SPECIALS
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import SPACE
from transduce.wings.vectors import files
from transduce.wings.vectors.table import Vectors


def fill_tables(model: nn.Module, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Fills each module of the model that can take vectors, in place. ``tokenizer`` is the tokenizer of the source.
    Returns a line for people for each file.

    Raises UserError if a file cannot be read. Raises ConfigError if its vectors have another width, or if it has none
    of the tokens.
    """
    tables = [module for module in model.modules() if can(type(module), TakesVectors) and module.file is not None]
    return tuple(_fill(table, tokenizer) for table in tables)  # type: ignore[arg-type]


def _fill(table: TakesVectors, tokenizer: Tokenizer) -> str:
    assert table.file is not None
    entries = list(enumerate(tokenizer.entries))[len(SPECIALS) :]
    words = [(place, word) for place, entry in entries if (word := _spelling(entry)) is not None]
    vectors = files.load(table.file, [word for _, word in words] or [""])
    if vectors.width != table.width:
        raise ConfigError(
            "model.encoder.embedding",
            f"{table.file} has vectors of {vectors.width} numbers, and the embedding has {table.width}: make the width "
            "of the embedding equal (embedding_width, width or word_width)",
        )
    own = [(place, word) for place, word in words if vectors.place(word) is not None]
    filled = _filled(table, own, vectors)
    others = sorted({*words} - {*own}) if vectors.subwords is not None else []
    from_subwords = _filled(table, others, vectors)
    more = f", {from_subwords:,} of them from subwords" if from_subwords else ""
    return f"vectors of {table.file}: {filled + from_subwords:,} of {len(tokenizer):,} tokens{more}"


def _filled(table: TakesVectors, words: Sequence[tuple[int, str]], vectors: Vectors) -> int:
    """Fills the table with the vectors of the given words and ids. Returns the number of words that have a vector."""
    if not words:
        return 0
    vectors_ND = vectors.known([word for _, word in words]).astype(np.float32)
    return table.fill(torch.tensor([place for place, _ in words]), torch.from_numpy(vectors_ND))


def _spelling(entry: Hashable) -> str | None:
    """The word of an entry of a vocabulary, without the mark of a space. None if the entry is no word."""
    if isinstance(entry, tuple):  # a whole word of a "spelled" source
        return entry[1] if entry[0] == "word" else None
    return entry.removeprefix(SPACE) if isinstance(entry, str) else None
