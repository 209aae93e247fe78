"""From which word of the source each word of an output was written, by the attention it was written with.

S columns of the source, T target tokens; the outputs are of any search, and are teacher-forced once.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import takewhile

import torch
from torch import Tensor

from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import SPACE
from transduce.data.windows import sorted_batches, windows
from transduce.errors import UserError
from transduce.inspect.taps import tapped_attention
from transduce.outputs import Output
from transduce.transducer import Transducer
from transduce.types import EOS, SPECIALS, UNK

Span = tuple[int, int]


@dataclass(frozen=True)
class Side:
    """A text, where each token stands in it, and of which word it is a part, counted from 0; None: of none.

    Words are what white space separates where pieces are ``parts`` of words; else every token is one.
    """

    text: str
    spans: Sequence[Span]
    words: Sequence[int | None]
    parts: bool

    @property
    def places(self) -> list[int]:
        """Of the tokens that belong to words."""
        return [place for place, word in enumerate(self.words) if word is not None]

    def spelling(self, place: int) -> str:
        """The token as it stands in the text, and a part of a word with the letters around it, punctuation not."""
        start, end = self.spans[place]
        start += len(self.text[start:end]) - len(self.text[start:end].lstrip())
        if self.parts and _in_word(self.text[start]):
            end = start + sum(1 for _ in takewhile(_in_word, self.text[start:]))
            start -= sum(1 for _ in takewhile(_in_word, reversed(self.text[:start])))
        return self.text[start:end].rstrip()


@dataclass(frozen=True)
class Reading:
    """An output and what was read as it was written: ``weights_TS``, averaged over heads and layers."""

    output: Output
    weights_TS: Tensor
    source: Side
    target: Side

    @cached_property
    def alignment(self) -> tuple[tuple[int, int], ...]:
        """For each word of the target, in order, the word of the source that it read most of, as (source, target).

        A word of the source got what all its tokens got, on the average over the target word's tokens.
        """
        read, written = ([word for word in side.words if word is not None] for side in (self.source, self.target))
        if not read or not written:
            return ()
        weights_TS = self.weights_TS[self.target.places][:, self.source.places]
        merged_TW = weights_TS.new_zeros(len(weights_TS), max(read) + 1).index_add_(1, torch.tensor(read), weights_TS)
        merged_VW = merged_TW.new_zeros(max(written) + 1, max(read) + 1)
        best_V = merged_VW.index_add_(0, torch.tensor(written), merged_TW).argmax(1).tolist()
        return tuple((best_V[word], word) for word in sorted(set(written)))

    def replaced(self, dictionary: Mapping[str, str] | None = None) -> str:
        """The text with each unknown replaced by the source word that it read most of, or by what the dictionary has
        for that (Jean et al., ACL 2015; Luong et al., ACL 2015)."""
        text = self.output.text
        places = self.source.places
        for place in reversed(range(len(self.output.ids))):
            if self.output.ids[place] == UNK and places:
                column = places[int(self.weights_TS[place, places].argmax())]
                word = self.source.spelling(column)
                _, end = self.target.spans[place]
                text = text[: end - len(SPECIALS[UNK])] + (dictionary or {}).get(word, word) + text[end:]
        return text


def read(
    transducer: Transducer,
    answers: Iterable[tuple[str, Sequence[Output]]],
    attention: str | None = None,
    batch_size: int = 64,
) -> Iterator[list[Reading]]:
    """For each source with its outputs, as ``Transducer.predict`` gave them, how these were read, in order.

    ``attention`` is one of the model's by its name, instead of the average of all. Raises ValueError where the model
    has no attention to the source, or none of that name.
    """
    tokenizer = transducer.source_tokenizer
    if tokenizer.signal:
        raise UserError("alignments are between words, and a signal has none")
    parts = _parts_of_words(tokenizer), _parts_of_words(transducer.target_tokenizer)

    def answer(batch: list[tuple[str, list[int], Output]]) -> list[Reading]:
        return _readings(transducer, batch, attention, parts)

    for window in windows(answers, batch_size):
        ids = transducer.reread([source for source, _ in window])
        rows = [
            (max(len(row), len(output.ids)), (source, row, output))
            for row, (source, outputs) in zip(ids, window, strict=True)
            for output in outputs
        ]
        readings = iter(sorted_batches(rows, batch_size, partial(map, answer)))
        for _, outputs in window:
            yield [next(readings) for _ in outputs]


def check_unknowns(transducer: Transducer) -> None:
    """Raise ValueError unless an unknown of the output is a whole word, a symbol or a character."""
    tokenizer = transducer.target_tokenizer
    if _parts_of_words(tokenizer) and " " not in tokenizer.decode([UNK, UNK]):
        raise UserError(
            "unknowns of this model are characters within words, which no source word can replace; that is for "
            'models whose data.units of the target are "words", "symbols" or "characters"'
        )


def words_of(text: str, spans: Sequence[Span]) -> list[int | None]:
    """The first word that each span has a part of."""
    number, numbers = -1, []
    for place, character in enumerate(text):
        number += not character.isspace() and (place == 0 or text[place - 1].isspace())
        numbers.append(None if character.isspace() else number)
    return [next((each for each in numbers[start:end] if each is not None), None) for start, end in spans]


# --------------------------------------------------------------------- details


def _readings(
    transducer: Transducer,
    rows: Sequence[tuple[str, list[int], Output]],
    attention: str | None,
    parts: tuple[bool, bool],
) -> list[Reading]:
    found = tapped_attention(transducer, [ids for _, ids, _ in rows], [output.ids for _, _, output in rows])
    if attention is not None and attention not in found.weights:
        raise UserError(f"no attention {attention!r} to the source: there is {', '.join(found.weights)}")
    chosen = list(found.weights.values()) if attention is None else [found.weights[attention]]
    weights_BTS = torch.stack(chosen).mean(0).float().cpu()
    return [
        Reading(
            output,
            weights_TS[: len(output.ids), : len(columns)],
            _source(transducer.source_tokenizer, source, len(ids), [first for first, _ in columns], parts[0]),
            _target(transducer.target_tokenizer, output, parts[1]),
        )
        for (source, ids, output), columns, weights_TS in zip(rows, found.columns, weights_BTS, strict=True)
    ]


def _source(tokenizer: Tokenizer, text: str, length: int, places: Sequence[int], parts: bool) -> Side:
    """A source of so many ids, whose columns begin at these places; labels and EOS are no words."""
    spans = [*tokenizer.spans(text)[: length - 1], (len(text), len(text))]
    chosen = [spans[place] for place in places]
    words = words_of(text, chosen) if parts else _counted(start < end for start, end in chosen)
    return Side(text, chosen, words, parts)


def _target(tokenizer: Tokenizer, output: Output, parts: bool) -> Side:
    """Tokens are found in the text by decoding one more at a time, whatever the tokenizer does with spaces."""
    ends = [len(tokenizer.decode(output.ids[: place + 1])) for place in range(len(output.ids))]
    spans = list(zip([0, *ends], ends, strict=False))
    return Side(
        output.text, spans, words_of(output.text, spans) if parts else _counted(i != EOS for i in output.ids), parts
    )


def _counted(real: Iterable[bool]) -> list[int | None]:
    """A word for each that is real."""
    number = itertools.count()
    return [next(number) if each else None for each in real]


def _parts_of_words(tokenizer: Tokenizer) -> bool:
    """Whether pieces say where words begin, so that a word may have several."""
    return any(isinstance(entry, str) and len(entry) > 1 and entry.startswith(SPACE) for entry in tokenizer.entries)


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character == "_"
