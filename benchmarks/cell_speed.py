"""How long does a recurrent cell take in training, compared with torch's LSTM?

Times a forward and a backward pass through ``unroll``: float32, 64 rows of 30 positions, width 256, one thread. In each
round, every cell runs right after a run of torch.nn.LSTM. The table has the ratio of the two times. A time is the CPU
time of the thread. Other processes change it only by their use of caches and clock, which affects both runs alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from report import Report, columns, titled
from torch import Tensor, nn

from transduce.core import registry
from transduce.layers.modules.cells.looped import LoopedCell, recurrence
from transduce.layers.modules.cells.lstm import LoopedLSTM

ROWS, POSITIONS, WIDTH = 64, 30, 256
OPTIONS = {"lstm-without": ["forget", "input", "output"]}


class PlainLSTM(LoopedLSTM):
    """A straightforward LSTM on ``LoopedCell``. Its time shows what a new cell of that kind costs."""

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=4)
        self.recurrent = recurrence(width, 4)

    def advance(self, projected_BG: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h, c = state
        i, f, g, o = (projected_BG + self.recurrent(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)


class Projection(LoopedCell[Tensor]):
    """A layer without recurrence: only the projection of the input, which SSRU needs."""

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=2, bias=False)

    def start(self, rows: int, like: Tensor) -> Tensor:
        return like.new_zeros(rows, self.width)

    def unroll(self, x_BTD: Tensor, state: Tensor, lengths_B: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.project(x_BTD)[..., : self.width], state


def cells() -> dict[str, Any]:
    """Every named cell by its name, and the two above for comparison."""
    made: dict[str, Any] = {"an LSTM as a LoopedCell": PlainLSTM(WIDTH, WIDTH)}
    for name in registry.NAMES["Cell"]:
        constructor: Any = registry.find("Cell", name)
        for gate in OPTIONS.get(name, [""]):
            options = {"gate": gate} if gate else {}
            made[f"{name} {gate}".strip()] = constructor(WIDTH, WIDTH, **options)
    return made | {"(two products with the input, no recurrence)": Projection(WIDTH, WIDTH)}


def unrolled(cell: Any, x_BTD: Tensor) -> Tensor:
    y_BTW: Tensor = cell.unroll(x_BTD, cell.start(ROWS, x_BTD))[0]
    return y_BTW


def seconds(run: Callable[[Tensor], Tensor], x_BTD: Tensor, weight_BTW: Tensor) -> float:
    """CPU time of this thread for one pass forwards and backwards."""
    began = time.thread_time()
    torch.autograd.backward(run(x_BTD), weight_BTW)
    return time.thread_time() - began


def measured(rounds: int) -> dict[str, list[tuple[float, float]]]:
    """For each name and round, the seconds of the cell, and the seconds of torch's LSTM just before. One more round at
    the start is a warm-up.
    """
    torch.manual_seed(0)
    x_BTD = torch.randn(ROWS, POSITIONS, WIDTH, requires_grad=True)
    weight_BTW = torch.randn(ROWS, POSITIONS, WIDTH)
    torchs = nn.LSTM(WIDTH, WIDTH, batch_first=True)
    every = cells()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in every}
    for number in range(rounds + 1):
        for name, cell in every.items():
            reference = seconds(lambda x: torchs(x)[0], x_BTD, weight_BTW)
            own = seconds(partial(unrolled, cell), x_BTD, weight_BTW)
            if number:
                found[name].append((own, reference))
    return found


def lines(found: dict[str, list[tuple[float, float]]]) -> list[str]:
    rows = columns("| cell | times torch.nn.LSTM, median | least and most | ms, least |")
    for name, pairs in found.items():
        ratios = [own / reference for own, reference in pairs]
        least = 1000 * min(own for own, _ in pairs)
        rows.append(f"| {name} | {median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} | {least:.1f} |")
    torchs = 1000 * min(reference for pairs in found.values() for _, reference in pairs)
    return [*rows, "", f"torch.nn.LSTM itself: {torchs:.1f} ms at least."]


def main(report: Report, *, rounds: int = 15) -> None:
    report.tell(
        *titled("Cells: training time beside torch.nn.LSTM"),
        f"Forwards and backwards, float32, {ROWS} rows of {POSITIONS} positions, width {WIDTH}; CPU time of the",
        f"thread, {rounds} pairs each, on a machine that trained something else at the same time.",
        "",
        *lines(measured(rounds)),
    )
