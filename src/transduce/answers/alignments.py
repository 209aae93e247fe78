"""Which source word each word of an output or of a given target comes from: by a word aligner, by attention, or by the
phrases of a phrase-based model.

S columns of the source, T target tokens, W source words, V target words. Outputs may come from any search: a model with
attention and a word aligner read each finished output once more.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from transduce.answers.answer import Answer, Output
from transduce.answers.attention_weights import AttentionChoice, attention_weights, check_attends
from transduce.answers.batches import sorted_batches
from transduce.answers.text_model import TextModel
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import SPACE
from transduce.errors import UserError
from transduce.links import Links
from transduce.protocols import Aligner, Deriving, can
from transduce.types import EOS, SPECIALS, UNK, Padded

EVERY = AttentionChoice()
Span = tuple[int, int]


@dataclass(frozen=True)
class Side:
    """The source or the target of a TokenAlignment: its text, its tokens, and the word that each token belongs to.

    ``spans`` has for each token the index of its first character in ``text``, and one past its last. ``words`` has the
    index of each token's word, or None for a token outside words, such as EOS. If tokens are ``parts`` of words, white
    space separates the words. Otherwise every token with an index in ``words`` is a word.
    """

    text: str
    spans: Sequence[Span]
    words: Sequence[int | None]
    parts: bool

    @cached_property
    def texts(self) -> list[str]:
        """The words, in order. If tokens are parts of words, words without tokens are included."""
        if self.parts:
            return self.text.split()
        return [self.text[slice(*span)] for span, word in zip(self.spans, self.words, strict=True) if word is not None]

    @property
    def places(self) -> list[int]:
        """The indices of the tokens that belong to words."""
        return [place for place, word in enumerate(self.words) if word is not None]

    def spelling(self, place: int) -> str:
        """The token with index ``place`` as the text spells it, without white space around it. A part of a word is
        extended to the letters, marks, digits and underscores around it.
        """
        start, end = self.spans[place]
        start += len(self.text[start:end]) - len(self.text[start:end].lstrip())
        if self.parts and _in_word(self.text[start]):
            end = start + sum(1 for _ in takewhile(_in_word, self.text[start:]))
            start -= sum(1 for _ in takewhile(_in_word, reversed(self.text[:start])))
        return self.text[start:end].rstrip()


@dataclass(frozen=True)
class TokenAlignment:
    """How much each target token comes from each source token: by posterior probabilities, or by attention.

    ``weights_TS``: a row for each token of ``target``, a column for each token of ``source``. ``null_T``: how much each
    target token comes from the null word, so from no source word; None for attention, which has none.
    """

    weights_TS: Tensor
    source: Side
    target: Side
    null_T: Tensor | None = None

    @cached_property
    def words_VI(self) -> Tensor:
        """[V, 1 + W]: how much each target word comes from the null word (column 0) and from each source word.

        Weights are summed over the tokens of a source word, and averaged over the tokens of a target word. The row of a
        target word without tokens is 0.
        """
        W, V = (1 + max((w for w in side.words if w is not None), default=-1) for side in (self.source, self.target))
        source, target = self.source.places, self.target.places
        source_words, target_words = (
            torch.tensor([word for word in side.words if word is not None], dtype=torch.long)
            for side in (self.source, self.target)
        )
        merged_TI = self.weights_TS.new_zeros(len(target), 1 + W)
        merged_TI.index_add_(1, 1 + source_words, self.weights_TS[target][:, source])
        if self.null_T is not None:
            merged_TI[:, 0] = self.null_T[target]
        sum_VI = merged_TI.new_zeros(V, 1 + W).index_add_(0, target_words, merged_TI)
        return sum_VI / torch.bincount(target_words, minlength=V).clamp(min=1)[:, None]

    @cached_property
    def links(self) -> tuple[tuple[int, int], ...]:
        """For each target word that has tokens, in order, the source word that it comes from most, as a pair of indices
        (source, target).

        A target word that comes most from the null word has no link. Empty if either side has no words.
        """
        V, positions = self.words_VI.shape
        if not V or positions == 1:
            return ()
        first = 0 if self.null_T is not None else 1
        best_V = self.words_VI[:, first:].argmax(1) + first
        real = sorted({word for word in self.target.words if word is not None})
        return tuple((int(best_V[word]) - 1, word) for word in real if best_V[word])

    def source_word(self, span: Span) -> str | None:
        """The source word that the target tokens in this span of the target's text come from most, the null word
        excepted. The word is that of the source token with the largest mean weight. None if the source has no words, or
        if no token is in the span.
        """
        start, end = span
        inside = [place for place, (first, last) in enumerate(self.target.spans) if first < end and start < last]
        places = self.source.places
        if not places or not inside:
            return None
        column = places[int(self.weights_TS[inside][:, places].mean(0).argmax())]
        return self.source.spelling(column)


@dataclass(frozen=True)
class Reading:
    """An output and its alignment with the source. ``unknowns`` are the spans of <unk> in the output's text."""

    output: Output
    tokens: TokenAlignment
    unknowns: Sequence[Span] = ()

    @property
    def alignment(self) -> tuple[tuple[int, int], ...]:
        return self.tokens.links

    def replaced(self, dictionary: Mapping[str, str] | None = None) -> str:
        """The output's text with each <unk> replaced by the source word that it comes from most (Jean et al., ACL 2015;
        Luong et al., ACL 2015).

        If the ``dictionary`` has an entry for that source word, the entry is used instead. An <unk> without a source
        word stays.
        """
        text = self.output.text
        for start, end in reversed(self.unknowns):
            word = self.tokens.source_word((start, end))
            if word is not None:
                text = text[:start] + (dictionary or {}).get(word, word) + text[end:]
        return text


def readings(
    model: TextModel,
    answers: Sequence[Answer],
    rows: Sequence[Any] | None = None,
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
        rows = [source.row for source in model.read([answer.request.source for answer in answers])]
    parts = parts_of_words(model.target_tokenizer)
    if can(type(model.model), Deriving):
        return [
            [_by_phrases(model, answer.request.source, output, parts) for output in answer.outputs]
            for answer in answers
        ]
    outputs = [
        _Encoded(answer.request.source, row, output.ids, _written(model.target_tokenizer, output, parts))
        for row, answer in zip(rows, answers, strict=True)
        for output in answer.outputs
    ]
    found = iter(_aligned(model, outputs, [choice], batch_size))
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
            answer.request.source
            if aligner.source_tokenizer.columns > 1
            else answer.request.source.rpartition("\t")[2],
            output.text,
        )
        for answer in answers
        for output in answer.outputs
    ]
    found = iter(pair_alignments(aligner, pairs, choice, batch_size=batch_size))
    return [[_reading(model, output, next(found)) for output in answer.outputs] for answer in answers]


def pair_alignments(
    model: TextModel,
    pairs: Sequence[tuple[str, str]],
    choice: AttentionChoice = EVERY,
    turned: bool = False,
    batch_size: int = 64,
) -> list[TokenAlignment]:
    """For each pair of a source and a target text, in order, its alignment.

    ``turned`` aligns source words to target words: then the alignment's source is the pair's target. Raises UserError
    if the model cannot align (see ``check_alignable``), if it has no such attention, or if ``turned`` is asked of
    attention.
    """
    return [found for (found,) in _aligned(model, _encoded(model, pairs), [choice], batch_size, turned)]


def alignments_by_head(
    model: TextModel, pairs: Sequence[tuple[str, str]], batch_size: int = 64
) -> dict[AttentionChoice, list[TokenAlignment]]:
    """The alignments of all pairs, in order, by each choice of attention to the source (``AttentionWeights.choices``):
    the mean of all attentions, and for each attention the mean of its heads and each head; each before and after the
    token is read.

    Raises UserError if there are no pairs, or if the model has no attention to its source.
    """
    check_alignable(model)
    check_attends(model.model)
    if not pairs:
        raise UserError("no pairs to align: give at least one source and its target")
    encoded = _encoded(model, pairs)
    choices = attention_weights(model, [encoded[0].source_ids], [encoded[0].target_ids]).choices
    found = _aligned(model, encoded, choices, batch_size)
    return dict(zip(choices, map(list, zip(*found, strict=True)), strict=True))


def links_of(alignments: Sequence[TokenAlignment]) -> Links:
    """The links between words of all pairs, as one ``Links``. Pair n is alignment n."""
    rows = [(pair, *link) for pair, found in enumerate(alignments) for link in found.links]
    return Links.of(len(alignments), *np.array(rows, np.int64).reshape(-1, 3).T)


def check_alignable(model: TextModel) -> None:
    """Raises UserError if the source is a signal. Also raises it if the model is no word aligner and does not write
    token by token. A model that passes may still lack attention to its source.
    """
    check_text(model.source_tokenizer)
    if not can(type(model.model), Aligner):
        check_attends(model.model)


def check_text(source: Tokenizer) -> None:
    """Raises UserError if the source is a signal."""
    if source.signal:
        raise UserError("alignments are between words, and a signal has none")


def check_unknowns(tokenizer: Tokenizer) -> None:
    """Raises UserError if <unk> stands for characters within a word of the target: no source word can replace these."""
    if parts_of_words(tokenizer) and " " not in tokenizer.decode([UNK, UNK]):
        raise UserError(
            "unknowns of this model are characters within words, and no source word can replace them; that works for "
            'models with data.units.target = "words", "symbols" or "characters"'
        )


def words_of(text: str, spans: Sequence[Span]) -> list[int | None]:
    """For each span, the index of the first word that shares a character with it, or None if there is none.

    Words are separated by white space. A span is the indices of its first character and one past its last.
    """
    number, numbers = -1, []
    for place, character in enumerate(text):
        number += not character.isspace() and (place == 0 or text[place - 1].isspace())
        numbers.append(None if character.isspace() else number)
    return [next((each for each in numbers[start:end] if each is not None), None) for start, end in spans]


def parts_of_words(tokenizer: Tokenizer) -> bool:
    """True if some entries of the vocabulary are longer than one character and begin with the mark of a word's
    beginning: then a word may have several tokens.
    """
    return any(isinstance(entry, str) and len(entry) > 1 and entry.startswith(SPACE) for entry in tokenizer.entries)


# --------------------------------------------------------------------- details


class _Encoded(NamedTuple):
    """A pair: the source's text, its ids, the target's ids, and the target as a Side."""

    source: str
    source_ids: Sequence[int]
    target_ids: Sequence[int]
    target: Side


def _encoded(model: TextModel, pairs: Sequence[tuple[str, str]]) -> list[_Encoded]:
    check_alignable(model)
    rows = [source.row for source in model.read([source for source, _ in pairs])]
    targets = [target for _, target in pairs]
    tokenizer, parts = model.target_tokenizer, parts_of_words(model.target_tokenizer)
    return [
        _Encoded(source, row, ids, _read(tokenizer, target, range(len(ids)), len(ids), parts))
        for (source, target), row, ids in zip(pairs, rows, tokenizer.encode(targets), strict=True)
    ]


def _aligned(
    model: TextModel,
    pairs: Sequence[_Encoded],
    choices: Sequence[AttentionChoice],
    batch_size: int,
    turned: bool = False,
) -> list[list[TokenAlignment]]:
    """For each pair, its alignments by ``choices``, in their order. A word aligner has one choice, ``EVERY``. Raises
    UserError for other choices of a word aligner, and for ``turned`` attention.
    """
    if can(type(model.model), Aligner):
        if [*choices] != [EVERY]:
            raise UserError(
                f"this {type(model.model).__name__} is a word aligner and has no attention: leave out the attention, "
                "the head, and whether the word is read"
            )
        batch = partial(_by_posterior, model, turned)
    elif turned:
        raise UserError(
            f"attention of this {type(model.model).__name__} aligns target words to source words only; for the other "
            "direction, give a run that was trained in that direction, or a word aligner"
        )
    else:
        batch = partial(_by_attention, model, choices)
    rows = [(max(len(pair.source_ids), len(pair.target_ids)), pair) for pair in pairs]
    return sorted_batches(rows, batch_size, partial(map, batch))


def _by_attention(
    model: TextModel, choices: Sequence[AttentionChoice], pairs: Sequence[_Encoded]
) -> list[list[TokenAlignment]]:
    found = attention_weights(model, [pair.source_ids for pair in pairs], [pair.target_ids for pair in pairs])
    parts = parts_of_words(model.source_tokenizer)
    every = [found.chosen(choice).cpu() for choice in choices]
    sides = [
        _read(model.source_tokenizer, pair.source, [first for first, _ in columns], len(pair.source_ids), parts)
        for pair, columns in zip(pairs, found.columns, strict=True)
    ]
    return [
        [
            TokenAlignment(weights_BTS[row, : len(pair.target_ids), : len(side.words)], side, pair.target)
            for weights_BTS in every
        ]
        for row, (pair, side) in enumerate(zip(pairs, sides, strict=True))
    ]


@torch.inference_mode()
def _by_posterior(model: TextModel, turned: bool, pairs: Sequence[_Encoded]) -> list[list[TokenAlignment]]:
    parts = parts_of_words(model.source_tokenizer)
    ids = [Padded.of([pair[side] for pair in pairs], torch.long).to(model.device) for side in (1, 2)]
    aligner: Any = model.model.reverse() if turned else model.model
    posterior_BTI = aligner.align(*(reversed(ids) if turned else ids)).float().cpu()
    found = []
    for pair, posterior_TI in zip(pairs, posterior_BTI, strict=True):
        size = len(pair.source_ids)
        sides = [_read(model.source_tokenizer, pair.source, range(size), size, parts), pair.target]
        source, target = reversed(sides) if turned else sides
        T, S = len(target.words), len(source.words)
        found.append([TokenAlignment(posterior_TI[:T, 1 : 1 + S], source, target, posterior_TI[:T, 0])])
    return found


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
    read = _read(model.source_tokenizer, source, range(size), size, parts_of_words(model.source_tokenizer))
    weights_TS = torch.zeros(len(links), size)
    linked = torch.tensor(links) >= 0
    weights_TS[linked, torch.tensor(links)[linked]] = 1.0
    words = words_of(output.text, spans) if parts else _numbered(i != EOS for i in output.ids)
    return Reading(
        output, TokenAlignment(weights_TS, read, Side(output.text, spans, words, parts), 1.0 - weights_TS.sum(1))
    )


def _reading(model: TextModel, output: Output, found: TokenAlignment) -> Reading:
    """The Reading of an output of ``model`` with the alignment ``found``. A token <unk> may begin with a space, which
    is outside its span.
    """
    ends = _ends(model.target_tokenizer, output)
    unknowns = [(end - len(SPECIALS[UNK]), end) for end, token in zip(ends, output.ids, strict=True) if token == UNK]
    return Reading(output, found, unknowns)


def _read(tokenizer: Tokenizer, text: str, places: Sequence[int], length: int, parts: bool) -> Side:
    """A given text as a Side. The text has ``length`` ids. ``places`` are the indices of the ids with which its tokens
    begin.

    Labels and EOS are not words.
    """
    spans = [*tokenizer.spans(text)[: length - 1], (len(text), len(text))]
    chosen = [spans[place] for place in places]
    words = words_of(text, chosen) if parts else _numbered(start < end for start, end in chosen)
    return Side(text, chosen, words, parts)


def _written(tokenizer: Tokenizer, output: Output, parts: bool) -> Side:
    """An output of the model as a Side. ``parts``: whether tokens are parts of words."""
    ends = _ends(tokenizer, output)
    spans = list(zip([0, *ends], ends, strict=False))
    return Side(
        output.text, spans, words_of(output.text, spans) if parts else _numbered(i != EOS for i in output.ids), parts
    )


def _ends(tokenizer: Tokenizer, output: Output) -> list[int]:
    """One past the last character of each token in the output's text. Decodes one more token at a time: that works for
    every tokenizer.
    """
    return [len(tokenizer.decode(output.ids[: place + 1])) for place in range(len(output.ids))]


def _numbered(real: Iterable[bool]) -> list[int | None]:
    """For each True its number among them, from 0; for each False, None."""
    number = itertools.count()
    return [next(number) if each else None for each in real]


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character == "_"
