"""Which families can be exported to which engine, how close is each export to PyTorch, and how fast is it?

Builds a random model of each family of tests/families.py whose name matches REGEX, and writes it for each engine. The
widths are --scale times as large as in the tests. A cell of the table has the largest difference of a token's
log-probability, over PyTorch's best outputs for four sources. One of them is longer than the example of the export.
Then the cell has two speeds relative to PyTorch in float32: for one source, and for a batch of 32. A speed is PyTorch's
processor time divided by the engine's for the same search. It is the median of three rounds on one thread, in which all
engines take turns. CTranslate2 searches by itself and has no speed here. The word "no" and a number mark a refusal; the
second table has the reasons.

The vocabularies have 9 and 11 tokens. So the speeds show the layers, without a large readout. benchmarks/engines.py
times whole models with their data. All families together take a quarter of an hour.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import torch
from report import Report, columns, row, titled

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Chain, Model, Parallel, can
from transduce.core.types import Padded
from transduce.runs.manifest import Manifest
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.wings.engines.ctranslate2 import open_ctranslate2
from transduce.wings.engines.export.ctranslate2 import write_ctranslate2
from transduce.wings.engines.export.onnx import write_onnx
from transduce.wings.engines.export.parity import TOLERANCE
from transduce.wings.engines.export.quantisation import quantise
from transduce.wings.engines.native.model import native_model
from transduce.wings.engines.onnx import open_onnx
from transduce.wings.labels.search import LabelSearch
from transduce.wings.labels.viterbi import Viterbi

GROUPS = ("FAMILIES", "SIGNALS", "COUNTED", "PARALLEL", "CHAINS", "NUMBERS", "ALIGNERS")
ENGINES = ("onnx float32", "onnx int8", "native float32", "native int8", "ctranslate2 float32")
ROUNDS, MANY, LEAST = 3, 32, 0.02  # of the speed: rounds, sources of a batch, and least seconds of a measurement
EXAMPLE, GIVEN = [11, 3, 4, 7, 5], [5, 14, 2, 4]  # lengths of the sources to trace, and of the sources to score
WIDTHS = ("width", "embedding_width", "hidden", "feedforward", "widths")
BEAMS = ("joint-ngram", "noisy-channel")  # their ``width`` is the width of a search


def scaled(table: Any, scale: int) -> Any:
    """The table with larger widths."""
    if isinstance(table, list):
        return [scaled(each, scale) for each in table]
    if not isinstance(table, dict) or table.get("type") in BEAMS:
        return table
    return {name: (wider if name in WIDTHS else scaled)(each, scale) for name, each in table.items()}


def wider(width: Any, scale: int) -> Any:
    """A width, a list of widths, or a table in its place (a gated ``feedforward``)."""
    if isinstance(width, int):
        return width * scale
    return [each * scale for each in width] if isinstance(width, list) else scaled(width, scale)


def search_for(model: Any) -> Any:
    kind = type(model)
    if can(kind, Chain):
        return Viterbi()
    if can(kind, Parallel):
        return LengthBeam(size=2) if hasattr(kind, "write") else LabelSearch()
    return Greedy(max_length=8)


def opened(model: Any, settings: config.Table, example: Padded, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The exported models by engine, and the reasons of the engines that refuse the model."""

    def to_onnx() -> Any:
        notes = write_onnx(model, example, folder / "onnx")
        return open_onnx(folder / "onnx", Manifest("onnx", "float32", "", "", notes)), notes

    def to_ctranslate2() -> Any:
        write_ctranslate2(model, settings, folder / "ctranslate2")
        return open_ctranslate2(folder / "ctranslate2", Manifest("ctranslate2", "float32", "", ""))

    for name in ("onnx", "ctranslate2"):
        (folder / name).mkdir()
    found, refused = dict[str, Any](), dict[str, str]()
    attempt("onnx float32", to_onnx, found, refused)
    if "onnx float32" in found:
        found["onnx float32"], notes = found["onnx float32"]
        shutil.copytree(folder / "onnx", folder / "onnx8")
        if sum(quantise(path) for path in sorted((folder / "onnx8").glob("*.onnx"))):
            found["onnx int8"] = open_onnx(folder / "onnx8", Manifest("onnx", "int8", "", "", notes))
        else:
            refused["onnx int8"] = "the model has no matrix to quantise: every product is in a fused or convolved layer"
    else:
        refused["onnx int8"] = refused["onnx float32"]
    for precision in ("float32", "int8"):
        attempt(f"native {precision}", partial(native_model, model, settings, precision), found, refused)
    attempt("ctranslate2 float32", to_ctranslate2, found, refused)
    return found, refused


def attempt(engine: str, write: Callable[[], Any], found: dict[str, Any], refused: dict[str, str]) -> None:
    try:
        with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):  # PyTorch's exporter prints graphs that fail
            found[engine] = write()
    except UserError as error:
        refused[engine] = " ".join(str(error).split()).replace("|", "/")
        for end in ("; export with", "; predict with"):
            refused[engine] = refused[engine].split(end)[0].split("cannot be exported to ONNX: ")[-1]


def difference(model: Any, exported: Any, given: Padded, search: Any) -> float:
    """The largest difference of a token's log-probability, over PyTorch's best outputs for the sources."""
    target = Padded.of([found[0].tokens for found in search(model, given)])
    ours = search.force(model, given, target)
    own = hasattr(exported, "force")
    theirs = exported.force(given, target) if own else search.force(exported, given, target)
    pairs: list[tuple[float, float]] = [
        pair
        for one, two in zip(ours, theirs, strict=True)
        for pair in zip(one.token_log_probs, two.token_log_probs, strict=True)
    ]
    return max(abs(one - two) for one, two in pairs)


def find(model: Any, given: Padded, search: Any) -> Any:
    """The hypotheses that a search finds, or that an engine finds which searches by itself."""
    return model.search(search, given) if hasattr(model, "search") else search(model, given)


def processor_seconds(model: Any, given: Padded, search: Any) -> float:
    """The mean processor time of one search, which is repeated until ``LEAST`` seconds have passed."""
    began, times = time.process_time(), 0
    while True:
        find(model, given, search)
        times += 1
        seconds = time.process_time() - began
        if seconds >= LEAST:
            return seconds / times


def speeds(model: Any, exported: dict[str, Any], given: Padded, search: Any) -> dict[str, str]:
    """PyTorch's processor time divided by each engine's, the median of ``ROUNDS``."""
    rounds = []
    for each in (model, *exported.values()):  # a warm-up, because the first call prepares kernels and buffers
        find(each, given, search)
    for _ in range(ROUNDS):
        torch_seconds = processor_seconds(model, given, search)
        rounds.append({name: torch_seconds / processor_seconds(each, given, search) for name, each in exported.items()})
    return {name: f"{median(each[name] for each in rounds):.1f}" for name in exported}


def cells(families: Any, table: config.Table, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The cells of a family by engine, and the reasons of the engines that refuse it."""
    model = families.build(table, dtype=torch.float32)
    settings = config.resolve(table, Model, families.facts(table), "model")
    found, refused = opened(model, settings, families.sources(EXAMPLE, width=11), folder)
    if not found:
        return {}, refused
    search, shown = search_for(model), dict[str, str]()
    for engine, exported in list(found.items()):
        try:
            largest = difference(model, exported, families.sources(GIVEN), search)
        except Exception:  # onnxruntime's own errors have no common class
            largest = math.inf
        if largest == math.inf or ("float32" in engine and largest > TOLERANCE):
            refused[engine] = "the graph fails on a source that is longer than the example of the export"
            del found[engine]
        else:
            shown[engine] = f"{largest:.0e}"
    ours = {name: each for name, each in found.items() if not name.startswith("ctranslate2")}  # they have our searches
    with torch.no_grad():
        both = [speeds(model, ours, families.sources(each), search) for each in (GIVEN[:1], GIVEN * (MANY // 4))]
    return {
        name: "; ".join([shown[name], *(f"{each[name]}×" for each in both if name in each)]) for name in shown
    }, refused


def main(report: Report, *, only: Annotated[str, "REGEX"] = "", scale: Annotated[int, "of the widths"] = 16) -> None:
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    families = importlib.import_module("families")
    every: dict[str, config.Table] = {}
    for group in GROUPS:
        every |= getattr(families, group)
    reasons: dict[str, int] = {}
    rows: list[str] = []
    for name, table in every.items():
        if not re.search(only, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            shown, refused = cells(families, scaled(table, scale), Path(folder))
        numbers = {engine: reasons.setdefault(reason, len(reasons) + 1) for engine, reason in refused.items()}
        rows.append(row([name, *(shown.get(engine) or f"no ({numbers[engine]})" for engine in ENGINES)]))
        report.show(page(rows, reasons))


def page(rows: list[str], reasons: dict[str, int]) -> list[str]:
    return [
        *titled("Exports"),
        "## Families and engines: largest difference of a log-probability; times PyTorch in sequence; in batches",
        *columns(row(["family", *ENGINES])),
        *rows,
        "",
        "## Why an engine refuses",
        *columns("| number | reason |"),
        *(f"| {number} | {reason} |" for reason, number in reasons.items()),
    ]
