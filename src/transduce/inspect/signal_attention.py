"""Attention to a picture, a clip or a recording while a model writes each token.

T target tokens, N states of the signal, S steps of a recording, D bands. Each state has a box: left, top, right and
bottom as fractions of the signal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.answers.attention_weights import attention_weights
from transduce.errors import UserError
from transduce.metrics.units import columns, padded, shown
from transduce.transducer import Transducer
from transduce.types import EOS

# grid points a side in the search for the maximum
FINE = 128  # points a side where the highest of smoothed attention is looked for


@dataclass(frozen=True)
class Spectrum:
    """A recording as the model reads it: ``bands_SD`` has one row per step, lowest band first. ``times`` are the steps'
    times.
    """

    bands_SD: Tensor
    times: tuple[str, ...]

    def span(self, left: float, right: float) -> str:
        """The times of the first and the last step between two edges, given as fractions."""
        steps = len(self.times)
        first = min(round(left * steps), steps - 1)
        last = min(max(round(right * steps) - 1, first), steps - 1)
        return f"{self.times[first]} to {self.times[last]}"


@dataclass(frozen=True)
class SignalAttention:
    """For each of ``tokens``, the attention weights of the places ``boxes_N4`` just before the token was written.

    ``weights`` maps the name of each attention in the model, in the order of its layers, to [T, N]. Rows sum to 1. A
    recording also has a ``spectrum``, because sound itself cannot be shown.
    """

    source: str
    text: str
    tokens: tuple[str, ...]
    weights: dict[str, Tensor]
    boxes_N4: Tensor
    spectrum: Spectrum | None = None

    def mean(self) -> Tensor:
        """[T, N]: the average over the model's attentions."""
        return torch.stack(list(self.weights.values())).mean(0)

    def strongest(self) -> list[tuple[float, tuple[float, ...]]]:
        """For each token, the largest weight and its box."""
        shares_T, places_T = self.mean().max(1)
        return [
            (float(share), tuple(self.boxes_N4[place].tolist()))
            for share, place in zip(shares_T, places_T.tolist(), strict=True)
        ]

    def peaks(self, deviation: float = 0.0) -> list[tuple[float, float]]:
        """For each token, the point (x, y) of strongest attention.

        Without ``deviation`` it is the middle of the place with the largest weight. With a ``deviation``, a fraction of
        the sides, each weight becomes a Gaussian around its place, and the point is the maximum of their sum. Xu et al.
        2015 draw attention in this way (section 5.4) with 0.09 (20 of 224 pixels in their published code).
        """
        middles_N2 = (self.boxes_N4[:, :2] + self.boxes_N4[:, 2:]) / 2
        if not deviation:
            points_T2 = middles_N2[self.mean().argmax(1)]
        else:
            ticks = (torch.arange(FINE) + 0.5) / FINE
            grid_P2 = torch.cartesian_prod(ticks, ticks)
            near_NP = torch.exp(-torch.cdist(middles_N2, grid_P2).square() / (2 * deviation**2))
            points_T2 = grid_P2[(self.mean() @ near_NP).argmax(1)]
        return [(float(x), float(y)) for x, y in points_T2]

    def lines(self) -> list[str]:
        """Lines for the terminal: each token with its strongest place, in percent of width and height, or its time."""
        tokens = [*map(shown, self.tokens)]
        margin = max(map(columns, tokens))
        told = []
        for token, (share, (left, top, right, bottom)) in zip(tokens, self.strongest(), strict=True):
            if self.spectrum:
                place = self.spectrum.span(left, right)
            else:
                place = f"{100 * left:.0f}-{100 * right:.0f} % across, {100 * top:.0f}-{100 * bottom:.0f} % down"
            told.append(f"{padded(token, margin, '>')}  {share:.2f} at {place}")
        return told


@torch.inference_mode()
def signal_attention(
    transducer: Transducer, source: str, target: str | None = None, head: int | None = None
) -> SignalAttention:
    """The attention to the signal in the file ``source`` while the model writes ``target``, by default its own best
    output.

    The output is teacher-forced once. Heads are averaged unless ``head`` selects one, counted from 0. Raises ValueError
    if the model has no attention to the source or no such head, or does not know the places of its states.
    """
    reader: Any = transducer.source_tokenizer
    if not reader.signal:
        raise UserError(f"{source!r} is text to this model, which has no places in a picture: ask for its attention")
    if target is None:
        ids = list(next(transducer.predict([source]))[0].ids)
    else:
        (ids,) = transducer.target_tokenizer.encode([target])
    steps = transducer.read_one(source) if target is not None else transducer.read([source])[0].row
    found = attention_weights(transducer, [steps], [ids], head)
    real = len(found.columns[0])
    return SignalAttention(
        source,
        transducer.target_tokenizer.decode([token for token in ids if token != EOS]),
        tuple(transducer.target_tokenizer.tokens(ids)),
        {name: weights_BTS[0, : len(ids), :real].float().cpu() for name, weights_BTS in found.weights.items()},
        found.boxes_BS4[0, :real].float().cpu() if found.boxes_BS4 is not None else torch.zeros(real, 4),
        Spectrum(torch.as_tensor(steps), tuple(reader.tokens(steps))) if reader.spectral else None,
    )
