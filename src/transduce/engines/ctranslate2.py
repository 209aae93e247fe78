"""A CTranslate2 model. It searches by itself, in the way that the options of a greedy or beam search say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transduce import tree
from transduce.engines.manifest import Manifest
from transduce.errors import MissingPackageError, UserError
from transduce.search.allocation.best import BestContinuations
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.search.ranking import Average, LogProbability
from transduce.types import EOS, SPECIALS, Hypothesis, Padded

PENALTIES = {Average: 1.0, LogProbability: 0.0}
LONGEST = 4096  # tokens of a source: the pipeline has cut it already


class CTranslate2Model(nn.Module):
    """``Searching``: source ids to hypotheses, which CTranslate2 finds and scores.

    A hypothesis that was searched has no log-probabilities of its tokens, unless it reached the maximum length without
    an end: then it is scored again with EOS. CTranslate2's beam ends when ``size`` hypotheses have finished, so it may
    find another output than ``Beam``.
    """

    def __init__(self, translator: Any) -> None:
        super().__init__()
        self.translator = translator

    def search(self, search: Any, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        size, nbest, penalty = _options(search)
        begun = None if prefix is None else _tokens(prefix)
        results = self.translator.translate_batch(
            _tokens(source),
            target_prefix=begun,
            beam_size=size,
            num_hypotheses=nbest,
            length_penalty=penalty,
            max_decoding_length=max(1, search.max_length - 1),  # EOS does not count
            min_decoding_length=0,
            max_input_length=LONGEST,
            return_end_token=True,
            return_scores=True,
        )
        found = [
            [_hypothesis(tokens, score, penalty) for tokens, score in zip(each.hypotheses, each.scores, strict=True)]
            for each in results
        ]
        cut = [
            (row, place)
            for row, each in enumerate(results)
            for place, tokens in enumerate(each.hypotheses)
            if tokens[-1:] != [SPECIALS[EOS]]
        ]
        if cut:  # their scores lack the end, which the search writes at the maximum length
            ends = self.force(
                tree.select(source, torch.tensor([row for row, _ in cut])),
                Padded.of([found[row][place].tokens for row, place in cut]),
            )
            for (row, place), end in zip(cut, ends, strict=True):
                found[row][place] = replace(end, score=end.log_prob / len(end.tokens) ** penalty)
        return [sorted(each, key=lambda h: -h.score) for each in found]

    def force(self, source: Padded, target: Padded) -> list[Hypothesis]:
        outputs = [row[:-1] for row in _tokens(target)]
        results = self.translator.score_batch(_tokens(source), outputs, max_input_length=LONGEST)
        found = []
        for ids, length, each in zip(target.values.tolist(), target.lengths.tolist(), results, strict=True):
            log_probs = tuple(each.log_probs)
            found.append(Hypothesis(tuple(ids[:length]), sum(log_probs), sum(log_probs), log_probs))
        return found


def _options(search: Any) -> tuple[int, int, float]:
    """Beam size, number of outputs, and the power of the length by which scores are divided. Raises UserError for a
    search that CTranslate2 does not have.
    """
    if type(search) is Greedy and not search.filters:
        return 1, 1, 0.0
    if type(search) is not Beam or search.filters or type(search.allocation) is not BestContinuations:
        raise UserError(
            f"{type(search).__name__}: CTranslate2 has greedy and beam search without filters and constraints; use "
            "--engine onnx or torch for others"
        )
    if type(search.ranking) not in PENALTIES:
        raise UserError(
            f"{type(search.ranking).__name__}: CTranslate2 ranks by the average or by log-probability; use --engine "
            "onnx or torch for others"
        )
    return search.size, search.nbest, PENALTIES[type(search.ranking)]


def _tokens(rows: Padded) -> list[list[str]]:
    ids = zip(rows.values.tolist(), rows.lengths.tolist(), strict=True)
    return [[SPECIALS[i] if i < len(SPECIALS) else str(i) for i in row[:length]] for row, length in ids]


def _hypothesis(tokens: list[str], score: float, penalty: float) -> Hypothesis:
    ids = tuple(SPECIALS.index(token) if token in SPECIALS else int(token) for token in tokens)
    ended = ids if ids[-1:] == (EOS,) else (*ids, EOS)
    return Hypothesis(ended, score * len(ended) ** penalty, score)


def open_ctranslate2(folder: Path, manifest: Manifest) -> CTranslate2Model:
    """The model of the export in ``folder``, for the CPU. Raises MissingPackageError if CTranslate2 is not
    installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise MissingPackageError(
            "an export for ctranslate2 needs ctranslate2, which is not installed: pip install 'transduce[ctranslate2]'"
        ) from error
    compute = "float32" if manifest.precision == "float32" else manifest.precision
    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type=compute, inter_threads=1, intra_threads=torch.get_num_threads()
    )
    return CTranslate2Model(translator).eval()
