"""Cells that are written out step by step.

B rows, T positions, D input features, W the cell's width, G the width of the projected input. Everything that does not
need the state is computed for all positions at once; the loop does the rest. An LSTM in this form trains at 2 to 3
times the cost of torch's kernel (measure it with benchmarks/cell_speed.py).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from transduce.core import tree
from transduce.core.types import real_mask
from transduce.layers.modules.cells.torch_operators import is_exporting
from transduce.layers.modules.linear import Linear, projection

S = TypeVar("S")


class LoopedCell(nn.Module, Generic[S]):
    """Base class of cells without a fused kernel: ``unroll`` is a loop over ``advance``.

    ``input`` is the product of the input with ``parts`` stacked matrices [width, input_width], initialised as in Glorot
    and Bengio 2010, plus a bias that starts at 0 (``bias`` False: no bias). ``project`` must stay linear in x, apart
    from the bias, because wirings add the products of other inputs to it. The methods are explained in
    ``protocols.Cell``.
    """

    def __init__(self, input_width: int, width: int, parts: int, bias: bool = True) -> None:
        super().__init__()
        self.width = width
        self.projected_width = parts * width
        self.input = projection(input_width, width, parts, bias)

    def start(self, rows: int, like: Tensor) -> S:
        raise NotImplementedError

    def output(self, state: S) -> Tensor:
        raise NotImplementedError

    def project(self, x_BTD: Tensor) -> Tensor:
        projected_BTG: Tensor = self.input(x_BTD)
        return projected_BTG

    def prepare(self, projected: Tensor) -> object:
        """Further work on the projected input that does not need the state. Takes [..., G] and returns any tree of
        tensors with the same leading axes; by default the projected input itself.
        """
        return projected

    def advance(self, prepared: Any, state: S) -> tuple[Tensor, S]:
        """One step, defined by each subclass. ``prepared`` is the result of ``prepare`` at one position, [B, ...].
        Returns the output [B, W] and the next state.
        """
        raise NotImplementedError

    def step(self, projected_BG: Tensor, state: S) -> tuple[Tensor, S]:
        return self.advance(self.prepare(projected_BG), state)

    def unroll(self, x_BTD: Tensor, state: S, lengths_B: Tensor | None = None) -> tuple[Tensor, S]:
        prepared = self.prepare(self.project(x_BTD))
        if lengths_B is not None and is_exporting():
            return self._scanned(prepared, state, lengths_B)
        outputs, states = [], []
        for leaves in zip(*(leaf.unbind(1) for leaf in tree.leaves(prepared)), strict=True):
            y_BW, state = self.advance(tree.fill(prepared, leaves), state)
            outputs.append(y_BW)
            states.append(state)
        y_BTW = torch.stack(outputs, 1)
        if lengths_B is None:
            return y_BTW, state
        return y_BTW * real_mask(lengths_B, y_BTW.shape[1])[..., None], _at_length(states, lengths_B)

    def _scanned(self, prepared: object, state: S, lengths_B: Tensor) -> tuple[Tensor, S]:
        """The result of ``unroll`` by one operator, so that a graph holds one step for any number of positions."""
        from torch._higher_order_ops.scan import scan  # not public yet, so nothing but an export depends on it

        def step(
            before: tuple[Tensor, ...], leaves: tuple[Tensor, ...]
        ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
            y_BW, after = self.advance(tree.fill(prepared, leaves), tree.fill(state, before))
            every = tuple(leaf.clone() for leaf in tree.leaves(after))  # an output may not be another one's alias
            return every, (y_BW.clone(), *(leaf.clone() for leaf in every))

        steps = tuple(leaf.transpose(0, 1) for leaf in tree.leaves(prepared))
        # the states at the positions are outputs of the loop, and the last one is not needed
        _, (y_TBW, *states) = scan(step, tuple(tree.leaves(state)), steps)
        y_BTW = y_TBW.transpose(0, 1)
        rows_B = torch.arange(lengths_B.shape[0], device=lengths_B.device)
        last = tree.fill(state, [leaves_TBW[lengths_B - 1, rows_B] for leaves_TBW in states])
        return y_BTW * real_mask(lengths_B, y_BTW.shape[1])[..., None], last


def _at_length(states: list[S], lengths_B: Tensor) -> S:
    """Each row's state after its last real position. ``states`` has the state after each position. Lengths are at
    least 1.

    The loop runs on into the padding, and the state is picked afterwards. Stopping each row in the loop would cost a
    ``where`` in every step.
    """
    rows_B = torch.arange(lengths_B.shape[0], device=lengths_B.device)
    every = zip(*(tree.leaves(state) for state in states), strict=True)
    return tree.fill(states[-1], [torch.stack(leaves)[lengths_B - 1, rows_B] for leaves in every])


class HiddenCell(LoopedCell[Tensor]):
    """A cell whose state is its output h [B, W]."""

    def start(self, rows: int, like: Tensor) -> Tensor:
        return like.new_zeros(rows, self.width)

    def output(self, state: Tensor) -> Tensor:
        return state


def recurrence(width: int, parts: int = 1, bias: bool = False) -> Linear:
    """A new linear layer that maps a cell's state [..., width] to [..., parts * width].

    Its ``parts`` stacked matrices start orthogonal, which keeps the norm of the state (Saxe et al. 2014). The bias, if
    there is one, starts at 0.
    """
    made = Linear(width, parts * width, bias)
    for part in made.weight.data.chunk(parts):
        nn.init.orthogonal_(part)
    if bias:
        nn.init.zeros_(made.bias)
    return made


def real_outputs(y_BTW: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the outputs [B, T, W] of a fused kernel with zeros at padding, and each row's output at its last real
    position [B, W].

    The kernel runs on into the padding, so its outputs there must be removed.
    """
    rows_B = torch.arange(lengths_B.shape[0], device=lengths_B.device)
    return y_BTW * real_mask(lengths_B, y_BTW.shape[1])[..., None], y_BTW[rows_B, lengths_B - 1]
