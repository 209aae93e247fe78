"""What a server needs of a model. A loaded run fulfils it (``loaded_run.py``), and the file of an engine
(``engine_file.py``), which works without PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from transduce.answers.request import Request
from transduce.core.config import Table
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.unknown import Unknown
from transduce.wings.documents.document import Document
from transduce.wings.serving.work import Work


@dataclass(frozen=True)
class Wanted:
    """What a client wants for its sources, as for ``transduce predict``. ``protect`` is True, or has kinds of spans.
    ``terms`` are rows of a glossary.
    """

    prefix: str = ""
    required: Sequence[str | Sequence[str]] = ()
    forbidden: Sequence[str] = ()
    nbest: int | None = None
    alignments: bool = False
    frames: bool = False
    replace_unknowns: bool = False
    protect: bool | Sequence[str] = False
    phrases: Sequence[str] = ()
    figures: str | None = None
    terms: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Continuing:
    """How a language model continues a prompt: ``samples`` texts of at most ``length`` more tokens each."""

    length: int = 16
    samples: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 1


class Continued(NamedTuple):
    """A text with its prompt. The last of its ``ids``, which follow the prompt, have ``token_log_probs``."""

    text: str
    ids: Sequence[int]
    token_log_probs: Sequence[float]


class Word(NamedTuple):
    """A word and its probability."""

    text: str
    probability: float


class Inside(Protocol):
    """How a model answers: its attention, its beam, its labels, and its distribution over words. The values are for
    JSON. Each method raises RequestError if the model does not have what is asked for.
    """

    def align(
        self, pairs: Sequence[tuple[str, str]], direction: str | None, name: str | None, head: int | None, after: bool
    ) -> list[dict[str, object]]:
        """The source words of the target words of each pair. ``name`` and ``head`` choose an attention."""
        ...

    def complete(self, prefixes: Sequence[str], k: int, begun: str, sources: Sequence[str] | None) -> list[list[Word]]:
        """The ``k`` most probable next words of each prefix, best first. ``sources`` are for a model with sources."""
        ...

    def attention(self, source: str, target: str | None, name: str | None, head: int | None) -> dict[str, object]:
        """The attention to the source while the model writes each token of the target."""
        ...

    def tree(self, source: str, prefix: str, beam: int | None) -> dict[str, object]:
        """The tree of the beam search for a source: each node with its parent's index, best path first."""
        ...

    def label_effects(self, source: str, target: str | None, place: int | None) -> dict[str, object]:
        """The probabilities of the labels of a source, and how much each of its words speaks for a label."""
        ...


class Answerer(Protocol):
    """A model behind a server."""

    @property
    def settings(self) -> Table:
        """The tables of the run."""
        ...

    @property
    def source_tokenizer(self) -> Tokenizer: ...

    @property
    def target_tokenizer(self) -> Tokenizer: ...

    @property
    def max_source_length(self) -> int: ...

    @property
    def conditional(self) -> bool:
        """False for a language model, which has no sources."""
        ...

    @property
    def searching(self) -> bool:
        """True if outputs are known when they are whole, and not piece by piece."""
        ...

    @property
    def labels(self) -> str | None:
        """What gets a label: "words" for each word of a text, "text" for the whole text. None if the model gives no
        labels, or does not show their probabilities.
        """
        ...

    @property
    def work(self) -> Work[Any]:
        """What answers requests in batches."""
        ...

    @property
    def inside(self) -> Inside:
        """How the model answers."""
        ...

    def describe(self, languages: tuple[str, str] | None) -> dict[str, object]:
        """A description for clients, as values for JSON. ``languages`` are the codes of its languages."""
        ...

    def card(self, name: str) -> str:
        """The model card in Markdown."""
        ...

    def asked(self, requests: Iterable[Request], wanted: Wanted) -> list[Request]:
        """The requests with all that is wanted. Raises RequestError for something that the model does not have."""
        ...

    def keeps_spans(self, document: Document) -> bool:
        """True if the document has markup inside its units, and the model can say where it belongs in outputs."""
        ...

    def stream(self, source: str, prefix: str) -> Iterator[str]:
        """The best output in pieces of text, each as soon as it is decided."""
        ...

    def was_cut(self, source: str, text: str, count: int) -> bool:
        """True if the search ended the best output, a text of ``count`` tokens, and not the model."""
        ...

    def continued(self, prompt: str, how: Continuing) -> list[Continued]:
        """Texts that go on with a prompt, in the order in which they are drawn."""
        ...

    def stream_continued(self, prompt: str, how: Continuing) -> Iterator[str]:
        """The first of these texts, prompt included, in pieces, each as soon as it is decided."""
        ...

    def likely(self, source: str, ids: Sequence[int], best: int) -> list[list[tuple[int, float]]]:
        """The ``best`` most probable tokens at each position of an output, with their log-probabilities. Raises
        RequestError for a model that does not show the tokens that it did not choose.
        """
        ...

    def unknown_of(self, source: str, target: str) -> tuple[Unknown, Unknown]:
        """The unknown tokens of a source, and of a target or a prefix."""
        ...
