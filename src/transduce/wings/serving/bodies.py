"""Reads the bodies of requests: JSON, a form, or a form with uploaded files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Request as HttpRequest
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError
from starlette.datastructures import UploadFile

from transduce.core.errors import RequestError
from transduce.data.tokenizers.base import check_whole
from transduce.wings.serving.problems import RefusalError, first_mistake

FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
FIELDS = 50  # largest number of fields in a form
YES = {"true": True, "false": False}  # in a form, which has texts alone


# Every number of a request has a range here. The limits of the server are often narrower.
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Index = Annotated[int, Field(ge=0, le=1_000_000)]


class Body(BaseModel):
    """The keys that every request may have. ``model`` is the name of a run; None is the first one."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())
    model: str | None = None


class Source(Body):
    """A request about sources: a text, or a list of texts. A run that reads files gets them as uploads."""

    source: str | list[str] | None = None

    @property
    def texts(self) -> list[str]:
        return [self.source] if isinstance(self.source, str) else list(self.source or ())


class WithTerms(Body):
    """The key ``glossary``: rows, each with a term and its translation, and perhaps other forms of it. A row is a list,
    or a text with tabs.
    """

    glossary: list[str | list[str]] = []

    @property
    def terms(self) -> list[list[str]]:
        return [row.split("\t") if isinstance(row, str) else row for row in self.glossary]


class Document(WithTerms):
    """The keys of /document, as for ``transduce predict``; the document is the field file of a form."""

    column: str | None = None
    sentences: str | None = None
    previous: int = 0


class Predict(Source, WithTerms):
    """The keys of /predict and /n-best, as for ``transduce predict``. ``protect`` is true, or names kinds of spans.
    With ``pieces``, an answer has its text in pieces, each with the log-probability of its token.
    """

    prefix: str = ""
    required: list[str | list[str]] = []
    forbidden: list[str] = []
    nbest: Count | None = None
    alignments: StrictBool = False
    frames: StrictBool = False
    replace_unknowns: StrictBool = False
    protect: StrictBool | list[str] = False
    phrases: list[str] = []
    figures: str | None = None
    pieces: StrictBool = False


class Pair(Source):
    """The keys of /score: as many targets as sources."""

    target: str | list[str]

    @property
    def targets(self) -> list[str]:
        return [self.target] if isinstance(self.target, str) else self.target


class Align(Pair):
    """The keys of /align, as for ``transduce align``."""

    direction: str | None = None
    attention: str | None = None
    head: Index | None = None
    after: StrictBool = False


class Complete(Body):
    """The keys of /complete. ``source`` is for a model that has sources: one text for all prefixes."""

    prefix: str | list[str] = ""
    begun: str = ""
    k: Count = 5
    source: str | None = None

    @property
    def prefixes(self) -> list[str]:
        return [self.prefix] if isinstance(self.prefix, str) else self.prefix


class Stream(Body):
    """The keys of /stream: one source."""

    source: str = ""
    prefix: str = ""


class Attention(Body):
    """The keys of /attention. Without ``target``, the model's own best output is used. ``attention`` is a name of the
    list in the answer; None is the mean of all.
    """

    source: str = ""
    target: str | None = None
    attention: str | None = None
    head: Index | None = None


class Labels(Body):
    """The keys of /labels. ``target`` is the label that the effects of words are for, by default the best one.
    ``place`` is the word of a tagged text whose label they are for.
    """

    source: str = ""
    target: str | None = None
    place: Index | None = None


class Tree(Body):
    """The keys of /tree: the tree of a beam search. ``beam`` is its size; None is the run's own."""

    source: str = ""
    prefix: str = ""
    beam: Count | None = None


B = TypeVar("B", bound=BaseModel)


@dataclass(frozen=True)
class Uploaded:
    """A file that a client has sent. ``name`` is the client's name of the file; it is never used as a path."""

    name: str
    content: bytes


async def read(request: HttpRequest, kind: type[B]) -> tuple[B, list[Uploaded]]:
    """The body of a request, and its uploaded files in their order.

    Raises RequestError for a body that is not one of this ``kind``, and RefusalError for an unknown content type.
    """
    content_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    files: list[Uploaded] = []
    if content_type in FORMS:
        if (await request.body())[:100].lstrip()[:1] == b"{":
            raise RefusalError(
                415, f"the body is JSON, and its content type is {content_type}: send Content-Type: application/json"
            )
        values, files = await _form(request, kind)
    elif content_type == "application/json":
        values = _json(await request.body())
    else:
        raise RefusalError(415, f"a body of type {content_type[:60]!r}: JSON or a form was expected")
    try:
        body = kind.model_validate(values)
    except ValidationError as error:
        raise first_mistake(error, kind.model_fields) from None
    for text in _texts(values):
        check_whole(text)
    return body, files


def _json(text: bytes) -> dict[str, object]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {str(error)[:100]}") from None
    if not isinstance(values, dict):
        raise RequestError('the body is not an object: {"source": ...} was expected')
    return values


async def _form(request: HttpRequest, kind: type[BaseModel]) -> tuple[dict[str, object], list[Uploaded]]:
    """The fields of a form, and its files. A field becomes a list if it occurs twice, or if no text is
    expected but a list. The words true and false become these values where they are expected.
    """
    values: dict[str, object] = {}
    files = []
    async with request.form(max_files=FIELDS, max_fields=FIELDS, max_part_size=10**9) as form:
        for key, value in form.multi_items():
            if isinstance(value, UploadFile):
                if key != "file":
                    raise RequestError(f"a file is in the field {key[:60]!r}: the field file was expected")
                files.append(Uploaded(value.filename or "upload", await value.read()))
            elif key in values:
                before = values[key]
                values[key] = [*(before if isinstance(before, list) else [before]), value]
            else:
                values[key] = value
    for name, field in kind.model_fields.items():
        text, expected = values.get(name), str(field.annotation)
        if not isinstance(text, str):
            continue
        if "bool" in expected and text in YES:
            values[name] = YES[text]
        elif "list[" in expected and not expected.startswith("str"):
            values[name] = [text]
    return values, files


def _texts(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
