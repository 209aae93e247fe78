"""The most probable segmentation of one source and one target into units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.readings.reader import LEFT_OUT

Piece = tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """A segmentation: pairs (source tokens, target tokens) in order. A source token may have no target token.

    ``log_prob`` is the log-probability of its sequence of units, the end included: p(x, y) by this segmentation
    (natural logarithm). ``log_probs`` has the log-probability of each unit given the units before it, and of the end.
    """

    pieces: tuple[tuple[Piece, Piece], ...]
    log_prob: float
    log_probs: tuple[float, ...] = ()


def cut(
    units: Tensor, source_tokens: int, ngrams: NgramLookup, source: Sequence[int], target: Sequence[int]
) -> Cut | None:
    """The most probable segmentation of a pair; None if the units cannot make up both sides.

    ``units`` [U, W] are the words of ``ngrams``. The first ``source_tokens`` columns are a unit's source tokens and the
    others its target tokens, both padded with 0. ``source`` and ``target`` are ids without EOS. A source token that is
    no unit's whole source side may be left out, with log-probability ``LEFT_OUT``.
    """
    found: defaultdict[Piece, list[tuple[int, Piece]]] = defaultdict(list)
    for unit, tokens in enumerate(units.tolist()):
        piece, side = (tuple(filter(None, side)) for side in (tokens[:source_tokens], tokens[source_tokens:]))
        found[piece].append((unit, side))
    # at each source token: the best path to each pair of target position and history
    layers: list[dict[tuple[int, int], Cut]] = [{} for _ in range(len(source) + 1)]
    layers[0][0, ngrams.begun] = Cut((), 0.0)
    for place, token in enumerate(source):
        for size in range(1, min(source_tokens, len(source) - place) + 1):
            piece = tuple(source[place : place + size])
            steps = [
                ((written, history), unit, side)
                for written, history in layers[place]
                for unit, side in found.get(piece, ())
                if tuple(target[written : written + len(side)]) == side
            ]
            log_probs, after = _asked(ngrams, [(history, unit) for (_, history), unit, _ in steps])
            for ((written, history), _, side), log_prob, memory in zip(steps, log_probs, after, strict=True):
                way = layers[place][written, history]
                reached = layers[place + len(piece)]
                _keep(reached, (written + len(side), memory), way, (piece, side), log_prob)
        if (token,) not in found:
            for at, way in layers[place].items():
                _keep(layers[place + 1], at, way, ((token,), ()), LEFT_OUT)
    whole = {history: way for (written, history), way in layers[len(source)].items() if written == len(target)}
    endings, _ = _asked(ngrams, [(history, ngrams.end) for history in whole])
    ways = (
        Cut(way.pieces, way.log_prob + ending, (*way.log_probs, ending))
        for way, ending in zip(whole.values(), endings, strict=True)
    )
    return max(ways, key=lambda way: way.log_prob, default=None)


def _keep(
    reached: dict[tuple[int, int], Cut], at: tuple[int, int], way: Cut, side: tuple[Piece, Piece], log_prob: float
) -> None:
    if at not in reached or reached[at].log_prob < way.log_prob + log_prob:
        reached[at] = Cut((*way.pieces, side), way.log_prob + log_prob, (*way.log_probs, log_prob))


def _asked(ngrams: NgramLookup, questions: list[tuple[int, int]]) -> tuple[list[float], list[int]]:
    asked = torch.tensor(questions, dtype=torch.long, device=ngrams.keys.device).view(-1, 2)
    log_probs, after = ngrams(asked[:, 0], asked[:, 1])
    return log_probs.tolist(), after.tolist()
