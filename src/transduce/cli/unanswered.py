"""The exit status of commands that answer line by line: 1 if a line could not be answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from transduce.answers.answer import Answer


class Unanswered:
    """Counts the answers that have a problem instead of outputs."""

    def __init__(self) -> None:
        self.count = 0

    def counted(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """Yields the same answers."""
        for answer in answers:
            self.count += bool(answer.problem)
            yield answer

    def tell(self, problem: str) -> None:
        """Tells the problem of an answer that is not among the counted ones."""
        self.count += 1
        typer.echo(problem, err=True)

    def end(self) -> None:
        """Ends the command with exit status 1 if an answer has a problem. Call it when all answers are written."""
        if self.count:
            raise typer.Exit(1)
