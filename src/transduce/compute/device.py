"""The device that a model is on."""

from __future__ import annotations

import torch

from transduce.errors import UserError


def choose_device(name: str) -> torch.device:
    """cpu, cuda (or cuda:1) and mps as they are; auto is the first of cuda, mps and cpu that is there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"device {name!r}: expected cpu, cuda, cuda:1, mps or auto") from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        raise UserError(
            f"device {name!r} is not on this machine; there is: {', '.join(k for k, v in there.items() if v)}"
        )
    return device
