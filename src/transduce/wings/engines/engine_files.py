"""Predicts with the file of an engine (``transduce export RUN --to engine``), without PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import transduce_engine
from transduce.answers.answer import Answer, Output, Truncation
from transduce.answers.batches import window_size
from transduce.answers.problems import HOPELESS, in_windows, settled
from transduce.answers.request import Request
from transduce.core import config
from transduce.core.errors import MissingPackageError, RequestError, UserError
from transduce.core.types import Hypothesis
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.storage import from_record
from transduce.data.unknown import Unknown, unknown_in
from transduce.wings.engines.engine_tokens import Encode, EngineTokens

T = TypeVar("T")
FASTEST = 8  # sources of a batch: the engine's own default
BY_TOKENS = ("greedy", "beam", "sampling")  # searches that write token by token

SCORED, LED, FOUND = "scored", "led", "found"  # kinds of requests: a given target, a prefix or phrases, or neither


@dataclass(frozen=True)
class EngineModel:
    """A file's model as ``transduce predict`` needs it: a ``LightModel``. ``size`` and ``nbest`` replace those of the
    run's search; 0 keeps them. Sources longer than ``max_source_length`` tokens (EOS included) are cut.

    The tokenizers are those of the library for subwords, otherwise the engine's own (``EngineTokens``).
    """

    engine: transduce_engine.Engine
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    settings: config.Table
    max_source_length: int
    size: int = 0
    nbest: int = 0

    @property
    def conditional(self) -> bool:
        """False for a language model, which has no sources."""
        return not self.engine.generates

    @cached_property
    def leads(self) -> bool:
        """True if outputs can begin with a prefix, and have phrases or not: those of a model with sources that writes
        token by token.
        """
        by_tokens = self.engine.description("search")["type"] in BY_TOKENS
        return self.conditional and by_tokens and not self.engine.signal

    def resized(self, size: int | None = None, nbest: int | None = None) -> EngineModel:
        if size is not None and nbest is not None and nbest > size:
            raise UserError(f"nbest = {nbest}, size = {size}: a beam of n has room for 1 to n hypotheses")
        return replace(self, size=size or self.size, nbest=nbest or self.nbest)

    def answer(self, requests: Iterable[Request], batch_size: int = 64, tolerant: bool = False) -> Iterator[Answer]:
        """Yields an answer to each request, in order, from its source, prefix and phrases alone, as
        ``LightTransducer.answer`` does.
        """

        def answered(some: Sequence[Request], first: int) -> list[Answer]:
            return self.answer_some(some, batch_size, first)

        size = window_size(batch_size)
        return settled(in_windows(requests, size, answered), tolerant, HOPELESS if size > 1 else 1)

    def answer_some(self, requests: Sequence[Request], batch_size: int = 64, first: int = 1) -> list[Answer]:
        """An answer to each request, from its source, prefix, phrases, ``nbest`` and target alone. The first one has
        the number ``first`` in the RequestError of a request that cannot be answered.
        """
        answers = dict[int, Answer]()
        kinds = [(_kind(request), request.nbest or 0) for request in requests]
        for kind in dict.fromkeys(kinds):
            places = [place for place, each in enumerate(kinds) if each == kind]
            some = [requests[place] for place in places]
            try:
                found = self._scored(some) if kind[0] == SCORED else self._searched(some, kind, batch_size)
            except UserError as error:
                raise RequestError(_numbered(str(error), [first + place for place in places])) from error
            answers |= zip(places, map(self.answer_found, some, found), strict=True)
        return [answers[place] for place in range(len(requests))]

    def _searched(
        self, requests: Sequence[Request], kind: tuple[str, int], batch_size: int
    ) -> list[transduce_engine.Answer]:
        wanted = replace(self, nbest=kind[1]) if kind[1] else self
        if kind[0] == LED:
            return wanted._led(requests, batch_size)
        return wanted.answer_texts([request.source for request in requests], batch_size)

    def _led(self, requests: Sequence[Request], batch_size: int) -> list[transduce_engine.Answer]:
        if not self.leads:
            raise UserError("a prefix and phrases need a model with sources that writes token by token: leave them out")
        rows = self.source_tokenizer.encode([request.source for request in requests])
        wanted = self.wanted(requests)
        return told(lambda: self.engine.search_ids(rows, "", wanted, self.size, self.nbest, min(batch_size, FASTEST)))

    def wanted(self, requests: Sequence[Request]) -> transduce_engine.Wanted | None:
        """The prefixes and phrases of requests; None if there are none. Raises RequestError, with the place in
        ``requests``, for phrases that the vocabulary cannot write.
        """
        if not any(request.prefix or request.constraints for request in requests):
            return None
        prefixes = [self._prefix_ids(request) for request in requests]
        if not any(request.constraints for request in requests):
            return transduce_engine.Wanted(prefixes)
        found = [self._phrases(*each) for each in enumerate(requests, 1)]
        required, forbidden = zip(*found, strict=True)
        return transduce_engine.Wanted(prefixes, (), forbidden, required, self.engine.lexicon.borders())

    def _phrases(self, number: int, request: Request) -> tuple[list[int], list[int]]:
        """The automata of the phrases of a request, required and forbidden."""
        if not request.constraints:
            return [], []
        lexicon = self.engine.lexicon
        try:
            phrases = request.constraints.tokenized(lexicon)
        except UserError as error:
            raise RequestError(f"input {number}: {error}") from error
        return lexicon.automata(phrases.required, phrases.forbidden)

    def _prefix_ids(self, request: Request) -> Sequence[int]:
        """The ids that the outputs of a request begin with."""
        ids: Sequence[int] = self.target_tokenizer.encode([request.prefix])[0] if request.prefix else ()
        return ids[:-1]

    def _scored(self, requests: Sequence[Request]) -> list[transduce_engine.Answer]:
        targets = [str(request.target) for request in requests]
        if self.engine.generates:
            return self.score_texts(targets)
        if self.engine.signal:
            given = self.target_tokenizer.encode(targets)
            return told(lambda: self.engine.score_signals([request.source for request in requests], given))
        rows = self.source_tokenizer.encode([request.source for request in requests])
        wanted = self.target_tokenizer.encode(targets)
        return told(lambda: self.engine.score_ids(rows, wanted))

    def answer_texts(self, sources: Sequence[str], batch_size: int = 64) -> list[transduce_engine.Answer]:
        batch = min(batch_size, FASTEST)
        return told(lambda: self.engine.answer(sources, self.size, self.nbest, batch))

    def score_texts(self, texts: Sequence[str]) -> list[transduce_engine.Answer]:
        """The texts with a language model's log-probabilities of their tokens."""
        return told(lambda: self.engine.score(texts))

    def running(self, nbest: int = 0) -> transduce_engine.Running:
        """A search that sources enter and leave. Raises UserError for a model that does not write token by token."""
        running: transduce_engine.Running = told(lambda: self.engine.running(self.size, nbest or self.nbest))
        return running

    def generate(self, prompt: str, *how: Any) -> list[transduce_engine.Output]:
        """Texts that go on with a prompt, as ``Engine.generate`` draws them."""
        return told(lambda: self.engine.generate(prompt, *how))

    def force(self, rows: Sequence[Any], targets: Sequence[Sequence[int]]) -> list[Hypothesis]:
        """The targets, ids with EOS, with the model's log-probabilities of their tokens. Rows are ids with EOS, or the
        paths of signals.
        """
        score = self.engine.score_signals if self.engine.signal else self.engine.score_ids
        found = told(lambda: score(rows, targets))
        outputs = [answer.best for answer in found]
        return [Hypothesis(each.ids, each.log_prob, each.score, each.token_log_probs) for each in outputs]

    def answer_found(self, request: Request, found: transduce_engine.Answer) -> Answer:
        """The answer to a request, from the answer of the engine. Raises RequestError if it has no output."""
        if not found.outputs:
            raise RequestError("input 1: the model's numbers are not finite, so it has no output")
        cut = found.read_tokens < found.source_tokens
        truncated = Truncation(found.source_tokens, found.read_tokens) if cut else None
        outputs = [
            Output(
                each.text,
                tuple(self.target_tokenizer.tokens(each.ids)),
                each.log_prob,
                each.score,
                each.token_log_probs,
                ids=each.ids,
                cut_at=each.cut or None,
            )
            for each in found.outputs
        ]
        unknown, unknown_target = self._unknown(request, found), self._unknown_target(request)
        answer = Answer(request, outputs, truncated, unknown=unknown, unknown_target=unknown_target)
        return answer.satisfying(request.constraints, self.engine.lexicon) if request.constraints else answer

    def _unknown(self, request: Request, found: transduce_engine.Answer) -> Unknown:
        if not found.unknown or self.engine.generates:
            return Unknown(tokens=found.read_tokens - 1, lines=1)
        (row,) = self.source_tokenizer.encode([request.source])
        return unknown_in(self.source_tokenizer, row[: found.read_tokens], request.source)

    def _unknown_target(self, request: Request) -> Unknown:
        found = Unknown(lines=1)
        if given := request.target if request.target is not None else request.prefix:
            found.encode(self.target_tokenizer, given)
        return found


def opened(path: Path, threads: int, size: int | None) -> EngineModel:
    """The model of a file, with a beam of ``size``. Raises UserError for another file, and MissingPackageError if the
    engine was not built.
    """
    found = open_file(path, threads or 1)
    return found if size is None else found.resized(size)


def open_file(file: Path | bytes, threads: int = 1) -> EngineModel:
    engine = told(lambda: transduce_engine.load(file, threads))
    settings = told(lambda: engine.description("settings"))
    try:
        reads, writes = engine.description("source"), engine.description("target")
        source = _tokenizer(reads, engine.source_ids, engine)
        shared = reads == writes and reads["unit"] == "library"  # each takes megabytes
        target = source if shared else _tokenizer(writes, engine.target_ids, engine)
        limit = int(engine.description("limits")["max_source_length"])
        if not isinstance(settings.get("data", {}), dict):
            raise TypeError("settings.data is no table")
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        name = "the file" if isinstance(file, bytes) else file
        raise UserError(f"{name} has no right settings or tokenizers ({error}): export the run again") from error
    return EngineModel(engine, source, target, settings, limit)


def _tokenizer(described: config.TableView, encode: Encode, engine: transduce_engine.Engine) -> Tokenizer:
    if described["unit"] == "ids":
        raise UserError(
            "the file is a part of an export to native and has no tokenizers: name the folder of the export"
        )
    if described["unit"] == "library":
        return from_record(described["record"])

    def ids(texts: Sequence[str]) -> Sequence[Sequence[int]]:
        return told(lambda: encode(texts))

    def text(row: Sequence[int]) -> str:
        return told(lambda: engine.decode(row))

    return cast(Tokenizer, EngineTokens(described, ids, text))


def told(work: Callable[[], T]) -> T:
    """The result of a piece of work, whose errors become those of this package."""
    try:
        return work()
    except transduce_engine.MissingLibraryError as error:
        raise MissingPackageError(str(error)) from error
    except transduce_engine.EngineError as error:
        raise UserError(str(error)) from error


def _kind(request: Request) -> str:
    led = request.prefix or request.constraints
    return SCORED if request.target is not None else LED if led else FOUND


def _numbered(message: str, numbers: Sequence[int]) -> str:
    """The message about "input N", where N is the place in ``numbers``, from 1."""
    head, _, rest = message.partition(":")
    number = head.removeprefix("input ")
    return f"input {numbers[int(number) - 1]}:{rest}" if number.isdigit() else message
