"""The negative log-likelihood of a target. N real target positions, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from transduce.compute.cross_entropy import smoothed_cross_entropy
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, Carry, Chain, Distribution, Parallel, S
from transduce.core.types import Batch, Chunk, Loss, Padded
from transduce.objectives.forcing import Forcing, TeacherForcing
from transduce.objectives.readout import sum_chunks
from transduce.search.forcing import shifted_text


@dataclass(frozen=True)
class CrossEntropy:
    """The usual objective of autoregressive models: cross-entropy at the target's real positions, with label smoothing
    (Szegedy et al. 2016, section 7).

    The smoothed distribution of a target word y is q(v) = (1 - smoothing) [v = y] + smoothing / V. Reports ``nll``, the
    cross-entropy without smoothing. In training, ``forcing`` chooses the words that the model reads before each
    prediction: the target's words, unknown words, or the model's own. In validation the model reads the target's words.

    If a batch is a ``types.Chunk`` of a text, the model reads the text's words. The state after the chunk is the
    ``carry``, without gradients: a tuple of the tensors of the state (``tree.leaves``).
    """

    measures_counted: ClassVar[bool] = True

    smoothing: float = 0.0
    forcing: Forcing = field(default_factory=TeacherForcing)

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def __call__(
        self, model: Autoregressive[S], batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        state = model.start(batch.source)
        if batch.chunk is None:
            return self.of(model, state, batch.target, progress), carry
        return self._of_chunk(model, state, batch.target, batch.chunk, carry)

    def _of_chunk(
        self, model: Autoregressive[S], state: S, target: Padded, chunk: Chunk, carry: Carry
    ) -> tuple[Loss, Carry]:
        """The loss of a part of a text, and the carry after it; None unless the chunk is ``carried``.

        Raises UserError if the carry has another number of rows, or if the state to carry grows with the text.
        """
        if chunk.continues:
            state = _continued(state, carry)
        if chunk.carried and tree.grows(state):
            raise UserError(
                "training.streams.carry: the state of this model grows with each token, because attention keeps all "
                "keys; set training.streams.carry = false, and training.streams.context to the tokens to read again"
            )
        output, state = model.extend(shifted_text(target.values, chunk.history), state)
        new = tree.map(lambda leaf: leaf[:, chunk.history.shape[1] - 1 :], output)
        loss = self._sum(model, new, target)
        return loss, tuple(leaf.detach() for leaf in tree.leaves(state)) if chunk.carried else None

    def of(self, model: Any, state: object, target: Padded, progress: float = 0.0) -> Loss:
        """The loss of a target [B, T] by a model or a decoder, summed over its real positions. ``state`` is the state
        that its ``start`` returned.
        """
        output, _ = model.extend(self.read(model, state, target, progress), state)
        return self._sum(model, output, target)

    def _sum(self, model: Distribution, output: object, target: Padded) -> Loss:
        """The loss of a target [B, T], given the features [B, T, ...] of its positions."""
        mask_BT = target.mask
        target_N = target.values[mask_BT]
        real = tree.map(lambda leaf: leaf[mask_BT], output)
        total, nll = cross_entropy(model, real, target_N, self.smoothing)
        return Loss(total, len(target_N), {"nll": nll})

    def read(self, model: Autoregressive[S], state: S, target: Padded, progress: float) -> Tensor:
        """The ids [B, T] that the model reads: position 0 is BOS, and position t is the word before word t of the
        target, which ``forcing`` may replace in training.
        """
        forcing = self.forcing if model.training else TeacherForcing()
        return forcing(model, state, target, progress)


@dataclass(frozen=True)
class ParallelCrossEntropy:
    """The objective of parallel models: cross-entropy of the target's length n, and of each word given that length:

    -log p(n | x) - sum_t log p(y_t | t, n, x).

    The length replaces EOS. The words have the label smoothing of ``CrossEntropy``; the length has none. Reports
    ``nll``, the sum without smoothing, and ``length``, the first term. The first term is 0 if the source determines the
    length.
    """

    measures_counted: ClassVar[bool] = True

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def __call__(
        self, model: Parallel[S], batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        emission = model.emit(model.start(batch.source), batch.target.lengths - 1)
        mask_BT = emission.mask
        target_N = batch.target.values[:, : mask_BT.shape[1]][mask_BT]
        real = tree.map(lambda leaf: leaf[mask_BT], emission.output)
        words, nll = cross_entropy(model, real, target_N, self.smoothing)
        length = -emission.end_log_probs.sum()
        parts = {"nll": nll + length.detach(), "length": length.detach()}
        return Loss(words + length, len(target_N) + len(emission.lengths), parts), carry


@dataclass(frozen=True)
class ChainLikelihood:
    """The objective of chains, such as a conditional random field: - log p(y | x) = log Z - s(y) of whole label
    sequences y.

    s(y) is the score of the sequence, and the forward recursion computes Z (Lafferty et al. 2001). The loss counts one
    more token than labels, for the end, as cross-entropy does. So losses have one scale.
    """

    measures_counted: ClassVar[bool] = True

    def __call__(self, model: Chain, batch: Batch, progress: float = 0.0, carry: Carry = None) -> tuple[Loss, Carry]:
        trellis = model.trellis(batch.source)
        labels_BT = trellis.own(batch.target.values, batch.target.lengths - 1)
        total = (trellis.log_normaliser - trellis.score(labels_BT)).sum()
        return Loss(total, int(batch.target.lengths.sum())), carry


def _continued(state: S, carry: Carry) -> S:
    """The state, with its tensors replaced by the carried ones. Raises UserError if their numbers of rows differ."""
    if carry is None:
        raise UserError("the checkpoint has no carried state: start the training again (--overwrite)")
    rows = tree.rows(state)
    if carry[0].shape[0] != rows:
        raise UserError(
            f"the carried state has {carry[0].shape[0]} rows, and the batch {rows}: training.streams.rows cannot "
            "change within a run"
        )
    return tree.fill(state, carry)


def check_smoothing(smoothing: float) -> None:
    if not 0 <= smoothing < 1:
        raise UserError(f"smoothing = {smoothing}: a share of at least 0 and less than 1 was expected")


def cross_entropy(model: Distribution, output: object, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """``smoothed_cross_entropy`` of N features ``output`` [N, ...], whose logits are read out in chunks. Returns two
    scalars.

    Raises UserError if the target is numbers.
    """
    if target_N.is_floating_point():
        raise UserError(
            'the target is numbers, and cross-entropy needs tokens: set model.type = "forecaster" and objective = '
            '"squared-error", or another data.units.target'
        )

    def sums(output: object, target: Tensor) -> tuple[Tensor, Tensor]:
        return smoothed_cross_entropy(model.readout(output), target, smoothing)

    total, nll = sum_chunks(model, sums, output, target_N)
    return total, nll
