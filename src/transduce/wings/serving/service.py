"""A run that is served: its model, the scheduler that batches requests, and the desk for everything else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

from transduce.answers.answer import Answer
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.errors import RequestError
from transduce.core.protocols import Autoregressive, Chain, Framewise, Parallel, Searching, can
from transduce.wings.alignment.attention_weights import WEIGHTS
from transduce.wings.documents.formats import FORMATS
from transduce.wings.engines.sharing.kinds import LABELLING
from transduce.wings.language.completion import Completer
from transduce.wings.language.completion_search import NextWords, Word
from transduce.wings.serving.about import about, card_of
from transduce.wings.serving.desk import Desk
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.scheduler import Scheduler

PAIR = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")  # a name with the languages, such as de-en


@dataclass(frozen=True)
class Languages:
    """The codes of the languages that a run reads and writes, such as "de" and "en"."""

    source: str
    target: str


class Service:
    """A run that is served under a ``name``. Requests share batches; ``limits`` bound the batch and the queues."""

    def __init__(self, name: str, transducer: Transducer, limits: Limits) -> None:
        self.name, self.transducer, self.limits = name, transducer, limits
        self.scheduler = Scheduler(transducer, batch_size=limits.batch_size, queue=limits.queue)
        self.desk = Desk(limits.side_work, limits.side_queue)
        self._completer = lru_cache(16)(partial(_completer, transducer))  # no circle of references

    @property
    def reads_files(self) -> bool:
        """True if a source is a signal: a recording, a picture or a clip."""
        return self.transducer.conditional and self.transducer.source_tokenizer.signal

    @property
    def languages(self) -> Languages | None:
        """The languages of the run by its name (de-en), otherwise by its data. None if neither has the languages."""
        if (named := PAIR.fullmatch(self.name)) is not None:
            return Languages(*named.groups())
        origin = self.transducer.settings.get("data", {}).get("origin", {})
        codes = [origin.get(side) for side in ("source", "target")]
        if all(isinstance(code, str) and re.fullmatch("[a-z]{2,3}", code) for code in codes):
            return Languages(*codes)
        return None

    def describe(self) -> dict[str, Any]:
        """A description of the run for clients, as values for JSON."""
        transducer, model = self.transducer, type(self.transducer.model)
        languages = self.languages
        return {
            "name": self.name,
            **about(transducer, None if languages is None else (languages.source, languages.target)),
            "labels": self.labels,
            "documents": list(FORMATS) if self._reads() == "text" and self.labels is None else [],
            "sentences": None if languages is None or find_spec("sentencex") is None else languages.source,
            "reads": self._reads(),
            "columns": transducer.source_tokenizer.columns if transducer.conditional else 1,
            "rate": getattr(transducer.source_tokenizer, "rate", None),
            "dark_ink": getattr(transducer.source_tokenizer, "inverted", False),
            "writes": "numbers" if transducer.target_tokenizer.numeric else "text",
            "model": model.__name__,
            "search": type(transducer.search).__name__,
            "beam": getattr(transducer.search, "size", 1),
            "stepwise": can(model, Autoregressive) and not can(model, Searching),
            "attends": self._attends(),
            "source_language": None if languages is None else languages.source,
            "target_language": None if languages is None else languages.target,
        }

    @property
    def labels(self) -> str | None:
        """What gets the labels that the run gives: each of the "words" of a text, or the "text" as a whole. None if it
        gives no labels, or if its engine does not show their probabilities.
        """
        transducer, kind = self.transducer, type(self.transducer.model)
        labelling = transducer.settings.get("search", {}).get("type") in LABELLING
        if not labelling or can(kind, Searching) or not (can(kind, Chain) or can(kind, Parallel)):
            return None
        return "words" if can(kind, Chain) or transducer.token_for_token else "text"

    def card(self) -> dict[str, Any]:
        """The model card in Markdown, with inputs to try."""
        return {"model": self.name, "card": card_of(self.name, self.transducer)}

    def _attends(self) -> bool:
        """True if the run has attention to its source that ``/attention`` can show."""
        model: Any = self.transducer.model
        kind = type(model)
        if (
            not self.transducer.conditional
            or can(kind, Searching)
            or can(kind, Framewise)
            or not can(kind, Autoregressive)
        ):
            return False
        return any(path.rpartition(".")[2] == WEIGHTS for path, _ in model.named_modules())

    def _reads(self) -> str:
        tokenizer: Any = self.transducer.source_tokenizer
        if not self.transducer.conditional:
            return "nothing"
        if tokenizer.signal:
            return "sound" if tokenizer.spectral else "picture"
        return "numbers" if tokenizer.numeric else "text"

    # ------------------------------------------------------------- verbs

    async def answer(self, requests: Sequence[Request], client: Hashable = None) -> list[Answer]:
        """The answers in the order of the requests. Requests of different clients share batches. ``client`` is whoever
        asks; clients share the time.

        Raises RequestError, BusyError if the queue has no room for all, TimeoutError after ``limits.seconds``, and
        StoppedError if the server stops. If one request fails, the others are cancelled.
        """
        futures = [
            asyncio.wrap_future(future) for future in self.scheduler.submit_all(requests, self.limits.seconds, client)
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
        return self.transducer.stream(source, prefix=prefix)

    async def complete(
        self, prefixes: Sequence[str], k: int, begun: str = "", sources: Sequence[str] | None = None
    ) -> list[list[Word]]:
        """The ``k`` most probable next words of each prefix, best first. ``sources`` are for a model with sources."""
        completer = self._completer(k, sources is not None)
        return await self.desk.call(lambda: completer(prefixes, begun, sources))

    def close(self) -> None:
        """Answers the requests that it has received, then stops."""
        self.scheduler.close()
        self.desk.close()


def _completer(transducer: Transducer, k: int, with_sources: bool) -> Completer:
    return Completer(transducer, NextWords(k), with_sources)
