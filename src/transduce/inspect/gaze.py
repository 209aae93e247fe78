"""Where in a picture, a clip or a recording a model looked as it wrote each token.

T target tokens, N states of the signal, each with a box: left, top, right and bottom, as fractions of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.data.tokenizers import cut
from transduce.inspect.taps import attended
from transduce.transducer import Transducer
from transduce.types import EOS


@dataclass(frozen=True)
class Gaze:
    """``weights`` [T, N], by the name of the attention in the model, in the order of its layers: the shares of
    attention that the places ``boxes_N4`` got just before each of ``tokens`` was written, their rows summing to 1."""

    source: str
    text: str
    tokens: tuple[str, ...]
    weights: dict[str, Tensor]
    boxes_N4: Tensor

    def mean(self) -> Tensor:
        """[T, N]: the average over the model's attentions."""
        return torch.stack(list(self.weights.values())).mean(0)

    def strongest(self) -> list[tuple[float, tuple[float, ...]]]:
        """Of each token the largest share, and the box that got it."""
        shares_T, places_T = self.mean().max(1)
        return [
            (float(share), tuple(self.boxes_N4[place].tolist()))
            for share, place in zip(shares_T, places_T.tolist(), strict=True)
        ]

    def lines(self) -> list[str]:
        """For the terminal: each token with where it looked most, in percent of the width and the height."""
        margin = max(map(len, self.tokens))
        told = []
        for token, (share, box) in zip(self.tokens, self.strongest(), strict=True):
            left, top, right, bottom = (round(100 * edge) for edge in box)
            told.append(f"{token:>{margin}}  {share:.2f} at {left}-{right} % across, {top}-{bottom} % down")
        return told


@torch.inference_mode()
def gaze(transducer: Transducer, source: str, target: str | None = None, head: int | None = None) -> Gaze:
    """How the model looks at the signal at a path as it writes ``target``, by default its own best output.

    The output is teacher-forced once. Many heads are averaged, unless one is asked for by its number from 0. Raises
    ValueError where the model has no attention to the source, where it does not know where its states lie, or has no
    such head.
    """
    if not transducer.source_tokenizer.signal:
        raise ValueError(f"{source!r} is text to this model, which has no places in a picture: ask for its attention")
    if target is None:
        ids = list(next(transducer.predict([source]))[0].ids)
    else:
        (ids,) = transducer.target_tokenizer.encode([target])
    (steps,) = transducer.source_tokenizer.encode([source])
    found = attended(transducer, [cut(steps, transducer.max_source_length, transducer.source_tokenizer)], [ids], head)
    real = len(found.columns[0])
    return Gaze(
        source,
        transducer.target_tokenizer.decode([token for token in ids if token != EOS]),
        tuple(transducer.target_tokenizer.tokens(ids)),
        {name: weights_BTS[0, : len(ids), :real].float().cpu() for name, weights_BTS in found.weights.items()},
        found.boxes_BS4[0, :real].float().cpu() if found.boxes_BS4 is not None else torch.zeros(real, 4),
    )
