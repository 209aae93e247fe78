"""Learning from another model: what it thinks of every next word, beside the word that is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.data.preparation import Tokenizers
from transduce.loading import load
from transduce.protocols import Autoregressive, lacking_verbs
from transduce.training.chunks import summed
from transduce.training.objectives import CrossEntropy, smoothed_cross_entropy
from transduce.training.settings import Distillation
from transduce.types import Batch, Loss


class Teacher:
    """The run, or several as one, that another learns from; on ``device``, and left as it is."""

    def __init__(self, settings: Distillation, device: torch.device) -> None:
        self.settings = settings
        self.transducer = load(settings.teacher, settings.checkpoint, str(device))
        self.model: Any = self.transducer.model

    def check(self, tokenizers: Tokenizers) -> None:
        """Raise ValueError unless it has a distribution over each next word, of the vocabularies that a run has."""
        name = self.settings.teacher
        if lacking := lacking_verbs(type(self.model), Autoregressive):
            raise ValueError(
                f"distillation.teacher: the model of {name} cannot {' and '.join(lacking)}: it has no distribution "
                "over each next word to learn from; train on the outputs of `transduce predict` instead"
            )
        own = Tokenizers(self.transducer.source_tokenizer, self.transducer.target_tokenizer)
        if differing := own.differing(tokenizers, self.transducer.conditional):
            raise ValueError(
                f"distillation.teacher: {name} has another {' and another '.join(differing)} vocabulary than this run; "
                "train both on the same data with the same data.units, or start from a run of its vocabularies "
                "(--init)"
            )

    def lines(self) -> list[str]:
        """For people."""
        parameters = sum(p.numel() for p in self.model.parameters())
        return [f"learns from {self.settings.teacher}, {parameters:,} parameters, a share of {self.settings.share:g}"]


@dataclass(frozen=True)
class Distilled:
    """Knowledge distillation, word by word (Hinton et al. 2015; Kim and Rush 2016, section 3.1):

    (1 - share) of the cross-entropy with the target, smoothed as ``objective`` has it, and ``share`` of that with the
    teacher, - sum_v q(v | y_<t, x) log p(v | y_<t, x), both after the words that the model reads. Reports ``nll``, of
    the target alone, and ``teacher``, the teacher's part. In validation it is ``objective``.
    """

    objective: CrossEntropy
    teacher: Autoregressive[Any]
    share: float

    def __call__(self, model: Any, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        if not model.training:
            return self.objective(model, batch, progress, carry)
        state, mask_BT = model.start(batch.source), batch.target.mask
        read_BT = self.objective.read(model, state, batch.target, progress)
        with torch.no_grad():
            taught, _ = self.teacher.extend(read_BT, self.teacher.start(batch.source))
        output, _ = model.extend(read_BT, state)
        real, taught = tree.map(lambda leaf: leaf[mask_BT], (output, taught))
        target_N = batch.target.values[mask_BT]

        def part(output: Any, taught: Any, target: Tensor) -> tuple[Tensor, ...]:
            logits_NV = model.readout(output)
            total, nll = smoothed_cross_entropy(logits_NV, target, self.objective.smoothing)
            return total, nll, self._from_teacher(logits_NV, taught)

        total, nll, learned = summed(model, part, real, taught, target_N)
        mixed = (1 - self.share) * total + self.share * learned
        return Loss(mixed, len(target_N), {"nll": nll, "teacher": learned.detach()}), carry

    def _from_teacher(self, logits_NV: Tensor, taught: Any) -> Tensor:
        wide = torch.promote_types(logits_NV.dtype, torch.float32)
        with torch.no_grad():
            probability_NV: Tensor = self.teacher.readout(taught).softmax(-1, wide)
        # what both rule out is 0 times minus infinity
        log_NV = logits_NV.log_softmax(-1, wide).masked_fill(probability_NV == 0, 0)
        return -(probability_NV * log_NV).sum()
