"""How a loaded run answers: its attention, the tree of its beam, what speaks for its labels, and its next words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from transduce.answers.transducer import Transducer
from transduce.core.errors import RequestError
from transduce.core.protocols import Chain, Searching, can
from transduce.wings.alignment.attention_weights import AttentionChoice
from transduce.wings.language.completion import Completer
from transduce.wings.language.completion_search import NextWords
from transduce.wings.looking.inspection.attention import AttentionMap, attention
from transduce.wings.looking.inspection.beams import beam_tree
from transduce.wings.looking.inspection.classes import read_classes
from transduce.wings.looking.inspection.label_posteriors import label_posteriors, place_effects
from transduce.wings.looking.inspection.signal_attention import SignalAttention, signal_attention
from transduce.wings.serving.answerer import Word

NODES = 400  # nodes of a tree; the page cannot draw more


class InsideRun:
    """The ``Inside`` of a transducer."""

    def __init__(self, transducer: Transducer) -> None:
        self._transducer = transducer
        self._completer = lru_cache(16)(partial(_completer, transducer))  # no circle of references

    def align(
        self, pairs: Sequence[tuple[str, str]], direction: str | None, name: str | None, head: int | None, after: bool
    ) -> list[dict[str, object]]:
        found = self._transducer.align(pairs, direction, AttentionChoice(name, head, after))
        return [found.record(number) for number in range(len(pairs))]

    def complete(self, prefixes: Sequence[str], k: int, begun: str, sources: Sequence[str] | None) -> list[list[Word]]:
        found = self._completer(k, sources is not None)(prefixes, begun, sources)
        return [[Word(*word) for word in words] for words in found]

    def attention(self, source: str, target: str | None, name: str | None, head: int | None) -> dict[str, object]:
        self._check_open()
        if self._transducer.source_tokenizer.signal:
            seen = signal_attention(self._transducer, source, target, head)
            return {"target": seen.tokens, **_weights(seen, name), "boxes": seen.boxes_N4.tolist()}
        found = attention(self._transducer, source, target, head)
        return {"source": found.source_tokens, "target": found.target_tokens, **_weights(found, name)}

    def tree(self, source: str, prefix: str, beam: int | None) -> dict[str, object]:
        self._check_open()
        search = None if beam is None else self._transducer.search.resized(beam)
        found = beam_tree(self._transducer, source, search, prefix)
        limited = found.root.limited(NODES)
        rows = type(found)(found.source, limited, found.hypotheses, found.texts).rows()
        return {"nodes": rows, "texts": found.texts}

    def label_effects(self, source: str, target: str | None, place: int | None) -> dict[str, object]:
        if not (can(type(self._transducer.model), Chain) or self._transducer.token_for_token):
            found = read_classes(self._transducer, source, target).record()
            return found | {"classes": [{"label": label, "probability": p} for label, p in found["classes"].items()]}
        reading = label_posteriors(self._transducer, source)
        told: dict[str, object] = reading.record()
        if place is not None:
            told["words"] = [vars(each) for each in place_effects(self._transducer, reading, place, target)]
        return told

    def _check_open(self) -> None:
        """Raises RequestError for an engine that searches by itself, because its attention and beam are not visible."""
        if can(type(self._transducer.model), Searching):
            raise RequestError(
                "the run is on an engine that searches by itself, so there is nothing to look into: serve the run with "
                "--engine torch or onnx"
            )


def _completer(transducer: Transducer, k: int, with_sources: bool) -> Completer:
    return Completer(transducer, NextWords(k), with_sources)


def _weights(found: AttentionMap | SignalAttention, name: str | None) -> dict[str, object]:
    """The weights of one attention, or of the mean of all, and what there is to choose from."""
    if name is not None and name not in found.weights:
        raise RequestError(f"attention = {name[:60]!r}: there is {', '.join(found.weights)}")
    chosen_TS = found.mean() if name is None else found.weights[name]
    return {
        "weights": [[round(weight, 4) for weight in row] for row in chosen_TS.tolist()],
        "attentions": list(found.weights),
        "heads": [found.heads[name] for name in found.weights],
    }
