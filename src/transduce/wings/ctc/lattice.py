"""All alignments of given outputs in log space: their sum, their shares, and the best one.

B rows, S frames, V symbols, U symbols of an output, L = 2U + 1 states: the symbols with blanks around and between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from transduce.compute.autograd import Context
from transduce.core.types import PAD, Padded, real_mask

NEVER = float("-inf")
Span = tuple[int, int]  # the first and the last frame, counted from 0


@dataclass(frozen=True)
class Lattice:
    """The states of an output against the frames of its source.

    An alignment stays in its state or goes on to the next one from each frame to the next. Where ``skips`` [B, L] is
    True, it may also enter the state from two states before. This skips a blank between two different symbols.
    ``emitted`` [B, S, L] are the log-probabilities of the states' symbols in each frame, and ``states`` [B, L] are
    those symbols. The first ``frames`` [B] frames and the first 2 ``symbols`` [B] + 1 states of a row are real.
    """

    emitted: Tensor
    states: Tensor
    skips: Tensor
    frames: Tensor
    symbols: Tensor

    @staticmethod
    def of(frames: Padded, outputs: Padded) -> Lattice:
        """The lattice of log-probabilities ``frames`` [B, S, V] and ids ``outputs`` [B, U] without EOS."""
        symbols_BU = outputs.values.masked_fill(~outputs.mask, PAD)
        states_BL = symbols_BU.new_full((len(symbols_BU), 2 * symbols_BU.shape[1] + 1), PAD)
        states_BL[:, 1::2] = symbols_BU
        skips_BL = torch.zeros_like(states_BL, dtype=torch.bool)
        skips_BL[:, 3::2] = symbols_BU[:, 1:] != symbols_BU[:, :-1]
        emitted_BSL = frames.values.gather(2, states_BL[:, None].expand(-1, frames.values.shape[1], -1))
        return Lattice(emitted_BSL, states_BL, skips_BL, frames.lengths, outputs.lengths)

    @cached_property
    def forward(self) -> Tensor:
        """[B, S, L]: alpha_t(l), the log-sum over all alignment prefixes that are in state l at frame t. Values past a
        row's frames have no meaning.
        """
        alpha_BL = torch.full_like(self.emitted[:, 0], NEVER)
        alpha_BL[:, :2] = self.emitted[:, 0, :2]
        found = [alpha_BL]
        for emitted_BL in self.emitted.unbind(1)[1:]:
            alpha_BL = torch.logaddexp(torch.logaddexp(alpha_BL, _later(alpha_BL, 1)), self._skipping(alpha_BL))
            alpha_BL = alpha_BL + emitted_BL
            found.append(alpha_BL)
        return torch.stack(found, 1)

    @cached_property
    def backward(self) -> Tensor:
        """[B, S, L]: beta_t(l), the log-sum over all alignment suffixes after frame t, given state l at frame t. It
        does not contain frame t itself. Values past a row's frames have no meaning.
        """
        beta_BL = last_BL = torch.where(self._last, 0.0, NEVER).to(self.emitted)
        found = []
        for t in range(self.emitted.shape[1] - 1, -1, -1):
            found.append(beta_BL)
            after_BL = beta_BL + self.emitted[:, t]
            skipped_BL = _later(after_BL.masked_fill(~self.skips, NEVER), -2)
            beta_BL = torch.logaddexp(torch.logaddexp(after_BL, _later(after_BL, -1)), skipped_BL)
            beta_BL = torch.where((t < self.frames)[:, None], beta_BL, last_BL)
        return torch.stack(found[::-1], 1)

    @cached_property
    def log_likelihood(self) -> Tensor:
        """[B]: log p(y | x), the log-sum over all alignments; minus infinity if there is none."""
        return self._at_the_end(self.forward).masked_fill(~self._last, NEVER).logsumexp(-1)

    def posteriors(self) -> Tensor:
        """[B, S, L]: p(state l at frame t | y, x) by the forward-backward algorithm.

        It is 0 past a row's frames, and in rows without an alignment.
        """
        share_BSL = (self.forward + self.backward - self.log_likelihood[:, None, None]).exp()
        possible_B11 = self.log_likelihood.isfinite()[:, None, None]
        return torch.where(possible_B11 & self._real[..., None], share_BSL, 0.0)

    def crossings(self) -> Tensor:
        """[B, S - 1, L, 3]: p(state l at frame t, and state l, l + 1 or l + 2 at frame t + 1 | y, x). The last axis is
        in this order. Zero past a row's frames, and in rows without an alignment.
        """
        into_BSL = (self.emitted + self.backward)[:, 1:]
        allowed_BL = torch.nn.functional.pad(self.skips, (0, 2))[:, 2:]
        ways = [into_BSL, _later(into_BSL, -1), _later(into_BSL, -2).masked_fill(~allowed_BL[:, None], NEVER)]
        share_BSL3 = torch.stack(ways, -1) + (self.forward[:, :-1] - self.log_likelihood[:, None, None])[..., None]
        possible_B11 = self.log_likelihood.isfinite()[:, None, None]
        return torch.where((possible_B11 & self._real[:, 1:, None])[..., None], share_BSL3.exp(), 0.0)

    def best(self) -> tuple[Tensor, Tensor]:
        """The most probable alignment of each row (Viterbi 1967).

        Returns the state [B, S] of each frame (-1 past a row's frames) and the alignment's log-probability [B]. If a
        row has no alignment, its log-probability is minus infinity, and its states have no meaning.
        """
        score_BL = torch.full_like(self.emitted[:, 0], NEVER)
        score_BL[:, :2] = self.emitted[:, 0, :2]
        scores, origins = [score_BL], []
        for emitted_BL in self.emitted.unbind(1)[1:]:
            ways_BL3 = torch.stack([score_BL, _later(score_BL, 1), self._skipping(score_BL)], -1)
            score_BL, origin_BL = ways_BL3.max(-1)
            score_BL = score_BL + emitted_BL
            scores.append(score_BL)
            origins.append(origin_BL)
        total_B, place_B = self._at_the_end(torch.stack(scores, 1)).masked_fill(~self._last, NEVER).max(-1)
        places = [place_B]
        for t in range(len(origins), 0, -1):
            before_B = place_B - origins[t - 1].gather(1, place_B[:, None])[:, 0]
            place_B = torch.where(t < self.frames, before_B, place_B)
            places.append(place_B)
        return torch.stack(places[::-1], 1).masked_fill(~self._real, -1), total_B

    def spans(self) -> list[tuple[Span, ...] | None]:
        """For each row, the first and the last frame of each symbol (both inclusive) in the most probable alignment;
        None for a row without an alignment.
        """
        places_BS, total_B = self.best()
        found: list[tuple[Span, ...] | None] = []
        for places, symbols, total in zip(*(each.tolist() for each in (places_BS, self.symbols, total_B)), strict=True):
            frames = [[t for t, place in enumerate(places) if place == state] for state in range(1, 2 * symbols, 2)]
            found.append(None if total == NEVER else tuple((each[0], each[-1]) for each in frames))
        return found

    @property
    def _real(self) -> Tensor:
        return real_mask(self.frames, self.emitted.shape[1])

    @property
    def _last(self) -> Tensor:
        """[B, L]: True for the states that may end an alignment: the last symbol and the blank after it."""
        places_L = torch.arange(self.emitted.shape[2], device=self.symbols.device)
        behind_BL = 2 * self.symbols[:, None] - places_L
        return (behind_BL == 0) | (behind_BL == 1)

    def _at_the_end(self, scores_BSL: Tensor) -> Tensor:
        """[B, L]: the scores of each row's last frame."""
        return scores_BSL[torch.arange(len(scores_BSL), device=self.frames.device), self.frames - 1]

    def _skipping(self, scores_BL: Tensor) -> Tensor:
        return _later(scores_BL, 2).masked_fill(~self.skips, NEVER)


def log_likelihood(frames: Padded, outputs: Padded) -> Tensor:
    """[B]: log p(y | x), like ``Lattice.log_likelihood``, differentiable with respect to ``frames``.

    ``frames`` are log-probabilities [B, S, V], ``outputs`` ids [B, U] without EOS. The gradient with respect to
    ``frames``, [B, S, V], is the posterior probability of each symbol in each frame (Graves et al. 2006, eq. 14); 0 in
    rows without an alignment.
    """
    found: Tensor = _LogLikelihood.apply(frames.values, frames.lengths, outputs.values, outputs.lengths)  # type: ignore[no-untyped-call]
    return found


class _LogLikelihood(torch.autograd.Function):
    """The autograd function behind ``log_likelihood``: its gradient comes from the forward-backward algorithm instead
    of a graph of S steps.
    """

    @staticmethod
    def forward(ctx: Context, log_probs_BSV: Tensor, frames_B: Tensor, outputs_BU: Tensor, symbols_B: Tensor) -> Tensor:
        lattice = Lattice.of(Padded(log_probs_BSV, frames_B), Padded(outputs_BU, symbols_B))
        if ctx.needs_input_grad[0]:
            states_BSL = lattice.states[:, None].expand_as(lattice.emitted)
            shares_BSV = torch.zeros_like(log_probs_BSV).scatter_add_(2, states_BSL, lattice.posteriors())
            ctx.save_for_backward(shares_BSV)
        return lattice.log_likelihood

    @staticmethod
    def backward(ctx: Context, grad_B: Tensor) -> tuple[Tensor, None, None, None]:
        (shares_BSV,) = ctx.saved_tensors
        return grad_B[:, None, None] * shares_BSV, None, None, None


def _later(scores_BL: Tensor, states: int) -> Tensor:
    """Shifts the scores [..., L] to states that come ``states`` places later (earlier if negative). Minus infinity
    enters at the border.
    """
    padded_BL = torch.nn.functional.pad(scores_BL, (max(states, 0), max(-states, 0)), value=NEVER)
    return padded_BL.narrow(-1, max(-states, 0), scores_BL.shape[-1])


def least_frames(outputs: Padded) -> Tensor:
    """[B]: the smallest number of frames that an alignment of each output needs (``paths.least_frames``)."""
    repeats_BU = (outputs.values[:, 1:] == outputs.values[:, :-1]) & outputs.mask[:, 1:]
    return outputs.lengths + repeats_BU.sum(1)


def least_frames_so_far(outputs: Padded) -> Tensor:
    """[B, U]: at u, the smallest number of frames that an alignment of the first u + 1 symbols needs. Values past a
    row's length have no meaning.
    """
    repeats_BU = outputs.values[:, 1:] == outputs.values[:, :-1]
    return torch.nn.functional.pad(repeats_BU, (1, 0)).add(1).cumsum(1)[:, : outputs.values.shape[1]]
