"""Documents that clients send to be translated, and the terms that their translations must have."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from fastapi import Response

from transduce.answers.answer import Answer
from transduce.answers.request import Request, requests_for
from transduce.core.errors import RequestError
from transduce.wings.documents.formats import parse
from transduce.wings.documents.glossary import Glossary
from transduce.wings.documents.sentences import Sentences
from transduce.wings.documents.translation import Translation, keeps_spans
from transduce.wings.serving import bodies
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.service import Service


def with_terms(requests: Iterable[Request], body: bodies.WithTerms, limits: Limits) -> list[Request]:
    """The requests, each with the terms of its source. Raises RequestError for one that has too many."""
    if not body.glossary:
        return list(requests)
    found = list(map(Glossary.of(body.terms).applied, requests))
    for request in found:
        if request.constraints is not None:
            limits.check_texts("required, with the terms of a source,", len(request.constraints.required))
    return found


class Documents:
    """Translates documents with the runs of a catalogue, within its limits."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue, self._limits = catalogue, catalogue.limits

    async def translated(self, body: bodies.Document, files: Sequence[bodies.Uploaded], client: Hashable) -> Response:
        """The document with translations in place of its texts. The header x-units says what became of its units."""
        service = await self._catalogue.find(body.model)
        if len(files) != 1:
            raise RequestError(f"{len(files)} files are in the form: one document was expected, in the field file")
        if service.reads_files or not service.transducer.conditional:
            raise RequestError(f"{service.name} does not read text, so it translates no documents")
        translation = await asyncio.to_thread(self._read, service, files[0], body)
        requests = with_terms(translation.requests(requests_for(translation.texts)), body, self._limits)
        answers = list[Answer]()
        for first in range(0, len(requests), self._limits.texts):
            answers += await service.answer(requests[first : first + self._limits.texts], client)
        content = await asyncio.to_thread(translation.content, answers)
        name = f"attachment; filename*=UTF-8''{quote(PurePosixPath(files[0].name).name)}"
        headers = {"content-disposition": name, "x-units": str(translation.counts)}
        return Response(content, media_type="application/octet-stream", headers=headers)

    def _read(self, service: Service, file: bodies.Uploaded, body: bodies.Document) -> Translation:
        """The texts of a document. Raises RequestError or DataError for one that cannot be read, or is too long."""
        name = PurePosixPath(file.name).name[-60:]
        document = parse(file.content, PurePosixPath(name).suffix.lower(), name, body.column)
        spans = keeps_spans(document, service.transducer)
        divide = None if body.sentences is None else Sentences(body.sentences)
        translation = Translation(document, divide, spans)
        for text in translation.texts:
            self._limits.check_text("a text of the document", text)
        return translation
