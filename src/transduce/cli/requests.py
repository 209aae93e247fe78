"""The requests of ``transduce predict``: its options for prefixes, phrases and extras, combined with the input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import inputs
from transduce.cli.options import AfterWord, AttentionHead, AttentionName
from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.registry import alternatives, service

if TYPE_CHECKING:
    from transduce.answers.answer import ReadsLines
    from transduce.answers.request import Extras, Request
    from transduce.answers.transducer import Transducer
    from transduce.search.constraints.phrases import Constraints


@dataclass(frozen=True)
class ExtraOptions:
    """Options for additions to each output. True if any option is given.

    Alignments and replaced unknowns share one more pass of the model over the finished outputs. Frames take another
    pass.
    """

    alignments: Annotated[
        bool, typer.Option("--alignments", help="Add to each output the source word of each of its words: 0-0 1-2.")
    ] = False
    replace_unk: Annotated[
        bool, typer.Option("--replace-unk", help="Replace each <unk> by the source word it is aligned with,")
    ] = False
    dictionary: Annotated[
        Path | None, typer.Option(help="or by the entry of this TSV file for that word.", metavar="FILE")
    ] = None
    aligner: Annotated[
        Path | None, typer.Option(help="Another run that aligns the outputs: a word aligner, or any with attention.")
    ] = None
    attention: AttentionName = None
    head: AttentionHead = None
    after: AfterWord = False
    frames: Annotated[
        bool, typer.Option("--frames", help="Add to each output the frames of each token, for a CTC model: 0-3 4-4.")
    ] = False
    protect: Annotated[
        bool,
        typer.Option(
            "--protect",
            help="Keep markup, placeholders, addresses, figures, code and emoji of each source as they are.",
        ),
    ] = False
    protect_kind: Annotated[
        list[str] | None,
        typer.Option(help="Keep only this kind of span; repeat it for several: markup, url.", metavar="KIND"),
    ] = None
    protect_pattern: Annotated[
        list[str] | None, typer.Option(help="Keep what this regular expression finds, too; repeat it.", metavar="REGEX")
    ] = None
    protect_patterns: Annotated[
        Path | None, typer.Option(help="A file of such expressions, one a line.", metavar="FILE")
    ] = None
    figures: Annotated[
        str | None, typer.Option(help="With --protect, write numbers as another language does: de-en.")
    ] = None

    def __bool__(self) -> bool:
        return self != ExtraOptions()

    def extras(self, load: Callable[[Path], Transducer], longest: int | None = None) -> Extras:
        """The extras that the options ask for. ``load`` loads the run of ``--aligner``.

        Raises UserError for an option that needs another one, which is not given. Raises DataError at a line of
        ``--dictionary`` of more than ``longest`` bytes (default ``corpora.LONGEST_LINE``).
        """
        from transduce.answers.request import Extras

        if not self.replace_unk and self.dictionary is not None:
            raise UserError("--dictionary says what to replace unknowns by: give --replace-unk too")
        spans = self.protect or self.protect_kind or self.protect_pattern or self.protect_patterns
        if self.figures is not None and not spans:
            raise UserError("--figures is for --protect: give it too")
        for name in ("aligner", "attention", "head", "after"):
            given = not any(getattr(self, name) is unset for unset in (None, False))  # head 0 is given
            if given and not (self.alignments or self.replace_unk or spans):
                raise UserError(f"--{name} is for --alignments, --replace-unk or --protect: give one of them too")
        unknowns = None
        if self.replace_unk:
            unknowns = {} if self.dictionary is None else dict(inputs.pairs([self.dictionary], longest=longest))
        aligner = None if self.aligner is None else load(self.aligner)
        if spans:
            asked = self.protect_kind or (), self.protect_pattern or (), self.protect_patterns, self.figures
            spans = service("protection").of(*asked)
        return Extras(
            self.alignments, self.frames, unknowns, self.attention, self.head, self.after, aligner, spans or None
        )


@dataclass(frozen=True)
class RequestOptions:
    """Options for the text that outputs begin with, and for phrases that they must or must not contain.

    True if any option is given.
    """

    prefix: Annotated[str, typer.Option(help="Text that every output begins with: whole words.")] = ""
    prefixes: Annotated[Path | None, typer.Option(help="A file of prefixes, one line for each source.")] = None
    forbid: Annotated[
        list[str] | None, typer.Option(help="A phrase that no output may contain; repeat the option for several.")
    ] = None
    constraints: Annotated[
        Path | None,
        typer.Option(
            help='Sources, each with its own phrases; one object {"source", "prefix", "required", "forbidden"} a line.',
            metavar="JSONL",
        ),
    ] = None

    glossary: Annotated[
        Path | None,
        typer.Option(
            help="Terms and what each output must have for them: a term, a tab and its translation a line; further "
            "columns are other forms of it.",
            metavar="TSV",
        ),
    ] = None

    def __bool__(self) -> bool:
        return self != RequestOptions()

    @property
    def phrases(self) -> bool:
        """True if outputs must have phrases, or must not have them."""
        return bool(self.forbid or self.constraints or self.glossary)

    def read(self, files: list[Path] | None, extras: Extras, transducer: ReadsLines) -> Iterator[Request]:
        """The requests as ``_read`` gives them, with the phrases that ``--glossary`` requires. Raises DataError for a
        wrong line of it.
        """
        return self._with_terms(self._read(files, extras, transducer))

    def asked(self, texts: Iterable[str], extras: Extras) -> Iterator[Request]:
        """A request for each text of a document. Raises UserError for options that belong to lines."""
        from transduce.answers.request import requests_for

        if self.prefixes or self.constraints:
            raise UserError("--prefixes and --constraints belong to lines, and a document has texts: leave them out")
        forbidden = self._forbidden()
        return self._with_terms(requests_for(texts, prefix=self.prefix, constraints=forbidden, extras=extras))

    def _with_terms(self, requests: Iterator[Request]) -> Iterator[Request]:
        if self.glossary is None:
            return requests
        return map(service("glossary").read(self.glossary).applied, requests)

    def _read(self, files: list[Path] | None, extras: Extras, transducer: ReadsLines) -> Iterator[Request]:
        """A request for each line of ``files`` (none: standard input), or for each object of the file
        ``--constraints``.

        ``--constraints`` excludes ``files``, ``--prefix`` and ``--prefixes``; ``--forbid`` then adds to each object's
        own phrases. Raises DataError and UserError as ``inputs.sources`` does for this ``transducer``, and UserError
        for options that exclude each other and for an invalid object. All files are checked before the first request.
        """
        from transduce.answers.request import requests_for

        longest = inputs.longest_line(transducer)
        if self.prefix and self.prefixes:
            raise UserError(
                f"--prefix {self.prefix!r} is for all outputs and --prefixes {self.prefixes} has one for each: give one"
            )
        if self.constraints is None:
            forbidden = self._forbidden()
            if self.prefixes is None:
                lines = inputs.sources(files, transducer)
                return requests_for(lines, prefix=self.prefix, constraints=forbidden, extras=extras)
            prefixes = [self.prefixes]

            def with_prefixes(lines: Iterator[str]) -> Iterator[Request]:
                prefix = inputs.lines(prefixes, longest)
                return requests_for(lines, prefix=prefix, constraints=forbidden, extras=extras)

            sources = inputs.sources(files, transducer)
            return inputs.checked_first(
                [*files, *prefixes] if files else None,
                lambda: with_prefixes(sources),
                lambda: with_prefixes(inputs.lines(files, longest)),
            )
        if files or self.prefix or self.prefixes:
            raise UserError(
                f"{self.constraints} has the sources and prefixes too: leave out other files, --prefix and --prefixes"
            )
        path = self.constraints
        return inputs.checked_first([path], lambda: self._read_objects(path, extras, longest))

    def _forbidden(self) -> Constraints | None:
        if not self.forbid:
            return None
        from transduce.search.constraints.phrases import Constraints

        return Constraints(forbidden=self.forbid)

    def _read_objects(self, path: Path, extras: Extras, longest: int | None) -> Iterator[Request]:
        """A request for each line of the file ``--constraints``. UserErrors name the file and the line."""
        from transduce.answers.request import Request
        from transduce.search.constraints.phrases import Constraints

        for number, line in enumerate(inputs.lines([path], longest), 1):
            try:
                record = _parse_object(line)
                forbidden = [*record.get("forbidden", []), *(self.forbid or ())]
                constraints = Constraints(record.get("required", []), forbidden)
                yield Request(record["source"], record.get("prefix", ""), constraints, extras=extras)
            except UserError as error:
                raise UserError(f"{path}, line {number}: {error}") from error


def _parse_object(line: str) -> Table:
    """The JSON object on a line. Raises UserError if it is no object, has no "source", or has an unknown key or a wrong
    value.
    """
    from transduce.data.tokenizers.base import check_whole

    kinds = {"source": str, "prefix": str, "required": list, "forbidden": list}
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(str(error)) from error
    if not isinstance(record, dict):
        raise UserError(f'{line[:60]!r}: an object was expected, {{"source": ..., "required": [...]}}')
    for key, value in record.items():
        if key not in kinds:
            raise UserError(f"{key!r} is not a key of a request{alternatives(key, kinds)}")
        if not isinstance(value, kinds[key]):
            raise UserError(f"{key} = {value!r}: a {'text' if kinds[key] is str else 'list'} was expected")
    check_whole(json.dumps(record, ensure_ascii=False))
    if "source" not in record:
        raise UserError("there is no source")
    return record
