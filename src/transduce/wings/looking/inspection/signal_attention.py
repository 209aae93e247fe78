"""Attention to a picture, a clip or a recording while a model writes each token.

T target tokens, N encoder states of the signal, S steps of a recording, D frequency bands, P grid points. Each state
has a box [4]: left, top, right and bottom as fractions of the signal's width and height.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.types import EOS
from transduce.metrics.units import columns, padded, shown
from transduce.wings.alignment.attention_weights import attention_weights

FINE = 128  # grid points along each side, to find the maximum of smoothed attention


@dataclass(frozen=True)
class Spectrum:
    """The spectrum of a recording that the model reads. ``bands_SD`` has one row per step, with the lowest band in
    column 0. ``times`` has the time of each step as text.
    """

    bands_SD: Tensor
    times: tuple[str, ...]

    def span(self, left: float, right: float) -> str:
        """The text "TIME to TIME": the first and the last step between two edges, as fractions of the recording."""
        steps = len(self.times)
        first = min(round(left * steps), steps - 1)
        last = min(max(round(right * steps) - 1, first), steps - 1)
        return f"{self.times[first]} to {self.times[last]}"


@dataclass(frozen=True)
class SignalAttention:
    """For each output token, the attention weights over the states of a signal just before the token was written.

    ``source`` is the signal's path and ``text`` the output. ``tokens`` includes the final ``</s>`` if it was written.
    ``weights`` maps the name of each attention in the model, in the order of its layers, to its weights [T, N]. Rows
    sum to 1. Only a recording has a ``spectrum``, which is drawn instead of the sound. ``heads`` has the number of
    heads of each attention.
    """

    source: str
    text: str
    tokens: tuple[str, ...]
    weights: dict[str, Tensor]
    boxes_N4: Tensor
    spectrum: Spectrum | None = None
    heads: Mapping[str, int] = field(default_factory=dict)

    def mean(self) -> Tensor:
        """The average [T, N] over the model's attentions."""
        return torch.stack(list(self.weights.values())).mean(0)

    def strongest(self) -> list[tuple[float, tuple[float, ...]]]:
        """For each token, the largest weight of the average attention, and the box of its state."""
        shares_T, places_T = self.mean().max(1)
        return [
            (float(share), tuple(self.boxes_N4[place].tolist()))
            for share, place in zip(shares_T, places_T.tolist(), strict=True)
        ]

    def peaks(self, deviation: float = 0.0) -> list[tuple[float, float]]:
        """For each token, the point (x, y) of strongest average attention, as fractions of width and height.

        If ``deviation`` is 0, the point is the middle of the box with the largest weight. Otherwise each weight becomes
        a Gaussian around the middle of its box, and the point is the maximum of their sum. ``deviation`` is a fraction
        of the signal's sides. Xu et al. 2015 draw attention in this way (section 5.4) with 0.09 (20 of 224 pixels in
        their published code).
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
        """A line for each token: its largest weight and the place of this weight.

        The place is in percent of width and height. For a recording it is a span of time.
        """
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

    The whole target is given to the model in one forward pass. Heads are averaged unless ``head`` selects one, counted
    from 0. Raises UserError if the model reads text, has no attention to the source or no such head, or cannot locate
    its states in the signal.
    """
    reader: Any = transducer.source_tokenizer
    if not reader.signal:
        raise UserError(f"{source!r} is text to this model, which has no places in a picture: ask for its attention")
    if target is None:
        ids = list(next(transducer.predict([source]))[0].ids)
    else:
        (ids,) = transducer.read_targets([target])
    steps = transducer.read_one(source) if target is not None else transducer.read([source])[0].row
    found = attention_weights(transducer, [steps], [ids])
    real = len(found.columns[0])
    return SignalAttention(
        source,
        transducer.target_tokenizer.decode([token for token in ids if token != EOS]),
        tuple(transducer.target_tokenizer.tokens(ids)),
        {name: weights_BTS[0, : len(ids), :real].float().cpu() for name, weights_BTS in found.weights(head).items()},
        found.boxes_BS4[0, :real].float().cpu() if found.boxes_BS4 is not None else torch.zeros(real, 4),
        Spectrum(torch.as_tensor(steps), tuple(reader.tokens(steps))) if reader.spectral else None,
        found.counts,
    )
