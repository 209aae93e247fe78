"""The one way from requests to answers: sources are read, searched or scored in batches, and extras are added."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from transduce.answers.answer import Answer, Output
from transduce.answers.batches import sorted_batches
from transduce.answers.cuts import cut_at
from transduce.answers.derivations import Derived
from transduce.answers.empty_sources import is_empty
from transduce.answers.problems import HOPELESS, in_windows, settled
from transduce.answers.request import Request
from transduce.answers.text_model import SourceRow, TextModel
from transduce.compute.cluster import AnyWorkers
from transduce.core import registry
from transduce.core.errors import RequestError, UserError
from transduce.core.protocols import AnySearch, Deriving, Search, Searching, TextContext
from transduce.core.types import EOS, Derivation, Hypothesis
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.base import encoded
from transduce.data.unknown import Unknown, unknown_in
from transduce.search.base import ends_freely, with_unknown
from transduce.search.constraints.base import constrained
from transduce.search.constraints.phrases import Constraints, Tokenized
from transduce.search.limits import longest_output

B = TypeVar("B")
R = TypeVar("R")

Searched = tuple[Sized, list[int], Tokenized | None]  # a source's row, the ids of its prefix, its constraints
Scored = tuple[Sized, Sized]  # the rows of a source and of a target
Found = Sequence[Hypothesis | Derivation]  # for one source, best first


@dataclass(frozen=True, eq=False, repr=False)
class Pipeline(TextModel):
    """Answers requests in their order.

    ``workers`` are processes that share the batches. If None, this process does all the work. ``context`` is the text
    before a line that evaluation lets a language model read; None for none. ``folder`` is the run directory of the
    model; None if it has none.
    """

    workers: AnyWorkers | None = field(default=None, kw_only=True)
    context: TextContext | None = field(default=None, kw_only=True)
    folder: Path | None = field(default=None, kw_only=True)

    def answer(
        self,
        requests: Iterable[Request],
        search: AnySearch | None = None,
        batch_size: int = 64,
        window: int | None = None,
        first: int = 1,
        tolerant: bool = False,
    ) -> Iterator[Answer]:
        """Yields an answer to each request, in order.

        It reads ``window`` requests at a time, to put sources of similar length in one batch, and answers them before
        it reads the next. So no more than ``window`` requests and answers are in memory. The default is 64 batches,
        or 4 for signals; it is one request if ``batch_size`` is 1. The first request has the number
        ``first`` in messages.

        Raises RequestError for a request that cannot be answered, after the answers before it. If ``tolerant`` is True,
        such a request gets an answer without outputs, whose ``problem`` says why; it is raised only if no request can
        be answered (``problems.settled``). Raises UserError if ``batch_size`` or ``window`` is less than 1.
        """

        def answered(some: Sequence[Request], number: int) -> list[Answer]:
            sources = self.read([request.text for request in some], number)
            return self.answer_read(some, sources, number, search, batch_size)

        size = self.window_size(batch_size) if window is None else window
        return settled(in_windows(requests, size, answered, first), tolerant, HOPELESS if size > 1 else 1)

    def answer_read(
        self,
        requests: Sequence[Request],
        sources: Sequence[SourceRow],
        first: int = 1,
        search: AnySearch | None = None,
        batch_size: int = 64,
    ) -> list[Answer]:
        """An answer to each request, in order. ``sources`` are the requests' sources, which ``read`` has read already.

        The first request has the number ``first`` in messages. Raises RequestError, also in the place of any other
        UserError, if a request cannot be answered.
        """
        try:
            hypotheses = self._hypotheses(requests, sources, first, search or self.search, batch_size)
            return self.answers_from(requests, sources, hypotheses, batch_size, search)
        except RequestError:
            raise
        except UserError as error:  # such as a prefix that is longer than an output may be
            raise RequestError(str(error)) from error

    def answers_from(
        self,
        requests: Sequence[Request],
        sources: Sequence[SourceRow],
        hypotheses: Sequence[Found],
        batch_size: int = 64,
        search: AnySearch | None = None,
    ) -> list[Answer]:
        """An answer to each request, in order, from the hypotheses that ``search`` (by default the own search) has
        found for it, with its extras. ``sources`` are the requests' sources, which ``read`` has read.
        """
        every = zip(requests, sources, hypotheses, strict=True)
        answers = [self._answer(*each, search or self.search) for each in every]
        if not any(answer.request.extras for answer in answers):
            return answers
        rows = [source.row for source in sources]
        completed: list[Answer] = registry.service("extras")(self, answers, rows, batch_size)
        return completed

    def _hypotheses(
        self, requests: Sequence[Request], sources: Sequence[SourceRow], first: int, search: AnySearch, batch_size: int
    ) -> list[Found]:
        """The hypotheses for each request, in order. Requests share batches if all are scored, or all searched with one
        ``nbest``, and all or none are to have <unk> replaced. Only then does a search write <unk>.
        """
        hypotheses: list[Found] = [[] for _ in requests]
        empty = [place for place, request in enumerate(requests) if self.has_empty_output(request, search)]
        for place, alone in zip(empty, self._empty([sources[place] for place in empty], search), strict=True):
            hypotheses[place] = alone
        own = search
        for (scored, nbest, replaced), places in _places_by_kind(requests, set(empty)).items():
            search = with_unknown(own) if replaced else own
            some = [(first + place, requests[place], sources[place]) for place in places]
            if scored:
                found = self._score(some, search, batch_size)
            else:
                found = self._search(some, search if nbest is None else search.resized(nbest=nbest), batch_size)
            for place, each in zip(places, found, strict=True):
                hypotheses[place] = each
        return hypotheses

    def has_empty_output(self, request: Request, search: AnySearch) -> bool:
        """True if the request's output is empty because its source is empty. The model does not decide then. The search
        must be able to write an empty output, and the request must not ask for a target, a prefix or a phrase.

        False for a run that learned from pairs with an empty side (data.lines.empty = "keep"): its model decides.
        """
        asked = request.target is not None or request.prefix or request.constraints
        free = self.conditional and not self.keeps_empty and not asked and ends_freely(search)
        return free and is_empty(request.text, self.source_tokenizer)

    def _empty(self, sources: Sequence[SourceRow], search: AnySearch) -> list[Found]:
        """For each source, the empty output as its only hypothesis, with the model's log-probability of it."""
        if not sources:
            return []
        found = self.score_batch([(source.row, [EOS]) for source in sources], search)
        return [[replace(cast(Hypothesis, each), best_log_probs=(), right=())] for (each,) in found]

    def score_text(self, lines: Sequence[str], context: TextContext) -> list[Output]:
        """The ``lines`` of one text, in order, each with the model's log-probability of it after the text before it,
        of which the model reads what ``context`` says.

        Raises RequestError unless the model is a language model that writes token by token.
        """
        self.check_language_model()
        (source,) = self.read([""])
        rows = self.target_tokenizer.encode(lines)
        with self.computing():
            found = context.force(self.model, self.padded([source.row]), rows)
        return [self.output(each, "") for each in found]

    # ------------------------------------------------------------- batches

    def search_batch(self, batch: Sequence[Searched], search: AnySearch) -> Sequence[Found]:
        """For each row of a batch, the hypotheses that the search finds, best first."""
        rows, prefixes, phrases = zip(*batch, strict=True)
        prefix = self.padded(prefixes, torch.long) if any(prefixes) else None
        held = constrained(search, phrases, self.lexicon, self.device) if any(phrases) else search
        return self.search_with(held, self.padded(rows), prefix)

    def score_batch(self, batch: Sequence[Scored], search: Search[Any]) -> Sequence[Found]:
        """For each row of a batch, a list of one hypothesis: its target, with the model's log-probability of it."""
        sources, targets = zip(*batch, strict=True)
        with self.computing():
            source, target = self.padded(sources), self.padded(targets)
            if self.searching:
                return [[found] for found in cast(Searching, self.model).force(source, target)]
            return [[found] for found in search.force(self.model, source, target)]

    def _search(
        self, numbered: Sequence[tuple[int, Request, SourceRow]], search: AnySearch, batch_size: int
    ) -> Sequence[Found]:
        rows = [
            (
                len(source.row),
                (source.row, self.prefix_ids(request.prefix), self._tokenized(request.constraints, number)),
            )
            for number, request, source in numbered
        ]
        return sorted_batches(
            rows, batch_size, partial(self._in_batches, partial(Pipeline.search_batch, search=search))
        )

    def _score(
        self, numbered: Sequence[tuple[int, Request, SourceRow]], search: AnySearch, batch_size: int
    ) -> Sequence[Found]:
        texts, sources = [request.target or "" for _, request, _ in numbered], [each.source for _, each, _ in numbered]
        targets = encoded(self.target_tokenizer, texts, sources)
        rows = [
            (max(source.length, len(target)), (source.row, self.target_row(target, source)))
            for (_, _, source), target in zip(numbered, targets, strict=True)
        ]
        return sorted_batches(rows, batch_size, partial(self._in_batches, partial(Pipeline.score_batch, search=search)))

    def _in_batches(self, work: Callable[[Pipeline, B], R], batches: Iterable[B]) -> Iterable[R]:
        """The result of ``work`` for each batch, in order, perhaps lazily. This process or the workers do it."""
        return (work(self, batch) for batch in batches) if self.workers is None else self.workers(work, batches)

    # ------------------------------------------------------------- outputs

    def _tokenized(self, constraints: Constraints | None, number: int) -> Tokenized | None:
        if not constraints:
            return None  # without a lexicon, which takes time to make
        try:
            return constraints.tokenized(self.lexicon)
        except UserError as error:
            raise RequestError(f"input {number}: {error}") from error

    def _answer(self, request: Request, source: SourceRow, hypotheses: Found, search: AnySearch) -> Answer:
        limit = None if request.target is not None else longest_output(search, len(source.row))
        outputs = [
            replace(self.output(hypothesis, request.text), cut_at=cut_at(hypothesis, limit))
            for hypothesis in hypotheses
        ]
        answer = Answer(
            request,
            outputs,
            source.truncated,
            unknown=source.unknown,
            unknown_target=self._unknown_target(request, hypotheses[0].tokens),
        )
        return answer.satisfying(request.constraints, self.lexicon) if request.constraints else answer

    def _unknown_target(self, request: Request, tokens: Sequence[int]) -> Unknown:
        """The unknown tokens of the request's target, whose ids are ``tokens``, or of its prefix."""
        if request.target is not None:
            return unknown_in(self.target_tokenizer, tokens, request.target, request.source)
        return unknown_in(self.target_tokenizer, self.prefix_ids(request.prefix), request.prefix)

    def output(self, hypothesis: Hypothesis | Derivation, source: str) -> Output:
        """A hypothesis for a source as text, with its tokens and log-probabilities. Extras are not added."""
        if isinstance(hypothesis, Derivation):
            ids, deriving = hypothesis.tokens, cast(Deriving, self.model)
            read = Tokenizers(self.source_tokenizer, self.target_tokenizer)
            derived = Derived(read, deriving.feature_names, deriving.weights.tolist(), source, hypothesis)
            names = tuple(self.target_tokenizer.tokens(ids))
            return Output(derived.text, names, None, hypothesis.score, (), ids=ids, derived=derived)
        if self.scaled_target is not None:
            hypothesis = self.scaled_target.in_units(hypothesis)
        text = self.target_tokenizer.decode(hypothesis.tokens)
        if self.sourced_target is not None:
            text = self.sourced_target.with_source(text, source)
        return Output(
            text,
            tuple(self.target_tokenizer.tokens(hypothesis.tokens)),
            hypothesis.log_prob,
            hypothesis.score,
            hypothesis.token_log_probs,
            hypothesis.best_log_probs,
            hypothesis.right,
            tuple(hypothesis.tokens),
            deviations=hypothesis.deviations,
        )


def _places_by_kind(requests: Sequence[Request], done: Set[int]) -> dict[tuple[bool, int | None, bool], list[int]]:
    """The indices of the requests that can share a batch, by (whether they are scored, ``nbest``, whether <unk> is
    replaced). The indices ``done`` are left out.
    """
    places: defaultdict[tuple[bool, int | None, bool], list[int]] = defaultdict(list)
    for place, request in enumerate(requests):
        if place in done:
            continue
        replaced = request.extras.replace_unknowns is not None
        places[request.target is not None, request.nbest, replaced].append(place)
    return places
