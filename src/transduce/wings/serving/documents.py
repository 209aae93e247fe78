"""Documents that clients send to be translated, and the terms that their translations must have."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from fastapi import Response

from transduce.answers.answer import Answer
from transduce.answers.request import Request, requests_for
from transduce.core.errors import RequestError
from transduce.wings.documents.context import Context
from transduce.wings.documents.document import Document
from transduce.wings.documents.formats import parse
from transduce.wings.documents.sentences import Sentences
from transduce.wings.documents.translation import Translation
from transduce.wings.serving import bodies
from transduce.wings.serving.answerer import Wanted
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.service import Service


def checked_terms(requests: list[Request], body: bodies.WithTerms, limits: Limits) -> list[Request]:
    """The same requests. Raises RequestError if terms of the body's glossary give one of them too many phrases."""
    for request in requests if body.glossary else ():
        if request.constraints is not None:
            limits.check_texts("required, with the terms of a source,", len(request.constraints.required))
    return requests


class Documents:
    """Translates documents with the runs of a catalogue, within its limits."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue, self._limits = catalogue, catalogue.limits

    async def translated(self, body: bodies.Document, files: Sequence[bodies.Uploaded], client: Hashable) -> Response:
        """The document with translations in place of its texts. The header x-units says what became of its units."""
        service = await self._catalogue.find(body.model)
        document = await self.parsed(files, body.column)
        content, counts = await self.content(service, document, body, client)
        name = f"attachment; filename*=UTF-8''{quote(PurePosixPath(files[0].name).name)}"
        headers = {"content-disposition": name, "x-units": counts}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def parsed(self, files: Sequence[bodies.Uploaded], column: str | None = None) -> Document:
        """The document of a form. Raises RequestError or DataError for one that cannot be read."""
        if len(files) != 1:
            raise RequestError(f"{len(files)} files are in the form: one document was expected, in the field file")
        name = PurePosixPath(files[0].name).name[-60:]
        suffix = PurePosixPath(name).suffix.lower()
        return await asyncio.to_thread(parse, files[0].content, suffix, name, column)

    async def content(
        self, service: Service, document: Document, body: bodies.Document, client: Hashable
    ) -> tuple[bytes, str]:
        """The translated document, and what became of its units."""
        if service.reads_files or not service.answerer.conditional:
            raise RequestError(f"{service.name} does not read text, so it translates no documents")
        context = Context(body.previous)
        translation = await asyncio.to_thread(self._translation, service, document, body.sentences)
        asked = translation.requests(requests_for(translation.texts))
        requests = checked_terms(service.answerer.asked(asked, Wanted(terms=body.terms)), body, self._limits)
        answers = await self._answers(service, requests, client)
        if context.count:
            again = context.asked(answers)
            for request in again.values():
                self._limits.check_text("a text of the document, with the texts before it,", request.source)
            second = await self._answers(service, list(again.values()), client)
            answers = context.merged(answers, dict(zip(again, second, strict=True)))
        return await asyncio.to_thread(translation.content, answers), str(translation.counts)

    async def _answers(self, service: Service, requests: Sequence[Request], client: Hashable) -> list[Answer]:
        answers = list[Answer]()
        for first in range(0, len(requests), self._limits.texts):
            answers += await service.answer(list(requests[first : first + self._limits.texts]), client)
        return answers

    def _translation(self, service: Service, document: Document, language: str | None) -> Translation:
        """The texts of a document. Raises RequestError for one that is too long."""
        spans = service.answerer.keeps_spans(document)
        translation = Translation(document, None if language is None else Sentences(language), spans)
        for text in translation.texts:
            self._limits.check_text("a text of the document", text)
        return translation
