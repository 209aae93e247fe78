"""Outputs get the protected spans of their sources, at the places that an alignment gives.

The word aligner of the run aligns, if there is one. The model's own alignment has two parts: its attention, and how
much the probability of each output token falls if a source word is left out (Li et al., ACL 2019). V output units, W
source units, T output tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import torch

from transduce.answers.answer import Answer, Output
from transduce.answers.batches import sorted_batches
from transduce.answers.pipeline import Pipeline, Scored
from transduce.answers.request import Extras, Request
from transduce.core.errors import UserError
from transduce.core.protocols import Deriving, can
from transduce.core.types import Hypothesis
from transduce.wings.alignment.attention_weights import AttentionChoice, NoAttentionError
from transduce.wings.alignment.readings import Reading, readings, readings_by
from transduce.wings.alignment.sides import Side, parts_of_words, written_side
from transduce.wings.alignment.token_alignment import TokenAlignment
from transduce.wings.protection.own_aligner import own_aligner, readings_of_units
from transduce.wings.protection.projection import Numbers
from transduce.wings.protection.text import ProtectedText

MOST = 100  # words of a source that are left out one by one; a longer one has its attention alone


def with_spans(
    model: Pipeline, answers: Sequence[Answer], rows: Sequence[Sequence[int]], batch_size: int
) -> list[Answer]:
    """The answers, in order, with the spans of their sources in their outputs. All have the same extras. ``rows`` has
    the source of each as the model reads it.

    Raises UserError if nothing aligns the outputs: the model has no attention and gives no probabilities of tokens.
    """
    extras, found = answers[0].request.extras, [*answers]
    places = [place for place, answer in enumerate(answers) if _is_aligned(answer.request)]
    some = [answers[place] for place in places]
    own = own_aligner(model) if _reads_itself(model, extras) and extras.replace_unknowns is None else None
    if own is None:
        read = _readings(model, some, [rows[place] for place in places], extras, batch_size)
    else:
        read = readings_of_units(own, model, some, batch_size)
    falls = _falls(model, some, batch_size) if _reads_itself(model, extras) and own is None else None
    for number, place in enumerate(places):
        outputs = [
            _placed(answers[place].request, one, None if falls is None else falls[number][nth])
            for nth, one in enumerate(read[number])
        ]
        found[place] = replace(answers[place], outputs=outputs)
    for place in {*range(len(answers))} - {*places}:
        request = answers[place].request
        protected = request.protected or ProtectedText(request.source, ())
        outputs = [extras.protect.placed(protected, output, None) for output in answers[place].outputs]
        found[place] = replace(answers[place], outputs=outputs)
    return found


def _is_aligned(request: Request) -> bool:
    """True if something is to be placed among words, or unknown words are to be replaced."""
    placed = request.protected is not None and bool(request.text)
    return placed or request.extras.replace_unknowns is not None


def _placed(request: Request, reading: Reading, falls_TW: Numbers | None) -> Output:
    extras = request.extras
    if extras.replace_unknowns is not None:
        reading = reading.replaced(extras.replace_unknowns)
    protected = request.protected or ProtectedText(request.source, ())
    placed: Output = extras.protect.placed(protected, reading.output, reading.tokens, falls_TW)
    return placed


def _reads_itself(model: Pipeline, extras: Extras) -> bool:
    """True if the model aligns its outputs, by no attention that the user has chosen."""
    chosen = extras.aligner is not None or extras.attention is not None or extras.head is not None or extras.after
    return not (chosen or can(type(model.model), Deriving))


def _readings(
    model: Pipeline, answers: Sequence[Answer], rows: Sequence[Sequence[int]], extras: Extras, batch_size: int
) -> list[list[Reading]]:
    if not answers:
        return []
    choice = AttentionChoice(extras.attention, extras.head, extras.after)
    if extras.aligner is not None:
        return readings_by(extras.aligner, model, answers, choice, batch_size)
    try:
        return readings(model, answers, rows, choice, batch_size)
    except NoAttentionError:
        if not _reads_itself(model, extras) or extras.replace_unknowns is not None:
            raise
    parts = parts_of_words(model.target_tokenizer)
    return [[_unaligned(model, answer, output, parts) for output in answer.outputs] for answer in answers]


def _unaligned(model: Pipeline, answer: Answer, output: Output, parts: bool) -> Reading:
    """A Reading without weights, of a model without attention."""
    text = answer.request.text
    spans = [*model.source_tokenizer.spans(text)[: model.max_source_length - 1], (len(text), len(text))]
    target = written_side(model.target_tokenizer, output, parts)
    weights_TS = torch.zeros(len(target.spans), len(spans))
    return Reading(output, TokenAlignment(weights_TS, Side(text, spans, [None] * len(spans), parts), target))


def _falls(model: Pipeline, answers: Sequence[Answer], batch_size: int) -> list[list[Numbers | None]]:
    """For each output of each answer, [T, W]: how much the log-probability of each token falls if the source has each
    of its words no more. None for a source of more than ``MOST`` words.
    """
    work, sizes = list[tuple[Sequence[int], Sequence[int]]](), list[tuple[int, int]]()
    for answer in answers:
        text, ranges = answer.request.text, answer.request.protected.units if answer.request.protected else []
        ranges = ranges if len(ranges) <= MOST else []
        texts = [text, *(without(text, start, end) for start, end in ranges)] if ranges else []
        read = [source.row for source in model.read(texts)] if texts else []
        sizes.append((len(ranges), len(answer.outputs)))
        work += [(row, output.ids) for output in answer.outputs for row in read]
    lengths = [(max(len(row), len(ids)), (row, ids)) for row, ids in work]
    scored = iter(sorted_batches(lengths, batch_size, partial(_score, model)))
    return [[_fall(size, scored) for _ in range(outputs)] for size, outputs in sizes]


def _score(model: Pipeline, batches: Iterable[Sequence[Scored]]) -> Iterable[list[Numbers]]:
    for batch in batches:
        found = cast(Sequence[Sequence[Hypothesis]], model.score_batch(batch, model.search))
        if any(len(one.token_log_probs) != len(ids) for (one,), (_, ids) in zip(found, batch, strict=True)):
            raise UserError(
                "the model has no probabilities of single tokens and no attention that would tell where protected "
                "spans belong: give --aligner RUN, a word aligner (`transduce train word-alignment`)"
            )
        yield [np.array(one.token_log_probs) for (one,) in found]


def _fall(size: int, scored: Iterator[Numbers]) -> Numbers | None:
    if not size:
        return None
    whole_T = next(scored)
    fall_TW: Numbers = np.stack([whole_T - next(scored) for _ in range(size)], 1)
    return np.nan_to_num(np.maximum(fall_TW, 0.0), posinf=100.0)


def without(text: str, start: int, end: int) -> str:
    """The text without its characters from ``start`` to ``end``, and without a space that would be double or begin it.
    A line of columns keeps all columns but the last one.
    """
    if "\t" in text[start:]:
        return text
    before, after = text[:start], text[end:]
    if not before or before[-1].isspace():
        after = after.lstrip()
    return before + after
