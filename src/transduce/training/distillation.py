"""Learning from another model: what it thinks of every next word, beside the word that is right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, Protocol

import torch
from torch import Tensor

from transduce import config, tree
from transduce.data.batching import Batches, Batching
from transduce.data.pairs import Pairs
from transduce.data.preparation import Tokenizers
from transduce.data.settings import Data
from transduce.errors import UserError
from transduce.objectives.chunks import chunks, summed
from transduce.objectives.cross_entropy import CrossEntropy, smoothed_cross_entropy
from transduce.objectives.forcing import TeacherForcing
from transduce.protocols import Autoregressive, lacking_verbs
from transduce.runs.ancestry import Distillation
from transduce.runs.loading import load
from transduce.search.forcing import shifted
from transduce.training.settings import Training
from transduce.types import Batch, Loss, widened

QUESTIONS = 2**14  # tokens of a batch, where a teacher is asked about all pairs


class Teacher:
    """The run, or several as one, that another learns from; on ``device``, and left as it is."""

    def __init__(self, settings: Distillation, device: torch.device) -> None:
        self.settings, self.device = settings, device
        self.transducer = load(settings.teacher, settings.checkpoint, str(device))
        self.model: Any = self.transducer.model

    def vocabularies(self, data: Data) -> Tokenizers | None:
        """Its own, for a student of the same units, whatever its data; None for another, who cannot have them."""
        theirs = config.build(self.transducer.settings["data"], Data, path="data")
        return self.transducer.tokenizers if self.transducer.conditional and theirs.units == data.units else None

    def check(self, tokenizers: Tokenizers) -> None:
        """Raise ValueError unless it has a distribution over each next word, of the vocabularies that a run has."""
        name = self.settings.teacher
        if lacking := lacking_verbs(type(self.model), Autoregressive):
            raise UserError(
                f"distillation.teacher: the model of {name} cannot {' and '.join(lacking)}: it has no distribution "
                "over each next word to learn from; train on the outputs of `transduce predict` instead"
            )
        if differing := self.transducer.tokenizers.differing(tokenizers, self.transducer.conditional):
            raise UserError(
                f"distillation.teacher: {name} has another {' and another '.join(differing)} vocabulary than this run; "
                "leave data.units as they are there, or start from a run of its vocabularies (--init)"
            )

    def taught(self, objective: CrossEntropy, pairs: Pairs, training: Training) -> Distilled:
        """The objective of a run that learns ``pairs`` from it."""
        return Distilled(objective, self._answers(objective, pairs, training), self.settings.share)

    def _answers(self, objective: CrossEntropy, pairs: Pairs, training: Training) -> Answers:
        if self._once(objective, pairs, training):
            return AskedOnce(self.model, pairs, len(self.transducer.target_tokenizer), self.device)
        return AskedAlways(self.model)

    def _once(self, objective: CrossEntropy, pairs: Pairs, training: Training) -> bool:
        """Whether it is asked once: where each epoch asks the same, and there is room for its answers."""
        tokens, vocabulary = int(pairs.target.offsets[-1]), len(self.transducer.target_tokenizer)
        gibibytes = tokens * vocabulary * torch.float16.itemsize / 2**30
        alike = objective.forcing == TeacherForcing() and not training.augmentation
        return alike and gibibytes <= self.settings.room

    def lines(self, objective: CrossEntropy, pairs: Pairs, training: Training) -> list[str]:
        """For people."""
        parameters = sum(p.numel() for p in self.model.parameters())
        once = self._once(objective, pairs, training)
        asked = "asked once, before the first update" if once else "asked with every batch"
        about = f"{parameters:,} parameters, a share of {self.settings.share:g}, {asked}"
        return [f"learns from {self.settings.teacher}, {about}"]


class Answers(Protocol):
    """What a teacher thinks of each next word of a batch, N in all: ``of`` finds it before the words are read out, and
    ``probabilities`` makes distributions [N, V] of it, or of a part of its rows."""

    def of(self, batch: Batch, read_BT: Tensor) -> Any: ...

    def probabilities(self, found: Any) -> Tensor: ...


@dataclass(frozen=True)
class AskedAlways:
    """Those of a teacher that is asked with every batch, after the words that the student reads."""

    teacher: Autoregressive[Any]

    @torch.no_grad()
    def of(self, batch: Batch, read_BT: Tensor) -> Any:
        output, _ = self.teacher.extend(read_BT, self.teacher.start(batch.source))
        mask_BT = batch.target.mask
        return tree.map(lambda leaf: leaf[mask_BT], output)

    @torch.no_grad()
    def probabilities(self, found: Any) -> Tensor:
        logits_NV = self.teacher.readout(found)
        probability_NV: Tensor = logits_NV.softmax(-1, widened(logits_NV.dtype))
        return probability_NV


class AskedOnce:
    """Those of a teacher that is asked about all ``pairs`` before the first batch, after their targets' own words, on
    ``device``; kept in half precision.

    The questions are the same whenever it is asked, lest a run that is resumed learn from answers that differ in their
    last bits.
    """

    def __init__(self, teacher: Autoregressive[Any], pairs: Pairs, vocabulary: int, device: torch.device) -> None:
        self.teacher, self.pairs, self.vocabulary, self.device = teacher, pairs, vocabulary, device
        self.offsets_N = torch.tensor(pairs.target.offsets)

    def of(self, batch: Batch, read_BT: Tensor) -> Tensor:
        return self.probability_MV[self._places(batch)].to(self.device)

    def probabilities(self, found: Tensor) -> Tensor:
        return found.float()

    @cached_property
    def probability_MV(self) -> Tensor:
        """[target tokens of all pairs, V], a pair's from its offset on."""
        asked = AskedAlways(self.teacher)
        known_MV = torch.empty(int(self.offsets_N[-1]), self.vocabulary, dtype=torch.float16)
        for ids_B in Batches(self.pairs, Batching(tokens=QUESTIONS), seed=0).epoch(0):
            batch = self.pairs.batch(ids_B).to(self.device)
            found, places_N = asked.of(batch, shifted(batch.target)), self._places(batch)
            for part in chunks(self.teacher, found):
                known_MV[places_N[part]] = asked.probabilities(tree.map(itemgetter(part), found)).to(known_MV)
        return known_MV

    def _places(self, batch: Batch) -> Tensor:
        """Rows of ``probability_MV``, of the batch's N real target positions."""
        mask_BT = batch.target.mask.cpu()
        places_BT: Tensor = self.offsets_N[batch.ids][:, None] + torch.arange(mask_BT.shape[1])
        return places_BT[mask_BT]


@dataclass(frozen=True)
class Distilled:
    """Knowledge distillation, word by word (Hinton et al. 2015; Kim and Rush 2016, section 3.1):

    (1 - share) of the cross-entropy with the target, smoothed as ``objective`` has it, and ``share`` of that with the
    teacher, - sum_v q(v | y_<t, x) log p(v | y_<t, x), both after the words that the model reads. Reports ``nll``, of
    the target alone, and ``teacher``, the teacher's part. In validation it is ``objective``.
    """

    objective: CrossEntropy
    answers: Answers
    share: float

    def __call__(self, model: Any, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        if not model.training:
            return self.objective(model, batch, progress, carry)
        state, mask_BT = model.start(batch.source), batch.target.mask
        read_BT = self.objective.read(model, state, batch.target, progress)
        taught = self.answers.of(batch, read_BT)
        output, _ = model.extend(read_BT, state)
        real = tree.map(lambda leaf: leaf[mask_BT], output)
        target_N = batch.target.values[mask_BT]

        def part(output: Any, taught: Any, target: Tensor) -> tuple[Tensor, ...]:
            logits_NV = model.readout(output)
            total, nll = smoothed_cross_entropy(logits_NV, target, self.objective.smoothing)
            return total, nll, self._from_teacher(logits_NV, taught)

        total, nll, learned = summed(model, part, real, taught, target_N)
        mixed = (1 - self.share) * total + self.share * learned
        return Loss(mixed, len(target_N), {"nll": nll, "teacher": learned.detach()}), carry

    def _from_teacher(self, logits_NV: Tensor, taught: Any) -> Tensor:
        probability_NV = self.answers.probabilities(taught)
        # what both rule out is 0 times minus infinity
        log_NV = logits_NV.log_softmax(-1, probability_NV.dtype).masked_fill(probability_NV == 0, 0)
        return -(probability_NV * log_NV).sum()
