"""Which source word each word of an output comes from, by the model's attention.

S columns of the source, T target tokens. Any search may have found the outputs. The model reads each once more, by
teacher forcing.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from transduce.answers.answer import Answer, Output
from transduce.answers.attention_weights import attention_weights
from transduce.answers.batches import sorted_batches
from transduce.answers.text_model import TextModel
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import SPACE
from transduce.errors import UserError
from transduce.types import EOS, SPECIALS, UNK

Span = tuple[int, int]


@dataclass(frozen=True)
class Side:
    """The source or the output of a Reading: its text, its tokens, and the word that each token belongs to.

    ``spans`` are the first character of each token in ``text``, and one past its last. ``words`` are the number of each
    token's word, from 0, or None for a token outside words, such as EOS. If tokens are ``parts`` of words, white space
    separates the words. Otherwise every token is a word.
    """

    text: str
    spans: Sequence[Span]
    words: Sequence[int | None]
    parts: bool

    @property
    def places(self) -> list[int]:
        """The indices of the tokens that belong to words."""
        return [place for place, word in enumerate(self.words) if word is not None]

    def spelling(self, place: int) -> str:
        """The token as the text spells it. A part of a word is extended to the letters and digits around it."""
        start, end = self.spans[place]
        start += len(self.text[start:end]) - len(self.text[start:end].lstrip())
        if self.parts and _in_word(self.text[start]):
            end = start + sum(1 for _ in takewhile(_in_word, self.text[start:]))
            start -= sum(1 for _ in takewhile(_in_word, reversed(self.text[:start])))
        return self.text[start:end].rstrip()


@dataclass(frozen=True)
class Reading:
    """An output and the attention of its tokens to the source.

    ``weights_TS``: a row for each token of the output, a column for each token of ``source``. Averaged over heads, and
    over all attentions to the source unless one was chosen.
    """

    output: Output
    weights_TS: Tensor
    source: Side
    target: Side

    @cached_property
    def alignment(self) -> tuple[tuple[int, int], ...]:
        """For each target word, in order, the source word with the most attention, as (source, target), both counted
        from 0.

        The attention to a source word is the sum over its tokens, averaged over the target word's tokens. Empty if
        either side has no words.
        """
        source_words, target_words = (
            [word for word in side.words if word is not None] for side in (self.source, self.target)
        )
        if not source_words or not target_words:
            return ()
        weights_TS = self.weights_TS[self.target.places][:, self.source.places]
        W, V = max(source_words) + 1, max(target_words) + 1
        merged_TW = weights_TS.new_zeros(len(weights_TS), W).index_add_(1, torch.tensor(source_words), weights_TS)
        merged_VW = merged_TW.new_zeros(V, W).index_add_(0, torch.tensor(target_words), merged_TW)
        best_V = merged_VW.argmax(1).tolist()
        return tuple((best_V[word], word) for word in sorted(set(target_words)))

    def replaced(self, dictionary: Mapping[str, str] | None = None) -> str:
        """The output's text with each <unk> replaced by the source word with the most attention (Jean et al., ACL 2015;
        Luong et al., ACL 2015).

        If the ``dictionary`` has an entry for that source word, the entry is used instead. If the source has no words,
        nothing is replaced.
        """
        text = self.output.text
        places = self.source.places
        for place in reversed(range(len(self.output.ids))):
            if self.output.ids[place] == UNK and places:
                column = places[int(self.weights_TS[place, places].argmax())]
                word = self.source.spelling(column)
                _, end = self.target.spans[place]
                text = text[: end - len(SPECIALS[UNK])] + (dictionary or {}).get(word, word) + text[end:]
        return text


def readings(
    model: TextModel,
    answers: Sequence[Answer],
    rows: Sequence[Any] | None = None,
    attention: str | None = None,
    batch_size: int = 64,
) -> list[list[Reading]]:
    """For each answer, in order, a Reading of each of its outputs.

    ``rows`` has the source of each answer as the model reads it (``SourceRow.row``); by default sources are read again.
    ``attention`` is the name of one attention of the model; by default all of them are averaged. Raises UserError if
    the source is a signal, or if the model has no attention to the source or none of that name.
    """
    check_alignable(model.source_tokenizer)
    if rows is None:
        rows = [source.row for source in model.read([answer.request.source for answer in answers])]
    parts = _parts_of_words(model.source_tokenizer), _parts_of_words(model.target_tokenizer)
    each = [
        (max(len(row), len(output.ids)), (answer.request.source, row, output))
        for row, answer in zip(rows, answers, strict=True)
        for output in answer.outputs
    ]
    read = iter(sorted_batches(each, batch_size, partial(map, partial(_readings, model, attention, parts))))
    return [[next(read) for _ in answer.outputs] for answer in answers]


def check_alignable(source: Tokenizer) -> None:
    """Raises UserError if the source is a signal."""
    if source.signal:
        raise UserError("alignments are between words, and a signal has none")


def check_unknowns(tokenizer: Tokenizer) -> None:
    """Raises UserError if <unk> stands for characters within a word of the target: no source word can replace these."""
    if _parts_of_words(tokenizer) and " " not in tokenizer.decode([UNK, UNK]):
        raise UserError(
            "unknowns of this model are characters within words, and no source word can replace them; that works for "
            'models with data.units.target = "words", "symbols" or "characters"'
        )


def words_of(text: str, spans: Sequence[Span]) -> list[int | None]:
    """For each span, the number of the first word that shares a character with it, or None if there is none.

    Words are separated by white space and counted from 0. A span is its first character and one past its last.
    """
    number, numbers = -1, []
    for place, character in enumerate(text):
        number += not character.isspace() and (place == 0 or text[place - 1].isspace())
        numbers.append(None if character.isspace() else number)
    return [next((each for each in numbers[start:end] if each is not None), None) for start, end in spans]


# --------------------------------------------------------------------- details


def _readings(
    model: TextModel, attention: str | None, parts: tuple[bool, bool], rows: Sequence[tuple[str, list[int], Output]]
) -> list[Reading]:
    found = attention_weights(model, [ids for _, ids, _ in rows], [output.ids for _, _, output in rows])
    if attention is not None and attention not in found.weights:
        raise UserError(f"no attention {attention!r} to the source: there is {', '.join(found.weights)}")
    chosen = list(found.weights.values()) if attention is None else [found.weights[attention]]
    weights_BTS = torch.stack(chosen).mean(0).float().cpu()
    return [
        Reading(
            output,
            weights_TS[: len(output.ids), : len(columns)],
            _source(model.source_tokenizer, source, len(ids), [first for first, _ in columns], parts[0]),
            _target(model.target_tokenizer, output, parts[1]),
        )
        for (source, ids, output), columns, weights_TS in zip(rows, found.columns, weights_BTS, strict=True)
    ]


def _source(tokenizer: Tokenizer, text: str, length: int, places: Sequence[int], parts: bool) -> Side:
    """The source's columns as a Side. The source has ``length`` ids; ``places`` has the first id of each column.

    Labels and EOS are not words.
    """
    spans = [*tokenizer.spans(text)[: length - 1], (len(text), len(text))]
    chosen = [spans[place] for place in places]
    words = words_of(text, chosen) if parts else _numbered(start < end for start, end in chosen)
    return Side(text, chosen, words, parts)


def _target(tokenizer: Tokenizer, output: Output, parts: bool) -> Side:
    """Finds the span of each token by decoding one more token at a time: that works for every tokenizer."""
    ends = [len(tokenizer.decode(output.ids[: place + 1])) for place in range(len(output.ids))]
    spans = list(zip([0, *ends], ends, strict=False))
    return Side(
        output.text, spans, words_of(output.text, spans) if parts else _numbered(i != EOS for i in output.ids), parts
    )


def _numbered(real: Iterable[bool]) -> list[int | None]:
    """For each True its number among them, from 0; for each False, None."""
    number = itertools.count()
    return [next(number) if each else None for each in real]


def _parts_of_words(tokenizer: Tokenizer) -> bool:
    """True if some entries of the vocabulary mark the beginning of a word: then a word may have several tokens."""
    return any(isinstance(entry, str) and len(entry) > 1 and entry.startswith(SPACE) for entry in tokenizer.entries)


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character == "_"
