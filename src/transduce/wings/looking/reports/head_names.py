"""The names of layers and heads for people: "layer 1, head 1" for the head 0 of decoder.layers.0.memory.heads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable


def layer_names(attentions: Iterable[str]) -> dict[str, str]:
    """A name for each attention of a model: "layer 1". If two would have the same, the part of the model follows:
    "layer 1 (encoder)". An attention outside of layers is "attention".
    """
    found = {}
    for attention in attentions:
        layer = re.search(r"\blayers?\.(\d+)\b", attention)
        found[attention] = f"layer {int(layer[1]) + 1}" if layer else "attention"
    times = Counter(found.values())
    return {
        attention: name if times[name] == 1 else f"{name} ({_part(attention)})" for attention, name in found.items()
    }


def _part(attention: str) -> str:
    return re.sub(r"\.?\blayers?\.\d+\b\.?", " ", attention).strip()
