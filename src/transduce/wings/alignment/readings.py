"""Outputs with their alignments: which source word each word of an output comes from, also in the place of an unknown
one.

Outputs may come from any search: a model with attention and a word aligner read each finished output once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from transduce.answers.answer import Answer, Output
from transduce.answers.text_model import TextModel
from transduce.core.errors import UserError
from transduce.core.protocols import Deriving, can
from transduce.core.types import EOS, SPECIALS, UNK
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.passing import touches
from transduce.wings.alignment.alignments import EVERY, EncodedPair, align_encoded, check_text, pair_alignments
from transduce.wings.alignment.attention_weights import AttentionChoice
from transduce.wings.alignment.sides import (
    Side,
    Span,
    parts_of_words,
    read_side,
    token_ends,
    word_numbers,
    words_of,
    written_side,
)
from transduce.wings.alignment.token_alignment import TokenAlignment


@dataclass(frozen=True)
class Reading:
    """An output and its alignment with the source. ``unknowns`` are the spans of <unk> in the output's text."""

    output: Output
    tokens: TokenAlignment
    unknowns: Sequence[Span] = ()

    @property
    def alignment(self) -> tuple[tuple[int, int], ...]:
        return self.tokens.links

    def replaced(self, dictionary: Mapping[str, str] | None = None) -> Reading:
        """The Reading of the output in which each <unk> is replaced by the source word that it comes from most (Jean et
        al., ACL 2015; Luong et al., ACL 2015).

        If the ``dictionary`` has an entry for that source word, the entry is used instead. An <unk> without a source
        word stays. There is no space before a word that touches the word before it in the source, if the translation of
        that word is before it in the output, too.
        """
        old, target = self.output.text, self.tokens.target
        text, read, moved = "", 0, list(range(len(old) + 1))  # where each character of the old text is in the new one
        for start, end in self.unknowns:
            place = self.tokens.source_place((start, end))
            if place is None:
                continue
            text += old[read:start]
            text = text.rstrip() if self._touches(place, len(old[:start].rstrip()), text.rstrip()) else text
            moved[read : start + 1] = [min(at, len(text)) for at in moved[read : start + 1]]
            word = self.tokens.source.spelling(place)
            text, read = text + (dictionary or {}).get(word, word), end
            moved[start + 1 :] = [len(text) + max(at - end, 0) for at in range(start + 1, len(old) + 1)]
        text += old[read:]
        spans = [(moved[start], moved[end]) for start, end in target.spans]
        words = words_of(text, spans) if target.parts else target.words
        changed = replace(self.tokens, target=Side(text, spans, words, target.parts))
        return Reading(replace(self.output, text=text), changed)

    def _touches(self, place: int, end: int, before: str) -> bool:
        """True if the source token touches the token before it, and can do so in the output after the text ``before``,
        whose last character had ``end`` as its end.
        """
        source = self.tokens.source
        if not place or self.tokens.source_place((end - 1, end)) != place - 1:
            return False
        (first, middle), (_, last) = source.spans[place - 1 : place + 1]
        return touches(source.text[first:middle], source.text[middle:last], before)


def readings(
    model: TextModel,
    answers: Sequence[Answer],
    rows: Sequence[Sequence[int]] | None = None,
    choice: AttentionChoice = EVERY,
    batch_size: int = 64,
) -> list[list[Reading]]:
    """For each answer, in order, a Reading of each of its outputs by the model itself. For a phrase-based model, the
    links inside the phrases of the output are the alignment.

    ``rows`` has the source of each answer as the model reads it (``SourceRow.row``); by default sources are read again.
    Raises UserError if the source is a signal. Also raises it for another model that is no word aligner and has no
    attention to the source, or not the chosen one.
    """
    check_text(model.source_tokenizer)
    if rows is None:
        rows = [source.row for source in model.read([answer.request.text for answer in answers])]
    parts = parts_of_words(model.target_tokenizer)
    if can(type(model.model), Deriving):
        return [
            [_by_phrases(model, answer.request.text, output, parts) for output in answer.outputs] for answer in answers
        ]
    outputs = [
        EncodedPair(answer.request.text, row, output.ids, written_side(model.target_tokenizer, output, parts))
        for row, answer in zip(rows, answers, strict=True)
        for output in answer.outputs
    ]
    found = iter(align_encoded(model, outputs, [choice], batch_size))
    return [[_reading(model, output, next(found)[0]) for output in answer.outputs] for answer in answers]


def readings_by(
    aligner: TextModel,
    model: TextModel,
    answers: Sequence[Answer],
    choice: AttentionChoice = EVERY,
    batch_size: int = 64,
) -> list[list[Reading]]:
    """For each answer of ``model``, in order, a Reading of each of its outputs by another model, the ``aligner``.

    The aligner reads the texts of source and output. If the source has labels or features in further columns and the
    aligner has one column, it reads the last column.
    """
    pairs = [
        (
            answer.request.text if aligner.source_tokenizer.columns > 1 else answer.request.text.rpartition("\t")[2],
            output.text,
        )
        for answer in answers
        for output in answer.outputs
    ]
    found = iter(pair_alignments(aligner, pairs, choice, batch_size=batch_size))
    return [[_reading(model, output, next(found)) for output in answer.outputs] for answer in answers]


def check_unknowns(tokenizer: Tokenizer) -> None:
    """Raises UserError if <unk> stands for characters within a word of the target: no source word can replace these."""
    if parts_of_words(tokenizer) and " " not in tokenizer.decode([UNK, UNK]):
        raise UserError(
            "unknowns of this model are characters within words, and no source word can replace them; that works for "
            'models with data.units.target = "words", "symbols" or "characters"'
        )


def _by_phrases(model: TextModel, source: str, output: Output, parts: bool) -> Reading:
    """The Reading of an output of a phrase-based model: a token's weight is 1 for the source token that its phrase
    links it to. A token without a link comes from the null word.
    """
    links = [] if output.derived is None else output.derived.links
    texts = [] if output.derived is None else output.derived.target_texts
    spans: list[Span] = []
    for text in texts:
        start = spans[-1][1] if spans else 0
        spans.append((start, start + len(text)))
    size = len(model.source_tokenizer.spans(source))
    read = read_side(model.source_tokenizer, source, range(size), size, parts_of_words(model.source_tokenizer))
    weights_TS = torch.zeros(len(links), size)
    linked = torch.tensor(links) >= 0
    weights_TS[linked, torch.tensor(links)[linked]] = 1.0
    words = words_of(output.text, spans) if parts else word_numbers(i != EOS for i in output.ids)
    return Reading(
        output, TokenAlignment(weights_TS, read, Side(output.text, spans, words, parts), 1.0 - weights_TS.sum(1))
    )


def _reading(model: TextModel, output: Output, found: TokenAlignment) -> Reading:
    """The Reading of an output of ``model`` with the alignment ``found``. A token <unk> may begin with a space, which
    is outside its span.
    """
    ends = token_ends(model.target_tokenizer, output)
    unknowns = [(end - len(SPECIALS[UNK]), end) for end, token in zip(ends, output.ids, strict=True) if token == UNK]
    return Reading(output, found, unknowns)
