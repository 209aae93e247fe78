"""A request: one source, and the outputs that are wanted for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from transduce.core.errors import RequestError
from transduce.core.registry import service

if TYPE_CHECKING:  # it imports PyTorch
    from transduce.search.constraints.phrases import Constraints


@dataclass(frozen=True)
class Extras:
    """Additions to the outputs. Alignments and unknowns share one more pass of the model; frames take another.

    ``alignments``: the source word of each output word. ``frames``: the frames of each token, for a CTC model.
    ``replace_unknowns``: replace each <unk> by its source word, or by the entry of this dictionary for that word. An
    empty dictionary replaces too; None does not.

    ``aligner``: another model that aligns the outputs with their sources, a ``Transducer``; by default the model itself
    does. ``attention``, ``head`` and ``after`` choose one attention of the model that aligns, as in
    ``AttentionChoice``; by default the average of all. Raises RequestError for one of these four if nothing is aligned.

    ``protect``: the spans of sources that do not change, a ``Protection`` of the wing protection, or True for all
    kinds. Spans need an alignment, too. Raises RequestError for alignments of an output with spans.
    """

    alignments: bool = False
    frames: bool = False
    replace_unknowns: Mapping[str, str] | None = None
    attention: str | None = None
    head: int | None = None
    after: bool = False
    aligner: Any = None
    protect: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.protect, bool):
            object.__setattr__(self, "protect", service("protection")() if self.protect else None)
        if not (self.protect is None or hasattr(self.protect, "complete")):
            raise RequestError(f"protect = {self.protect!r}: True, or a Protection was expected")
        if self.protect is not None and (self.alignments or self.frames):
            raise RequestError("alignments and frames are not given for protected spans: ask for one of them")
        names = ("attention", "head", "after", "aligner")
        given = [name for name in names if not any(getattr(self, name) is unset for unset in (None, False))]
        if given and not self.aligned:
            raise RequestError(
                f"{given[0]} = {getattr(self, given[0])!r}, and nothing is aligned: set alignments, protect or "
                "replace_unknowns too"
            )

    @property
    def aligned(self) -> bool:
        """True if the outputs must be aligned with their source."""
        return self.alignments or self.replace_unknowns is not None or self.protect is not None

    def __bool__(self) -> bool:
        return self.aligned or self.frames


NO_EXTRAS = Extras()


@dataclass(frozen=True)
class Request:
    """One source, and the outputs that are wanted for it.

    ``prefix``: the text that each output begins with; its last word is a whole word. ``constraints``: phrases that the
    outputs must contain, or must not. ``nbest``: how many outputs to return, best first; by default as many as the
    search returns. ``target``: a given output, to be scored; then nothing is searched for. Raises RequestError if
    values do not fit together.
    """

    source: str
    prefix: str = ""
    constraints: Constraints | None = None
    nbest: int | None = None
    target: str | None = None
    extras: Extras = NO_EXTRAS

    def __post_init__(self) -> None:
        for name, value in (("source", self.source), ("prefix", self.prefix)):
            if not isinstance(value, str):
                raise RequestError(f"{name} = {value!r}: a text was expected")
        if self.target is not None:
            self._check_target()
        if self.nbest is not None and self.nbest < 1:
            raise RequestError(f"nbest = {self.nbest}: at least one output was expected")

    @cached_property
    def protected(self) -> Any:
        """The source with its protected spans (``ProtectedText`` of the wing protection); None if it has none."""
        found = None if self.extras.protect is None else self.extras.protect.read(self.source)
        return found if found is not None and found.spans else None

    @property
    def text(self) -> str:
        """The source as the model reads it: without its protected spans."""
        return self.source if self.protected is None else str(self.protected.text)

    def _check_target(self) -> None:
        if not isinstance(self.target, str):
            raise RequestError(f"target = {self.target!r}: a text was expected")
        if self.prefix or self.constraints or self.nbest is not None or self.extras.protect is not None:
            raise RequestError(
                f"target = {self.target!r} is scored and not searched for: leave out prefix, constraints, nbest and "
                "protect"
            )


def requests_for(sources: Iterable[str], **wanted: Any) -> Iterator[Request]:
    """Yields a request for each source. ``wanted`` are fields of Request by name.

    Each is one value for all sources, such as a string, or an iterable with a value for each. Raises RequestError,
    which names the input by its number from 1, if there are more sources than values or the reverse. It raises it too
    for one text in place of several, for a source that is not a text, or values that do not fit together.
    """
    if isinstance(sources, str):
        raise RequestError(f"sources = {sources!r}: a list of texts was expected; put a single text into a list")
    each = {name: value for name, value in wanted.items() if _is_one_for_each(value)}
    for_all = {name: value for name, value in wanted.items() if name not in each}
    nothing = object()
    for number, (source, *values) in enumerate(zip_longest(sources, *each.values(), fillvalue=nothing), 1):
        row = {"source": source, **dict(zip(each, values, strict=True))}
        for name, value in row.items():
            if value is nothing:
                raise RequestError(
                    f"input {number} has no {name}: give one for each source, empty if none, or one for all"
                )
        try:
            yield Request(**row, **for_all)
        except RequestError as error:
            raise RequestError(f"input {number}: {error}") from error


def _is_one_for_each(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)
