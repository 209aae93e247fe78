"""Raw input to raw output: tokenizers, a model and a search, with the settings of the run they come from.

What ``transduce.load`` returns, and what validation, predict, score, evaluate and serving all use.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, TypeVar, overload

import torch

from transduce import config, names
from transduce.compute.crew import Crew
from transduce.data.corpora import DataError, LineError
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.base import Tokenizer, cut
from transduce.data.windows import SIGNALS_AHEAD, WINDOW, beside_each, sorted_batches, windows
from transduce.errors import UserError
from transduce.metrics.references import references
from transduce.metrics.statistics import statistics
from transduce.models.fit import check_fit
from transduce.outputs import Evaluation, Output, prediction
from transduce.protocols import Metric, Search
from transduce.search.base import stream
from transduce.search.constraints.base import Constraints, Tokenized, constrained, listed
from transduce.search.constraints.lexicon import Lexicon
from transduce.types import Example, Hypothesis, Padded

log = logging.getLogger("transduce")

R = TypeVar("R")

UNFINISHED = "\ufffd"  # what a decoder makes of the first bytes of a character

Asked = tuple[list[Any], list[int], Tokenized | None]  # a source's ids, those of its output's beginning, its phrases
Pair = tuple[list[Any], list[Any]]  # the ids of a source and of a target


class Transducer:
    """A model that can be called: ``transducer("knowledge")``, or with a list for a list.

    Sources longer than ``max_source_length`` are cut, and where targets are ``token_for_token``, as labels are, so is
    what is given for the tokens that are lost.
    ``crew``, None where there is none, are processes that share the work of whatever predicts or scores many.
    """

    def __init__(
        self,
        model: Any,  # a Model that is an nn.Module: there is no type for both
        search: Search[Any],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        settings: config.Table | None = None,
        max_source_length: int = 1000,
        token_for_token: bool = False,
    ) -> None:
        self.model = model
        self.search = search
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.settings = settings or {}
        self.max_source_length = max_source_length
        self.token_for_token = token_for_token
        self.crew: Crew[Transducer] | None = None

    def changed(self, settings: Mapping[str, Any] | Sequence[str], size: int | None = None) -> Transducer:
        """The same model with another search: ``{"search.size": 10}``, or as ``--set`` has it, ``["search.size=10"]``.

        The search is the run's own, changed and made anew; another ``search.type`` has its own options. ConfigError
        where the run has none such, or where its model cannot be searched so. ``size`` is what the search is then
        ``resized`` to, and as many are returned as before, where it has room for them; options that are set are for a
        search of that size.
        """
        if not settings and size is None:
            return self
        table, search = self._asked(settings, size) if settings else (self.settings, self.search)
        if size is not None:
            search = search.resized(size)
            table = _told(table, search)
        changed = copy(self)
        changed.search, changed.settings = search, table
        return changed

    def _asked(self, settings: Mapping[str, Any] | Sequence[str], size: int | None) -> tuple[config.Table, Search[Any]]:
        table = config.change(self.settings, settings)
        for key, value in table.items():
            if key != "search" and value != self.settings.get(key):
                raise config.ConfigError(
                    key, "a trained model keeps its settings but for its search: search.size=10, search.type=greedy"
                )
        if size is not None and "size" in config.resolve(table.get("search", {}), Search, path="search"):
            table = config.assign(table, "search.size", size)
        search: Search[Any] = config.build(table.get("search", {}), Search, path="search")
        check_fit("search", "Search", type(search), type(self.model))
        return table, search

    @property
    def tokenizers(self) -> Tokenizers:
        return Tokenizers(self.source_tokenizer, self.target_tokenizer)

    @property
    def conditional(self) -> bool:
        """Whether there is a source; a language model that has learned from targets alone has none."""
        return self.tokenizers.conditional

    @cached_property
    def lexicon(self) -> Lexicon:
        """What phrases of text are in the model's outputs."""
        return Lexicon(self.target_tokenizer)

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    # ------------------------------------------------------------ predicting

    @overload
    def __call__(self, source: str) -> str: ...

    @overload
    def __call__(self, source: list[str] | tuple[str, ...]) -> list[str]: ...

    def __call__(self, source: str | list[str] | tuple[str, ...]) -> str | list[str]:
        """The best output of one source, or of each of several."""
        if isinstance(source, str):
            return next(self.predict([source]))[0].text
        return [outputs[0].text for outputs in self.predict(source)]

    def predict(
        self,
        sources: Iterable[str],
        search: Search[Any] | None = None,
        batch_size: int = 64,
        prefix: str | Iterable[str] = "",
        constraints: Constraints | Iterable[Constraints | None] | None = None,
    ) -> Iterator[list[Output]]:
        """For each source, in order, the search's hypotheses, best first.

        ``prefix`` is what the outputs begin with, ``constraints`` the phrases that they must have and must not: one for
        all sources, or one for each. A generator: it reads up to 64 batches ahead, to put sources of like length
        together, and answers as it goes; with batches of one it answers each source before it reads the next.
        """
        every = beside_each(sources, prefix=prefix, constraints=constraints)
        for window in windows(enumerate(every, 1), batch_size, self.ahead):
            read = self._sources([(number, source) for number, (source, *_) in window])
            wanted = [(number, written, phrases) for number, (_, written, phrases) in window]
            yield from self._found(read, wanted, search or self.search, batch_size)

    def stream(self, source: str, search: Search[Any] | None = None) -> Iterator[str]:
        """The best output of one source, piece by piece, as soon as the search has decided it; together, its text.

        Greedy search and sampling decide with each step, a beam once all its hypotheses agree, other searches in the
        end.
        """
        given, tokens = "", tuple[Any, ...]()
        for tokens in stream(search or self.search, self.model, self.encoded([source])):
            text = self.target_tokenizer.decode(tokens).rstrip(UNFINISHED)
            if len(text) > len(given) and text.startswith(given):
                yield text[len(given) :]
                given = text
        yield self.target_tokenizer.decode(tokens)[len(given) :]

    def score(self, pairs: Iterable[tuple[str, str]], batch_size: int = 64) -> Iterator[Output]:
        """For each pair of a source and a target, in order, the target with the model's probability of it."""
        for window in windows(enumerate(pairs, 1), batch_size, self.ahead):
            read = self._sources([(number, source) for number, (source, _) in window])
            yield from self._given(read, [(number, target) for number, (_, target) in window], batch_size)

    def evaluate(
        self,
        examples: Sequence[Example],
        metrics: Sequence[Metric],
        search: Search[Any] | None = None,
        batch_size: int = 64,
        clock: Callable[[], float] = time.perf_counter,
        forcing: bool = False,
    ) -> Evaluation:
        """The best output for each example, measured; the search is timed by ``clock``, in seconds.

        Where every metric is of the references, nothing is searched for; where none is, the references are asked about
        if ``forcing`` says so. Each source is read once for both.
        """
        searching = not all(metric.needs_forcing for metric in metrics)
        forcing = forcing or any(metric.needs_forcing for metric in metrics)
        best: list[Output] = []
        forced: list[Output] = []
        lengths: list[int] = []
        seconds = 0.0
        for window in windows(enumerate(examples, 1), batch_size, self.ahead):
            began = clock()
            read = self._sources([(number, example.source) for number, example in window])
            if searching:
                wanted = [(number, "", None) for number, _ in window]
                best += (found[0] for found in self._found(read, wanted, search or self.search, batch_size))
                seconds += clock() - began
            if forcing:
                forced += self._given(read, [(number, references(each)[0]) for number, each in window], batch_size)
            lengths += map(len, read)
        predictions = [prediction(*both) for both in zip_longest(best, forced)]
        return Evaluation(statistics(metrics, predictions, examples), predictions, seconds, lengths, forced)

    # --------------------------------------------------------------- batches

    def answer(self, batch: Sequence[Asked], search: Search[Any]) -> list[list[Hypothesis]]:
        """What the search finds for each of a batch."""
        rows, beginnings, tokenized = zip(*batch, strict=True)
        forced = self.padded(beginnings, torch.long) if any(beginnings) else None
        held = constrained(search, tokenized, self.lexicon, self.device) if any(tokenized) else search
        return held(self.model, self.padded(rows), forced)

    def force(self, batch: Sequence[Pair], search: Search[Any]) -> list[Hypothesis]:
        """The target of each of a batch, with the model's probability of it."""
        sources, targets = zip(*batch, strict=True)
        return search.force(self.model, self.padded(sources), self.padded(targets))

    def padded(self, rows: Sequence[Any], dtype: torch.dtype | None = None) -> Padded:
        """Rows of ids or numbers as one batch, where the model is."""
        return Padded.of(rows, dtype).to(self.device)

    def _each(self, work: Callable[[Transducer, Any], R], batches: Iterable[Any]) -> Iterable[R]:
        """``work`` done for every batch: here, or by the crew."""
        return (work(self, batch) for batch in batches) if self.crew is None else self.crew(work, batches)

    def rows(self, sources: Sequence[str]) -> list[Any]:
        """The ids, or the numbers, that are read of each source, which is cut where it is too long."""
        return [self._cut(row, number) for number, row in enumerate(self._sources([*enumerate(sources, 1)]), 1)]

    def reread(self, sources: Sequence[str]) -> list[Any]:
        """The rows of sources that have been answered: cut as they were then, and not told of again."""
        tokenizer = self.source_tokenizer
        return [cut(row, self.max_source_length, tokenizer) for row in tokenizer.encode(sources)]

    def encoded(self, sources: Sequence[str]) -> Padded:
        """The sources as a model takes them, one batch of them."""
        return self.padded(self.rows(sources))

    # --------------------------------------------------------------- details

    def _found(
        self,
        sources: Sequence[Any],
        wanted: Sequence[tuple[int, str, Constraints | None]],
        search: Search[Any],
        batch_size: int,
    ) -> Iterator[list[Output]]:
        """The search's hypotheses for rows of sources, each with its number, its output's beginning and its phrases."""
        rows = [
            (len(row), (self._cut(row, number), self._beginning(written), self._tokenized(phrases, number)))
            for row, (number, written, phrases) in zip(sources, wanted, strict=True)
        ]
        answer = partial(Transducer.answer, search=search)
        answers = sorted_batches(rows, batch_size, partial(self._each, answer))
        for (number, _, phrases), hypotheses in zip(wanted, answers, strict=True):
            yield self._outputs(hypotheses, phrases, number)

    def _given(self, sources: Sequence[Any], numbered: Sequence[tuple[int, str]], batch_size: int) -> Iterator[Output]:
        """The target of each of some rows of sources, as it was numbered, with the model's probability of it."""
        targets = self.target_tokenizer.encode([target for _, target in numbered])
        rows = [
            (max(len(source), len(target)), self._cut_pair(source, target, number))
            for (number, _), source, target in zip(numbered, sources, targets, strict=True)
        ]
        force = partial(Transducer.force, search=self.search)
        return map(self._output, sorted_batches(rows, batch_size, partial(self._each, force)))

    @property
    def ahead(self) -> int:
        """Batches read ahead; of signals, whose rows are large, a few."""
        return SIGNALS_AHEAD if self.source_tokenizer.signal else WINDOW

    def _sources(self, numbered: Sequence[tuple[int, str]]) -> list[Any]:
        """The row of each; the number of one that lacks its labels, or its file, is told, which its tokenizer cannot
        know."""
        for number, text in numbered:
            if text and not self.conditional:
                raise DataError(f"input {number}: {text!r}: a language model has no source; give it empty lines")
        try:
            return self.source_tokenizer.encode([text for _, text in numbered])
        except LineError as error:
            number = next(number for number, text in numbered if text == error.line)
            raise DataError(f"input {number}: {error}") from error

    def _beginning(self, text: str) -> list[int]:
        """The ids of an output's beginning; its last word is whole."""
        return self.target_tokenizer.encode([text])[0][:-1] if text else []

    def _tokenized(self, constraints: Constraints | None, number: int) -> Tokenized | None:
        """None, without a lexicon, for a source that asks for nothing."""
        try:
            return constraints.tokenized(self.lexicon) if constraints else None
        except ValueError as error:
            raise UserError(f"input {number}: {error}") from error

    def _outputs(self, hypotheses: list[Hypothesis], constraints: Constraints | None, number: int) -> list[Output]:
        """Those that are as wanted; if there are none, the best of the others, and a warning."""
        outputs = [self._output(hypothesis) for hypothesis in hypotheses]
        if not constraints:
            return outputs
        outputs = [replace(each, missing=constraints.missing(self.lexicon, each.ids)) for each in outputs]
        unwanted = [constraints.unwanted(self.lexicon, each.ids) for each in outputs]
        wanted = [each for each, phrases in zip(outputs, unwanted, strict=True) if not (each.missing or phrases)]
        if not wanted:
            problems = [
                *(f"with {listed(some)}" for some in outputs[0].missing),
                *(f"without {p!r}" for p in unwanted[0]),
            ]
            log.warning("input %d: no output %s was found; a larger beam may find one", number, " and ".join(problems))
        return wanted or outputs[:1]

    def _cut(self, ids: Any, number: int) -> Any:
        """At most as long as anything seen in training, the end kept: a line of a megabyte must not take all memory."""
        if len(ids) <= self.max_source_length:
            return ids
        signal = self.source_tokenizer.signal
        # What comes next hangs on the end of a series, so that no part of it can be left out.
        if self.source_tokenizer.numeric and not signal:
            raise DataError(
                f"input {number} has {len(ids) - 1} numbers, more than data.lines.max_source_length allows "
                f"({self.max_source_length}, EOS included): give the last of them"
            )
        log.warning(
            "input %d has %d %s and is cut to data.lines.max_source_length = %d",
            number,
            len(ids),
            "steps" if signal else "tokens",
            self.max_source_length,
        )
        return cut(ids, self.max_source_length, self.source_tokenizer)

    def _cut_pair(self, source: Any, target: Any, number: int) -> Pair:
        """The two as long as they may be; tokens of a target that stand for those of a source go with them."""
        kept = self._cut(source, number)
        if len(kept) < len(source) and self.token_for_token:
            target = cut(target, 1 + self.source_tokenizer.length(kept), self.target_tokenizer)
        return kept, target

    def _output(self, hypothesis: Hypothesis) -> Output:
        return Output(
            self.target_tokenizer.decode(hypothesis.tokens),
            tuple(self.target_tokenizer.tokens(hypothesis.tokens)),
            hypothesis.log_prob,
            hypothesis.score,
            hypothesis.token_log_probs,
            hypothesis.best_log_probs,
            hypothesis.right,
            tuple(hypothesis.tokens),
        )


def _told(settings: config.Table, search: Search[Any]) -> config.Table:
    """The settings of a run whose search has been resized: the numbers it has now, and its type, which may be another
    (greedy search is a beam where it is of more than one)."""
    kind = names.name_of("Search", type(search))
    if kind is None or "search" not in settings or not is_dataclass(search):
        return settings
    before = config.resolve(settings["search"], Search, path="search")
    numbers = {each.name: value for each in fields(search) if isinstance(value := getattr(search, each.name), int)}
    return {**settings, "search": {**before, **numbers, "type": kind}}
