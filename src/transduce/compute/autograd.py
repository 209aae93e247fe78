"""The type of the context that PyTorch's autograd passes to the two methods of a function of ours."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Context(Protocol):
    """Carries values from ``forward`` to ``backward``. A function that saves other values than tensors extends it by
    their attributes.
    """

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...

    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...
