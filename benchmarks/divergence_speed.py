"""Times R-Drop's divergence, forwards and backwards: with its own gradient, and the same formula by autograd.

python benchmarks/divergence_speed.py [--rows 2000] [--words 8000] [--rounds 10] [--out FILE.md] [--record FILE.json]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from report import Report, columns, parse, parser_of, titled
from torch import Tensor

from transduce.objectives.consistency import divergence


def by_autograd(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    log_p, log_q = p_NV.log_softmax(-1), q_NV.log_softmax(-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2


def milliseconds(function: Callable[[Tensor, Tensor], Tensor], p_NV: Tensor, q_NV: Tensor) -> float:
    """The milliseconds of processor time that this process takes for the function and its gradient."""
    began = time.process_time()
    torch.autograd.grad(function(p_NV, q_NV), [p_NV, q_NV])
    return 1000 * (time.process_time() - began)


def main() -> None:
    asked = parser_of(__doc__)
    for name, value in (("--rows", 2000), ("--words", 8000), ("--rounds", 10)):
        asked.add_argument(name, type=int, default=value)
    given = parse(asked, threads=1)
    logits = [torch.randn(given.rows, given.words, requires_grad=True) for _ in range(2)]
    ways = {"by autograd": by_autograd, "of its own": divergence}
    taken = [{name: milliseconds(way, *logits) for name, way in ways.items()} for _ in range(given.rounds + 1)][1:]
    lines = titled("R-Drop's divergence: milliseconds, forwards and backwards")
    lines += [f"{given.rows:,} rows, {given.words:,} words, the median of {given.rounds} rounds.", ""]
    lines += columns("| gradient | ms |")
    lines += [f"| {name} | {median(each[name] for each in taken):.1f} |" for name in ways]
    Report.asked(given).show(lines)


if __name__ == "__main__":
    main()
