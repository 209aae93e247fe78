"""Which families can be exported, to which engine, and how near is each export to PyTorch?

    python benchmarks/exports.py [--only REGEX] [--out benchmarks/results/exports.md] [--record FILE.json]

Builds a small random model of each family of tests/families.py whose name matches REGEX, writes it for each engine, and
scores PyTorch's best outputs for four sources with both. A cell has the largest difference of a token's
log-probability, or the reason of the refusal. Int8 also has the number of matrices that are quantised: in models as
small as these, most are too small. "Speed" is PyTorch's processor time divided by onnxruntime's in float32, for the
same search: for one source, and for 32 in a batch; the median of three rounds, in which the two take turns, one thread.
Such small models spend their time on calls of operators, and not on products. A family takes about ten seconds.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from report import Report, add_options, machine

from transduce import config
from transduce.engines.ctranslate2 import open_ctranslate2
from transduce.engines.manifest import Manifest
from transduce.engines.native.opening import open_native
from transduce.engines.onnx import open_onnx
from transduce.errors import UserError
from transduce.export.ctranslate2 import write_ctranslate2
from transduce.export.native.writing import write_native
from transduce.export.onnx import write_onnx
from transduce.export.quantisation import quantise
from transduce.protocols import Chain, Model, Parallel, can
from transduce.search.greedy import Greedy
from transduce.search.labels import LabelSearch
from transduce.search.length_beam import LengthBeam
from transduce.search.viterbi import Viterbi
from transduce.types import Padded

ROUNDS, MANY = 3, 32  # of the measured speed, and the sources of its batch
EXAMPLE, GIVEN = [11, 3, 4, 7, 5], [5, 9, 2, 4]  # lengths of the sources that are traced, and of those that are scored


def difference(model: Any, exported: Any, given: Padded, search: Any) -> str:
    """The largest difference of a token's log-probability, over PyTorch's best outputs for the sources."""
    target = Padded.of([found[0].tokens for found in search(model, given)])
    ours = search.force(model, given, target)
    own = hasattr(exported, "force")
    theirs = exported.force(given, target) if own else search.force(exported, given, target)
    pairs = [
        pair
        for one, two in zip(ours, theirs, strict=True)
        for pair in zip(one.token_log_probs, two.token_log_probs, strict=True)
    ]
    return f"{max(abs(one - two) for one, two in pairs):.0e}"


def processor_seconds(model: Any, given: Padded, search: Any) -> float:
    began = time.process_time()
    search(model, given)
    return time.process_time() - began


def speed(model: Any, exported: Any, given: Padded, search: Any) -> str:
    """PyTorch's processor time divided by the export's, the median of ``ROUNDS``."""
    for each in (model, exported):  # kernels and buffers of the first call
        search(each, given)
    ratios = [
        processor_seconds(model, given, search) / processor_seconds(exported, given, search) for _ in range(ROUNDS)
    ]
    return f"{median(ratios):.1f}"


def search_for(model: Any) -> Any:
    kind = type(model)
    if can(kind, Chain):
        return Viterbi()
    if can(kind, Parallel):
        return LengthBeam(size=2) if hasattr(kind, "write") else LabelSearch()
    return Greedy(max_length=8)


def cells(families: Any, table: config.Table, folder: Path) -> list[str]:
    """The cells of a family: ONNX in float32, its speed for one source and for many, ONNX in int8, our own library in
    both, and CTranslate2.
    """
    model, search = families.build(table, dtype=torch.float32), search_for(families.build(table))
    given = families.sources(GIVEN)
    onnx32, onnx8, ct2 = (folder / name for name in ("onnx", "int8", "ctranslate2"))
    for path in (onnx32, ct2):
        path.mkdir()
    try:
        notes = write_onnx(model, families.sources(EXAMPLE, width=11), onnx32)
        opened = open_onnx(onnx32, Manifest("onnx", "float32", "", "", notes))
        found = [difference(model, opened, given, search)]
        with torch.no_grad():
            found += [speed(model, opened, families.sources(each), search) for each in (GIVEN[:1], GIVEN * (MANY // 4))]
        shutil.copytree(onnx32, onnx8)
        count = sum(quantise(path) for path in sorted(onnx8.glob("*.onnx")))
        opened = open_onnx(onnx8, Manifest("onnx", "int8", "", "", notes))
        found.append(f"{difference(model, opened, given, search)}, {count} matrices" if count else "no matrix")
    except Exception as error:  # onnxruntime's own errors have no common class
        why = reason(error) if isinstance(error, UserError) else f"fails: {reason(error)}"
        found = [why, "", "", why]
    settings = config.resolve(table, Model, families.facts(table), "model")
    for precision in ("float32", "int8"):
        try:
            notes = write_native(model, settings, folder, precision)
            opened_native = open_native(folder, Manifest("native", precision, "", "", notes))
            found.append(difference(model, opened_native, given, search))
        except UserError as error:
            found.append(reason(error))
    try:
        with torch.no_grad():
            write_ctranslate2(model, settings, ct2)
        opened_ct2 = open_ctranslate2(ct2, Manifest("ctranslate2", "float32", "", ""))
        found.append(difference(model, opened_ct2, given, search))
    except UserError as error:
        found.append(reason(error))
    return found


def reason(error: Exception) -> str:
    return " ".join(str(error).split()).replace("|", "/").split("; export with")[0][:110]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX")
    add_options(parser)
    asked = parser.parse_args()
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    families = importlib.import_module("families")
    groups = ("FAMILIES", "SIGNALS", "COUNTED", "PARALLEL", "CHAINS", "NUMBERS")
    every: dict[str, config.Table] = {}
    for group in groups:
        every |= getattr(families, group)
    torch.set_num_threads(1)
    lines = [
        "# Exports: each family, the largest difference of a token's log-probability",
        "",
        machine(),
        "",
        "| family | onnx, float32 | speed, one | speed, batch | onnx, int8 | native, float32 | native, int8 "
        "| ctranslate2 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    report = Report.asked(asked)
    for name, table in every.items():
        if re.search(asked.only, name):
            with tempfile.TemporaryDirectory() as folder:
                lines.append(f"| {name} | {' | '.join(cells(families, table, Path(folder)))} |")
            print(lines[-1], flush=True)
            report.write(lines)


if __name__ == "__main__":
    main()
