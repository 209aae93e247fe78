"""How fast does a Transformer train here, and in a plain Hugging Face loop on the same batches?

    pip install -e '.[benchmarks]'
    python benchmarks training_speed
    python benchmarks training_speed --rounds 0 --steps 600 --seeds 1 2 3   # the validation loss after 600 updates

Both models have 3 + 3 layers, width 256, 4 heads, feed-forward 1024, dropout 0.1, and one tied embedding of 8,000 joint
pieces. Both train with label smoothing 0.1, Adam and a gradient norm of at most 1 on the encoded Multi30k pairs (German
to English). Batches have max(source, target) * sentences <= 2,048. Ours is ``transduce.training`` as a run uses it.
Theirs is MarianMTModel in a loop like the one of its documentation, in float32 and under autocast in bfloat16. They
take turns, and each block has its own process, so that other work of the machine slows both alike. ``--families`` adds
our other recipes for the same pairs. The option ``--clock processor`` measures the processor time of the process,
divided by its threads.

The share of the limit is the rate of operations in matrix products, divided by the rate of the machine's fastest
product in that precision with as many threads, by the same clock. The fastest product is the best of several kernels
and shapes, among them the shapes of the training itself. It is measured in each round, beside the blocks.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any

import torch
from peers.programs import marian
from peers.sizes import CLIP, DROPOUT, RATE, SMOOTHING, TOKENS, WARMUP
from report import Report, columns, machine
from stopwatch import Block, Stopwatch, alone, share_of_limit

from transduce.core import config, recipes
from transduce.core.config.user_data import Merged
from transduce.core.errors import UserError
from transduce.core.types import Batch
from transduce.data.batching import Batches, Place
from transduce.data.preparation import Prepared, prepare
from transduce.data.settings import Data
from transduce.training.begin import train
from transduce.training.job import Job
from transduce.training.settings import Training
from transduce.wings.lab.speed.limit import Shape, fastest_products
from transduce.wings.lab.speed.training import Operations, count_operations

RECIPE = "multi30k-de-en-transformer"
PRECISIONS = ("float32", "bfloat16")
MARK_EVERY = 10  # updates between two readings of the clock
COUNTED = 20  # updates whose operations are counted: batches differ in padding
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}


@dataclass(frozen=True)
class Setting:
    """The settings of every process. ``work`` holds the prepared data, which are encoded once for all of them."""

    data: str
    work: str
    threads: int
    seed: int = 1
    clock: str = "wall"
    recipe: str = RECIPE
    changes: tuple[tuple[str, Any], ...] = ()  # changed settings of the recipe

    def now(self) -> float:
        """The time of the clock in seconds. Processor time is divided by the number of threads."""
        return CLOCKS[self.clock]() / (self.threads if self.clock == "processor" else 1)

    def table(self, **training: Any) -> config.Table:
        """The recipe with the benchmark's sizes and the settings ``training``."""
        changes = {
            "data.origin.folder": self.data,
            "data.cache": self.work,
            "model.encoder.dropout": DROPOUT,
            "model.decoder.dropout": DROPOUT,
            "objective.smoothing": SMOOTHING,
            **dict(self.changes),
        }
        fixed = {
            "batching": {"tokens": TOKENS},
            "optimizer": {"type": "adam", "rate": RATE},
            "schedule": {"type": "inverse-sqrt", "warmup": WARMUP},
            "clip": CLIP,
            "seed": self.seed,
            "validation": {"times": 0},  # only the validation after the last update
        }
        return recipes.change(recipes.read(self.recipe), changes) | {"training": fixed | training}

    def prepared(self) -> Prepared:
        return prepare(config.build(self.table(steps=1)["data"], Data, path="data"), Path(self.work))


def batches(prepared: Prepared, seed: int) -> Iterator[Batch]:
    """The batches that a run with this seed trains on, in its order."""
    batching = config.build({"steps": 1, "batching": {"tokens": TOKENS}}, Training).batching
    return (batch for batch, _ in Batches(prepared.train, batching, seed).iterate(Place()))


def target_lengths(setting: Setting) -> Iterator[int]:
    return (int(batch.target.lengths.sum()) for batch in batches(setting.prepared(), setting.seed))


# ------------------------------------------------------------------ the two sides, each in its own process


def transduce_block(setting: Setting, precision: str, seconds: float) -> Block:
    validation = {"times": 0, "examples": 1}  # as little as possible
    budget = {"minutes": seconds / 60, "clock": setting.clock, "validation": validation}
    return _run(setting, precision=precision, **budget).block(target_lengths(setting))


def transduce_loss(setting: Setting, precision: str, steps: int) -> float:
    """The validation loss after ``steps`` updates, without smoothing, computed in float32."""
    return _run(setting, steps=steps, precision=precision).validation_loss


def _run(setting: Setting, **training: Any) -> Stopwatch:
    torch.set_num_threads(setting.threads)
    stopwatch = Stopwatch(setting.now)
    with tempfile.TemporaryDirectory(dir=setting.work) as run:
        train(Job(Path(run) / "run", Merged(setting.table(**training))), [stopwatch], "cpu")
    return stopwatch


def operations(setting: Setting) -> Operations:
    """The operations of the updates in matrix products. Those of float32 are counted: bfloat16 has the same, and may be
    slow.
    """
    torch.set_num_threads(setting.threads)
    validation = {"times": 0, "examples": 1}
    table = setting.table(steps=COUNTED, precision="float32", validation=validation)
    with tempfile.TemporaryDirectory(dir=setting.work) as run:
        return count_operations(table, Path(run) / "run", "cpu")


def limit(setting: Setting, precision: str, shapes: Sequence[Shape]) -> float:
    """The rate of the machine's fastest product in GFLOP/s, by the clock of the blocks."""
    torch.set_num_threads(setting.threads)
    return fastest_products(precision, shapes, setting.now)


def hugging_face_block(setting: Setting, precision: str, seconds: float) -> Block:
    torch.set_num_threads(setting.threads)
    torch.manual_seed(setting.seed)
    prepared = setting.prepared()
    model = marian.new_model(prepared.facts.target_vocabulary)
    stopwatch = Stopwatch(setting.now)
    stopwatch.parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    began = setting.now()
    stopwatch.marks.append((0, began))
    pairs = ((batch.source.values, batch.target.values) for batch in batches(prepared, setting.seed))
    for step, loss in enumerate(marian.updates(model, pairs, precision), 1):
        over = setting.now() - began > seconds
        if over or step % MARK_EVERY == 0:
            stopwatch.marks.append((step, setting.now()))
            stopwatch.loss = loss.item()
        if over:
            break
    return stopwatch.block(target_lengths(setting))


# ------------------------------------------------------------------ measurements and tables


@dataclass(frozen=True)
class Side:
    """A row of the table: a name, a function that trains one block, its setting and its precision."""

    name: str
    block: Callable[[Setting, str, float], Block]
    setting: Setting
    precision: str


def sides(setting: Setting, precisions: Sequence[str], families: Sequence[str]) -> list[Side]:
    """All rows. The first one is theirs in float32, because the others are compared with it."""
    theirs = [Side(f"Hugging Face, {each}", hugging_face_block, setting, each) for each in ("float32", "bfloat16")]
    ours = [Side(f"transduce, {each}", transduce_block, setting, each) for each in precisions]
    for family in families:
        own, name = replace(setting, recipe=family), family.removeprefix("multi30k-de-en-")
        ours += [Side(f"transduce, {name}, {each}", transduce_block, own, each) for each in precisions]
    return [side for side in theirs if side.precision in {"float32", *precisions}] + ours


@dataclass
class Throughput:
    """The blocks of each side, and the limits by precision, a list entry for each round. ``work`` has the operations of
    a target token by recipe.
    """

    blocks: dict[Side, list[Block]]
    limits: dict[str, list[float]]
    work: dict[str, Operations]

    def share(self, side: Side) -> float:
        """The rate of operations in the blocks of a side, as a share of the limit."""
        work = self.work[side.setting.recipe].per_token / 1e9
        rates = [block.tokens_per_second * work for block in self.blocks[side]]
        return share_of_limit(rates, self.limits[side.precision])

    @staticmethod
    def counted(side: Side) -> bool:
        return side.block is transduce_block


def throughput(measured: list[Side], rounds: int, seconds: float) -> Throughput:
    """Measures a block of each side in each round, in turn, and then the limits."""
    ours = {side.setting.recipe: side.setting for side in measured if Throughput.counted(side)}
    found = Throughput(
        {side: [] for side in measured},
        {side.precision: [] for side in measured if Throughput.counted(side)},
        {recipe: alone(operations, setting) for recipe, setting in ours.items()},
    )
    shapes = tuple(dict.fromkeys(shape for work in found.work.values() for shape in work.shapes))
    for number in range(rounds):
        for side, blocks in found.blocks.items():
            blocks.append(alone(side.block, side.setting, side.precision, seconds))
        for precision, limits in found.limits.items():
            limits.append(alone(limit, measured[0].setting, precision, shapes))
        told = "   ".join(f"{side.name} {blocks[-1].tokens_per_second:,.0f}" for side, blocks in found.blocks.items())
        print(f"round {number + 1}: {told} target tokens/s", flush=True)
    return found


def ratios(ours: list[Block], theirs: list[Block]) -> list[float]:
    return [a.tokens_per_second / b.tokens_per_second for a, b in zip(ours, theirs, strict=True)]


def losses(setting: Setting, precisions: Sequence[str], steps: int, seeds: Sequence[int]) -> dict[str, list[float]]:
    """The validation loss of each seed, by precision."""
    found: dict[str, list[float]] = {precision: [] for precision in precisions}
    for seed in seeds:
        for precision in precisions:
            seeded = replace(setting, seed=seed)
            found[precision].append(alone(transduce_loss, seeded, precision, steps))
        told = "   ".join(f"{precision} {values[-1]:.4f}" for precision, values in found.items())
        print(f"seed {seed}, {steps} updates: validation loss {told}", flush=True)
    return found


def throughput_lines(measured: Throughput) -> list[str]:
    base, theirs = next(iter(measured.blocks.items()))
    products = " and ".join(f"{max(rates):,.0f} GFLOP/s in {each}" for each, rates in measured.limits.items())
    work = ", ".join(f"{each.per_token / 1e6:.1f} million ({recipe})" for recipe, each in measured.work.items())
    lines = [
        "",
        f"The machine's fastest products: {products}. Seconds of the {base.setting.clock} clock.",
        f"Operations in products for one target token: {work}.",
        "",
        f"## Non-pad target tokens per second (transformers {version('transformers')})",
        *columns(
            "| | parameters | tokens/s, median | least to most | times Hugging Face in float32, median | least to most "
            "| share of the limit | memory, MiB |"
        ),
    ]
    for side, found in measured.blocks.items():
        speeds = [block.tokens_per_second for block in found]
        pairs = ratios(found, theirs)
        share = f"{100 * measured.share(side):.0f} %" if Throughput.counted(side) else ""
        cells = [
            side.name,
            f"{found[0].parameters:,}",
            f"{median(speeds):,.0f}",
            f"{min(speeds):,.0f} to {max(speeds):,.0f}",
            f"{median(pairs):.2f}",
            f"{min(pairs):.2f} to {max(pairs):.2f}",
            share,
            f"{median(block.memory for block in found):,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def loss_lines(found: dict[str, list[float]], steps: int, seeds: Sequence[int]) -> list[str]:
    lines = [
        "",
        f"## Validation loss a token after {steps} updates (no smoothing, computed in float32)",
        *columns(f"| | {' | '.join(f'seed {seed}' for seed in seeds)} | mean | spread of seeds |"),
    ]
    for precision, values in found.items():
        cells = " | ".join(f"{value:.4f}" for value in [*values, mean(values), max(values) - min(values)])
        lines.append(f"| {precision} | {cells} |")
    for first, second in pairwise(found):
        difference = mean(found[second]) - mean(found[first])
        lines += ["", f"{second} less {first}, mean of seeds: {difference:+.4f}."]
    return lines


def main(
    report: Report,
    *,
    data: Annotated[Path | None, "Multi30k's raw files (default: multi30k in $TRANSDUCE_DATA)"] = None,
    rounds: Annotated[int, "0: no throughput, only --steps"] = 5,
    seconds: Annotated[float, "of each block"] = 40,
    precision: Annotated[Sequence[str], PRECISIONS] = PRECISIONS,
    families: Annotated[Sequence[str], "our other recipes for these pairs"] = (),
    clock: Annotated[str, CLOCKS] = "wall",
    steps: Annotated[int | None, "compare the validation loss after so many updates"] = None,
    seeds: Sequence[int] = (1, 2, 3),
) -> None:
    report.tell("# Training speed: transduce and a plain Hugging Face loop, Transformer 3 + 3", "", machine())
    with tempfile.TemporaryDirectory() as work:
        setting = Setting(str(data or multi30k()), work, report.threads, clock=clock)
        setting.prepared()  # once, before any clock starts
        if rounds:
            measured = sides(setting, precision, families)
            report.tell(*throughput_lines(throughput(measured, rounds, seconds)))
        if steps:
            report.tell(*loss_lines(losses(setting, precision, steps, seeds), steps, seeds))


def multi30k() -> Path:
    """The folder in TRANSDUCE_DATA. Raises UserError if it is not set."""
    if "TRANSDUCE_DATA" not in os.environ:
        raise UserError("no data: give --data FOLDER, or set TRANSDUCE_DATA to the folder that holds multi30k")
    return Path(os.environ["TRANSDUCE_DATA"]) / "multi30k"
