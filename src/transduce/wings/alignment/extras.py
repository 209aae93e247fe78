"""Adds to finished outputs what their requests ask for: frames, alignments, source words in place of unknowns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from transduce.answers.answer import Answer, Output
from transduce.answers.request import Extras
from transduce.answers.text_model import TextModel
from transduce.core.errors import UserError
from transduce.core.protocols import Deriving, can
from transduce.wings.alignment.alignments import check_alignable, check_text
from transduce.wings.alignment.attention_weights import AttentionChoice
from transduce.wings.alignment.readings import Reading, check_unknowns, readings, readings_by
from transduce.wings.ctc.frame_alignments import check_framewise, frame_alignments


def add_extras(model: TextModel, answers: list[Answer], rows: Sequence[Sequence[int]], batch_size: int) -> list[Answer]:
    """The answers, in order, with the extras that their requests ask for. An answer that gets extras is a new object;
    the given answers do not change.

    ``rows`` has the source of each answer as the model reads it. The model reads ``batch_size`` outputs at a time.
    Raises UserError if the model cannot give these extras.
    """
    for extras in _distinct(answer.request.extras for answer in answers):
        check_extras(model, extras)
    answers = list(answers)
    if places := [place for place, answer in enumerate(answers) if answer.request.extras.frames]:
        some = [answers[place] for place in places]
        found = frame_alignments(model, some, [rows[place] for place in places], batch_size)
        for place, alignments in zip(places, found, strict=True):
            answers[place] = replace(answers[place], outputs=[alignment.output for alignment in alignments])
    wanted = [answer.request.extras for answer in answers]
    for extras in _distinct(extras for extras in wanted if extras.protect is not None):
        places = [place for place, each in enumerate(wanted) if each is extras]
        some = [answers[place] for place in places]
        placed = extras.protect.complete(model, some, [rows[place] for place in places], batch_size)
        for place, answer in zip(places, placed, strict=True):
            answers[place] = answer
    aligned = [place for place, extras in enumerate(wanted) if extras.aligned and extras.protect is None]
    for extras in _distinct(answers[place].request.extras for place in aligned):
        places = [place for place in aligned if answers[place].request.extras is extras]
        some = [answers[place] for place in places]
        choice = AttentionChoice(extras.attention, extras.head, extras.after)
        if extras.aligner is None:
            read = readings(model, some, [rows[place] for place in places], choice, batch_size)
        else:
            read = readings_by(extras.aligner, model, some, choice, batch_size)
        for place, answer, each in zip(places, some, read, strict=True):
            answers[place] = replace(answer, outputs=[_with_reading(one, extras) for one in each])
    return answers


def check_extras(model: TextModel, extras: Extras) -> None:
    """Raises UserError if the model, or the aligner of the extras, cannot give these extras, as far as that shows
    before any output. The chosen attention is checked later.
    """
    if extras.frames:
        check_framewise(model.model)
    if extras.protect is not None:
        extras.protect.check(model)
    if extras.aligned:
        check_text(model.source_tokenizer)
    if extras.aligner is not None:
        check_alignable(extras.aligner)
    if extras.replace_unknowns is not None:
        if can(type(model.model), Deriving):
            raise UserError(
                "a phrase-based model already writes unknown words as the source spells them: leave out the replacement"
            )
        check_unknowns(model.target_tokenizer)


def _distinct(several: Iterable[Extras]) -> list[Extras]:
    """The different objects among these, by identity: the requests of one command share theirs."""
    return list({id(extras): extras for extras in several}.values())


def _with_reading(reading: Reading, extras: Extras) -> Output:
    if extras.replace_unknowns is not None:
        reading = reading.replaced(extras.replace_unknowns)
    return replace(reading.output, alignment=reading.alignment if extras.alignments else None)
