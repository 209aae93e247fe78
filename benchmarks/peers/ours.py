"""transduce: training as in a run, and prediction by each engine, from text to text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from stopwatch import alone
from training_speed import Setting, transduce_block

import transduce
from peers.base import Column, Family, Speed, Task
from peers.data import Data, test_sources
from peers.sizes import LONGEST
from transduce.compute.precision import Precision
from transduce.runs.manifest import Manifest, checksum, is_export
from transduce.runs.run import Run
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.wings.engines.export.checked_export import export_run
from transduce.wings.lab.speed.report import peak_memory

RECIPES: dict[Family, tuple[str, dict[str, Any]]] = {
    "transformer": (
        "multi30k-de-en-transformer",  # with post-norm, like Marian
        {"model.encoder.norm": "post", "model.decoder.norm": "post"},
    ),
    "recurrent": (
        "multi30k-de-en-recurrent",
        {"model.decoder.wiring.input_feeding": True, "model.tie": "embeddings"},  # like the other toolkits
    ),
}
EXPORTS = ("native-float32", "native-int8", "onnx-float32", "ctranslate2-float32", "ctranslate2-int8", "marian")


@dataclass(frozen=True)
class Ours:
    name: str = "transduce"
    trains: Sequence[tuple[Family, str]] = tuple(
        (family, precision) for family in RECIPES for precision in ("float32", "bfloat16")
    )
    predicts: Sequence[str] = (
        "torch float32",
        "torch bfloat16",
        "native float32",
        "native int8",
        "onnx float32",
        "ctranslate2 int8",
    )

    def install(self) -> str:
        return f"{transduce.__version__} torch {torch.__version__}"

    def train(self, task: Task, family: Family, precision: str) -> Speed:
        block = alone(transduce_block, setting_of(task, family), precision, task.seconds)
        return Speed(block.tokens_per_second, block.memory, block.parameters)

    def predict(self, task: Task, way: str, columns: Sequence[Column]) -> dict[Column, Speed]:
        return alone(_predict, task.data, way, columns, task.threads)


def setting_of(task: Task, family: Family) -> Setting:
    """The setting of our own training of this model."""
    recipe, changes = RECIPES[family]
    return replace(task.data.setting, threads=task.threads, recipe=recipe, changes=tuple(changes.items()))


def write_exports(data: Data) -> None:
    """Makes the exports of the run for all engines, unless they exist with the same weights."""
    assert data.run is not None
    weights = checksum(Run.open(data.run).weights("best"))
    for name in EXPORTS:
        engine, _, precision = name.partition("-")
        path = data.exports / name
        if not is_export(path) or Manifest.read(path).weights != weights:
            _, compared = export_run(data.run, engine, path, precision=precision or "float32")
            print(f"export {name}: {compared}", flush=True)


def _predict(data: Data, way: str, columns: Sequence[Column], threads: int) -> dict[Column, Speed]:
    torch.set_num_threads(threads)
    assert data.run is not None
    engine, precision = way.split()
    if engine == "torch":
        exact: Precision = "float32" if precision == "float32" else "bfloat16"
        loaded = transduce.load(data.run, device="cpu", precision=exact)
    else:
        loaded = transduce.load(data.exports / f"{engine}-{precision}")
    sources = test_sources(data.run)
    rates = {}
    for column in columns:
        search: Any = Greedy(LONGEST) if column.beam == 1 else Beam(column.beam, max_length=LONGEST)
        for part in (sources[: min(column.batch, 4)], sources[: column.count]):  # the first part fills caches
            began = time.perf_counter()
            loaded.predict(part, search, column.batch)
            rates[column] = len(part) / (time.perf_counter() - began)
    memory = peak_memory()
    return {column: Speed(rate, memory) for column, rate in rates.items()}


def trained(run: Path, data: Data, minutes: float) -> None:
    """Trains the run whose weights predict."""
    from transduce.core.config.user_data import Merged
    from transduce.training.begin import train
    from transduce.training.job import Job

    train(Job(run, Merged(data.setting.table(minutes=minutes))), device="cpu")
