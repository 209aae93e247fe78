"""The routes of LibreTranslate's interface, for clients that know it: texts, files, and the languages of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from pydantic import BaseModel, ConfigDict

from transduce.answers.answer import Answer
from transduce.answers.request import Request
from transduce.core.errors import RequestError
from transduce.wings.serving import bodies
from transduce.wings.serving.answerer import Wanted
from transduce.wings.serving.bodies import Index
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.documents import Documents
from transduce.wings.serving.gate import check_key, key_of
from transduce.wings.serving.kept_files import KeptFiles
from transduce.wings.serving.keys import Keys
from transduce.wings.serving.languages import detect, name_of
from transduce.wings.serving.problems import RefusalError
from transduce.wings.serving.proxies import Proxies
from transduce.wings.serving.routes import as_json, schema

AUTO = "auto"  # a source language that the client does not know
KEPT = 5  # translated files of the largest size that are kept


class Key(BaseModel):
    """The keys of /languages."""

    model_config = ConfigDict(extra="ignore")
    api_key: str | None = None


class Detect(Key):
    """The keys of /detect."""

    q: str | list[str]

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class Translate(Detect):
    """The keys of /translate. ``q`` may have several lines, which are translated separately. ``source`` may be auto:
    then the server detects the language of all texts together.
    """

    model_config = ConfigDict(extra="forbid")
    source: str = AUTO
    target: str
    format: str = "text"
    alternatives: Index = 0


class TranslateFile(Key):
    """The fields of /translate_file beside the file."""

    source: str = AUTO
    target: str


def libretranslate(catalogue: Catalogue, keys: Keys | None, proxies: Proxies) -> APIRouter:
    """The routes for the runs of a catalogue whose languages are known. ``keys`` are the same as in ``Gate``."""
    router = APIRouter(tags=["libretranslate"])
    limits = catalogue.limits
    documents, kept = Documents(catalogue), KeptFiles(KEPT * limits.upload)

    def check(request: HttpRequest, given: str | None) -> None:
        check_key(keys, key_of(request.scope) or given)

    @router.post("/translate", openapi_extra=schema(Translate))
    async def translate(request: HttpRequest) -> Response:
        """The translation of a text, or of each text of a list."""
        body, _ = await bodies.read(request, Translate)
        check(request, body.api_key)
        if body.format not in ("text", "html"):
            raise RequestError(f"format = {body.format[:60]!r}: text or html was expected")
        limits.check_texts("q", len(body.texts))
        if not 0 <= body.alternatives < limits.nbest:
            raise RequestError(f"alternatives = {body.alternatives}: 0 to {limits.nbest - 1} was expected")
        lines = [line for text in body.texts for line in _lines(text)]
        limits.check_texts("the lines of q", max(1, len(lines)))
        for line in lines:
            limits.check_text("a line of q", line)
        name, detected = await _run(catalogue, body.source, body.target, lines)
        service = await catalogue.find(name)
        nbest = body.alternatives + 1 if body.alternatives else None
        wanted = Wanted(nbest=nbest, protect=("markup",) if body.format == "html" else ())
        asked = service.answerer.asked([Request(line) for line in lines if line.strip()], wanted)
        found = iter(await service.answer(asked, request.client))
        every = [_joined(text, found, body.alternatives) for text in body.texts]
        one = isinstance(body.q, str)
        best = [text for text, _ in every]
        answer: dict[str, object] = {"translatedText": best[0] if one else best}
        if body.alternatives:
            others = [some for _, some in every]
            answer["alternatives"] = others[0] if one else others
        if body.source == AUTO:
            answer["detectedLanguage"] = detected if one else [detected] * len(body.texts)
        return as_json(answer)

    @router.post("/translate_file", openapi_extra=schema(TranslateFile, file=True))
    async def translate_file(request: HttpRequest) -> Response:
        """The address of a translated document. It is kept for ten minutes, and its name is a secret."""
        body, files = await bodies.read(request, TranslateFile)
        check(request, body.api_key)
        document = await documents.parsed(files)
        texts = [unit.text for unit in document.units]
        name, _ = await _run(catalogue, body.source, body.target, texts)
        service = await catalogue.find(name)
        content, _ = await documents.content(service, document, bodies.Document(), request.client)
        path = PurePosixPath(files[0].name)
        secret = kept.keep(f"{path.stem}_{body.target}{path.suffix}", content)
        return as_json({"translatedFileUrl": f"{proxies.base()}/download_file/{quote(secret)}"})

    @router.get("/download_file/{name}")
    async def download_file(name: str) -> Response:
        """A document that /translate_file has translated."""
        content = kept.find(name)
        if content is None:
            raise RefusalError(404, "this file is not kept, or not any more: translate it again")
        headers = {"content-disposition": f"attachment; filename={quote(name.partition('.')[2])}"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    @router.post("/detect", openapi_extra=schema(Detect))
    async def detection(request: HttpRequest) -> Response:
        """The probable languages of a text with a confidence of 0 to 100, the most probable first."""
        body, _ = await bodies.read(request, Detect)
        check(request, body.api_key)
        limits.check_texts("q", len(body.texts))
        for text in body.texts:
            limits.check_text("q", text)
        found = detect("\n".join(body.texts))
        return as_json([_detected(code, probability) for code, probability in found] or [_detected("en", 0.0)])

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
        values = [{"code": code, "name": name_of(code), "targets": sorted(set(some))} for code, some in targets.items()]
        return as_json(values)

    return router


async def _run(catalogue: Catalogue, source: str, target: str, texts: Sequence[str]) -> tuple[str, dict[str, object]]:
    """The name of the first run with these languages, and the detected source language. Raises RequestError, which
    names the known pairs, if there is none.
    """
    await catalogue.opened()
    known = [(run.name, run.languages) for run in catalogue if run.languages is not None]
    fitting = [(name, found.source) for name, found in known if found.target == target]
    chosen, confidence = source, 0.0
    if source == AUTO and fitting:
        text = "\n".join(texts)
        probable = [code for code, _ in detect(text, {code for _, code in fitting})]
        chosen = (probable or [fitting[0][1]])[0]
        confidence = dict(detect(text)).get(chosen, 0.0)
    for name, code in fitting:
        if code == chosen:
            return name, _detected(chosen, confidence)
    pairs = ", ".join(sorted({f"{found.source} to {found.target}" for _, found in known}))
    raise RequestError(f"{source[:20]} to {target[:20]} is not translated here. Known: {pairs or 'none'}")


def _detected(code: str, probability: float) -> dict[str, object]:
    return {"language": code, "confidence": round(100 * probability, 1)}


def _lines(text: str) -> list[str]:
    """The lines of a text, divided like the lines of a file: not at U+2028, for example."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _joined(text: str, answers: Iterator[Answer], alternatives: int) -> tuple[str, Sequence[str]]:
    """The translation of a text and its alternatives. Takes an answer from ``answers`` for each line that is not empty.
    Empty lines stay empty. Only a text of one line has alternatives.
    """
    lines = _lines(text)
    found: list[Answer | None] = [next(answers) if line.strip() else None for line in lines]
    best = "\n".join("" if each is None else each.best.text for each in found)
    if len(lines) != 1 or found[0] is None:
        return best, []
    return best, [output.text for output in found[0].outputs[1 : alternatives + 1]]
