"""Heads of attention that follow syntax. For each relation of a dependency tree, a head may look from a word to its
governor, or from a governor to the word (Clark et al., "What does BERT look at?", BlackboxNLP 2019; Voita et al., ACL
2019).

H heads, T queries, S keys, V words of a sentence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from transduce.answers.batches import windows
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.registry import model_name
from transduce.data import conll
from transduce.data.corpora import text_lines
from transduce.wings.alignment.sides import parts_of_words, read_side
from transduce.wings.looking.inspection.heads import attention_maps

LEAST = 20  # least number of words with a relation in each half; rarer relations are left out
COLUMNS = tuple(map(conll.NAMES.index, ("form", "head", "deprel")))

Direction = Literal["to the governor", "from the governor"]
DIRECTIONS: tuple[Direction, ...] = ("to the governor", "from the governor")


@dataclass(frozen=True)
class Parsed:
    """A sentence of ``words`` with its dependency tree. Word v depends on word ``governors[v]``, a number from 0, by
    the relation ``relations[v]``. The governor of the root is -1.
    """

    words: tuple[str, ...]
    governors: tuple[int, ...]
    relations: tuple[str, ...]


def read_parsed(path: Path) -> list[Parsed]:
    """The sentences of a CoNLL-U file (``.conllu`` or ``.conllu.gz``). Relations lose their subtypes: "nsubj:pass"
    becomes "nsubj". Raises UserError for a sentence with too few columns or with a governor that is no word of it, and
    for a file without sentences.
    """
    found = []
    for sentence in conll.sentences((line.encode() for line in text_lines(path)), COLUMNS, universal=True):
        if sentence.broken is not None:
            number, problem = sentence.broken
            raise UserError(f"{path}, line {number}: {problem}; --conllu takes Universal Dependencies")
        forms, numbers, relations = (column.decode().split(" ") for column in sentence.columns)
        if not all(number.isdecimal() and len(number) < 10 and int(number) <= len(forms) for number in numbers):
            raise UserError(
                f"{path}, line {sentence.number}: the column head has a value that is no word of the sentence; numbers "
                f"from 0 to {len(forms)} were expected"
            )
        governors = tuple(int(number) - 1 for number in numbers)
        found.append(Parsed(tuple(forms), governors, tuple(each.partition(":")[0] for each in relations)))
    if not found:
        raise UserError(f"{path} has no sentences")
    return found


@dataclass(frozen=True)
class RelationHead:
    """The head that follows ``relation`` best, chosen on the first half of the sentences. All figures are measured on
    the second half.

    ``count`` is the number of words with the relation. ``accuracy`` is the share of them for which the word at one end
    of the relation attends more to the word at the other end than to any other word. ``direction`` says which end is
    the query. ``fixed`` is the accuracy of always guessing one relative position, ``offset``. This is the most frequent
    one in the first half, from the word to its governor.
    """

    relation: str
    count: int
    attention: str
    head: int
    direction: Direction
    accuracy: float
    offset: int
    fixed: float


class _Half(NamedTuple):
    """Counts over half of the sentences by relation: words, right answers [heads, 2 directions], relative positions."""

    words: Counter[str]
    right: dict[str, Tensor]
    offsets: dict[str, Counter[int]]


def syntactic_heads(
    transducer: Transducer, sentences: Sequence[Parsed], batch_size: int = 32
) -> tuple[list[RelationHead], int]:
    """The heads of the encoder's self-attention that follow each relation best, the most frequent relation first, and
    the number of sentences that were read.

    The model reads the words with spaces between them. Attention is merged to words: it is summed over the tokens of
    the key word, and averaged over the tokens of the query word. A sentence is left out if it is cut, or if the model's
    tokens divide it into other words. Raises UserError like ``attention_maps``, for a model whose encoder has no
    self-attention, and if no relation is frequent enough.
    """
    names: list[tuple[str, int]] = []
    halves = [_Half(Counter(), {}, defaultdict(Counter)) for _ in range(2)]
    read = 0
    for batch in windows(list(sentences), batch_size):
        for parsed, weights_HVV in _word_weights(transducer, batch, names):
            _count(halves[read % 2], parsed, weights_HVV)
            read += 1
    chosen, judged = halves
    relations = [name for name, count in judged.words.most_common() if min(count, chosen.words[name]) >= LEAST]
    if not relations:
        raise UserError(f"{read} sentences have no relation with {LEAST} words in each half: give a longer file")
    return [_best(relation, chosen, judged, names) for relation in relations], read


def _word_weights(
    transducer: Transducer, batch: Sequence[Parsed], names: list[tuple[str, int]]
) -> Iterator[tuple[Parsed, Tensor]]:
    """Yields each sentence with the weights of all heads [H, V, V], from word to word. The weight from a word to itself
    is 0. Appends the names of the heads to ``names`` once.
    """
    texts = [" ".join(parsed.words) for parsed in batch]
    maps = attention_maps(transducer, [(text, "") for text in texts])
    own = {name: weights for name, (kind, weights) in maps.heads.items() if kind == "source"}
    if not own:
        raise UserError(
            f"the encoder of this {model_name(type(transducer.model))} model has no self-attention with several heads"
        )
    if not names:
        names += [(name, head) for name, weights in own.items() for head in range(weights.shape[1])]
    parts = parts_of_words(transducer.source_tokenizer)
    for row, (parsed, text) in enumerate(zip(batch, texts, strict=True)):
        S = int(maps.source.lengths[row])
        side = read_side(transducer.source_tokenizer, text, range(S), S, parts)
        V = len(parsed.words)
        if {word for word in side.words if word is not None} != set(range(V)):
            continue  # the sentence is cut, or a word has no token of its own
        places = torch.tensor(side.places)
        member_SV = torch.nn.functional.one_hot(torch.tensor([side.words[place] for place in side.places]), V).float()
        weights_HSS = torch.cat([each[row] for each in own.values()]).cpu()[:, places][:, :, places]
        merged_HVV = (member_SV / member_SV.sum(0)).t() @ weights_HSS @ member_SV
        yield parsed, merged_HVV.masked_fill(torch.eye(V, dtype=torch.bool), 0.0)


def _count(half: _Half, parsed: Parsed, weights_HVV: Tensor) -> None:
    best_HV = weights_HVV.argmax(-1)
    for word, (governor, relation) in enumerate(zip(parsed.governors, parsed.relations, strict=True)):
        if governor < 0:
            continue
        half.words[relation] += 1
        half.offsets[relation][governor - word] += 1
        right_H2 = torch.stack([best_HV[:, word] == governor, best_HV[:, governor] == word], 1)
        half.right[relation] = half.right.get(relation, torch.zeros(right_H2.shape, dtype=torch.long)) + right_H2


def _best(relation: str, chosen: _Half, judged: _Half, names: Sequence[tuple[str, int]]) -> RelationHead:
    head, direction = divmod(int(chosen.right[relation].argmax()), 2)
    ((offset, _),) = chosen.offsets[relation].most_common(1)
    count = judged.words[relation]
    accuracy = int(judged.right[relation][head, direction]) / count
    fixed = judged.offsets[relation][offset] / count
    return RelationHead(relation, count, *names[head], DIRECTIONS[direction], accuracy, offset, fixed)


def lines_of(found: Sequence[RelationHead], read: int) -> list[str]:
    """A table for the terminal: a line for each relation."""
    width = max(len(each.attention) for each in found)
    head = f"{'relation':10}  words  {'attention':{width}} head  {'looks':17}  right  one place"
    return (
        [head]
        + [
            f"{each.relation:10}  {each.count:5}  {each.attention:{width}} {each.head:4}  {each.direction:17}  "
            f"{100 * each.accuracy:5.1f}  {100 * each.fixed:5.1f} at {each.offset:+d}"
            for each in found
        ]
        + [f"percent of words, second half of {read:,} sentences; heads and places were chosen on the first half"]
    )
