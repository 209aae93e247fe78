"""The word vectors that a trained run has learned: its embedding tables, and its encoder's states of single words."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

import numpy as np
from torch import Tensor

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import SPECIALS
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import SPACE
from transduce.runs.loading import load
from transduce.wings.vectors import files
from transduce.wings.vectors.representations.sentences import members_with, sentence_vectors, stacked
from transduce.wings.vectors.table import Vectors

Table = Literal["source", "target", "states"]
TABLES = ("source", "target", "states")


def open_vectors(
    path: str | Path,
    words: Collection[str] | None = None,
    limit: int | None = None,
    first_of_two: bool = False,
    table: Table | None = None,
) -> Vectors:
    """The word vectors of a file (``vectors.files.load``), or of a run directory (``vectors_of``).

    ``words`` keeps only these words, in any case; None keeps all. ``limit`` is the largest number of words. ``table``
    chooses the vectors of a run; the default is "source", or "target" for a language model. Raises UserError if
    ``table`` is given for a file.
    """
    path = Path(path).expanduser()
    if not path.is_dir():
        if table is not None:
            raise UserError(f"--table {table}: {path} is a file of vectors, and has no tables; leave the option out")
        return files.load(path, words, limit, first_of_two)
    transducer = load(path)
    return vectors_of(transducer, table or ("source" if transducer.conditional else "target"), words, limit, str(path))


def vectors_of(
    transducer: Transducer,
    table: Table,
    words: Collection[str] | None = None,
    limit: int | None = None,
    name: str = "the run",
) -> Vectors:
    """The vectors of a run's vocabulary: the embedding table of its "source" or of its "target", or with "states" the
    vector that ``sentence_vectors`` gives each word alone.

    The mark of a space before a word is removed from tokens; of two tokens that then are equal, the one with the mark
    counts. Special tokens are left out. With "states" and ``words``, the words are these, whether or not they are in
    the vocabulary. ``limit`` keeps the first words of the vocabulary. Raises UserError if the model has no such table.
    """
    if table not in TABLES:
        raise UserError(f"table = {table!r}: expected one of {', '.join(TABLES)}")
    if table == "states":
        chosen = list(dict.fromkeys(words if words is not None else spelled(transducer.source_tokenizer)))[:limit]
        return Vectors(tuple(chosen), stacked(sentence_vectors(transducer, chosen)), name=name)
    tokenizer = transducer.source_tokenizer if table == "source" else transducer.target_tokenizer
    weight = _weight(transducer.model, "encoder" if table == "source" else "decoder")
    found = spelled(tokenizer)
    if weight is None or len(weight) < max(found.values(), default=0) + 1:
        raise UserError(
            f"{name} has no embedding table of its {table}'s tokens; choose another one with --table "
            f"({', '.join(TABLES)})"
        )
    wanted = None if words is None else {word.upper() for word in words}
    kept = [word for word in found if wanted is None or word.upper() in wanted][:limit]
    if not kept:
        raise UserError(f"{name} has none of the words that are wanted: its {table} has other words, or parts of words")
    matrix_VD = weight.detach().float().cpu().numpy()[[found[word] for word in kept]]
    return Vectors(tuple(kept), matrix_VD.astype(np.float32), name=name)


def spelled(tokenizer: Tokenizer) -> dict[str, int]:
    """The id of each token that is text, by its spelling without the mark of a space before it."""
    named = [(entry, place) for place, entry in enumerate(tokenizer.entries) if place >= len(SPECIALS)]
    texts = [(entry, place) for entry, place in named if isinstance(entry, str)]
    after_space = [(entry.removeprefix(SPACE), place) for entry, place in texts if entry.startswith(SPACE)]
    found = {word: place for word, place in texts if not word.startswith(SPACE)} | dict(after_space)
    return {word: place for word, place in sorted(found.items(), key=lambda item: item[1]) if word}


def _weight(model: Model, part: str) -> Tensor | None:
    """The table of the embedding of a model's encoder or decoder, a parameter [V, D]; None if there is none, or if
    several members have one.
    """
    members = members_with(model, part)
    embedding = getattr(getattr(members[0], part), "embedding", None) if len(members) == 1 else None
    return getattr(embedding, "weight", None)
