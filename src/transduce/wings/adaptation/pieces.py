"""Vocabularies that grow: new pieces after the old ones, and the old tokens whose vectors a new token starts from."""

from __future__ import annotations

import itertools
import json
import math
import re
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Sequence

import tokenizers

from transduce.core.config import Table
from transduce.core.errors import DataError
from transduce.core.types import SPECIALS, UNK
from transduce.data.tokenizers.base import Tokenizer

LEAST, SHARE = 500, 4  # most new pieces: this many, or one for every SHARE old ones if these are more
TAG = re.compile(r"▁?__\w+__")  # a language's tag, such as "__de__"


def grown(record: Table, theirs: Table) -> Table:
    """The record of a tokenizer of pieces with the new pieces of another one of the same kind, which was learned from
    new texts. Old pieces keep their ids, and new ones follow.

    Letters that are new are all taken, and then the most frequent new pieces, at most one for every four old ones, or
    500. A ``bpe`` vocabulary has the old merges first, so a text is cut as before, and then new merges join its pieces.
    A new ``unigram`` piece has its probability in the other model, but is at least a little more probable than its old
    cut. Raises DataError if the two are of different kinds.
    """
    kind = record["model"]["type"]
    if theirs["model"]["type"] != kind:
        raise DataError(
            f"a vocabulary of {kind} pieces cannot be extended by one of {theirs['model']['type']}: use the same units"
        )
    most = max(LEAST, len(record["model"]["vocab"]) // SHARE)
    grow = _grown_merges if kind == "BPE" else _grown_scores
    return {**record, "model": grow(record["model"], theirs["model"], most)}


def _grown_merges(model: Table, theirs: Table, most: int) -> Table:
    vocabulary, written = dict(model["vocab"]), [*model["merges"]]
    merges, more = ([_pair(merge) for merge in each["merges"]] for each in (model, theirs))
    ranks = {merge: rank for rank, merge in enumerate(merges)}
    made = {first + second for first, second in more}
    for piece in sorted(theirs["vocab"], key=theirs["vocab"].get):
        if piece not in made:  # a letter
            vocabulary.setdefault(piece, len(vocabulary))
    size = len(vocabulary)
    as_text = bool(written) and isinstance(written[0], str)
    for first, second in more:
        if len(vocabulary) >= size + most:
            break
        if first + second in vocabulary:
            continue
        joined, *rest = _cut(first + second, ranks)
        for part in rest:
            ranks[joined, part] = len(ranks)
            written.append(f"{joined} {part}" if as_text else [joined, part])
            joined += part
            vocabulary.setdefault(joined, len(vocabulary))
    return {**model, "vocab": vocabulary, "merges": written}


def _pair(merge: str | Sequence[str]) -> tuple[str, str]:
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second


def _cut(word: str, ranks: dict[tuple[str, str], int]) -> list[str]:
    """The pieces of a word by byte-pair encoding."""
    parts = list(word)
    while True:
        found = [(ranks[pair], place) for place, pair in enumerate(itertools.pairwise(parts)) if pair in ranks]
        if not found:
            return parts
        _, place = min(found)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]


def _grown_scores(model: Table, theirs: Table, most: int) -> Table:
    scores: dict[str, float] = dict(model["vocab"])
    least = min((score for piece, score in model["vocab"][len(SPECIALS) :]), default=0.0)
    new = [(piece, score) for piece, score in theirs["vocab"][len(SPECIALS) :] if piece not in scores]
    added: dict[str, float] = {piece: least for piece, _ in new if len(piece) == 1}
    longer = [(piece, score) for piece, score in new if len(piece) > 1]
    old = {**scores, **added}
    for piece, score in sorted(longer, key=lambda each: (-each[1], each[0]))[:most]:
        added[piece] = max(score, _best(piece, old) + 1e-3)
    return {**model, "vocab": [*model["vocab"], *map(list, added.items())]}


def _best(word: str, scores: dict[str, float]) -> float:
    """The log-probability of a word's best cut; -inf without one."""
    best = [0.0]
    for end in range(1, len(word) + 1):
        best.append(max(best[begin] + scores.get(word[begin:end], -math.inf) for begin in range(end)))
    return best[-1]


# --------------------------------------------------------------------- parts


def parts(tokenizer: Tokenizer, entries: Iterable[Hashable]) -> dict[Hashable, list[int]]:
    """The old tokens that each new entry starts from: their ids in the vocabulary of ``tokenizer``, which lacks the
    entries. Entries without any are left out.

    A piece starts from the pieces of its old cut, and a letter or a word from the one in another case or without
    accents. A language's tag, and a label, starts from the other tags or the other labels of its column.
    """
    every = tokenizer.entries
    old = {entry: number for number, entry in enumerate(every)}
    library = _library(tokenizer.as_json())
    found = {}
    for entry in entries:
        if not isinstance(entry, str):
            column = entry[0] if isinstance(entry, tuple) and entry else None
            found[entry] = [number for each, number in old.items() if isinstance(each, tuple) and each[0] == column]
        elif TAG.fullmatch(entry):
            found[entry] = [number for each, number in old.items() if isinstance(each, str) and TAG.fullmatch(each)]
        else:
            cuts = [_ids(text, old, library) for text in _variants(entry)]
            known = next(
                (ids for ids in cuts if ids and UNK not in ids), [number for number in cuts[0] if number != UNK]
            )
            found[entry] = known if any(every[number] != "▁" for number in known) else []
    return {entry: numbers for entry, numbers in found.items() if numbers}


def _variants(text: str) -> Iterator[str]:
    """The text, then in lower case, without accents, and both."""
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    yield from dict.fromkeys((text, text.lower(), plain, plain.lower()))


def _ids(text: str, old: dict[Hashable, int], library: tokenizers.Tokenizer | None) -> list[int]:
    if text in old:
        return [old[text]]
    if library is None or isinstance(library.model, tokenizers.models.WordLevel):
        return []
    return [token.id for token in library.model.tokenize(text)]


def _library(record: object) -> tokenizers.Tokenizer | None:
    """The library's tokenizer in a record, or in a part of it; None if there is none."""
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("model"), dict):
        return tokenizers.Tokenizer.from_str(json.dumps(record))
    return next((found for value in record.values() if (found := _library(value)) is not None), None)
