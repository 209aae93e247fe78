"""Parameters that training leaves as they are."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from transduce.config import ConfigError
from transduce.models.weights import prefixes, summarise
from transduce.names import alternatives


def freeze(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Take the parameters that ``patterns`` name out of training; returns what to tell of it.

    A pattern is the dotted name of a module, for all that is in it, or of a parameter, and may have the wildcards of
    a shell. What is shared is frozen under all of its names. Modules stay in training mode: dropout stays on.
    Raises ConfigError where a pattern names nothing, or nothing is left to train.
    """
    every = dict(model.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        found = [name for name in every if any(fnmatchcase(prefix, pattern) for prefix in prefixes(name))]
        if not found:
            depth = pattern.count(".") + 1
            near = {prefix for name in every for prefix in prefixes(name) if prefix.count(".") < depth}
            raise ConfigError("training.freeze", f'"{pattern}" is no part of this model{alternatives(pattern, near)}')
        for name in found:
            every[name].requires_grad_(False)
    frozen = [name for name, parameter in every.items() if not parameter.requires_grad]
    if len(frozen) == len(every):
        raise ConfigError("training.freeze", f"{list(patterns)} leaves nothing to train; freeze less")
    count = sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)
    return [f"frozen: {', '.join(summarise(frozen, every))}, {count:,} parameters"] if frozen else []
