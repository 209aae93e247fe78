"""Arrays that stack decoding computes for a batch before the search: phrase options by span, and future scores.

B sources, S source positions, L tokens of the longest source phrase, P tokens of the longest target phrase, O options,
F features. A span goes from a start to an exclusive end.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.core.protocols import DERIVED, Deriving
from transduce.core.types import Padded
from transduce.search.base import EXCLUDED
from transduce.wings.counted.phrases.search.companion import Companion, Second

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]


Column = np.ndarray  # of ids, of numbers, or of truths


@dataclass(frozen=True)
class Tables:
    """The phrase options of a batch of sources, and their scores, as NumPy arrays.

    ``first`` and ``count`` [B, S, L] describe the span that starts at s and has 1 + l tokens. ``first`` is the number
    of its first option, and ``count`` the number of its options. The arrays of options have the names and meanings of
    ``PhraseOptions``. After the last option there is one more, for the beginning of a sentence. It has no tokens, its
    span is empty and all its numbers are 0.

    ``own_O`` is the weighted sum of each option's own features. ``guess_O`` is ``own_O`` plus the weighted estimates of
    the option's language model scores. ``weights`` [F] are the weights of all features. ``companion`` is a second
    language model, or None.
    """

    model: Deriving
    row_O: Ids
    start_O: Ids
    end_O: Ids
    tokens_OP: Ids
    length_O: Ids
    links_OP: Ids
    features_OF: Numbers
    orientation_O6: Numbers
    first: Ids
    count: Ids
    own_O: Numbers
    guess_O: Numbers
    lengths_B: Ids
    weights: Numbers
    companion: Companion | None

    @classmethod
    def of(cls, model: Deriving, source: Padded, second: Second | None = None) -> Tables:
        """The tables of these sources. ``second`` is a second language model; None if there is none."""
        options = model.options(source)
        lengths_B, weights = _array(options.lengths_B), _array(model.weights).astype(np.float64)
        names = [field.name for field in fields(options) if field.name != "lengths_B"]
        arrays: dict[str, Column] = {name: _with_beginning(_array(getattr(options, name))) for name in names}
        B, S = len(lengths_B), max(1, int(lengths_B.max(initial=0)))
        row_O, start_O, end_O = (arrays[name][:-1] for name in ("row_O", "start_O", "end_O"))
        longest = int((end_O - start_O).max(initial=1))
        cell_O = (row_O * S + start_O) * longest + end_O - start_O - 1
        own_O = arrays["features_OF"] @ weights[: -len(DERIVED)]
        estimate_O = _array(model.language_estimate(options.tokens_OP, options.length_O)).astype(np.float64)
        estimate_O = _finite(_with_beginning(estimate_O))
        guess_O, companion = own_O + weights[-1] * estimate_O, None
        if second is not None:
            companion = second.begin(source, arrays["tokens_OP"], longest)
            outside_O = companion.estimate(arrays["tokens_OP"], arrays["length_O"], estimate_O)
            guess_O = guess_O + companion.weight * _finite(outside_O)
        return cls(
            model=model,
            **arrays,
            first=np.searchsorted(cell_O, np.arange(B * S * longest)).reshape(B, S, longest),
            count=np.bincount(cell_O, minlength=B * S * longest).reshape(B, S, longest),
            own_O=own_O,
            guess_O=guess_O,
            lengths_B=lengths_B,
            weights=weights,
            companion=companion,
        )

    @property
    def longest(self) -> int:
        return int(self.first.shape[2])

    @property
    def positions(self) -> int:
        return int(self.first.shape[1])

    @property
    def distortion_weight(self) -> float:
        return float(self.weights[-8])

    @property
    def before_weights(self) -> Numbers:
        """The weights [3] of the features monotone, swap and discontinuous by the later of two phrases."""
        return self.weights[-7:-4]

    @property
    def after_weights(self) -> Numbers:
        """The weights [3] of the features monotone, swap and discontinuous by the earlier of two phrases."""
        return self.weights[-4:-1]

    @property
    def language_weight(self) -> float:
        return float(self.weights[-1])

    @cached_property
    def best_guess(self) -> Numbers:
        """The largest ``guess_O`` of each span [B, S, L]. It is minus infinity for a span without options."""
        best = np.full(self.first.size, -np.inf)
        cell_O = np.repeat(np.arange(self.first.size), self.count.ravel())
        np.maximum.at(best, cell_O, self.guess_O[:-1])
        return best.reshape(self.first.shape)

    @cached_property
    def future(self) -> Numbers:
        """The best guess for a translation of each span [B, S + 1, S + 1]. A span goes from the first index to the
        second (exclusive). Dynamic programming over its parts finds the guess, which is 0 for an empty span. Distortion
        and orientation are left out.
        """
        B, S, L = self.first.shape
        best = np.full((B, S + 1, S + 1), -np.inf)
        best[:, np.arange(S + 1), np.arange(S + 1)] = 0.0
        for length in range(1, S + 1):
            starts = np.arange(S - length + 1)
            span = self.best_guess[:, starts, length - 1] if length <= L else np.full((B, len(starts)), -np.inf)
            for middle in range(1, length):
                span = np.maximum(span, best[:, starts, starts + middle] + best[:, starts + middle, starts + length])
            best[:, starts, starts + length] = span
        return best

    @cached_property
    def orientation_kind_O(self) -> Ids:
        """A number for each option [O]. Options with equal numbers give equal scores to every orientation of the phrase
        after them.
        """
        if not self.after_weights.any():
            return np.zeros(len(self.start_O), np.int64)
        rows = np.ascontiguousarray(self.orientation_O6[:, 3:])
        whole = rows.view(f"V{rows.shape[1] * rows.itemsize}")[:, 0]
        return np.unique(whole, return_inverse=True)[1].astype(np.int64)

    def language_start(self) -> Ids:
        """The states before the first output token [B, 2]: of the model's own language model, and of ``companion``. The
        second is 0 without a companion.
        """
        own_B = _array(self.model.language_start(len(self.lengths_B)))
        return np.stack([own_B, np.zeros_like(own_B) if self.companion is None else self.companion.begun_B], 1)

    def language_step(self, state_N2: Ids, token_N: Ids) -> tuple[Numbers, Ids]:
        """Two arrays [N, 2]: the scores of the tokens, and the states after them.

        The first score is the log-probability by the model's own language model, not weighted. The second is the
        weighted log-probability by ``companion``, 0 without one.
        """
        device = self.model.weights.device
        own_N, own_state_N = self.model.language_step(
            torch.from_numpy(state_N2[:, 0]).to(device), torch.from_numpy(token_N).to(device)
        )
        log_prob_N, after_N = _finite(_array(own_N).astype(np.float64)), _array(own_state_N)
        if self.companion is None:
            return np.stack([log_prob_N, np.zeros_like(log_prob_N)], 1), np.stack([after_N, state_N2[:, 1]], 1)
        other_N, other_state_N = self.companion.step(state_N2[:, 1], token_N)
        added_N = self.companion.weight * _finite(other_N)
        return np.stack([log_prob_N, added_N], 1), np.stack([after_N, other_state_N], 1)


def orientation(start_E: Ids, end_E: Ids, before_start_E: Ids, before_end_E: Ids) -> Ids:
    """The orientation [E] of a phrase: its position in the source relative to the phrase before it in the target.

    0 (monotone): it starts where the earlier phrase ends. 1 (swap): it ends where the earlier phrase starts. 2
    (discontinuous): otherwise.
    """
    return np.where(start_E == before_end_E, 0, np.where(end_E == before_start_E, 1, 2))


def _with_beginning(values_O: Column) -> Column:
    """A copy with one more row of zeros at the end: the option of the beginning. Floating-point numbers become double
    precision.
    """
    padded = np.concatenate([values_O, np.zeros((1, *values_O.shape[1:]), values_O.dtype)])
    return padded.astype(np.float64) if padded.dtype.kind == "f" else padded


def _finite(log_prob_N: Numbers) -> Numbers:
    """Replaces minus infinity, because its products and differences may not be numbers."""
    return np.maximum(log_prob_N, EXCLUDED)


def _array(tensor: Tensor) -> Column:
    return tensor.detach().cpu().numpy()
