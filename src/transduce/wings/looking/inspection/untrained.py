"""The model of a run before training, to compare with the trained one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from transduce.answers.transducer import Transducer
from transduce.models.building import build_model


def untrained(
    transducer: Transducer, seed: int = 1, recurrent_start: Callable[[Tensor], None] | None = None
) -> Transducer:
    """A transducer of the same settings and tokenizers whose weights are drawn anew with ``seed``.

    ``recurrent_start`` draws the recurrent matrices of the cells in another way. It fills each square matrix
    [width, width] in place. None keeps the cells' own start. PyTorch's global random generator keeps its state.
    """
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(seed)
        model = build_model(transducer.settings["model"], transducer.tokenizers.facts)
        if recurrent_start is not None:
            for name, weight in model.named_parameters():
                if weight.dim() == 2 and ("weight_hh" in name or "recurrent" in name.split(".")):
                    for square_WW in torch.split(weight, weight.shape[1]):
                        recurrent_start(square_WW)
    return replace(transducer, model=model.to(transducer.device).eval())
