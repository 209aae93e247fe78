"""How fast do runs predict with each engine: PyTorch, our own library, onnxruntime and CTranslate2?

RUN is any run that an engine supports, such as a run of the recipe multi30k-de-en-transformer, multi30k-de-en-gru,
multi30k-de-en-convs2s or g2p-ctc. The engines are PyTorch in float32 and bfloat16, and exports for our own library
("native"), onnxruntime and CTranslate2 in float32 and int8. If an engine refuses a run, the table has the reason.
Exports of the same weights in DIR/NAME (default RUN/exports/benchmark) are used again. Missing exports are made first.

Each engine reads the first sentences of the test split, from text to text, with at most 60 tokens an output. It reads
--sentences of them in batches of 64, and --single of them one after the other. It repeats each measurement until half a
second has passed. For a CTC model, "greedy" is the best path, and "beam 5" is a prefix beam of 5. A model that writes
all tokens at once tries one length or five lengths. A phrase-based model has stacks of one hypothesis or of the default
size.

All engines of a run take turns in one process. Every second round reverses their order, so that other programs on the
machine slow all of them alike. A ratio is the median of the ratios of the rounds. The option --clock processor measures
the processor time of this process, which is right for one thread on a busy machine. The row "own API" is CTranslate2's
Python API. It gets the tokens that our pipeline makes, and its output tokens do not become text. So the difference is
the cost of our pipeline.

--files makes another table, of the files that `transduce export RUN --to engine` writes. It has a row for each run, or
the reason why there is no file. A row says how many of --sentences test lines have the same output as PyTorch in
float32, by the run's own search; the scores in int8, with their differences from PyTorch's; lines a second in batches;
and the sizes of the files. A language model scores its lines.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated, Any, cast

from peers.programs.translator import translate
from peers.sizes import LONGEST
from report import Report, columns, row, titled

import transduce
from transduce.answers.transducer import Transducer
from transduce.compute.precision import Precision
from transduce.core.errors import UserError
from transduce.core.protocols import Deriving, Framewise, Joint, Parallel, Search, can
from transduce.core.types import Example
from transduce.runs.manifest import Manifest, checksum, is_export
from transduce.runs.run import Run
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.wings.counted.phrases.search.stack import StackSearch
from transduce.wings.ctc.search.best_path import BestPath
from transduce.wings.ctc.search.prefix_beam import PrefixBeam
from transduce.wings.engines.engine_files import FASTEST, open_file
from transduce.wings.engines.export.checked_export import export_run
from transduce.wings.engines.export.engine import compared_content

BATCH = 64
LEAST = 0.5  # least seconds of a measurement
ENGINES, PRECISIONS = ("native", "onnx", "ctranslate2"), ("float32", "int8")
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
TORCH = "torch float32"
PEER = "ctranslate2 int8"
OWN = f"{PEER}, own API"
OURS = "native int8"
Decode = Callable[[Sequence[str], Any, int], list[str]]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Column:
    """A column of the table: a search, the batch size, and how many sentences it reads."""

    name: str
    search: Any
    batch: int
    count: int


@dataclass
class Measured:
    """The result of a run. ``speeds`` has sentences a second by engine, column and round, and ``outputs`` has the
    outputs of the first round. ``quality`` has the findings of each export's check, and ``refused`` the reason why an
    engine cannot run the model.
    """

    columns: Sequence[Column]
    quality: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    speeds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    outputs: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def ratios(self, engine: str, base: str) -> list[str]:
        """How many times as fast as ``base`` the engine is in each column."""
        return [
            f"{median(one / other for one, other in zip(mine, self.speeds[base][name], strict=True)):.2f}"
            for name, mine in self.speeds[engine].items()
        ]


def exports(run: Path, folder: Path, engines: Sequence[str], found: Measured) -> dict[str, Path]:
    """The export for each engine and precision. Makes it unless the folder already has it for the same weights."""
    weights = checksum(Run.open(run).weights("best"))
    paths = {}
    for engine, precision in product(engines, PRECISIONS):
        name, path = f"{engine} {precision}", folder / f"{engine}-{precision}"
        try:
            if not is_export(path) or Manifest.read(path).weights != weights:
                _, compared = export_run(run, engine, path, precision=precision)
                print(f"{run.name}, {name}: {compared}", flush=True)
        except UserError as error:
            found.refused[name] = " ".join(str(error).split()).replace("|", "/").split("; export with")[0]
            continue
        paths[name] = path
        found.quality[name] = quality(Manifest.read(path).parity)
    return paths


def quality(parity: Mapping[str, Any]) -> str:
    """The findings of an export's check: its scores with their differences from PyTorch's, and the equal outputs."""
    scores = [f"{name} {mine:.2f} ({mine - torch:+.2f})" for name, (torch, mine) in parity.get("scores", {}).items()]
    return ", ".join([*scores, f"{parity['equal']:,} of {parity['sources']:,} equal"])


def text_to_text(transducer: Transducer) -> Decode:
    def decode(sources: Sequence[str], search: Any, batch: int) -> list[str]:
        return [outputs[0].text for outputs in transducer.predict(sources, search, batch)]

    return decode


def own_api(transducer: Transducer) -> Decode:
    """CTranslate2's ``translate_batch`` alone, with the options that the engine gives it. ``sources`` are tokens."""
    translator = cast(Any, transducer.model).translator.engine

    def decode(sources: Sequence[Any], search: Any, batch: int) -> list[str]:
        translate(translator, sources, getattr(search, "size", 1), batch, LONGEST)
        return []

    return decode


def tokens(transducer: Transducer, sources: Sequence[str]) -> list[list[str]]:
    from transduce.core.types import SPECIALS

    rows = transducer.source_tokenizer.encode(sources)
    return [[SPECIALS[i] if i < len(SPECIALS) else str(i) for i in row] for row in rows]


def searches(transducer: Transducer) -> dict[str, Any]:
    kind = type(transducer.model)
    if can(kind, Framewise) and not can(kind, Joint):
        return {"greedy": BestPath(), "beam 5": PrefixBeam(5, weight=0.0)}
    if can(kind, Parallel):
        return {"greedy": LengthBeam(1), "beam 5": LengthBeam(5)}
    if can(kind, Deriving):
        return {"greedy": StackSearch(1, pool=1), "beam 5": StackSearch()}
    return {"greedy": Greedy(LONGEST), "beam 5": Beam(5, max_length=LONGEST)}


def sentences_a_second(decode: Decode, sources: Sequence[Any], column: Column, clock: Clock) -> tuple[float, list[str]]:
    """The speed, and the outputs. Repeats the search until ``LEAST`` seconds have passed."""
    began, times = clock(), 0
    while True:
        found = decode(sources, column.search, column.batch)
        times += 1
        seconds = clock() - began
        if seconds >= LEAST:
            return times * len(sources) / seconds, found


def measure(
    found: Measured, engines: dict[str, Decode], given: dict[str, Sequence[Any]], rounds: int, clock: Clock
) -> None:
    """Adds the speeds and the outputs of all engines."""
    found.speeds = {name: {each.name: [] for each in found.columns} for name in engines}
    found.outputs = {name: {} for name in engines}
    for name, decode in engines.items():  # a warm-up, because the first call prepares kernels and buffers
        for column in found.columns:
            decode(given[name][:8], column.search, min(column.batch, 8))
    for number in range(rounds):
        for column in found.columns:
            for name in list(engines)[:: -1 if number % 2 else 1]:
                speed, outputs = sentences_a_second(engines[name], given[name][: column.count], column, clock)
                found.speeds[name][column.name].append(speed)
                found.outputs[name].setdefault(column.name, outputs)
        print(f"round {number + 1} of {rounds} is done, load {os.getloadavg()[0]:.1f}", flush=True)


@dataclass(frozen=True)
class Asked:
    """How runs are measured: ``sentences`` in batches, and ``single`` ones in sequence."""

    rounds: int
    sentences: int
    single: int
    clock: str
    engines: Sequence[str]
    exports: Path | None
    threads: int


def measured(run: Path, asked: Asked) -> Measured:
    """Measures all engines of a run."""
    precisions: tuple[Precision, ...] = ("float32", "bfloat16")
    loaded = {f"torch {each}": transduce.load(run, device="cpu", precision=each) for each in precisions}
    places = {"batches": (BATCH, asked.sentences), "in sequence": (1, asked.single)}
    ways = searches(loaded[TORCH])
    found = Measured([Column(f"{way}, {at}", ways[way], *places[at]) for at in places for way in ways])
    folder = run / "exports" / "benchmark" if asked.exports is None else asked.exports / run.name
    loaded |= {name: transduce.load(path) for name, path in exports(run, folder, asked.engines, found).items()}
    engines = {name: text_to_text(each) for name, each in loaded.items()}
    sources = [each.source for each in Run.open(run).examples("test")][: max(asked.sentences, asked.single)]
    given: dict[str, Sequence[Any]] = dict.fromkeys(loaded, sources)
    if PEER in loaded:
        engines[OWN], given[OWN] = own_api(loaded[PEER]), tokens(loaded[PEER], sources)
    measure(found, engines, given, asked.rounds, CLOCKS[asked.clock])
    return found


def table(heading: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["", f"## {heading}", *columns(row(heads)), *map(row, rows)]


def tables(run: str, found: Measured) -> list[str]:
    heads = ["engine", *(each.name for each in found.columns)]
    rows = [
        [name, *(f"{median(each):,.1f} ({ratio}×)" for each, ratio in zip(speeds.values(), ratios, strict=True))]
        for name, speeds in found.speeds.items()
        for ratios in [found.ratios(name, TORCH)]
    ]
    lines = table(f"{run}: sentences a second (times {TORCH})", heads, rows)
    if PEER in found.speeds:
        lines += table(f"{run}: times {PEER}", heads, ([name, *found.ratios(name, PEER)] for name in found.speeds))
    rows = []
    for name, texts in found.outputs.items():
        if name != OWN:
            pairs = [(texts[head], found.outputs[TORCH][head]) for head in heads[1:]]
            counts = [f"{sum(a != b for a, b in zip(*pair, strict=True)):,} of {len(pair[0]):,}" for pair in pairs]
            rows.append([name, *counts, found.quality.get(name, "")])
    heads = [*heads, "its search, on validation"]
    lines += table(f"{run}: outputs that differ from {TORCH}, and the check of the export", heads, rows)
    if found.refused:
        lines += table(f"{run}: engines that refuse it", ["engine", "reason"], found.refused.items())
    return lines


def summary(every: Mapping[str, Measured]) -> list[str]:
    """The table of our own engine in int8 for all runs."""
    first = next(iter(every.values()))
    rows = [
        [run, *(found.ratios(OURS, TORCH) if OURS in found.speeds else ["refused"] * len(found.columns))]
        for run, found in every.items()
    ]
    return table(f"{OURS}: times {TORCH}", ["run", *(each.name for each in first.columns)], rows)


# ---------------------------------------------------------------- the files of runs

FILE_COLUMNS = ("run", "model", "search", "float32, beside PyTorch", "int8, beside PyTorch", "lines a second", "MB")
LINES = "lines"  # the only column of the speeds


def file_row(run: Path, asked: Asked) -> list[str]:
    """The row of a run. Its cells after the search are the reason if the engine refuses it."""
    opened = Run.open(run)
    model, search = opened.settings["model"], opened.complete("search", Search)["type"]
    parts = [model[side]["type"] for side in ("encoder", "decoder") if isinstance(model.get(side), dict)]
    start = [run.name, f"{model['type']}, {'-'.join(dict.fromkeys(parts))}" if parts else model["type"], search]
    sample = opened.examples("test")[: asked.sentences]
    try:
        files = {each: compared_content(opened, "best", sample, each) for each in PRECISIONS}
    except UserError as error:
        return [
            *start,
            f"refused: {' '.join(str(error).split()).replace('|', '/').split('; predict with')[0]}",
            "–",
            "–",
            "–",
        ]
    checks = [str(compared) for _, compared in files.values()]
    speeds = [f"{each} {speed}" for each, speed in file_speeds(opened, files, sample, asked).items()]
    sizes = " / ".join(f"{len(content) / 1e6:.1f}" for content, _ in files.values())
    return [*start, *checks, "; ".join(speeds), sizes]


def file_speeds(
    run: Run, files: Mapping[str, tuple[bytes, Any]], sample: Sequence[Example], asked: Asked
) -> dict[str, str]:
    """Lines a second of PyTorch and of each file, and how many times as fast as PyTorch the file is."""
    transducer, texts = run.transducer("best"), [each.source for each in sample]
    engines: dict[str, Decode] = {TORCH: text_to_text(transducer)}
    if not transducer.conditional:
        texts = [each.references[0] if each.references else each.source for each in sample]
        engines[TORCH] = lambda lines, _, batch: [
            each.text for each in transducer.score([("", text) for text in lines], batch)
        ]
    for precision, (content, _) in files.items():
        model = open_file(content, asked.threads)
        answer = model.answer_texts if transducer.conditional else model.engine.score
        engines[precision] = partial(answered, answer)
    found = Measured([Column(LINES, None, BATCH, len(texts))])
    measure(found, engines, dict.fromkeys(engines, texts), asked.rounds, CLOCKS[asked.clock])
    return {
        name: f"{median(speeds[LINES]):,.1f} ({found.ratios(name, TORCH)[0]}×)"
        for name, speeds in found.speeds.items()
        if name != TORCH
    }


def answered(answer: Any, lines: Sequence[str], _: Any, batch: int) -> list[str]:
    return [each.best.text for each in answer(lines, min(batch, FASTEST))]


def show_files(runs: Sequence[Path], asked: Asked, report: Report) -> None:
    rows = list[list[str]]()
    for run in runs:
        rows.append(file_row(run, asked))
        head = [*titled("Files of the engine"), f"Medians of {asked.rounds} rounds."]
        lines = [*head, *table("Files of the engine (lines a second: times PyTorch in float32)", FILE_COLUMNS, rows)]
        report.show(lines, [run])


def main(
    report: Report,
    runs: Sequence[Path],
    *,
    rounds: int = 3,
    sentences: Annotated[int, "of the test split, in batches of 64"] = 500,
    single: Annotated[int, "of the test split, one after the other"] = 40,
    clock: Annotated[str, CLOCKS] = "wall",
    engines: Annotated[str, "apart from PyTorch"] = ",".join(ENGINES),
    exports: Annotated[Path | None, "a folder for them"] = None,
    files: Annotated[bool, "the table of the files of the engine"] = False,
) -> None:
    asked = Asked(rounds, sentences, single, clock, engines.split(","), exports, report.threads)
    if files:
        show_files(runs, asked, report)
        return
    before, every = os.getloadavg()[0], dict[str, Measured]()
    for run in runs:
        every[run.name] = measured(run, asked)
        load = f"Load average {before:.1f} before, {os.getloadavg()[0]:.1f} after; this process alone makes 1."
        parts = [line for name, found in every.items() for line in tables(name, found)]
        head = [*titled("Engines, the same weights"), f"Medians of {rounds} rounds. {load}"]
        report.show([*head, *summary(every), *parts], [run])
