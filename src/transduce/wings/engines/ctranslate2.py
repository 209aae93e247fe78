"""A CTranslate2 model as a model of this package. It searches by itself, in the way that the options of a greedy or
beam search say.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from transduce.core.errors import UserError
from transduce.core.protocols import AnySearch
from transduce.core.types import Hypothesis, Padded
from transduce.runs.manifest import Manifest
from transduce.search.allocation.best import BestContinuations
from transduce.search.beam import Beam
from transduce.search.front import check_prefix
from transduce.search.greedy import Greedy
from transduce.search.ranking import Average, LogProbability
from transduce.wings.engines.translation import Options, Translator, open_translator, rows

PENALTIES = {Average: 1.0, LogProbability: 0.0}


class CTranslate2Model(nn.Module):
    """``Searching``: source ids to hypotheses, which CTranslate2 finds and scores.

    A hypothesis that was searched has no log-probabilities of its tokens, unless it reached the maximum length without
    an end: then it is scored again with EOS. CTranslate2's beam ends when ``size`` hypotheses have finished, so it may
    find another output than ``Beam``.
    """

    def __init__(self, translator: Translator) -> None:
        super().__init__()
        self.translator = translator

    def search(self, search: AnySearch, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        options = _options(search)
        if prefix is not None:
            check_prefix(prefix, len(source.lengths), options.max_length)
        return self.translator.search(rows(source), options, None if prefix is None else rows(prefix))

    def force(self, source: Padded, target: Padded) -> list[Hypothesis]:
        return self.translator.force(rows(source), rows(target))


def _options(search: AnySearch) -> Options:
    """The options of a search for CTranslate2. Raises UserError for a search that CTranslate2 does not have."""
    if type(search) is Greedy and not search.filters:
        return Options(max_length=search.max_length, unknown=search.unknown)
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
    return Options(search.size, search.nbest, search.max_length, PENALTIES[type(search.ranking)], search.unknown)


def open_ctranslate2(folder: Path, manifest: Manifest) -> CTranslate2Model:
    """The model of the export in ``folder``, for the CPU. Raises MissingPackageError if CTranslate2 is not
    installed.
    """
    return CTranslate2Model(open_translator(folder, manifest.precision, torch.get_num_threads())).eval()
