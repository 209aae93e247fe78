"""How a model read and wrote one sentence: probabilities, alternative tokens, attention, and the tree of the search.

H heads, T target tokens, S source columns, V target words, W source words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, Mixed, Parallel, can
from transduce.core.registry import model_name
from transduce.metrics.units import aligned, shown
from transduce.wings.alignment.alignments import pair_alignments
from transduce.wings.alignment.attention_weights import attention_weights
from transduce.wings.looking.inspection.beams import beam_tree
from transduce.wings.looking.inspection.forced import forced_log_probs
from transduce.wings.looking.inspection.gates import CellsOverTime, cells_over_time
from transduce.wings.looking.inspection.tree import SearchTree
from transduce.wings.looking.inspection.units import UnitReading, units

RUNNERS = 5
FEW = 3  # of them in the terminal


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
class Part:
    """One of the models that a mixture mixes: its probability of each output token, and its share in it (``Mixed``)."""

    name: str
    probabilities: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class SentenceReading:
    """A sentence and its output ``text`` by the model ``name``.

    ``heads`` maps each attention to the source, by its name in the model, to its weights [H, T, S]. Column s belongs to
    ``source_tokens[s]``, and row t to ``steps[t]``. For a model without attention, it is empty, and ``words`` is None.
    ``cells`` are the recurrent cells over time. ``tree`` is None if the run's search is no beam, or if the target was
    given. ``parts`` are the models of a mixture, and ``meaning`` says what their shares are. ``units`` is the cut by a
    joint n-gram model, if the model is one or has one.
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
    parts: tuple[Part, ...] = ()
    meaning: str = ""
    units: UnitReading | None = None

    def lines(self) -> list[str]:
        """Lines for the terminal: each output token with its probability and the most probable tokens, then the parts
        of a mixture and the units.
        """
        rows = [["token", "p", "most probable"]]
        for step in self.steps:
            likely = "  ".join(f"{shown(token)} {p:.2f}" for token, p in step.runners[:FEW])
            rows.append([shown(step.token), f"{step.probability:.3f}", likely])
        return [*aligned(rows), *self.part_lines()]

    def part_lines(self) -> list[str]:
        """The lines about the parts of a mixture and about the units, each after an empty line."""
        found = []
        if self.parts:
            found += ["", f"share: {self.meaning}", *aligned(self.part_rows())]
        if self.units is not None:
            found += ["", *self.units.lines()]
        return found

    def part_rows(self) -> list[list[str]]:
        """A table: a head, then for each output token the probability of each part and its share."""
        rows = [["token", *(head for part in self.parts for head in (part.name, "share"))]]
        for place, step in enumerate(self.steps):
            numbers = ((f"{each.probabilities[place]:.3f}", f"{each.shares[place]:+.2f}") for each in self.parts)
            rows.append([shown(step.token), *(number for pair in numbers for number in pair)])
        return rows

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

    def record(self) -> dict[str, object]:
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
            "parts": [vars(each) for each in self.parts],
            "units": [] if self.units is None else [list(row) for row in self.units.rows()],
        }


@torch.inference_mode()
def read_sentence(name: str, transducer: Transducer, source: str, target: str | None = None) -> SentenceReading:
    """Reads the text ``source`` with the model ``name``, and writes ``target`` by teacher forcing. The default is the
    model's own best output. A language model has no source, so ``source`` is its text. Raises UserError for a model
    that gives no probabilities to tokens.
    """
    model = transducer.model
    if not transducer.conditional and target is None:
        source, target = "", source
    if not can(type(model), Autoregressive) and not can(type(model), Parallel):
        raise UserError(
            f"this {model_name(type(model))} model gives its tokens no probabilities; see its output with `transduce "
            "predict`"
        )
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
    stepwise = can(type(model), Autoregressive)
    output, log_prob_TV = forced_log_probs(transducer, source_ids, target_ids)
    ids_T = torch.tensor(target_ids[: len(log_prob_TV)], device=log_prob_TV.device)
    return SentenceReading(
        name,
        source,
        text,
        tuple("".join(pieces[first:behind]) for first, behind in columns),
        _steps(transducer, ids_T, log_prob_TV),
        heads,
        words,
        _tree(transducer, source) if target is None else None,
        cells_over_time(transducer, source_ids, target_ids) if stepwise else (),
        _parts(cast(Mixed, model), output, ids_T, log_prob_TV) if can(type(model), Mixed) else (),
        cast(Mixed, model).meaning if can(type(model), Mixed) else "",
        _units(transducer, source, text),
    )


def _steps(transducer: Transducer, ids_T: Tensor, log_prob_TV: Tensor) -> tuple[Step, ...]:
    own_T = log_prob_TV.gather(1, ids_T[:, None])[:, 0].exp().tolist()
    best_TR, ids_TR = log_prob_TV.topk(min(RUNNERS, log_prob_TV.shape[1]))
    tokens = transducer.target_tokenizer.tokens
    return tuple(
        Step(token, own, tuple(zip(tokens(ids), best, strict=True)))
        for token, own, ids, best in zip(
            tokens(ids_T.tolist()), own_T, ids_TR.tolist(), best_TR.exp().tolist(), strict=True
        )
    )


def _parts(model: Mixed, output: object, ids_T: Tensor, log_prob_TV: Tensor) -> tuple[Part, ...]:
    """The parts of a mixture, if it has several. The whole mixture chooses the strongest other token."""
    models = model.used()
    if len(models) < 2:
        return ()
    other_T1 = log_prob_TV.scatter(1, ids_T[:, None], float("-inf")).argmax(1, keepdim=True)
    every = [log_p_TV.float() for log_p_TV in model.log_probs(output)]
    own_MT = torch.cat([log_p_TV.gather(1, ids_T[:, None]) for log_p_TV in every], 1).T
    other_MT = torch.cat([log_p_TV.gather(1, other_T1) for log_p_TV in every], 1).T
    rows = zip(models, own_MT.exp().tolist(), model.shares(own_MT, other_MT).tolist(), strict=True)
    return tuple(Part(model_name(type(each)), tuple(own), tuple(shares)) for each, own, shares in rows)


def _units(transducer: Transducer, source: str, text: str) -> UnitReading | None:
    try:
        return units(transducer, source, text)
    except UserError:  # the model has no units, or none of them make up both texts
        return None


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
