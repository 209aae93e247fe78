"""What the outputs of ``transduce predict`` are to be like: how they begin, and the phrases in them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from transduce.cli import reading
from transduce.errors import UserError
from transduce.names import alternatives

if TYPE_CHECKING:
    from transduce.search.constraints.base import Constraints


class Asked(NamedTuple):
    """Sources, and what is wanted of their outputs, as ``Transducer.predict`` takes it."""

    sources: Iterable[str]
    prefix: str | Iterable[str]
    constraints: Constraints | Iterable[Constraints]


@dataclass(frozen=True)
class Wanted:
    """Options for outputs that are not only the model's own choice."""

    prefix: Annotated[str, typer.Option(help="What every output begins with: whole words.")] = ""
    prefixes: Annotated[Path | None, typer.Option(help="A file of beginnings, a line for each source.")] = None
    forbid: Annotated[
        list[str] | None, typer.Option(help="A phrase that no output may have; several times for several.")
    ] = None
    constraints: Annotated[
        Path | None,
        typer.Option(
            help='Sources with phrases of their own: {"source", "prefix", "required", "forbidden"} a line.',
            metavar="JSONL",
        ),
    ] = None

    def __bool__(self) -> bool:
        return self != Wanted()

    def of(self, files: list[Path] | None, longest: int | None = None) -> Asked:
        """The lines of the files, or the sources of ``--constraints``, and what goes with them."""
        from transduce.search.constraints.base import Constraints

        if self.prefix and self.prefixes:
            raise UserError(
                f"--prefix {self.prefix!r} is for all outputs and --prefixes {self.prefixes} has one for each: give one"
            )
        if self.constraints is None:
            beginnings = self.prefix if self.prefixes is None else reading.lines([self.prefixes])
            return Asked(reading.lines(files, longest), beginnings, Constraints(forbidden=self.forbid or ()))
        if files or self.prefix or self.prefixes:
            raise UserError(
                f"{self.constraints} has the sources and prefixes too: leave out other files, --prefix and --prefixes"
            )
        rows = itertools.tee(self._lines(self.constraints), 3)
        return Asked((row[0] for row in rows[0]), (row[1] for row in rows[1]), (row[2] for row in rows[2]))

    def _lines(self, path: Path) -> Iterator[tuple[str, str, Constraints]]:
        from transduce.search.constraints.base import Constraints

        for number, line in enumerate(reading.lines([path]), 1):
            try:
                record = _record(line)
                forbidden = [*record.get("forbidden", []), *(self.forbid or ())]
                constraints = Constraints(record.get("required", []), forbidden)
                yield record["source"], record.get("prefix", ""), constraints
            except ValueError as error:
                raise UserError(f"{path}, line {number}: {error}") from error


def _record(line: str) -> dict[str, Any]:
    """A line of the file; ValueError where it is no object, or has something else in it."""
    from transduce.data.tokenizers.text import check_whole

    kinds = {"source": str, "prefix": str, "required": list, "forbidden": list}
    record = json.loads(line)
    if not isinstance(record, dict):
        raise UserError(f'{line[:60]!r}: an object was expected, {{"source": ..., "required": [...]}}')
    for key, value in record.items():
        if key not in kinds:
            raise UserError(f"{key!r} says nothing here{alternatives(key, kinds)}")
        if not isinstance(value, kinds[key]):
            raise UserError(f"{key} = {value!r}: a {'text' if kinds[key] is str else 'list'} was expected")
    check_whole(json.dumps(record, ensure_ascii=False))
    if "source" not in record:
        raise UserError("there is no source")
    return record
