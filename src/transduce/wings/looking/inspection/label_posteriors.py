"""The posterior probabilities of the labels of a chain (a hidden Markov model or a conditional random field) or of a
tagger, and the most probable sequence.

T places of the source, L labels without special tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from transduce.answers.answer import Output, with_warnings
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import AnySearch, Chain, Parallel, Searching, can
from transduce.core.registry import model_name
from transduce.core.types import UNK
from transduce.data.tokenizers.base import Tokenizer
from transduce.metrics.units import columns, padded, shown
from transduce.wings.labels.search import LabelSearch, label_log_probs
from transduce.wings.labels.viterbi import Viterbi
from transduce.wings.looking.inspection.classes import AT_ONCE, WordEffect

FEW = 3  # largest number of labels for a place in the terminal
LEAST = 0.01  # smallest posterior probability of a label in the terminal


@dataclass(frozen=True)
class LabelReading:
    """A source and its labels: the sequence ``path``, and the posterior probability of each label at each place.

    ``places`` has a text for each place of the source (a word, a token, or the number of a step). ``posterior_TL`` is
    p(y_t = label | source) for the ``labels`` in its columns. A row sums to 1, minus the probability of special tokens.
    ``output`` has the log-probability of the whole path.
    """

    source: str
    places: tuple[str, ...]
    output: Output
    path: tuple[str, ...]
    labels: tuple[str, ...]
    posterior_TL: Tensor

    def best(self, place: int, count: int | None = None) -> list[tuple[str, float]]:
        """The labels of a place with their posterior probabilities, the most probable first. ``count`` limits their
        number; None gives all.
        """
        found = self.posterior_TL[place].topk(min(count or len(self.labels), len(self.labels)))
        return [(self.labels[label], p) for p, label in zip(found.values.tolist(), found.indices.tolist(), strict=True)]

    def lines(self) -> list[str]:
        """A table as lines of text: for each place its label on the path and its most probable labels, at most
        ``FEW``, with their posterior probabilities.

        A star marks a place where the path has another label than the most probable one. The first line has the path's
        log-probability.
        """
        rows = []
        for place, (text, label) in enumerate(zip(self.places, self.path, strict=True)):
            likely = self.best(place, FEW)
            kept = [(name, p) for rank, (name, p) in enumerate(likely) if not rank or p >= LEAST]
            mark = "" if likely[0][0] == label else "*"
            rows.append([shown(text), label, mark, "  ".join(f"{name} {p:.2f}" for name, p in kept)])
        widths = [max((columns(row[column]) for row in rows), default=0) for column in range(3)]
        table = ["  ".join([*map(padded, row, widths), row[3]]).rstrip() for row in rows]
        return [f"log p {self.output.log_prob:.3f} of the labels in the second column", *table]

    def record(self) -> dict[str, object]:
        """Values for JSON: the source, the path's log-probability, and for each place its text and its label on the
        path. Each place also has the posterior probabilities of its labels, the most probable first, without labels
        below 10⁻⁶.
        """
        places = [
            {
                "text": text,
                "label": label,
                "posteriors": {name: round(p, 6) for name, p in self.best(place) if p >= 1e-6},
            }
            for place, (text, label) in enumerate(zip(self.places, self.path, strict=True))
        ]
        return {"source": self.source, "log_prob": self.output.log_prob, "places": places}


@torch.inference_mode()
def label_posteriors(transducer: Transducer, source: str, target: str | None = None) -> LabelReading:
    """The labels of ``source`` with their posterior probabilities (of a chain, by the forward-backward algorithm). The
    path is ``target``, by default the most probable sequence without <unk> (Viterbi 1967). The run's own search has no
    effect.

    Raises UserError if the model gives no labels, if it runs in another engine, or if ``target`` has another number of
    labels than the source has places.
    """
    kind = type(transducer.model)
    if can(kind, Searching) or not (can(kind, Chain) or can(kind, Parallel)):
        raise UserError(f'this {model_name(kind)} model gives no labels; a model that does has model.type = "tagger"')
    search: AnySearch = Viterbi() if can(kind, Chain) else LabelSearch()
    (answer,) = with_warnings(transducer.answer([Request(source, target=target)], search))
    row = transducer.read([source])[0].row
    posterior_TL = _log_posteriors(transducer, [row])[0].exp()
    names = transducer.target_tokenizer.tokens(range(posterior_TL.shape[1]))
    return LabelReading(
        source,
        places_of(transducer.source_tokenizer, source, row, len(posterior_TL)),
        answer.best,
        answer.best.tokens[:-1],
        tuple(names[UNK + 1 :]),
        posterior_TL[:, UNK + 1 :],
    )


def _log_posteriors(transducer: Transducer, rows: Sequence[Sized]) -> list[Tensor]:
    """For each row, the logarithms [T, V] of the posterior probabilities of the labels of its places."""
    with transducer.computing():
        if can(type(transducer.model), Chain):
            trellis = cast(Chain, transducer.model).trellis(transducer.padded(rows))
            log_posterior_NTV, lengths_N = trellis.posteriors(), trellis.lengths
        else:
            model = cast(Parallel[object], transducer.model)
            emission = model.emit(model.start(transducer.padded(rows)))
            log_posterior_NTV, lengths_N = label_log_probs(model, emission), emission.lengths
    both = zip(log_posterior_NTV, lengths_N.tolist(), strict=True)
    return [log_posterior_TV[:count].double().cpu() for log_posterior_TV, count in both]


@torch.inference_mode()
def place_effects(
    transducer: Transducer, reading: LabelReading, place: int, label: str | None = None
) -> list[WordEffect]:
    """How much each other word of a source speaks for the ``label`` of one place, by default its most probable one:
    log p(label | source) minus the same without the word, as in ``ClassReading``.

    Empty if the places are not the words of the source. Raises UserError if there is no such place or label.
    """
    words = list(re.finditer(r"\S+", reading.source))
    if not 0 <= place < len(reading.places):
        raise UserError(f"place = {place}: there are {len(reading.places)}, numbered from 0")
    chosen = reading.best(place, 1)[0][0] if label is None else label
    if chosen not in reading.labels:
        known = ", ".join(sorted(reading.labels))
        raise UserError(f"target = {chosen[:60]!r} is no label of this model. Known: {known}")
    if len(words) != len(reading.places):
        return []
    column = reading.labels.index(chosen) + UNK + 1
    others = [number for number in range(len(words)) if number != place]
    texts = [" ".join(each[0] for at, each in enumerate(words) if at != number) for number in others]
    rows = [transducer.read([text])[0].row for text in [reading.source, *texts]]
    found = list[Tensor]()
    for first in range(0, len(rows), AT_ONCE):
        found += _log_posteriors(transducer, rows[first : first + AT_ONCE])
    whole = float(found[0][place, column])
    effects = [
        whole - float(without_TV[place - (n < place), column]) for n, without_TV in zip(others, found[1:], strict=True)
    ]
    return [
        WordEffect(words[n][0], words[n].start(), words[n].end(), effect)
        for n, effect in zip(others, effects, strict=True)
    ]


def places_of(tokenizer: Tokenizer, text: str, row: Sequence[int], count: int) -> tuple[str, ...]:
    """A text for each of the ``count`` places that get a label. These are the tokens of ``row`` if it has a token for
    each place. Otherwise they are the words of ``text`` if there are as many, or numbers from 1, as for a signal.
    """
    if not tokenizer.signal and not tokenizer.numeric:
        tokens = tokenizer.tokens(row)[:-1]
        if len(tokens) == count and tokenizer.factors == 1:
            return tuple(tokens)
        if len(text.split()) >= count:
            return tuple(text.split()[:count])
    return tuple(str(number) for number in range(1, count + 1))
