"""How a model read and wrote one sentence: probabilities, alternative tokens, attention, and the tree of the search.

H heads, T target tokens, S source columns, V target words, W source words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce import tree as trees
from transduce.answers.alignments import pair_alignments
from transduce.answers.attention_weights import attention_weights
from transduce.errors import UserError
from transduce.inspect.beams import beam_tree
from transduce.inspect.gates import CellsOverTime, cells_over_time
from transduce.inspect.tree import SearchTree
from transduce.protocols import Autoregressive, can
from transduce.search.forcing import shifted
from transduce.transducer import Transducer

RUNNERS = 5


@dataclass(frozen=True)
class Step:
    """A target token, its probability given the tokens before it, and the most probable tokens at its position with
    their probabilities, best first.
    """

    token: str
    probability: float
    runners: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class WordWeights:
    """The attention of each target word to each source word, ``weights_VW``. A row is the mean over the tokens of the
    target word, and a column is the sum over the tokens of the source word. A row sums to the attention on words; the
    rest is on the end.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights_VW: Tensor


@dataclass(frozen=True)
class SentenceReading:
    """A sentence and its output ``text`` by the model ``name``.

    ``heads`` maps each attention to the source, by its name in the model, to its weights [H, T, S]. Column s belongs to
    ``source_tokens[s]``, and row t to ``steps[t]``. For a model without attention, it is empty, and ``words`` is None.
    ``cells`` are the recurrent cells over time. ``tree`` is None if the run's search is no beam, or if the target was
    given.
    """

    name: str
    source: str
    text: str
    source_tokens: tuple[str, ...]
    steps: tuple[Step, ...]
    heads: Mapping[str, Tensor]
    words: WordWeights | None
    tree: SearchTree | None
    cells: tuple[CellsOverTime, ...] = ()

    def mean(self) -> Tensor:
        """The average [T, S] over all heads of all attentions."""
        return torch.stack([heads_HTS.mean(0) for heads_HTS in self.heads.values()]).mean(0)

    def entropies(self) -> dict[str, list[float]]:
        """The entropy of each head, by the name of its attention: the mean over target tokens, divided by the logarithm
        of the number of columns. It is 0 if all weight is on one column, and 1 for equal weights.
        """
        most = math.log(max(2, len(self.source_tokens)))
        return {
            name: (-(heads_HTS * heads_HTS.clamp_min(1e-12).log()).sum(-1).mean(-1) / most).tolist()
            for name, heads_HTS in self.heads.items()
        }

    def record(self) -> dict[str, Any]:
        """The reading as a JSON object, without the tree."""
        return {
            "name": self.name,
            "source": self.source,
            "text": self.text,
            "source_tokens": list(self.source_tokens),
            "steps": [
                {"token": step.token, "probability": step.probability, "runners": list(map(list, step.runners))}
                for step in self.steps
            ],
            "attention": {name: heads_HTS.tolist() for name, heads_HTS in self.heads.items()},
            "entropy": self.entropies(),
            "cells": [each.record() for each in self.cells],
        }


@torch.inference_mode()
def read_sentence(name: str, transducer: Transducer, source: str, target: str | None = None) -> SentenceReading:
    """Reads the text ``source`` with the model ``name``, and writes ``target`` by teacher forcing. The default is the
    model's own best output. Raises UserError for a model that does not write token by token.
    """
    model: Any = transducer.model
    if not can(type(model), Autoregressive):
        raise UserError(f"this {type(model).__name__} writes all at once, and a page shows a sentence token by token")
    source_ids = transducer.read_one(source)
    if target is None:
        target_ids = list(transducer.search_with(transducer.search, transducer.padded([source_ids]))[0][0].tokens)
    else:
        (target_ids,) = transducer.read_targets([target])
    text = transducer.target_tokenizer.decode(target_ids) if target is None else target
    heads, columns = dict[str, Tensor](), [(place, place + 1) for place in range(len(source_ids))]
    words = None
    try:
        found = attention_weights(transducer, [source_ids], [target_ids])
    except UserError:  # without attention, the page has no section about it
        pass
    else:
        columns = found.columns[0]
        heads = {each: of[0, :, : len(target_ids), : len(columns)].float().cpu() for each, of in found.heads.items()}
        words = _words(transducer, source, text)
    pieces = transducer.source_tokenizer.tokens(source_ids)
    return SentenceReading(
        name,
        source,
        text,
        tuple("".join(pieces[first:behind]) for first, behind in columns),
        _steps(transducer, source_ids, target_ids),
        heads,
        words,
        _tree(transducer, source) if target is None else None,
        cells_over_time(transducer, source_ids, target_ids),
    )


def _steps(transducer: Transducer, source_ids: Any, target_ids: list[int]) -> tuple[Step, ...]:
    target = transducer.padded([target_ids], torch.long)
    with transducer.computing():
        features, _ = transducer.model.extend(shifted(target), transducer.model.start(transducer.padded([source_ids])))
        row = trees.map(lambda leaf: leaf[0], features)
        log_prob_TV = transducer.model.readout(row).float().log_softmax(-1)
    own_T = log_prob_TV.gather(1, target.values[0][:, None])[:, 0].exp().tolist()
    best_TR, ids_TR = log_prob_TV.topk(min(RUNNERS, log_prob_TV.shape[1]))
    tokens = transducer.target_tokenizer.tokens
    return tuple(
        Step(token, own, tuple(zip(tokens(ids), best, strict=True)))
        for token, own, ids, best in zip(
            tokens(target_ids), own_T, ids_TR.tolist(), best_TR.exp().tolist(), strict=True
        )
    )


def _words(transducer: Transducer, source: str, text: str) -> WordWeights | None:
    """The mean of all attentions, merged to words; None if a side has no words."""
    (found,) = pair_alignments(transducer, [(source, text)])
    weights_VW = found.words_VI[:, 1:]
    sides = tuple(found.source.texts), tuple(found.target.texts)
    return WordWeights(*sides, weights_VW) if weights_VW.numel() else None


def _tree(transducer: Transducer, source: str) -> SearchTree | None:
    try:
        return beam_tree(transducer, source)
    except UserError:  # this search has no tree
        return None
