"""Measures the cost of layers by length and width: self-attention, restricted attention, recurrence, convolutions.

Vaswani et al. 2017, table 1, measured on the package's own layers, with one thread and float32. An exponent is the
slope of a straight line through the logarithms: time ~ length^2 has the exponent 2.

- time: the least time of a forward pass over the rounds. The attention layers have no projections, which are linear in
  the length. The recurrence is an Elman cell, the convolutions have kernel 3, and the restricted attention reads 16
  positions on each side. The dilated convolution is the causal mixer, with a dilation of 9 where one is measured.
- memory: the bytes that a pass keeps for its gradient.
- steps: the longest chain of operators that depend on each other, from the output back to the input.
- path: the number of layers (for the recurrence: steps) until the last output depends on the first input. The
  dilations of stacked layers are 1, 3, 9 and so on, so their path is a logarithm, which has no exponent: the second
  table counts the layers.

The lengths and widths make the measured term the largest one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from report import Report, columns, machine, row
from torch import Tensor, nn

from transduce.core.types import Padded
from transduce.layers.modules.cells.elman import Elman
from transduce.layers.modules.mixers.attention import SelfAttention
from transduce.layers.modules.mixers.local import LocalSelfAttention
from transduce.wings.dilation.mixers import CausalDilatedConvolution

REACH, KERNEL, HEADS = 16, 3, 1
LONG = (512, 1024, 2048, 4096)  # positions
WIDE = (256, 512, 1024, 2048)  # features
SHORT = (64, 128, 256, 512)  # positions for steps and path


class WithoutProjections(nn.Module):
    """A mixer whose queries, keys and values are its input, and whose output is not projected."""

    def __init__(self, mixer: Any) -> None:
        super().__init__()
        self.mixer = mixer
        mixer.project, mixer.out = nn.Identity(), nn.Identity()

    def forward(self, x_BSD: Tensor) -> Tensor:
        lengths_B = torch.full((len(x_BSD),), x_BSD.shape[1])
        y_BSD: Tensor = self.mixer(Padded(x_BSD.repeat(1, 1, 3), lengths_B))
        return y_BSD


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = Elman(width, width)

    def forward(self, x_BSD: Tensor) -> Tensor:
        y_BSD, _ = self.cell.unroll(x_BSD, self.cell.start(len(x_BSD), x_BSD))
        return y_BSD


class Convolution(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2)

    def forward(self, x_BSD: Tensor) -> Tensor:
        y_BSD: Tensor = self.convolution(x_BSD.transpose(1, 2)).transpose(1, 2)
        return y_BSD


class Dilated(nn.Module):
    def __init__(self, width: int, dilation: int = KERNEL**2) -> None:
        super().__init__()
        self.mixer = CausalDilatedConvolution(width, HEADS, 0.0, KERNEL, dilation)

    def forward(self, x_BSD: Tensor) -> Tensor:
        y_BSD: Tensor
        y_BSD, _ = self.mixer(x_BSD, self.mixer.start(len(x_BSD), x_BSD), torch.zeros(x_BSD.shape[:2]))
        return y_BSD


@dataclass(frozen=True)
class Kind:
    """A layer: its name, a function that makes it for a width, the exponents in theory, and the layers of a path
    between n positions in theory. None is a logarithm. ``stacked`` makes layer 0, 1, ... of a stack of this width; by
    default all layers are one.
    """

    name: str
    make: Callable[[int], nn.Module]
    time_by_length: float
    time_by_width: float
    memory_by_length: float
    steps_by_length: float
    path_by_length: float | None
    path: Callable[[int], int]
    stacked: Callable[[int, int], nn.Module] | None = None


KINDS = [
    Kind(
        "self-attention",
        lambda width: WithoutProjections(SelfAttention(width, HEADS, 0.0)),
        2,
        1,
        2,
        0,
        0,
        lambda n: 1,
    ),
    Kind(
        f"restricted to {REACH} on each side",
        lambda width: WithoutProjections(LocalSelfAttention(width, HEADS, 0.0, REACH)),
        1,
        1,
        1,
        0,
        1,
        lambda n: math.ceil((n - 1) / REACH),
    ),
    Kind("recurrence", Recurrent, 1, 2, 1, 1, 1, lambda n: n),
    Kind(f"convolution of {KERNEL}", Convolution, 1, 2, 1, 0, 1, lambda n: math.ceil((n - 1) / (KERNEL // 2))),
    Kind(
        f"dilated convolutions of {KERNEL}",
        Dilated,
        1,
        2,
        1,
        0,
        None,
        lambda n: next(layers for layers in count() if KERNEL**layers >= n),
        lambda width, layer: Dilated(width, KERNEL**layer),
    ),
]


def seconds(layer: nn.Module, length: int, width: int, rounds: int, rows: int = 1) -> float:
    """The least processor time of a forward pass over the rounds."""
    x_BSD = torch.randn(rows, length, width)
    found = []
    with torch.no_grad():
        layer(x_BSD)
        for _ in range(rounds):
            start = time.process_time()
            layer(x_BSD)
            found.append(time.process_time() - start)
    return min(found)


def kept_bytes(layer: nn.Module, length: int, width: int) -> float:
    """The bytes of all tensors that a pass keeps for its gradient, parameters excluded."""
    own = {each.untyped_storage().data_ptr() for each in layer.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y_BSD = layer(torch.randn(1, length, width, requires_grad=True))
    del y_BSD
    return float(sum(kept.values()))


def chain(layer: nn.Module, length: int, width: int) -> int:
    """The longest chain of operators from the output back to the input."""
    y_BSD = layer(torch.randn(1, length, width, requires_grad=True))
    order, seen, stack = [], set(), [(y_BSD.grad_fn, False)]
    while stack:
        node, done = stack.pop()
        if node is None or (not done and node in seen):
            continue
        if done:
            order.append(node)
            continue
        seen.add(node)
        stack.append((node, True))
        stack += [(before, False) for before, _ in node.next_functions]
    depth: dict[Any, int] = {}
    for node in order:
        depth[node] = 1 + max((depth[before] for before, _ in node.next_functions if before is not None), default=0)
    return depth[y_BSD.grad_fn]


def path(kind: Kind, length: int, width: int) -> int:
    """The number of stacked layers until the last output depends on the first input. The recurrence needs one layer,
    but its path has as many steps as positions, so the result is the length.
    """
    if kind.make is Recurrent:
        return length
    torch.manual_seed(1)
    x_BSD = torch.randn(1, length, width, dtype=torch.double, requires_grad=True)  # float loses gradients of long paths
    y_BSD = x_BSD
    shared = kind.make(width).double()
    for number in range(1, length + 1):
        layer = shared if kind.stacked is None else kind.stacked(width, number - 1).double()
        y_BSD = nn.functional.layer_norm(layer(y_BSD), (width,))
        (gradient_BSD,) = torch.autograd.grad(y_BSD[0, -1].sum() + y_BSD[0, -1, 0], x_BSD, retain_graph=True)
        if bool((gradient_BSD[0, 0] != 0).any()):
            return number
    raise AssertionError(f"{length} layers of {kind.name} do not connect {length} positions")


def exponent(sizes: Sequence[int], values: Iterable[float]) -> float:
    slope, _ = np.polyfit(np.log(sizes), np.log(list(values)), 1)
    return float(slope)


def measured(kind: Kind, rounds: int) -> list[str]:
    torch.manual_seed(1)
    width = 64
    # Sizes for the time by width. Full attention reads a long row, so that its products dominate. A recurrence reads
    # several short rows, because a step of one row is mostly overhead. The others read few positions, which stay in the
    # processor's caches.
    rows, length = {"self-attention": (1, 2048), "recurrence": (64, 16)}.get(kind.name, (1, 256))
    layer = kind.make(width)
    columns = [
        (exponent(LONG, [seconds(layer, size, width, rounds) for size in LONG]), kind.time_by_length),
        (exponent(WIDE, [seconds(kind.make(size), length, size, rounds, rows) for size in WIDE]), kind.time_by_width),
        (exponent(LONG, [kept_bytes(kind.make(8), size, 8) for size in LONG]), kind.memory_by_length),
        (exponent(SHORT, [chain(layer, size, width) for size in SHORT]), kind.steps_by_length),
    ]
    paths = "logarithm"
    if kind.path_by_length is not None:
        columns.append((exponent(SHORT, [path(kind, size, 8) for size in SHORT]), kind.path_by_length))
        paths = ""
    return [kind.name, *(f"{found:.2f} ({theory:g})" for found, theory in columns), *([paths] * bool(paths))]


def main(report: Report, *, rounds: int = 5) -> None:
    report.tell("# Exponents, measured and (in theory)", "", f"Measured on {machine()}", "")
    report.tell(
        *columns("| layer | time by length | time by width | memory by length | steps by length | path by length |")
    )
    for kind in KINDS:
        report.tell(row(measured(kind, rounds)))
    report.tell("", "# Layers until the last output depends on the first input, counted and (in theory)", "")
    report.tell(*columns(row(["layer", *(f"{n} positions" for n in SHORT)])))
    for kind in KINDS:
        report.tell(row([kind.name, *(f"{path(kind, n, 8)} ({kind.path(n)})" for n in SHORT)]))
