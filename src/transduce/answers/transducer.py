"""The class that users call: a trained model, its search and its tokenizers, from text to text.

``transduce.load`` returns one; validation, predict, score, evaluate and serving use it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import torch

from transduce.answers.answer import Output, with_warnings
from transduce.answers.cuts import RAISE
from transduce.answers.evaluation import Evaluation, evaluate
from transduce.answers.pipeline import Pipeline
from transduce.answers.request import NO_EXTRAS, Extras, Request, requests_for
from transduce.answers.search_settings import Changes, LoadOther, changed_search, search_of_run
from transduce.answers.text_model import UNFINISHED
from transduce.core import config
from transduce.core.errors import RequestError
from transduce.core.protocols import AnySearch, Metric, Search
from transduce.core.registry import model_name, service
from transduce.core.types import Example
from transduce.search.base import stream
from transduce.search.constraints.phrases import Constraints
from transduce.search.limits import longest_output

log = logging.getLogger("transduce")


@dataclass(frozen=True, eq=False, repr=False)
class Transducer(Pipeline):
    """A trained model that can be called: ``transducer("knowledge")`` returns a text, and a list gives a list.

    It is a value: ``changed`` and ``dataclasses.replace`` return another one with the same model. ``settings`` are the
    settings of its run. ``load_other`` loads the runs that a search names, such as a language model; None if it may
    name none. ``Pipeline`` and ``TextModel`` have the other fields and describe them.
    """

    settings: config.Table = field(default_factory=dict)
    load_other: LoadOther | None = field(default=None, kw_only=True)

    def changed(self, settings: Changes, size: int | None = None) -> Transducer:
        """The same model with another search: ``{"search.size": 10}``, or ``["search.size=10"]`` as for ``--set``.

        The new search is built from this transducer's ``settings`` with these changes. So the changes of earlier calls
        stay, and a search from ``with_search`` is lost. Another ``search.type`` starts from the defaults of that type.
        ``size`` resizes the search. If it comes alone, the search may also be one from ``with_search``, and the number
        of outputs falls to ``size`` where it was larger. Raises ConfigError if the search has no such option, if an
        option does not fit ``size``, or if the model cannot be searched in this way.
        """
        if not settings and size is None:
            return self
        table, search = changed_search(self.settings, self.search, type(self.model), settings, size)
        return replace(self, settings=table).with_search(search)

    def with_search(self, search: AnySearch) -> Transducer:
        """The same model with this search. The search gets the language models of the runs that it names, and the
        model's vocabularies if one of its filters needs them.

        Raises FileNotFoundError if there is no such run, and UserError if its vocabulary differs.
        """
        return replace(self, search=search_of_run(search, self.tokenizers, self.load_other))

    @overload
    def __call__(self, source: str) -> str: ...

    @overload
    def __call__(self, source: list[str] | tuple[str, ...]) -> list[str]: ...

    def __call__(self, source: str | list[str] | tuple[str, ...]) -> str | list[str]:
        """The best output for one source, or for each source of a list."""
        if isinstance(source, str):
            return next(self.predict([source]))[0].text
        if not isinstance(source, Iterable):
            raise RequestError(f"source = {source!r}: a text or a list of texts was expected")
        return [outputs[0].text for outputs in self.predict(source)]

    def predict(
        self,
        sources: Iterable[str],
        search: AnySearch | None = None,
        batch_size: int = 64,
        prefix: str | Iterable[str] = "",
        constraints: Constraints | Iterable[Constraints | None] | None = None,
        extras: Extras = NO_EXTRAS,
    ) -> Iterator[list[Output]]:
        """For each source, in order, the search's hypotheses, best first.

        ``prefix`` is the text that the outputs begin with. ``constraints`` are phrases that they must contain, or must
        not. Both are one value for all sources, or one for each. ``extras`` are for all: alignments, protected spans.
        ``search`` replaces the transducer's own search; None keeps the own search. The generator reads up to 64 batches
        ahead, to put sources of similar length in one batch. If ``batch_size`` is 1, it answers each source before it
        reads the next.
        """
        requests = requests_for(sources, prefix=prefix, constraints=constraints, extras=extras)
        for answer in with_warnings(self.answer(requests, search, batch_size)):
            yield list(answer.outputs)

    def stream(self, source: str, search: Search[Any] | None = None, prefix: str = "") -> Iterator[str]:
        """Yields the best output for one source in pieces of text, each as soon as the search has decided it.
        ``search`` replaces the transducer's own search; None keeps the own search. ``prefix`` is the text that the
        output begins with; it is a part of the first piece.

        Greedy search and sampling decide at each step, a beam when all its hypotheses agree, other searches at the end.
        Texts that have words of their source, such as trees, come as one piece. Raises RequestError for a model of an
        engine that searches by itself.
        """
        if self.searching:
            raise RequestError(
                f"this {model_name(type(self.model))} model searches by itself and gives whole outputs: leave --stream "
                "out, or use --engine onnx or torch"
            )
        if self.sourced_target is not None:
            yield next(self.predict([source], search, prefix=prefix))[0].text
            return
        if self.has_empty_output(Request(source, prefix), search or self.search):
            yield ""
            return
        given, tokens = "", tuple[int, ...]()
        begun = self.read_prefix(prefix)
        forced = self.padded([begun], torch.long) if begun else None
        row, search = self.read_one(source), search or self.search
        decided = stream(search, self.model, self.padded([row]), forced)
        while True:
            with self.computing():  # not while the caller has the piece
                following = next(decided, None)
            if following is None:
                break
            tokens = following
            text = self.target_tokenizer.decode(tokens).rstrip(UNFINISHED)
            if len(text) > len(given) and text.startswith(given):
                yield text[len(given) :]
                given = text
        yield self.target_tokenizer.decode(tokens)[len(given) :]
        if (limit := longest_output(search, len(row))) is not None and len(tokens) >= limit:
            log.warning("the output ends at the limit of the search (%d tokens): %s", limit, RAISE)

    def complete(self, prefixes: Sequence[str], k: int = 5, begun: str | Sequence[str] = "") -> list[list[object]]:
        """For each prefix, in order, the ``k`` most probable next words, best first. Each is a ``Word``
        (wings/language/completion_search.py).

        ``begun`` are the letters that the next word begins with: one text for all prefixes, or one for each. "" allows
        any letter. Raises RequestError if the model is not a language model that writes token by token, and UserError
        if ``k`` < 1.
        """
        if isinstance(prefixes, str):
            raise RequestError(f"prefixes = {prefixes!r}: a list of texts was expected; write [{prefixes!r}]")
        words: list[list[object]] = service("next words")(self, prefixes, k, begun)
        return words

    def generate(
        self,
        prompt: str = "",
        length: int = 100,
        samples: int = 1,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 1,
        lines: bool | None = None,
    ) -> list[str]:
        """Texts that go on with the prompt: ``samples`` of them, each with the prompt and at most ``length`` more
        tokens, drawn as ``Generation`` of the wing language says.

        If ``lines`` is False, a text ends with its line. None stands for True if the transducer has a ``context``, and
        otherwise for False. ``Writer`` (wings/language/generation.py) writes the text in pieces, and gives its
        probability. Raises RequestError if the model is not a language model that writes token by token, and UserError
        for a value that is not allowed.
        """
        across = self.context is not None if lines is None else lines
        texts: list[str] = service("generated texts")(
            self, prompt, length, samples, temperature, top_k, top_p, seed, across, self.context
        )
        return texts

    def score(self, pairs: Iterable[tuple[str, str]], batch_size: int = 64) -> Iterator[Output]:
        """For each (source, target), in order: the target as an ``Output`` with its log-probability under the model."""
        requests = (Request(source, target=target) for source, target in pairs)
        for answer in with_warnings(self.answer(requests, None, batch_size)):
            yield answer.best

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        direction: str | None = None,
        choice: object = None,
        batch_size: int = 64,
    ) -> Any:
        """The word alignment (``CorpusAlignment`` of the wing alignment) of pairs of a source and a target text, by a
        word aligner or by the attention of any other model.

        ``direction`` is forward (each target word to a source word), backward, or a heuristic that combines both, such
        as intersection. The default is grow-diag-final-and for a word aligner, and forward for attention, which has no
        other. ``choice`` (``AttentionChoice``) chooses the attention; a word aligner has none to choose. Raises
        UserError for a direction or an attention that the model does not have.
        """
        return service("word alignment")(self, pairs, direction, choice, batch_size)

    def evaluate(
        self,
        examples: Sequence[Example],
        metrics: Sequence[Metric],
        search: AnySearch | None = None,
        batch_size: int = 64,
        clock: Callable[[], float] = time.perf_counter,
        forcing: bool = False,
        told: bool = True,
    ) -> Evaluation:
        """The metrics of the best output for each example. ``clock`` measures the search, in seconds. ``search``
        replaces the transducer's own search; None keeps the own search.

        If every metric needs only the scored references, nothing is searched. References are scored (teacher-forced) if
        a metric needs that, or if ``forcing`` is True. With a ``context`` the references are the lines of one text.
        Unless ``told`` is False, logs a warning if sources or references have tokens that the model does not know, or
        if outputs were cut (``Evaluation.shares``).
        """
        found = evaluate(self, examples, metrics, clock, search, batch_size, forcing)
        if told:
            found.shares.tell()
        return found
