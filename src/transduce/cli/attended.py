"""What ``transduce predict`` says of where outputs were read, and of when."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import reading
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.inspect.alignments import Reading
    from transduce.outputs import Output
    from transduce.transducer import Transducer

    Answers = Iterable[tuple[str, list[Output]]]


@dataclass(frozen=True)
class Attended:
    """Options for what is read off the attention, or the frames, of finished outputs; each costs one more pass of the
    model."""

    alignments: Annotated[
        bool, typer.Option("--alignments", help="After each output the source word each of its words is from: 0-0 1-2.")
    ] = False
    replace_unk: Annotated[
        bool, typer.Option("--replace-unk", help="Put for each <unk> the source word that it was read from,")
    ] = False
    dictionary: Annotated[Path | None, typer.Option(help="or what this TSV file has for it.", metavar="FILE")] = None
    attention: Annotated[
        str | None, typer.Option(help="The attention that says so; the average of all if not given.", metavar="NAME")
    ] = None
    frames: Annotated[
        bool,
        typer.Option("--frames", help="After each output the frames of each of its tokens, of a CTC model: 0-3 4-4."),
    ] = False

    def __bool__(self) -> bool:
        return self != Attended()

    def added(self, transducer: Transducer, answers: Answers, batch_size: int) -> Answers:
        """The answers, with what was asked for in them."""
        if not self.replace_unk and self.dictionary is not None:
            raise UserError("--dictionary says what to replace unknowns by: give --replace-unk too")
        attending = self.alignments or self.replace_unk
        if self.attention is not None and not attending:
            raise UserError("--attention is for --alignments or --replace-unk: give one of them too")
        if self.frames:
            answers = self._placed(transducer, answers, batch_size)
        return self._read(transducer, answers, batch_size) if attending else answers

    def _placed(self, transducer: Transducer, answers: Answers, batch_size: int) -> Iterator[tuple[str, list[Output]]]:
        from transduce.inspect.frame_alignments import placed

        answers, given = itertools.tee(answers)
        for (source, _), found in zip(answers, placed(transducer, given, batch_size), strict=True):
            yield source, [each.output for each in found]

    def _read(self, transducer: Transducer, answers: Answers, batch_size: int) -> Iterator[tuple[str, list[Output]]]:
        from transduce.inspect.alignments import check_unknowns, read

        if self.replace_unk:
            check_unknowns(transducer)
        known = {} if self.dictionary is None else dict(reading.pairs([self.dictionary]))
        answers, given = itertools.tee(answers)
        for (source, _), readings in zip(answers, read(transducer, given, self.attention, batch_size), strict=True):
            yield source, [self._told(each, known) for each in readings]

    def _told(self, found: Reading, known: dict[str, str]) -> Output:
        text = found.replaced(known) if self.replace_unk else found.output.text
        return replace(found.output, text=text, alignment=found.alignment if self.alignments else None)
