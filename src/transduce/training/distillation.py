"""Knowledge distillation: a model learns from a teacher's distribution over each next token, and from the target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, Protocol

import torch
from torch import Tensor

from transduce.compute.cross_entropy import smoothed_cross_entropy
from transduce.core import config, tree
from transduce.core.errors import UserError
from transduce.core.protocols import AnyAutoregressive, Autoregressive, Carry, S, lacking_verbs
from transduce.core.types import Batch, Loss, widened
from transduce.data.batching import Batches, Batching
from transduce.data.pairs import Pairs
from transduce.data.preparation import Tokenizers
from transduce.data.settings import Data
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.forcing import TeacherForcing
from transduce.objectives.readout import chunk_slices, sum_chunks
from transduce.runs.ancestry import Distillation
from transduce.runs.loading import load
from transduce.search.forcing import shifted
from transduce.training.settings import Training

TEACHER_TOKENS = 2**14  # tokens of a batch, if the teacher reads all pairs before training


class Teacher:
    """The trained run, or the ensemble of runs, that a new run (the student) learns from. Its model is on ``device``
    and does not change.
    """

    def __init__(self, settings: Distillation, device: torch.device) -> None:
        self.settings, self.device = settings, device
        self.transducer = load(settings.teacher, settings.checkpoint, str(device))
        self.model: Any = self.transducer.model

    def vocabularies(self, data: Data) -> Tokenizers | None:
        """The teacher's tokenizers if the student's ``data.units`` equal its own; otherwise None. None also for a
        teacher that reads no source.
        """
        theirs = config.build(self.transducer.settings["data"], Data, path="data")
        return self.transducer.tokenizers if self.transducer.conditional and theirs.units == data.units else None

    def check(self, tokenizers: Tokenizers) -> None:
        """Raises UserError unless a student can learn from this teacher. The teacher must be ``Autoregressive``, so
        that it has a distribution over each next token. It must also have the student's vocabularies, ``tokenizers``.
        The source vocabulary does not matter if the teacher reads no source.
        """
        name = self.settings.teacher
        if lacking := lacking_verbs(type(self.model), Autoregressive):
            raise UserError(
                f"distillation.teacher: the model of {name} cannot {' and '.join(lacking)}: it has no distribution "
                "over each next word to learn from; train on the outputs of `transduce predict` instead"
            )
        if differing := self.transducer.tokenizers.differing(tokenizers, self.transducer.conditional):
            raise UserError(
                f"distillation.teacher: {name} has another {' and another '.join(differing)} vocabulary than this run; "
                "use its data.units, or start from a run that has its vocabularies (--init)"
            )

    def taught(self, objective: CrossEntropy, pairs: Pairs, training: Training) -> Distilled:
        """The objective of a student that trains on ``pairs`` by ``objective`` and learns from this teacher."""
        return Distilled(objective, self._distributions(objective, pairs, training), self.settings.share)

    def _distributions(self, objective: CrossEntropy, pairs: Pairs, training: Training) -> TeacherDistributions:
        if self._once(objective, pairs, training):
            return StoredDistributions(self.model, pairs, len(self.transducer.target_tokenizer), self.device)
        return ComputedDistributions(self.model)

    def _once(self, objective: CrossEntropy, pairs: Pairs, training: Training) -> bool:
        """True if the distributions are computed only once. Then every epoch must read the same words, and all
        distributions in float16 must need at most ``room`` GiB. Epochs read different words if ``objective.forcing`` is
        not teacher forcing, if augmentation changes sources, or if hallucination changes both sides.
        """
        tokens, vocabulary = int(pairs.target.offsets[-1]), len(self.transducer.target_tokenizer)
        gibibytes = tokens * vocabulary * torch.float16.itemsize / 2**30
        changed = training.augmentation or training.robust or training.hallucination
        same_words = objective.forcing == TeacherForcing() and not changed
        return same_words and gibibytes <= self.settings.room

    def lines(self, objective: CrossEntropy, pairs: Pairs, training: Training) -> list[str]:
        """A list with one line about the teacher for the student's report. The line has its size, its share of the
        loss, and the time when its distributions are computed.
        """
        parameters = sum(p.numel() for p in self.model.parameters())
        once = self._once(objective, pairs, training)
        when = "computed once, before the first update" if once else "computed with every batch"
        about = f"{parameters:,} parameters, a share of {self.settings.share:g}, {when}"
        return [f"learns from {self.settings.teacher}, {about}"]


class TeacherDistributions(Protocol):
    """A teacher's distributions over the token at each of a batch's N real target positions.

    ``find`` takes the batch and the ids ``read_BT`` [B, T] that the student reads. It returns a tree of tensors
    (tree.py) with N rows. ``probabilities`` converts this tree, or some of its rows, to probabilities [rows, V].
    """

    def find(self, batch: Batch, read_BT: Tensor) -> object: ...

    def probabilities(self, found: Any) -> Tensor: ...


@dataclass(frozen=True)
class ComputedDistributions:
    """The teacher's distributions, computed anew with every batch. The teacher reads the same words as the student."""

    teacher: AnyAutoregressive

    @torch.no_grad()
    def find(self, batch: Batch, read_BT: Tensor) -> object:
        output, _ = self.teacher.extend(read_BT, self.teacher.start(batch.source))
        mask_BT = batch.target.mask
        return tree.map(lambda leaf: leaf[mask_BT], output)

    @torch.no_grad()
    def probabilities(self, found: object) -> Tensor:
        logits_NV = self.teacher.readout(found)
        return logits_NV.softmax(-1, widened(logits_NV.dtype))


class StoredDistributions:
    """The teacher's distributions for all ``pairs``. They are computed on ``device`` at the first call of ``find``, and
    then kept in the processor's memory, in float16.

    The teacher reads the tokens of the targets, so ``find`` ignores ``read_BT``. The teacher always reads the same
    batches. Other batches could change the last bits, so that a resumed run would learn from other numbers.
    """

    def __init__(self, teacher: Autoregressive[S], pairs: Pairs, vocabulary: int, device: torch.device) -> None:
        self.teacher, self.pairs, self.vocabulary, self.device = teacher, pairs, vocabulary, device
        self.offsets_N = torch.tensor(pairs.target.offsets)

    def find(self, batch: Batch, read_BT: Tensor) -> Tensor:
        return self.probability_MV[self._rows(batch)].to(self.device)

    def probabilities(self, found: Tensor) -> Tensor:
        return found.float()

    @cached_property
    def probability_MV(self) -> Tensor:
        """Distributions [M, V], one for each target token of all pairs. The rows of a pair begin at its offset. They
        are float16, in the processor's memory. The first access computes them, which takes a pass of the teacher over
        all pairs.
        """
        computed = ComputedDistributions(self.teacher)
        stored_MV = torch.empty(int(self.offsets_N[-1]), self.vocabulary, dtype=torch.float16)
        for ids_B in Batches(self.pairs, Batching(tokens=TEACHER_TOKENS), seed=0).epoch(0):
            batch = self.pairs.batch(ids_B).to(self.device)
            found, rows_N = computed.find(batch, shifted(batch.target)), self._rows(batch)
            for part in chunk_slices(self.teacher, found):
                stored_MV[rows_N[part]] = computed.probabilities(tree.map(itemgetter(part), found)).to(stored_MV)
        return stored_MV

    def _rows(self, batch: Batch) -> Tensor:
        """The rows [N] of ``probability_MV`` for the batch's N real target positions."""
        mask_BT = batch.target.mask.cpu()
        rows_BT: Tensor = self.offsets_N[batch.ids][:, None] + torch.arange(mask_BT.shape[1])
        return rows_BT[mask_BT]


@dataclass(frozen=True)
class Distilled:
    """Knowledge distillation, word by word (Hinton et al. 2015; Kim and Rush 2016, section 3.1):

    (1 - share) * cross-entropy with the target + share * cross-entropy with the teacher.

    A call returns sums over the target tokens. The first term is ``objective``, with its label smoothing. The second
    term is - sum_v q(v | y_<t, x) log p(v | y_<t, x), where q is the teacher's distribution after the words that the
    student reads. Reports ``nll``, the cross-entropy with the target without smoothing. Also reports ``teacher``, the
    second cross-entropy without the share. The validation loss is ``objective`` alone.
    """

    objective: CrossEntropy
    teacher: TeacherDistributions
    share: float

    def __call__(
        self, model: Autoregressive[S], batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        if not model.training:
            return self.objective(model, batch, progress, carry)
        state, mask_BT = model.start(batch.source), batch.target.mask
        read_BT = self.objective.read(model, state, batch.target, progress)
        found = self.teacher.find(batch, read_BT)
        output, _ = model.extend(read_BT, state)
        real = tree.map(lambda leaf: leaf[mask_BT], output)
        target_N = batch.target.values[mask_BT]

        def sums(output: object, found: object, target: Tensor) -> tuple[Tensor, ...]:
            logits_NV = model.readout(output)
            total, nll = smoothed_cross_entropy(logits_NV, target, self.objective.smoothing)
            from_teacher = self._from_teacher(logits_NV, found)
            return (1 - self.share) * total + self.share * from_teacher, nll, from_teacher

        total, nll, from_teacher = sum_chunks(model, sums, real, found, target_N)
        return Loss(total, len(target_N), {"nll": nll, "teacher": from_teacher}), carry

    def _from_teacher(self, logits_NV: Tensor, found: object) -> Tensor:
        probability_NV = self.teacher.probabilities(found)
        # a word with probability 0 in both would give 0 times minus infinity
        log_NV = logits_NV.log_softmax(-1, probability_NV.dtype).masked_fill(probability_NV == 0, 0)
        return -(probability_NV * log_NV).sum()
