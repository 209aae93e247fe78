"""Compares the logits of an imported model with the original's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, SPECIALS, Padded
from transduce.models.autoregressive import EncoderDecoder
from transduce.wings.engines.foreign.original import Original
from transduce.wings.engines.importing.building import Built

TOLERANCE = 1e-4  # largest difference of a logit, in float32
ROWS, LONGEST = 8, 24  # of the sample: random tokens


@dataclass(frozen=True)
class Agreement:
    """The largest difference of a logit over ``positions`` positions of the sample, and the largest logit."""

    positions: int
    largest: float
    magnitude: float

    def __str__(self) -> str:
        return (
            f"at {self.positions} positions, logits of up to {self.magnitude:.1f} differ by at most {self.largest:.1e}"
        )


def compare(built: Built, original: Original, seed: int = 1) -> Agreement:
    """How the models agree on ``ROWS`` random sources of 1 to ``LONGEST`` tokens and random targets. The logits of
    tokens that only one of the models has, or that are silenced, are left out.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, LONGEST, (ROWS,), generator=generator).tolist()
    sources = [[*_drawn(len(built.source.rows), length, generator), EOS] for length in lengths]
    targets_BT = torch.tensor([[BOS, *_drawn(len(built.target.rows), LONGEST, generator)] for _ in lengths])
    ours_BTV, theirs_BTV = logits(built, Padded.of(sources), targets_BT, original)
    differences = (ours_BTV - theirs_BTV).abs()
    return Agreement(ours_BTV.shape[0] * ours_BTV.shape[1], float(differences.max()), float(theirs_BTV.abs().max()))


def logits(
    built: Built, source: Padded, targets_BT: torch.Tensor, original: Original
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits [B, T, V] of both models for the tokens that both have. The ids are ours."""
    model = cast(EncoderDecoder, built.model)
    with torch.inference_mode():
        output, _ = model.extend(targets_BT, model.start(source))
        ours_BTV = model.readout(output)
    of_source, of_target = (torch.tensor(side.rows) for side in (built.source, built.target))
    theirs_BTV = original.logits(Padded(of_source[source.values], source.lengths), of_target[targets_BT])
    bias_V = model.decoder.projection.bias
    spoken_V = (bias_V > bias_V.new_tensor(-1e4)).nonzero()[:, 0]
    return ours_BTV[..., spoken_V], theirs_BTV[..., of_target[spoken_V]]


def check(found: Agreement) -> None:
    """Raises UserError if a logit differs by more than ``TOLERANCE``."""
    if not found.largest <= TOLERANCE:
        raise UserError(
            f"the imported model does not compute what the original does, so nothing was written: {found} (at most "
            f"{TOLERANCE} was expected); please report the checkpoint's config.json"
        )


def _drawn(size: int, count: int, generator: torch.Generator) -> list[int]:
    """Random ids of tokens that are not special."""
    drawn: list[int] = torch.randint(len(SPECIALS), size, (count,), generator=generator).tolist()
    return drawn
