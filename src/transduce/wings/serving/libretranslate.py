"""The routes of LibreTranslate's interface, for clients that know it: /translate and /languages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from pydantic import BaseModel, ConfigDict

from transduce.answers.answer import Answer
from transduce.answers.request import NO_EXTRAS, Extras, Request
from transduce.core.errors import RequestError
from transduce.wings.protection.protection import Protection
from transduce.wings.serving import bodies
from transduce.wings.serving.bodies import Index
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.gate import check_key, key_of
from transduce.wings.serving.keys import Keys
from transduce.wings.serving.routes import as_json
from transduce.wings.serving.service import Service

AUTO = "auto"  # a source language that the client does not know


class Translate(BaseModel):
    """The keys of /translate. ``q`` may have several lines, which are translated separately."""

    model_config = ConfigDict(extra="forbid")
    q: str | list[str]
    source: str = AUTO
    target: str
    format: str = "text"
    alternatives: Index = 0
    api_key: str | None = None


class Key(BaseModel):
    """The keys of /languages."""

    model_config = ConfigDict(extra="ignore")
    api_key: str | None = None


def libretranslate(catalogue: Catalogue, keys: Keys | None) -> APIRouter:
    """The routes for the runs of a catalogue whose languages are known. ``keys`` are the same as in ``Gate``."""
    router = APIRouter(tags=["libretranslate"])
    limits = catalogue.limits

    def check(request: HttpRequest, given: str | None) -> None:
        check_key(keys, key_of(request.scope) or given)

    @router.post("/translate", openapi_extra={"requestBody": {"content": {"application/json": {}}}})
    async def translate(request: HttpRequest) -> Response:
        """The translation of a text, or of each text of a list."""
        body, _ = await bodies.read(request, Translate)
        check(request, body.api_key)
        if body.format not in ("text", "html"):
            raise RequestError(f"format = {body.format[:60]!r}: text or html was expected")
        extras = Extras(protect=Protection(["markup"])) if body.format == "html" else NO_EXTRAS
        service = await _service(catalogue, body.source, body.target)
        texts = [body.q] if isinstance(body.q, str) else body.q
        limits.check_texts("q", len(texts))
        if not 0 <= body.alternatives < limits.nbest:
            raise RequestError(f"alternatives = {body.alternatives}: 0 to {limits.nbest - 1} was expected")
        lines = [line for text in texts for line in _lines(text)]
        limits.check_texts("the lines of q", max(1, len(lines)))
        for line in lines:
            limits.check_text("a line of q", line)
        nbest = body.alternatives + 1 if body.alternatives else None
        asked = [Request(line, nbest=nbest, extras=extras) for line in lines if line.strip()]
        found = iter(await service.answer(asked, request.client))
        every = [_joined(text, found, body.alternatives) for text in texts]
        one = isinstance(body.q, str)
        best = [text for text, _ in every]
        answer: dict[str, Any] = {"translatedText": best[0] if one else best}
        if body.alternatives:
            others = [some for _, some in every]
            answer["alternatives"] = others[0] if one else others
        if body.source == AUTO:
            assert service.languages is not None
            detected = {"language": service.languages.source, "confidence": 0}
            answer["detectedLanguage"] = detected if one else [detected] * len(texts)
        return as_json(answer)

    @router.get("/languages")
    async def languages(request: HttpRequest) -> Response:
        """The languages, each with the languages that it is translated into."""
        body, _ = await bodies.read(request, Key) if await request.body() else (Key(), [])
        check(request, body.api_key)
        await catalogue.opened()
        targets: dict[str, list[str]] = {}
        for run in catalogue:
            if (found := run.languages) is not None:
                targets.setdefault(found.source, []).append(found.target)
                targets.setdefault(found.target, [])
        return as_json([{"code": code, "name": code, "targets": sorted(set(some))} for code, some in targets.items()])

    return router


async def _service(catalogue: Catalogue, source: str, target: str) -> Service:
    """The first run with these languages. If there is none, raises RequestError, which names the known pairs."""
    await catalogue.opened()
    known = [(each, each.languages) for each in catalogue]
    for run, found in known:
        if found is not None and found.target == target and source in (found.source, AUTO):
            return await catalogue.find(run.name)
    pairs = ", ".join(sorted({f"{found.source} to {found.target}" for _, found in known if found is not None}))
    raise RequestError(f"{source[:20]} to {target[:20]} is not translated here. Known: {pairs or 'none'}")


def _lines(text: str) -> list[str]:
    """The lines of a text, divided like the lines of a file: not at U+2028, for example."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _joined(text: str, answers: Any, alternatives: int) -> tuple[str, Sequence[str]]:
    """The translation of a text and its alternatives. Takes an answer from ``answers`` for each line that is not empty.
    Empty lines stay empty. Only a text of one line has alternatives.
    """
    lines = _lines(text)
    found: list[Answer | None] = [next(answers) if line.strip() else None for line in lines]
    best = "\n".join("" if each is None else each.best.text for each in found)
    if len(lines) != 1 or found[0] is None:
        return best, []
    return best, [output.text for output in found[0].outputs[1 : alternatives + 1]]
