"""The negative log-likelihood of a target. N real target positions, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from transduce.compute import kernels
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, Chain, Distribution, Parallel
from transduce.core.types import Batch, Chunk, Loss, Padded, widened
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
        self, model: Autoregressive[Any], batch: Batch, progress: float = 0.0, carry: Any = None
    ) -> tuple[Loss, Any]:
        state = model.start(batch.source)
        if batch.chunk is None:
            return self.of(model, state, batch.target, progress), carry
        return self._of_chunk(model, state, batch.target, batch.chunk, carry)

    def _of_chunk(
        self, model: Autoregressive[Any], state: Any, target: Padded, chunk: Chunk, carry: tuple[Tensor, ...] | None
    ) -> tuple[Loss, tuple[Tensor, ...] | None]:
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

    def of(self, model: Any, state: Any, target: Padded, progress: float = 0.0) -> Loss:
        """The loss of a target [B, T] by a model or a decoder, summed over its real positions. ``state`` is the state
        that its ``start`` returned.
        """
        output, _ = model.extend(self.read(model, state, target, progress), state)
        return self._sum(model, output, target)

    def _sum(self, model: Any, output: Any, target: Padded) -> Loss:
        """The loss of a target [B, T], given the features [B, T, ...] of its positions."""
        mask_BT = target.mask
        target_N = target.values[mask_BT]
        real = tree.map(lambda leaf: leaf[mask_BT], output)
        total, nll = cross_entropy(model, real, target_N, self.smoothing)
        return Loss(total, len(target_N), {"nll": nll})

    def read(self, model: Any, state: Any, target: Padded, progress: float) -> Tensor:
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
        self, model: Parallel[Any], batch: Batch, progress: float = 0.0, carry: Any = None
    ) -> tuple[Loss, Any]:
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

    def __call__(self, model: Chain, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        trellis = model.trellis(batch.source)
        labels_BT = trellis.own(batch.target.values, batch.target.lengths - 1)
        total = (trellis.log_normaliser - trellis.score(labels_BT)).sum()
        return Loss(total, int(batch.target.lengths.sum())), carry


def _continued(state: Any, carry: tuple[Tensor, ...] | None) -> Any:
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


def cross_entropy(model: Distribution, output: Any, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """``smoothed_cross_entropy`` of N features ``output`` [N, ...], whose logits are read out in chunks. Returns two
    scalars.

    Raises UserError if the target is numbers.
    """
    if target_N.is_floating_point():
        raise UserError(
            'the target is numbers, and cross-entropy needs tokens: set model.type = "forecaster" and objective = '
            '"squared-error", or another data.units.target'
        )

    def sums(output: Any, target: Tensor) -> tuple[Tensor, Tensor]:
        return smoothed_cross_entropy(model.readout(output), target, smoothing)

    total, nll = sum_chunks(model, sums, output, target_N)
    return total, nll


def smoothed_cross_entropy(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Two scalars, sums over N: the smoothed cross-entropy, differentiable in the logits, and the one without
    smoothing, which has no gradient.
    """
    total, nll = _SmoothedCrossEntropy.apply(logits_NV, target_N, smoothing)  # type: ignore[no-untyped-call]
    return total, nll


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Computes the gradient p - q in the forward pass, with the softmax that the loss needs.

    ``torch.nn.functional.cross_entropy`` reads the logits several times. With smoothing it takes three times as long on
    the CPU as ``_by_operators``. Our own kernel is faster than both.
    """

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        if kernels.fits(logits_NV):
            nll, smooth, gradient_NV = kernels.cross_entropy(logits_NV, target_N, smoothing)
        else:
            nll, smooth, gradient_NV = _by_operators(logits_NV, target_N, smoothing)
        # a masked word has an infinite -log p, which must not count without smoothing
        total = (1 - smoothing) * nll + smoothing * smooth if smoothing else nll.clone()
        ctx.save_for_backward(gradient_NV)
        nll, total = (each.to(widened(logits_NV.dtype)) for each in (nll, total))
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        (gradient_NV,) = ctx.saved_tensors
        if grad.device.type != "cpu" or grad != 1:  # comparing on a GPU would wait for the result
            gradient_NV.mul_(grad)
        return gradient_NV, None, None


def _by_operators(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """``kernels.cross_entropy`` by PyTorch's operators, for any device and type."""
    N, V = logits_NV.shape
    probability_NV = torch.softmax(logits_NV, -1)
    wide = widened(logits_NV.dtype)
    # log p = logit - normaliser; the largest p gives the normaliser with the smallest error
    normaliser_N = _largest(logits_NV).to(wide) - _largest(probability_NV).to(wide).log()
    nll = (normaliser_N - logits_NV.gather(1, target_N[:, None])[:, 0]).sum()
    smooth, gradient_NV = nll.new_zeros(()), probability_NV
    if smoothing:
        mean_N = torch.mv(logits_NV, logits_NV.new_full((V,), 1 / V))  # a sum in bfloat16 is 20 times slower
        smooth = (normaliser_N - mean_N).sum()
        gradient_NV = gradient_NV.sub_(smoothing / V)
    # on the flat tensor, because scattering bfloat16 along an axis takes longer than the softmax
    index_N = torch.arange(N, device=target_N.device) * V + target_N
    gradient_NV.view(-1).index_add_(0, index_N, gradient_NV.new_full((N,), smoothing - 1))
    return nll, smooth, gradient_NV


def _largest(x_NV: Tensor) -> Tensor:
    """The largest number of each row [N].

    The CPU takes ten times as long for bfloat16 as for integers. So the bits are read as integers. The integer of a
    positive number grows with the number. The integer of a negative number falls, and is below all positive ones.
    """
    if x_NV.dtype != torch.bfloat16 or x_NV.device.type != "cpu":
        return x_NV.amax(-1)
    bits_NV = x_NV.view(torch.int16)
    largest_N = bits_NV.amax(-1)
    return torch.where(largest_N < 0, bits_NV.amin(-1), largest_N).view(torch.bfloat16)
