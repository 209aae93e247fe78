"""A run that is served: its model, the queue that batches requests, and the desk for everything else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from transduce.answers.answer import Answer
from transduce.answers.request import Request
from transduce.core.errors import RequestError
from transduce.wings.documents.formats import FORMATS
from transduce.wings.serving.answerer import Answerer, Word
from transduce.wings.serving.desk import Desk
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.request_queue import RequestQueue

PAIR = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")  # a name with the languages, such as de-en


@dataclass(frozen=True)
class Languages:
    """The codes of the languages that a run reads and writes, such as "de" and "en"."""

    source: str
    target: str


class Service:
    """A run that is served under a ``name``. Requests share batches; ``limits`` bound the batch and the queues."""

    def __init__(self, name: str, answerer: Answerer, limits: Limits) -> None:
        self.name, self.answerer, self.limits = name, answerer, limits
        self.queue = RequestQueue(answerer.work, limits.batch_size, limits.queue)
        self.desk = Desk(limits.side_work, limits.side_queue)

    @property
    def reads_files(self) -> bool:
        """True if a source is a signal: a recording, a picture or a clip."""
        return self.answerer.conditional and bool(self.answerer.source_tokenizer.signal)

    @property
    def languages(self) -> Languages | None:
        """The languages of the run by its name (de-en), otherwise by its data. None if neither has the languages."""
        if (named := PAIR.fullmatch(self.name)) is not None:
            return Languages(*named.groups())
        origin = self.answerer.settings.get("data", {}).get("origin", {})
        codes = [origin.get(side) for side in ("source", "target")]
        if all(isinstance(code, str) and re.fullmatch("[a-z]{2,3}", code) for code in codes):
            return Languages(*codes)
        return None

    def describe(self) -> dict[str, object]:
        """A description of the run for clients, as values for JSON."""
        languages = self.languages
        codes = None if languages is None else (languages.source, languages.target)
        return {
            "name": self.name,
            **self.answerer.describe(codes),
            "labels": self.answerer.labels,
            "documents": list(FORMATS) if self._reads() == "text" and self.answerer.labels is None else [],
            "sentences": None if languages is None or find_spec("sentencex") is None else languages.source,
            "reads": self._reads(),
            "source_language": None if languages is None else languages.source,
            "target_language": None if languages is None else languages.target,
        }

    def card(self) -> dict[str, object]:
        """The model card in Markdown, with inputs to try."""
        return {"model": self.name, "card": self.answerer.card(self.name)}

    def _reads(self) -> str:
        tokenizer = self.answerer.source_tokenizer
        if not self.answerer.conditional:
            return "nothing"
        if tokenizer.signal:
            return "sound" if getattr(tokenizer, "spectral", False) else "picture"
        return "numbers" if tokenizer.numeric else "text"

    # ------------------------------------------------------------- verbs

    async def answer(self, requests: Sequence[Request], client: Hashable = None) -> list[Answer]:
        """The answers in the order of the requests. Requests of different clients share batches. ``client`` is whoever
        asks; clients share the time.

        Raises RequestError, BusyError if the queue has no room for all, TimeoutError after ``limits.seconds``, and
        StoppedError if the server stops. If one request fails, the others are cancelled.
        """
        futures = [
            asyncio.wrap_future(future) for future in self.queue.submit_all(requests, self.limits.seconds, client)
        ]
        try:
            return [await self._numbered(future, number) for number, future in enumerate(futures, 1)]
        except BaseException:
            for future in futures:
                future.cancel()
            await asyncio.gather(*futures, return_exceptions=True)  # retrieves all errors
            raise

    @staticmethod
    async def _numbered(future: asyncio.Future[Answer], number: int) -> Answer:
        """The answer. A RequestError gets the number of its input, because the scheduler reads each source alone."""
        try:
            return await future
        except RequestError as error:
            raise RequestError(re.sub(r"\Ainput 1\b", f"input {number}", str(error))) from error

    def stream(self, source: str, prefix: str) -> Iterator[str]:
        """The best output in pieces of text. Use ``desk`` to iterate over them."""
        return self.answerer.stream(source, prefix)

    async def complete(
        self, prefixes: Sequence[str], k: int, begun: str = "", sources: Sequence[str] | None = None
    ) -> list[list[Word]]:
        """The ``k`` most probable next words of each prefix, best first. ``sources`` are for a model with sources."""
        return await self.desk.call(lambda: self.answerer.inside.complete(prefixes, k, begun, sources))

    def close(self) -> None:
        """Answers the requests that it has received, then stops."""
        self.queue.close()
        self.desk.close()
