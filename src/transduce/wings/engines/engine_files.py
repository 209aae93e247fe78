"""Predicts with the file of an engine (``transduce export RUN --to engine``), without PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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

FASTEST = 8  # sources of a batch: the engine's own default


@dataclass(frozen=True)
class EngineModel:
    """A file's model as ``transduce predict`` needs it: a ``LightModel``. ``size`` and ``nbest`` replace those of the
    run's search; 0 keeps them.
    """

    engine: transduce_engine.Engine
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    settings: config.Table
    size: int = 0
    nbest: int = 0

    def resized(self, size: int | None = None, nbest: int | None = None) -> EngineModel:
        if size is not None and nbest is not None and nbest > size:
            raise UserError(f"nbest = {nbest}, size = {size}: a beam of n has room for 1 to n hypotheses")
        return replace(self, size=size or self.size, nbest=nbest or self.nbest)

    def answer(self, requests: Iterable[Request], batch_size: int = 64, tolerant: bool = False) -> Iterator[Answer]:
        """Yields an answer to each request, in order, from its source alone, as ``LightTransducer.answer`` does."""

        def answered(some: Sequence[Request], first: int) -> list[Answer]:
            sources = [request.source for request in some]
            try:
                found = self.answer_texts(sources, batch_size)
            except UserError as error:
                raise RequestError(_numbered(str(error), first)) from error
            return [self._answer(*each) for each in zip(some, found, strict=True)]

        size = window_size(batch_size)
        return settled(in_windows(requests, size, answered), tolerant, HOPELESS if size > 1 else 1)

    def answer_texts(self, sources: Sequence[str], batch_size: int = 64) -> list[transduce_engine.Answer]:
        batch = min(batch_size, FASTEST)
        answers: list[transduce_engine.Answer] = _told(
            lambda: self.engine.answer(sources, self.size, self.nbest, batch)
        )
        return answers

    def score_texts(self, texts: Sequence[str]) -> list[transduce_engine.Answer]:
        """The texts with a language model's log-probabilities of their tokens."""
        answers: list[transduce_engine.Answer] = _told(lambda: self.engine.score(texts))
        return answers

    def force(self, rows: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Hypothesis]:
        """The targets, ids with EOS, with the model's log-probabilities of their tokens."""
        found = _told(lambda: self.engine.score_ids(rows, targets))
        outputs = [answer.best for answer in found]
        return [Hypothesis(each.ids, each.log_prob, each.score, each.token_log_probs) for each in outputs]

    def _answer(self, request: Request, found: transduce_engine.Answer) -> Answer:
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
        unknown = Unknown(tokens=found.read_tokens - 1, lines=1)
        if found.unknown:
            (row,) = self.source_tokenizer.encode([request.source])
            unknown = unknown_in(self.source_tokenizer, row[: found.read_tokens], request.source)
        return Answer(request, outputs, truncated, unknown=unknown)


def opened(path: Path, threads: int, size: int | None) -> EngineModel:
    """The model of a file, with a beam of ``size``. Raises UserError for another file, and MissingPackageError if the
    engine was not built.
    """
    found = open_file(path, threads or 1)
    return found if size is None else found.resized(size)


def open_file(file: Path | bytes, threads: int = 1) -> EngineModel:
    engine: transduce_engine.Engine = _told(lambda: transduce_engine.load(file, threads))
    settings = _told(lambda: engine.description("settings"))
    try:
        target = from_record(engine.description("target")["record"])
        source = target if engine.generates else from_record(engine.description("source")["record"])
        if not isinstance(settings.get("data", {}), dict):
            raise TypeError("settings.data is no table")
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        name = "the file" if isinstance(file, bytes) else file
        raise UserError(f"{name} has no right settings or tokenizers ({error}): export the run again") from error
    return EngineModel(engine, source, target, settings)


def _told(work: Callable[[], Any]) -> Any:
    """The result of a piece of work, whose errors become those of this package."""
    try:
        return work()
    except transduce_engine.MissingLibraryError as error:
        raise MissingPackageError(str(error)) from error
    except transduce_engine.EngineError as error:
        raise UserError(str(error)) from error


def _numbered(message: str, first: int) -> str:
    """The message about "input N", where N counts from ``first``."""
    head, _, rest = message.partition(":")
    number = head.removeprefix("input ")
    return f"input {int(number) + first - 1}:{rest}" if number.isdigit() else message
