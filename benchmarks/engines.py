"""How fast does a run predict with each engine? PyTorch, our own library, onnxruntime and CTranslate2, paired.

    python benchmarks/engines.py RUN [--rounds 3] [--sentences 500] [--single 40] [--threads 1] [--exports DIR]
                                     [--out benchmarks/results/engines.md] [--record FILE.json]

RUN is a Transformer that CTranslate2 runs, such as one of the recipe multi30k-de-en-transformer-post. The engines are
PyTorch in float32 and bfloat16, and exports for our own library ("native"), onnxruntime and CTranslate2 in float32 and
int8. Exports of these weights in DIR (default RUN/exports/benchmark) are used again; others are made first.

Each engine reads the first sentences of the test split, text in to text out, at most 60 tokens each: --sentences of
them in batches of 64, and --single of them one after the other. All engines take turns in one process, and each second
round goes the other way round, so that what else the machine does falls on all. The ratio to CTranslate2's int8 is the
median of the rounds' own ratios. "own API" is CTranslate2's Python API, which gets the tokens that our pipeline makes
and whose tokens are not made text: the difference is the cost of our pipeline.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from report import Report, add_options, machine

import transduce
from transduce.compute.precision import Precision
from transduce.engines.manifest import Manifest, checksum, is_export
from transduce.export.writing import export_run
from transduce.runs.run import Run
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.transducer import Transducer

LONGEST = 60
BATCH = 64
EXPORTS = tuple((engine, each) for engine in ("native", "onnx", "ctranslate2") for each in ("float32", "int8"))
BASE = "ctranslate2 int8"
OWN = "ctranslate2 int8, own API"
Decode = Callable[[Sequence[str], Any, int], list[str]]


@dataclass(frozen=True)
class Column:
    """A column of the table: a search, the batch size, and how many sentences it reads."""

    name: str
    search: Any
    batch: int
    count: int


def exports(run: Path, folder: Path) -> dict[str, Path]:
    """The export for each engine and precision, made now unless the folder has it of the same weights."""
    weights = checksum(Run.open(run).weights("best"))
    found = {}
    for engine, precision in EXPORTS:
        name = f"{engine} {precision}"
        found[name] = path = folder / f"{engine}-{precision}"
        if not is_export(path) or Manifest.read(path).weights != weights:
            _, compared = export_run(run, engine, path, precision=precision)
            print(f"{name}: {compared}", flush=True)
    return found


def text_to_text(transducer: Transducer) -> Decode:
    def decode(sources: Sequence[str], search: Any, batch: int) -> list[str]:
        return [outputs[0].text for outputs in transducer.predict(sources, search, batch)]

    return decode


def own_api(transducer: Transducer) -> Decode:
    """CTranslate2's ``translate_batch`` alone, with the options that the engine gives it. ``sources`` are tokens."""
    translator = transducer.model.translator.engine

    def decode(sources: Sequence[Any], search: Any, batch: int) -> list[str]:
        size = getattr(search, "size", 1)
        options = {"beam_size": size, "length_penalty": float(size > 1), "max_decoding_length": LONGEST - 1}
        parts = [sources] if batch > 1 else [[source] for source in sources]
        for part in parts:
            translator.translate_batch(part, max_batch_size=batch, return_end_token=True, **options)
        return []

    return decode


def tokens(transducer: Transducer, sources: Sequence[str]) -> list[list[str]]:
    from transduce.types import SPECIALS

    rows = transducer.source_tokenizer.encode(sources)
    return [[SPECIALS[i] if i < len(SPECIALS) else str(i) for i in row] for row in rows]


def measured(
    engines: dict[str, Decode], given: dict[str, Sequence[Any]], columns: Sequence[Column], rounds: int
) -> tuple[dict[str, dict[str, list[float]]], dict[str, dict[str, list[str]]]]:
    """Sentences a second of each engine and column in each round, and the outputs of the first round."""
    speeds: dict[str, dict[str, list[float]]] = {name: {each.name: [] for each in columns} for name in engines}
    outputs: dict[str, dict[str, list[str]]] = {name: {} for name in engines}
    for name, decode in engines.items():  # kernels and buffers of the first call
        for column in columns:
            decode(given[name][:8], column.search, min(column.batch, 8))
    for number in range(rounds):
        for column in columns:
            for name in list(engines)[:: -1 if number % 2 else 1]:
                sources = given[name][: column.count]
                began = time.perf_counter()
                found = engines[name](sources, column.search, column.batch)
                speeds[name][column.name].append(len(sources) / (time.perf_counter() - began))
                outputs[name].setdefault(column.name, found)
        print(f"round {number + 1} of {rounds} is done, load {os.getloadavg()[0]:.1f}", flush=True)
    return speeds, outputs


def tables(
    speeds: dict[str, dict[str, list[float]]], outputs: dict[str, dict[str, list[str]]], columns: Sequence[Column]
) -> list[str]:
    heads = [each.name for each in columns]
    lines = ["## Sentences a second", f"| engine | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    lines += [
        f"| {name} | {' | '.join(f'{median(found[head]):,.1f}' for head in heads)} |" for name, found in speeds.items()
    ]
    for base in (BASE, "torch float32"):
        lines += ["", f"## Times {base}", f"| engine | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
        for name, found in speeds.items():
            ratios = [
                median(one / other for one, other in zip(found[head], speeds[base][head], strict=True))
                for head in heads
            ]
            lines.append(f"| {name} | {' | '.join(f'{each:.2f}' for each in ratios)} |")
    lines += ["", "## Outputs that differ from torch float32", f"| engine | {' | '.join(heads)} |"]
    lines.append("|---" * (1 + len(heads)) + "|")
    for name, found_texts in outputs.items():
        if name != OWN:
            pairs = [(found_texts[head], outputs["torch float32"][head]) for head in heads]
            cells = [f"{sum(a != b for a, b in zip(*pair, strict=True)):,} of {len(pair[0]):,}" for pair in pairs]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=500, help="of the test split, in batches of 64")
    parser.add_argument("--single", type=int, default=40, help="of the test split, one after the other")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--exports", type=Path, metavar="DIR")
    add_options(parser)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    folders = exports(asked.run, asked.exports or asked.run / "exports" / "benchmark")
    precisions: tuple[Precision, ...] = ("float32", "bfloat16")
    loaded = {f"torch {each}": transduce.load(asked.run, device="cpu", precision=each) for each in precisions}
    loaded |= {name: transduce.load(path) for name, path in folders.items()}
    engines = {name: text_to_text(each) for name, each in loaded.items()} | {OWN: own_api(loaded[BASE])}
    sources = [each.source for each in Run.open(asked.run).examples("test")][: max(asked.sentences, asked.single)]
    given: dict[str, Sequence[Any]] = dict.fromkeys(loaded, sources) | {OWN: tokens(loaded[BASE], sources)}
    searches = {"greedy": Greedy(LONGEST), "beam 5": Beam(5, max_length=LONGEST)}
    places = {"batches": (BATCH, asked.sentences), "in sequence": (1, asked.single)}
    columns = [
        Column(f"{search}, {place}", searches[search], *places[place]) for place in places for search in searches
    ]
    before = os.getloadavg()[0]
    speeds, outputs = measured(engines, given, columns, asked.rounds)
    lines = [
        f"# Engines: {asked.run.name}, the same weights",
        "",
        machine(),
        "",
        f"Medians of {asked.rounds} rounds. Load average {before:.1f} before, {os.getloadavg()[0]:.1f} after; this "
        "process alone makes 1.",
        "",
        *tables(speeds, outputs, columns),
    ]
    print("\n".join(lines))
    Report.asked(asked).write(lines, [asked.run])


if __name__ == "__main__":
    main()
