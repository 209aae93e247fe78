"""Reading out by parts: N features may have more logits [N, V] than memory should hold at once."""

from __future__ import annotations

from typing import Any

import torch

from transduce import tree
from transduce.protocols import Distribution

CHUNK = 2**25  # logits held at once: 128 MiB in float32


@torch.no_grad()
def chunks(model: Distribution, output: Any) -> list[slice]:
    """Parts of the features ``output`` [N, ...] whose logits are at most ``CHUNK``; at least one part."""
    vocabulary = model.readout(tree.map(lambda leaf: leaf[:1], output)).shape[-1]
    size = max(1, CHUNK // vocabulary)
    return [slice(begin, begin + size) for begin in range(0, max(tree.rows(output), 1), size)]
