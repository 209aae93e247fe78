"""The device that a model runs on."""

from __future__ import annotations

import torch

from transduce.core.errors import UserError


def choose_device(name: str) -> torch.device:
    """The device ``name``: cpu, cuda (or cuda:1) or mps; "auto" is the first available of cuda, mps and cpu.

    Raises UserError if the name is unknown, or if this machine has no device of this kind or number.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"device {name!r}: expected cpu, cuda, cuda:1, mps or auto") from None
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(device.type, False):
        raise UserError(
            f"device {name!r} is not on this machine; available: {', '.join(k for k, v in available.items() if v)}"
        )
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if device.index is not None and device.index >= count:
        raise UserError(f"device {name!r} is not on this machine; {device.type} devices are numbered 0 to {count - 1}")
    return device
