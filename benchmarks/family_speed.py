"""How fast is each family in training and in search? Measures runs of one task one after the other, in rounds.

    python benchmarks/family_speed.py RUN [RUN ...] [--rounds 2] [--updates 60] [--tokens 2048]
                                      [--precision auto float32] [--beam 1 5]
                                      [--clock processor --threads 1] [--out benchmarks/results/family_speed.md]
                                      [--record FILE.json]

Training: the run's own model and batches, from fresh weights. The speed is non-pad target tokens per second, after the
first ten updates. Search: the run's best model in float32 over the test split, greedy and with a beam of 5, 64
sentences a batch. The speed is sentences per second with tokenisation, without loading. Every figure is measured in its
own process. Each round measures all runs, so that a slow minute of the machine affects all of them. The option --clock
processor counts seconds of processor time, for one thread, and for a machine that others use too.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from statistics import median

import torch
from report import Report, columns, parse, parser_of, titled
from stopwatch import Block, Stopwatch, alone

import transduce
from transduce.core import config
from transduce.core.config.user_data import Merged
from transduce.data.batching import Batches, Place
from transduce.data.preparation import examples, prepare
from transduce.data.settings import Data
from transduce.runs.run import cache_folder
from transduce.training.begin import train
from transduce.training.job import Job
from transduce.training.settings import Training

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


@dataclass(frozen=True)
class Setting:
    """The settings that all runs share. ``tokens`` is the size of a batch with padding; None is the run's own size."""

    updates: int
    tokens: int | None
    threads: int
    clock: str


def training_block(run: Path, precision: str, setting: Setting) -> Block:
    torch.set_num_threads(setting.threads)
    table = config.read(run / "config.toml")
    table["training"] = {
        **{key: value for key, value in table["training"].items() if key not in ("steps", "epochs", "minutes")},
        "steps": setting.updates,
        "precision": precision,
        "validation": {"times": 0},
    }
    if setting.tokens is not None:
        table["training"]["batching"] |= {"tokens": setting.tokens}
    table["data"]["cache"] = str(cache_folder(config.build(table["data"], Data, path="data"), run))
    stopwatch = Stopwatch(CLOCKS[setting.clock])
    with tempfile.TemporaryDirectory() as folder:
        train(Job(Path(folder) / "run", Merged(table)), [stopwatch], "cpu")
    return stopwatch.block(target_lengths(table))


def target_lengths(table: config.Table) -> Iterator[int]:
    """The number of target tokens in each batch that a run trains on, in order."""
    training = config.build(table["training"], Training, path="training")
    data = config.build(table["data"], Data, path="data")
    assert data.cache is not None
    batches = Batches(prepare(data, Path(data.cache)).train, training.batching, training.seed)
    return (int(batch.target.lengths.sum()) for batch, _ in batches.iterate(Place()))


@dataclass(frozen=True)
class Searched:
    """Sentences per second, and the mean length of the outputs in tokens, because longer outputs take longer."""

    sentences_per_second: float
    length: float


def searched(run: Path, size: int, setting: Setting) -> Searched:
    torch.set_num_threads(setting.threads)
    transducer = transduce.load(run, device="cpu")
    data = config.build(transducer.settings["data"], Data, path="data")
    sources = [example.source for example in examples(data, "test", cache_folder(data, run))]
    search = transducer.search.resized(size)
    list(transducer.predict(sources[:64], search))
    began = CLOCKS[setting.clock]()
    found = list(transducer.predict(sources, search))
    seconds = CLOCKS[setting.clock]() - began
    return Searched(len(sources) / seconds, sum(len(outputs[0].tokens) for outputs in found) / len(found))


def lines(
    names: list[str], training: dict[str, list[list[Block]]], found: dict[int, list[list[Searched]]]
) -> list[str]:
    """The table: medians of the rounds, a row for each run."""
    heads = [f"training, {precision}" for precision in training]
    heads += ["greedy" if size == 1 else f"beam {size}" for size in found]
    rows = columns(f"| run | parameters | {' | '.join(heads)} |{' tokens an output |' if found else ''}")
    for number, name in enumerate(names):
        blocks = [rounds[number] for rounds in training.values()]
        searches = [rounds[number] for rounds in found.values()]
        cells = chain(
            (f"{median(block.tokens_per_second for block in each):,.0f}" for each in blocks),
            (f"{median(one.sentences_per_second for one in each):,.1f}" for each in searches),
        )
        length = f" {searches[-1][0].length:.1f} |" if searches else ""
        rows.append(f"| {name} | {blocks[0][0].parameters / 1e6:.1f} M | {' | '.join(cells)} |{length}")
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--updates", type=int, default=60, help="of each block of training, the first ten not timed")
    parser.add_argument("--tokens", type=int, help="a batch, padded, instead of the run's own")
    parser.add_argument("--precision", nargs="+", default=["auto"], choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--beam", type=int, nargs="*", default=[1, 5], help="none: training alone")
    parser.add_argument("--clock", default="wall", choices=list(CLOCKS))
    given = parse(parser, threads=torch.get_num_threads())
    if given.clock == "processor" and given.threads > 1:
        parser.error("--clock processor counts the seconds of all threads together: give --threads 1")
    setting = Setting(given.updates, given.tokens, given.threads, given.clock)
    training: dict[str, list[list[Block]]] = {precision: [[] for _ in given.runs] for precision in given.precision}
    found: dict[int, list[list[Searched]]] = {size: [[] for _ in given.runs] for size in given.beam}
    for _, (number, run) in product(range(given.rounds), enumerate(given.runs)):
        for precision, blocks in training.items():
            blocks[number].append(alone(training_block, run, precision, setting))
        for size, searches in found.items():
            searches[number].append(alone(searched, run, size, setting))
        print(
            run.name,
            *(f"{precision} {blocks[number][-1].tokens_per_second:,.0f}" for precision, blocks in training.items()),
            *(f"beam {size} {each[number][-1].sentences_per_second:,.1f}" for size, each in found.items()),
            flush=True,
        )
    tokens = given.tokens or "the run's own number of"
    told = [
        *titled("Speed of each family: training in non-pad target tokens per second, search in sentences per second"),
        f"Medians of {given.rounds} rounds of {given.updates} updates, batches of {tokens} tokens; seconds of the "
        f"{given.clock} clock.",
        "",
        *lines([run.name for run in given.runs], training, found),
    ]
    print("\n" + "\n".join(told))
    Report.asked(given).write(told, given.runs)


if __name__ == "__main__":
    main()
