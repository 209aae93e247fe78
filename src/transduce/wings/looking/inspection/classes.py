"""The classes of one source by a model that gives it one label, and how much each of its words does for the label.

V labels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from transduce.answers.transducer import Transducer
from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.protocols import Parallel, can
from transduce.core.registry import model_name
from transduce.core.types import UNK
from transduce.metrics.units import columns, padded, shown
from transduce.wings.labels.search import label_log_probs, only_labels

FEW = 5  # largest number of classes in the terminal
AT_ONCE = 64


@dataclass(frozen=True)
class WordEffect:
    """A word of a source, from character ``start`` to ``end``. ``effect`` is log p(label | source) minus the same
    without the word (natural logarithm): above 0, the word speaks for the label.
    """

    word: str
    start: int
    end: int
    effect: float


@dataclass(frozen=True)
class ClassReading:
    """A source, the probabilities of its ``classes``, best first, and the effects of its words on ``label``.

    Each word is left out once: representation erasure (Li, Monroe and Jurafsky 2016, "Understanding neural networks
    through representation erasure"). This needs no gradients, so that it is right for every model, a counted one too.
    Words that say the same hide each other: leaving out one of them changes little. ``words`` is empty for a signal.
    """

    source: str
    label: str
    classes: tuple[tuple[str, float], ...]
    words: tuple[WordEffect, ...]

    def lines(self) -> list[str]:
        """Lines for the terminal: at most ``FEW`` classes with their probabilities, then each word with its effect."""
        width = max(columns(shown(name)) for name, _ in self.classes)
        found = [f"{padded(shown(name), width)}  {p:.3f}" for name, p in self.classes[:FEW]]
        if self.words:
            wide = max(columns(each.word) for each in self.words)
            found += ["", f"log p({self.label}) falls by this without the word:"]
            found += [f"{padded(each.word, wide)}  {each.effect:+.3f}" for each in self.words]
        return found

    def record(self) -> Table:
        """Values for JSON."""
        return {
            "source": self.source,
            "label": self.label,
            "classes": dict(self.classes),
            "words": [vars(each) for each in self.words],
        }


@torch.inference_mode()
def read_classes(transducer: Transducer, source: str, label: str | None = None) -> ClassReading:
    """The classes of ``source``, and the effects of its words on ``label``, by default the most probable one.

    Raises UserError if the model does not give one label to a source, and for an unknown label.
    """
    if not can(type(transducer.model), Parallel):
        raise UserError(f"this {model_name(type(transducer.model))} model gives no label to a whole source")
    (own_V,) = _log_probs(transducer, [source])
    names = transducer.target_tokenizer.tokens(range(len(own_V)))
    order = own_V.argsort(descending=True, stable=True).tolist()[: len(names) - UNK - 1]
    chosen = order[0] if label is None else transducer.read_targets([label], what="--target")[0][0]
    if chosen <= UNK:
        known = ", ".join(sorted(names[UNK + 1 :]))
        raise UserError(f"--target {label!r} is no class of this model. Known: {known}")
    words = [] if transducer.source_tokenizer.numeric else _without_each(transducer, source)
    effects = list[float]()
    for first in range(0, len(words), AT_ONCE):
        log_probs_NV = _log_probs(transducer, [text for _, text in words[first : first + AT_ONCE]])
        effects += (own_V[chosen] - log_probs_NV[:, chosen]).tolist()
    found = (
        WordEffect(match[0], match.start(), match.end(), effect)
        for (match, _), effect in zip(words, effects, strict=True)
    )
    classes = tuple((names[i], float(own_V[i].exp())) for i in order)
    return ClassReading(source, names[chosen], classes, tuple(found))


def _log_probs(transducer: Transducer, sources: list[str]) -> Tensor:
    """Log-probabilities [N, V] of the labels of the sources, among labels alone."""
    batch = transducer.padded([each.row for each in transducer.read(sources)])
    model = cast(Parallel[object], transducer.model)
    with transducer.computing():
        log_probs_BTV = label_log_probs(model, model.emit(model.start(batch)))
    return only_labels(log_probs_BTV[:, 0].double()).log_softmax(-1).cpu()


def _without_each(transducer: Transducer, source: str) -> list[tuple[re.Match[str], str]]:
    """Each word of the source (between white space) with the source without it. Labels before the text stay, and so
    does a word without which the source cannot be read.
    """
    begin = sum(len(label) + 1 for label in source.split("\t")[: transducer.source_tokenizer.labels])
    found = []
    for match in re.compile(r"\S+").finditer(source, begin):
        before, after = source[: match.start()], source[match.end() :]
        text = before + after.removeprefix(" ") if after[:1] == " " else before.removesuffix(" ") + after
        try:
            transducer.read([text])
        except UserError:
            continue
        found.append((match, text))
    return found
