"""The file of an engine behind a server: an ``Answerer`` that works without PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import transduce_engine
from transduce.answers.answer import Answer
from transduce.answers.request import Request
from transduce.core import config
from transduce.core.errors import RequestError, UserError
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.unknown import Unknown
from transduce.search.constraints.phrases import Constraints
from transduce.wings.documents.document import Document
from transduce.wings.documents.glossary import Glossary
from transduce.wings.engines.engine_files import EngineModel, told
from transduce.wings.engines.engine_files import opened as open_model
from transduce.wings.serving.about import about
from transduce.wings.serving.answerer import Continued, Continuing, Inside, Wanted
from transduce.wings.serving.work import Finished

ROWS = 80  # of a running batch, one for each hypothesis: with fewer, its thread waits more; more do not fit the caches
HAS = ("prefix", "required", "forbidden", "terms", "nbest")  # what a request may ask for
HERE = "the server has the file of an engine, which gives outputs with their scores and probabilities, and nothing else"
INSTEAD = "serve the run itself, which needs PyTorch"
Place = tuple[transduce_engine.Ended, int]  # of an answer among those of a step


class EngineFile:
    """The ``Answerer`` of an engine's file, and its ``Work`` with its ``Batches``.

    Requests that cannot share a running batch have a given target or an empty source, or their model does not write
    token by token.
    """

    searching = small = True
    labels = None

    def __init__(self, model: EngineModel) -> None:
        self._model = model
        self._search: config.Table = model.engine.description("search")
        self._keeps_empty = bool(model.engine.description("limits")["keeps_empty"])

    @property
    def settings(self) -> config.Table:
        return self._model.settings

    @property
    def source_tokenizer(self) -> Tokenizer:
        return self._model.source_tokenizer

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self._model.target_tokenizer

    @property
    def max_source_length(self) -> int:
        return self._model.max_source_length

    @property
    def conditional(self) -> bool:
        return self._model.conditional

    @property
    def work(self) -> EngineFile:
        return self

    @property
    def inside(self) -> Inside:
        raise RequestError(
            f"{HERE}: for alignments, next words, attention, the tree of a beam and the effects of words, {INSTEAD}"
        )

    # ------------------------------------------------------------- what it is

    def describe(self, languages: tuple[str, str] | None) -> dict[str, object]:
        labels = tuple(str(entry[1]) for entry in self.target_tokenizer.entries if isinstance(entry, tuple))
        return {
            **about(self.settings, labels, "transduce-engine", (), languages),
            "columns": self.source_tokenizer.columns,
            "rate": getattr(self.source_tokenizer, "rate", None),
            "dark_ink": getattr(self.source_tokenizer, "inverted", False),
            "writes": "text",
            "model": self.settings.get("model", {}).get("type", ""),
            "search": self._search["type"],
            "beam": self.size,
            "stepwise": False,
            "attends": False,
        }

    def card(self, name: str) -> str:
        """The lines in the file that describe its model."""
        return self._model.engine.note("card")

    # ------------------------------------------------------------- requests

    @property
    def size(self) -> int:
        return int(self._search.get("size", 1))

    def asked(self, requests: Iterable[Request], wanted: Wanted) -> list[Request]:
        for each in fields(Wanted):
            if each.name not in HAS and getattr(wanted, each.name):
                name = {"terms": "glossary"}.get(each.name, each.name)
                raise RequestError(f"{name} is asked for, and {HERE}: leave it out, or {INSTEAD}")
        constraints = Constraints(wanted.required, wanted.forbidden) or None
        if (wanted.prefix or constraints or wanted.terms) and not self._model.leads:
            raise RequestError(
                "a prefix or phrases are asked for, and the model does not write token by token: leave them out"
            )
        found = [replace(each, prefix=wanted.prefix, constraints=constraints, nbest=wanted.nbest) for each in requests]
        return list(map(Glossary.of(wanted.terms).applied, found)) if wanted.terms else found

    @property
    def batches(self) -> EngineFile:
        return self

    def read(self, request: Request) -> Sequence[int]:
        """The ids of a source that enters a running batch; the engine itself reads the others."""
        return self.source_tokenizer.encode([request.source])[0] if self.shared_by(request) else ()

    def answer(self, requests: Sequence[Request], sources: Sequence[Sequence[int]], batch_size: int) -> list[Answer]:
        return self._model.answer_some(requests, batch_size)

    def shared_by(self, request: Request) -> bool:
        full = self._keeps_empty or bool(request.source.strip() or request.prefix or request.constraints)
        return self._model.leads and request.target is None and full

    def running_batch(self, nbest: int | None, batch_size: int) -> EngineBatch:
        """It has fewer sources if each has more hypotheses."""
        return EngineBatch(self._model, nbest or 0, max(1, min(batch_size, ROWS // max(self.size, nbest or 1))))

    def answer_found(self, request: Request, source: Sequence[int], found: Place) -> Answer:
        ended, place = found
        return self._model.answer_found(request, told(lambda: ended.answers[place]))

    def keeps_spans(self, document: Document) -> bool:
        return False

    def unknown_of(self, source: str, target: str) -> tuple[Unknown, Unknown]:
        both = Unknown(), Unknown()
        with suppress(UserError):
            if self.conditional:
                both[0].encode(self.source_tokenizer, source)
            both[1].encode(self.target_tokenizer, target)
        return both

    # ------------------------------------------------------------- outputs

    def stream(self, source: str, prefix: str) -> Iterator[str]:
        """The whole output as one piece."""
        (answer,) = self._model.answer_some(self.asked([Request(source)], Wanted(prefix)))
        yield answer.best.text

    def was_cut(self, source: str, text: str, count: int) -> bool:
        (answer,) = self._model.answer_some([Request(source)])
        return answer.best.cut_at is not None

    def continued(self, prompt: str, how: Continuing) -> list[Continued]:
        begun = self.target_tokenizer.encode([prompt])[0][:-1]
        drawn = self._model.generate(
            prompt, how.samples, how.length, how.temperature, how.top_k or 0, how.top_p or 0.0, how.seed
        )
        return [Continued(each.text, (*begun, *each.ids), each.token_log_probs) for each in drawn]

    def stream_continued(self, prompt: str, how: Continuing) -> Iterator[str]:
        """The whole text as one piece."""
        yield self.continued(prompt, how)[0].text

    def likely(self, source: str, ids: Sequence[int], best: int) -> list[list[tuple[int, float]]]:
        raise RequestError(f"{HERE}: leave out the number of the most probable tokens (top_logprobs), or {INSTEAD}")


class EngineBatch:
    """A running batch of at most ``size`` sources."""

    def __init__(self, model: EngineModel, nbest: int, size: int) -> None:
        self._model, self._running = model, model.running(nbest)
        self._size, self._active = size, set[int]()

    @property
    def free(self) -> int:
        return self._size - len(self._active)

    @property
    def has_room(self) -> bool:
        """True if half of the places are free: one source alone costs nearly as much to encode as two."""
        return 2 * self.free >= self._size

    def enter(self, keys: Sequence[int], requests: Sequence[Request], sources: Sequence[Sequence[int]]) -> Finished:
        wanted = self._model.wanted(requests)
        told(lambda: self._running.enter(keys, sources, wanted))
        self._active |= set(keys)
        return ()  # the next step returns those that need no step

    def step(self, most: int) -> Finished:
        ended = told(partial(self._running.advance, len(self._active), most))
        self._active.difference_update(ended.keys)
        return [(key, (ended, place)) for place, key in enumerate(ended.keys)]

    def drop(self, keys: Sequence[int]) -> None:
        self._running.drop(keys)
        self._active -= set(keys)


def open_file(path: Path, threads: int = 1) -> EngineFile:
    """Raises UserError for a file that is none of an engine, and MissingPackageError if the engine was not built."""
    return EngineFile(open_model(path, threads, None))
