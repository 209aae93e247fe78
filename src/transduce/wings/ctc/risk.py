"""Minimum risk training of CTC models: outputs with better metric scores become more probable.

B sources, K outputs of each, N = B * K rows of S frames.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.protocols import Carry, Framewise, Search
from transduce.core.types import Batch, Loss, Padded
from transduce.data.pairs import Pairs
from transduce.objectives.risk import Comparison, Decode, check_options, distinct_outputs, expected_risk, padded
from transduce.wings.ctc.lattice import NEVER, least_frames
from transduce.wings.ctc.objectives import CTCLikelihood
from transduce.wings.ctc.search.prefix_beam import PrefixBeam


class ExpectedFrameRisk:
    """The expected risk of a CTC model's own outputs. ``ExpectedRisk`` is the same for autoregressive models. Start it
    from a model that the objective "ctc" has trained (``--init``). The loss is

    the sum over y of q(y | x) risk(y) + ``likelihood`` * the loss of CTC.

    The y are the ``outputs`` best hypotheses that the search ``candidates`` finds with the current model, without
    dropout. Equal hypotheses count once. The search "prefix-beam" finds the most probable outputs (Prabhavalkar et al.
    2018, eq. 5). The search "alignment-sampling" draws them from the model (Shannon 2017). Graves and Jaitly 2014 do
    not renormalise.

    q(y | x) is p(y | x) to the power of ``sharpness``, normalised over the y; p sums over all alignments. The risk is 1
    minus the sentence's ``metric`` as a share, or the share itself if lower is better. It is multiplied by the number
    of target tokens. Reports ``nll`` and ``skipped`` like ``CTCLikelihood``, and ``risk``, the first sum. The
    validation loss is the loss of CTC.
    """

    def __init__(
        self,
        metric: str,
        outputs: int = 4,
        candidates: Search[Framewise] = PrefixBeam(size=4, weight=0.0),  # noqa: B008 a frozen dataclass
        sharpness: float = 1.0,
        likelihood: float = 0.1,
        ctc: CTCLikelihood = CTCLikelihood(impossible="skip"),  # noqa: B008 a frozen dataclass
    ) -> None:
        self.comparison = Comparison(metric)
        check_options(outputs, sharpness, likelihood)
        self.search = candidates.resized(nbest=outputs)
        self.sharpness, self.likelihood = sharpness, likelihood
        self.ctc = ctc

    def reading(self, decode: Decode) -> ExpectedFrameRisk:
        own = copy.copy(self)
        own.comparison = self.comparison.reading(decode)
        return own

    def check(self, model: Framewise, splits: Mapping[str, Pairs]) -> list[str]:
        return self.ctc.check(model, splits)

    def __call__(
        self, model: Framewise, batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        frames = model.frames(batch.source)
        ctc = self.ctc.of(frames, batch)
        if not model.training:
            return ctc, carry
        outputs = distinct_outputs(self.search, model, batch)
        most = max(map(len, outputs))  # K
        log_prob_BK = log_probs(tree.repeat(frames, most), padded(outputs, most, batch)).view(-1, most)
        risk = expected_risk(log_prob_BK, self.comparison.risks(outputs, most, batch), self.sharpness)
        # a pair that CTC skips has no likelihood, but it has a risk. So its tokens count.
        count = int(batch.target.lengths.sum())
        parts = {"nll": ctc.plain, "risk": risk.detach()}
        return Loss(risk + self.likelihood * ctc.total, count, parts, ctc.tallies), carry


def log_probs(frames: Padded, target: Padded) -> Tensor:
    """log p(y | x) [N], summed over alignments. ``frames`` has log-probabilities [N, S, V], and each row of ``target``
    [N, T] ends with EOS. The result is differentiable. For an output without an alignment it is minus infinity, without
    a gradient.
    """
    outputs = Padded(target.values[:, : max(1, target.values.shape[1] - 1)], target.lengths - 1)
    impossible_N = least_frames(outputs) > frames.lengths
    nll_N = torch.nn.functional.ctc_loss(
        frames.values.transpose(0, 1),
        outputs.values,
        frames.lengths,
        outputs.lengths,
        reduction="none",
        zero_infinity=True,
    )
    return (-nll_N).masked_fill(impossible_N, NEVER)
