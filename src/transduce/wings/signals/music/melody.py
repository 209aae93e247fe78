"""Harmony for a given melody: its notes are the first voice. B sources, N rows, S source positions, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import EOS, PAD, UNK, Padded, real_mask
from transduce.search.base import Decoding
from transduce.wings.signals.music.chords import END, SILENCE

NEEDED = 'the filter "melody" needs sources of one note per step'


@dataclass(frozen=True)
class Melody:
    """Allows only chords (chords.py) whose first voice is the source: a melody such as "67 69 - 71".

    The output has a chord for each note of the source, in order. Each chord has the note, then ``voices`` - 1 pitches
    or silences, then a full stop. The output ends after the last chord. If the target vocabulary lacks a note of the
    source, any pitch or silence may replace it. The end at the search's ``max_length`` comes even inside a chord.
    Raises UserError for ``voices`` below 1, for a target vocabulary without full stops or pitches, and for a source
    that is no sequence of ids.
    """

    voices: int = 4

    def __post_init__(self) -> None:
        if self.voices < 1:
            raise UserError(f"voices = {self.voices}: a chord has at least 1 voice")

    def with_vocabularies(self, source: Decoding, target: Decoding) -> Harmony:
        ids = {entry: i for i, entry in enumerate(target.entries) if i > UNK}
        sounding = tuple(i for entry, i in ids.items() if entry == SILENCE or str(entry).isdigit())
        if END not in ids or not sounding:
            raise UserError(
                f'the filter "melody" needs outputs of chords, and the target vocabulary has no {END!r} or no pitches: '
                'train on lines such as "67 62 59 43 .", or remove the filter from search.filters'
            )
        notes = tuple(ids.get(entry, PAD) if i > UNK else PAD for i, entry in enumerate(source.entries))
        return Harmony(self.voices, notes, sounding, ids[END])

    def start(self, source: Padded) -> NoReturn:
        raise UserError(
            'the filter "melody" does not know its vocabulary yet: transduce.load and Transducer.with_search give it'
        )

    def extend(self, tokens_NT: Tensor, state: object) -> object:
        return state

    def __call__(self, scores_NV: Tensor, state: object) -> Tensor:
        return scores_NV


@dataclass(frozen=True)
class Sung:
    """The melody and a summary of the output so far. ``note_NS`` has the target id of each note, PAD if the target has
    no such note. ``steps_N`` is the number of notes. ``chords_N`` is the number of finished chords, and ``voice_N`` the
    number of voices in the unfinished chord.
    """

    note_NS: Tensor
    steps_N: Tensor
    chords_N: Tensor
    voice_N: Tensor


@dataclass(frozen=True)
class Harmony:
    """The filter that ``Melody`` makes for the vocabularies of a model. ``voices`` is its option.

    ``notes`` has the target id for each source id, PAD if the target has no such note. ``sounding`` are the target ids
    of pitches and of silence, and ``end`` the id of the full stop.
    """

    voices: int
    notes: tuple[int, ...]
    sounding: tuple[int, ...]
    end: int

    def start(self, source: Padded) -> Sung:
        if not isinstance(source, Padded) or source.values.is_floating_point() or source.values.ndim != 2:
            raise UserError(f"{NEEDED}, and this source has none")
        notes_V = torch.tensor(self.notes, device=source.lengths.device)
        real_BS = real_mask(source.lengths - 1, source.values.shape[1])  # without EOS
        none_B = torch.zeros_like(source.lengths)
        return Sung(notes_V[source.values].masked_fill(~real_BS, PAD), source.lengths - 1, none_B, none_B)

    def extend(self, tokens_NT: Tensor, state: Sung) -> Sung:
        chords_N, voice_N = state.chords_N, state.voice_N
        for token_N in tokens_NT.unbind(1):
            ended_N = token_N == self.end
            chords_N, voice_N = chords_N + ended_N.long(), (voice_N + 1) * ~ended_N
        return Sung(state.note_NS, state.steps_N, chords_N, voice_N)

    def __call__(self, scores_NV: Tensor, state: Sung) -> Tensor:
        finished_N = state.chords_N >= state.steps_N
        sounds_V = torch.zeros(scores_NV.shape[1], dtype=torch.bool, device=scores_NV.device)
        sounds_V[list(self.sounding)] = True
        allowed_NV = (~finished_N & (state.voice_N < self.voices))[:, None] & sounds_V
        place_N1 = state.chords_N.clamp(max=state.note_NS.shape[1] - 1)[:, None]
        note_N1 = state.note_NS.gather(1, place_N1)
        sung_N1 = ((state.voice_N == 0) & ~finished_N)[:, None] & (note_N1 != PAD)
        of_note_NV = torch.zeros_like(allowed_NV).scatter_(1, note_N1, True)
        allowed_NV = torch.where(sung_N1, of_note_NV, allowed_NV)
        allowed_NV[:, self.end] = ~finished_N & (state.voice_N == self.voices)
        allowed_NV[:, EOS] = finished_N
        return scores_NV.masked_fill_(~allowed_NV, float("-inf"))
