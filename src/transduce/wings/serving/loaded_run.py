"""A loaded run behind a server: an ``Answerer`` in PyTorch, or on one of the engines of exports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property

import torch
from torch import nn

import transduce
from transduce.answers.cuts import LIKELY
from transduce.answers.request import Extras, Request
from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.errors import RequestError, UserError
from transduce.core.protocols import Autoregressive, Chain, Framewise, Parallel, Searching, can
from transduce.core.text_files import read_text
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.unknown import Unknown
from transduce.runs.layout import TOKENIZERS
from transduce.runs.packed import CARD, is_pack
from transduce.search.constraints.phrases import Constraints
from transduce.search.limits import longest_output
from transduce.search.reading import forbid_specials
from transduce.wings.alignment.attention_weights import WEIGHTS
from transduce.wings.documents.document import Document
from transduce.wings.documents.glossary import Glossary
from transduce.wings.documents.translation import keeps_spans
from transduce.wings.engines.sharing import kinds
from transduce.wings.engines.sharing.card import Card
from transduce.wings.engines.sharing.examples import examples_of
from transduce.wings.engines.sharing.packing import card, portable
from transduce.wings.language.generation import Writer
from transduce.wings.language.generation_search import Generation
from transduce.wings.looking.inspection.forced import forced_log_probs
from transduce.wings.protection.protection import Protection
from transduce.wings.records.scores import kept_scores
from transduce.wings.serving.about import about
from transduce.wings.serving.answerer import Continued, Continuing, Wanted
from transduce.wings.serving.inside_run import InsideRun
from transduce.wings.serving.scheduler import PipelineWork

ENGINES = {"native": "native", "onnx": "ONNX", "ctranslate2": "CTranslate2"}  # by the name of their module


class LoadedRun:
    """The ``Answerer`` of a transducer."""

    def __init__(self, transducer: Transducer) -> None:
        self.transducer = transducer
        self.work = PipelineWork(transducer)
        self.inside = InsideRun(transducer)

    @property
    def settings(self) -> config.Table:
        return self.transducer.settings

    @property
    def source_tokenizer(self) -> Tokenizer:
        return self.transducer.source_tokenizer

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.transducer.target_tokenizer

    @property
    def max_source_length(self) -> int:
        return self.transducer.max_source_length

    @property
    def conditional(self) -> bool:
        return self.transducer.conditional

    @property
    def searching(self) -> bool:
        return self.transducer.searching

    @cached_property
    def labels(self) -> str | None:
        transducer, kind = self.transducer, type(self.transducer.model)
        labelling = transducer.settings.get("search", {}).get("type") in kinds.LABELLING
        if not labelling or can(kind, Searching) or not (can(kind, Chain) or can(kind, Parallel)):
            return None
        return "words" if can(kind, Chain) or transducer.token_for_token else "text"

    # ------------------------------------------------------------- what it is

    def describe(self, languages: tuple[str, str] | None) -> dict[str, object]:
        transducer, model = self.transducer, type(self.transducer.model)
        examples = examples_of(transducer.folder)
        return {
            **about(transducer.settings, self._label_names(), _engine(transducer.model), examples, languages),
            "columns": transducer.source_tokenizer.columns if transducer.conditional else 1,
            "rate": getattr(transducer.source_tokenizer, "rate", None),
            "dark_ink": getattr(transducer.source_tokenizer, "inverted", False),
            "writes": "numbers" if transducer.target_tokenizer.numeric else "text",
            "model": model.__name__,
            "search": type(transducer.search).__name__,
            "beam": getattr(transducer.search, "size", 1),
            "stepwise": can(model, Autoregressive) and not can(model, Searching),
            "attends": self._attends(),
        }

    def card(self, name: str) -> str:
        """The card that the run was packed with, otherwise one from its files, with the test scores that it has kept. A
        run of several members, or one in memory, has what its settings tell.
        """
        transducer, run = self.transducer, self.transducer.folder
        if run is not None and is_pack(run) and (run / CARD).is_file():
            return read_text(run / CARD)
        try:
            if run is not None:
                return str(card(run, run, kept_scores(run), str(run.name)))
        except (OSError, UserError):  # no checkpoint is called best: the settings tell the rest
            pass
        count = sum(each.numel() for each in transducer.model.parameters())
        return str(Card(name, portable(transducer.settings), transduce.__version__, count))

    def _label_names(self) -> tuple[str, ...]:
        if self.transducer.folder is None or "data" not in self.settings:
            return ()
        file = self.transducer.folder / TOKENIZERS / "target.json"
        return kinds.labels(self.settings, file) if file.is_file() else ()

    def _attends(self) -> bool:
        """True if the run has attention to its source that ``/attention`` can show."""
        model, kind = self.transducer.model, type(self.transducer.model)
        hidden = can(kind, Searching) or can(kind, Framewise) or not can(kind, Autoregressive)
        if not self.transducer.conditional or hidden:
            return False
        return any(path.rpartition(".")[2] == WEIGHTS for path, _ in model.named_modules())

    # ------------------------------------------------------------- requests

    def asked(self, requests: Iterable[Request], wanted: Wanted) -> list[Request]:
        constraints = Constraints(wanted.required, wanted.forbidden) or None
        replacing = dict[str, str]() if wanted.replace_unknowns else None
        extras = Extras(wanted.alignments, wanted.frames, replacing, protect=_protection(wanted))
        found = [
            replace(
                each,
                prefix=wanted.prefix,
                constraints=constraints,
                nbest=wanted.nbest,
                extras=extras or each.extras,
            )
            for each in requests
        ]
        return list(map(Glossary.of(wanted.terms).applied, found)) if wanted.terms else found

    def keeps_spans(self, document: Document) -> bool:
        return keeps_spans(document, self.transducer)

    def unknown_of(self, source: str, target: str) -> tuple[Unknown, Unknown]:
        return self.transducer.unknown_of(source, target)

    # ------------------------------------------------------------- outputs

    def stream(self, source: str, prefix: str) -> Iterator[str]:
        return self.transducer.stream(source, prefix=prefix)

    def was_cut(self, source: str, text: str, count: int) -> bool:
        (read,) = self.transducer.read([source])
        limit = longest_output(self.transducer.search, len(read.row))
        if limit is None or count < limit:
            return False
        scored = next(iter(self.transducer.score([(source, text)])))
        return scored.token_log_probs[-1] <= LIKELY

    def continued(self, prompt: str, how: Continuing) -> list[Continued]:
        drawn = self._writer(how)(prompt)
        return [Continued(each.text, each.ids, each.token_log_probs) for each in drawn]

    def stream_continued(self, prompt: str, how: Continuing) -> Iterator[str]:
        return self._writer(how).stream(prompt)

    def _writer(self, how: Continuing) -> Writer:
        return Writer(self.transducer, Generation(**asdict(how)))

    @torch.inference_mode()
    def likely(self, source: str, ids: Sequence[int], best: int) -> list[list[tuple[int, float]]]:
        transducer, kind = self.transducer, type(self.transducer.model)
        if can(kind, Searching) or not (can(kind, Autoregressive) or can(kind, Parallel)):
            raise RequestError("the model does not show the tokens that it did not choose: leave out top_logprobs")
        _, log_prob_TV = forced_log_probs(transducer, transducer.read_one(source), ids)
        found = forbid_specials(log_prob_TV).topk(min(best, log_prob_TV.shape[1]))
        chosen = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [[pair for pair in zip(*row, strict=True) if pair[1] > -torch.inf] for row in chosen]


def _protection(wanted: Wanted) -> Protection | None:
    """The protection that is wanted. Raises RequestError for a wrong kind, phrase or language."""
    if not (wanted.protect or wanted.phrases):
        return None
    given = () if isinstance(wanted.protect, bool) else wanted.protect
    phrases = [re.escape(phrase) for phrase in wanted.phrases]  # a pattern could take all time
    try:
        return Protection.of(given, phrases, None, wanted.figures)
    except UserError as error:
        raise RequestError(str(error)) from None


def _engine(model: nn.Module) -> str:
    """The engine that computes a model. The native one computes the parts of a model of this package."""
    modules = getattr(model, "modules", lambda: [model])()
    parts = [each for module in modules for each in (module, *vars(module).values())]
    places = {name for part in parts for name in type(part).__module__.split(".")}
    return next((name for module, name in ENGINES.items() if module in places), "PyTorch")
