"""Exports a run to a folder that has everything for prediction with another engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.files import replace_folder
from transduce.core.protocols import Model, Search
from transduce.core.registry import model_name
from transduce.core.types import Example, Padded
from transduce.data.corpora import DataError
from transduce.metrics.base import metric
from transduce.runs.layout import CONFIG, TOKENIZERS, Checkpoint
from transduce.runs.manifest import EXPORTS, FOLDER, Manifest, checksum, foreign_files, is_export
from transduce.runs.run import Run
from transduce.search.greedy import Greedy
from transduce.wings.engines.export.ctranslate2 import write_ctranslate2
from transduce.wings.engines.export.engine import export_engine
from transduce.wings.engines.export.graphs import CAPACITY, HYPOTHESES
from transduce.wings.engines.export.marian import MarianModel, write_marian
from transduce.wings.engines.export.native import write_native
from transduce.wings.engines.export.onnx import LONGER, write_onnx
from transduce.wings.engines.export.parity import Parity, Quality, check, compare, compare_quality
from transduce.wings.engines.export.web import export_web
from transduce.wings.engines.opening import open_model

SAMPLE = 32  # sources that both engines decode
MEASURED = 500  # the same with int8, whose scores are compared: few sentences give a rough score
PRECISIONS = ("float32", "int8")
WRITERS = {"native": write_native, "ctranslate2": write_ctranslate2}  # from the settings and the parameters
ONE_FILE, ONE_FILE_NAME = "engine", "model.engine"  # the engine whose export is no folder
WEB = "web"  # a page around such a file
OWN_SEARCHES = ("native", "onnx")  # these engines run our own searches
ROWS = 5  # of the example that graphs are traced with


def export_run(
    path: str | Path,
    to: str = "onnx",
    out: str | Path | None = None,
    checkpoint: Checkpoint = "best",
    sources: Sequence[str] | None = None,
    precision: str = "float32",
    single: bool = False,
    shortlist: bool = False,
) -> tuple[Path, Parity | Quality]:
    """Writes a run's model for another engine. Returns the folder, and how its outputs compare with PyTorch's.

    ``path`` is the run directory. ``to`` is "native", "onnx", "ctranslate2", "marian" for Hugging Face's transformers,
    or "engine": then ``out`` is one file (``export.engine``), by default exports/model.engine of the run. "web" makes a
    new folder with a page, or one page if ``single`` (``export.web``); by default exports/web of the run. These two
    search among the words of the run's ``shortlist`` if that is asked for. Otherwise ``out`` is by default the folder
    exports/onnx (or exports/ctranslate2, and so on) of the run directory; an export in it is replaced. Both engines
    decode a sample: the first 32 of ``sources``, by default of the different sources of the run's validation split.
    Unless our own searches run the engine, both search greedily.
    Raises UserError if the model cannot be exported, if ``out`` has files that are no part of an export, or if the
    outputs differ (``parity.check``); then nothing is written. Raises MissingPackageError if a package of the engine is
    missing.

    With ``precision`` int8 the weights of products become 8-bit integers, and outputs may differ. The sample is then
    the first 500 of ``sources`` or of the validation split. The result has the scores of the run's metrics for both
    engines, if the sample has references (``sources`` have none), and the number of equal outputs.
    """
    if to not in (*EXPORTS, ONE_FILE, WEB):
        raise UserError(f"--to {to!r}: {', '.join((*EXPORTS, ONE_FILE, WEB))} were expected")
    if single and to != WEB:
        raise UserError(f"--single, --to {to}: only an export to web can be one page; leave --single out")
    if shortlist and to not in (ONE_FILE, WEB):
        raise UserError(f"--shortlist, --to {to}: a list is in the file of an engine and in a page; leave it out")
    if to == "marian" and precision != "float32":
        raise UserError(f"--precision {precision}: an export to marian has float32 numbers; leave it out")
    if precision not in PRECISIONS:
        raise UserError(f"precision {precision!r}: {' or '.join(PRECISIONS)} was expected")
    run = Run.open(path)
    transducer = run.transducer(checkpoint)
    count = SAMPLE if precision == "float32" else MEASURED
    sample = (_sample(run, count, to) if sources is None else [Example(source) for source in sources])[:count]
    if not sample:
        raise UserError("there is no source to compare the engines with: give a file of sources with --sample")
    if to == ONE_FILE:
        file = run.path / FOLDER / ONE_FILE_NAME if out is None else Path(out)
        return export_engine(run, file, checkpoint, sample, precision, shortlist)
    folder = run.path / FOLDER / to if out is None else Path(out)
    if to == WEB:
        return export_web(run, folder, checkpoint, sample, precision, single, shortlist)
    _check_free(folder)
    found: list[Parity | Quality] = []

    def fill(scratch: Path) -> None:
        if to == "onnx":
            first = [each.source for each in sample[:SAMPLE]]
            notes = write_onnx(transducer.model, example(transducer, first), scratch, precision)
        elif to in WRITERS:
            notes = WRITERS[to](transducer.model, run.complete("model", Model), scratch, precision)
        else:
            tables = run.complete("model", Model), run.complete("search", Search)
            notes = write_marian(transducer.model, *tables, run.tokenizers, scratch)
        weights = checksum(run.weights(checkpoint))
        manifest = Manifest(to, precision, weights, checkpoint, notes)
        model = MarianModel(scratch) if to == "marian" else open_model(scratch, manifest)
        opened = replace(transducer, model=model)
        # the beams of other engines end earlier, so greedy search is what must agree
        pair = (transducer, opened)
        ours, theirs = pair if to in OWN_SEARCHES else (replace(each, search=_greedy(each)) for each in pair)
        found.append(_compared(ours, theirs, sample, precision, run.settings.get("metrics", ())))
        if isinstance(found[0], Parity):
            check(found[0], to)
        (scratch / CONFIG).write_text(config.write(run.settings), encoding="utf-8")
        (scratch / TOKENIZERS).mkdir()
        run.tokenizers.save(scratch / TOKENIZERS)
        replace(manifest, parity=asdict(found[0])).write(scratch)

    replace_folder(folder, fill)
    return folder, found[0]


def _greedy(transducer: Transducer) -> Greedy:
    return Greedy(max_length=getattr(transducer.search, "max_length", 200))


def _compared(
    transducer: Transducer, exported: Transducer, sample: Sequence[Example], precision: str, metrics: Sequence[str]
) -> Parity | Quality:
    """How the engines compare: by their outputs in float32, otherwise by their scores. Raises UserError if the engine
    cannot run the graphs, for other sizes than the example has.
    """
    try:
        if precision != "float32":
            return compare_quality(transducer, exported, sample, [metric(name) for name in metrics])
        return compare(transducer, exported, [each.source for each in sample])
    except UserError:
        raise
    except Exception as error:  # onnxruntime's own errors have no common class
        raise UserError(
            f"this {model_name(type(transducer.model))} model cannot be exported: its graphs fail on other sizes than "
            f"the example's ({' '.join(str(error).split())[:300]}); predict with --engine torch"
        ) from error


def example(transducer: Transducer, sources: Sequence[str]) -> Padded:
    """A batch of sources to trace graphs with. Its width differs from every size in the model, because the exporter
    takes equal sizes for the same axis.
    """
    rows = [source.row for source in transducer.read(sources)]
    rows = sorted(rows, key=len)[-ROWS:] if len(rows) >= ROWS else (rows * ROWS)[:ROWS]
    batch = Padded.of(rows)
    taken = {size for each in transducer.model.parameters() for size in each.shape} | {ROWS, HYPOTHESES, CAPACITY}
    width = batch.values.shape[1] + LONGER
    while width in taken or width + LONGER in taken:
        width += 1
    spare = width - batch.values.shape[1]
    padding = (*(0, 0) * (batch.values.ndim - 2), 0, spare)
    return Padded(torch.nn.functional.pad(batch.values, padding), batch.lengths)


def _sample(run: Run, count: int, to: str) -> list[Example]:
    """The first ``count`` examples with different sources of the validation split. A language model has no sources: for
    the sample of float32, one empty source; otherwise the first examples. One file and a page are compared by these,
    too.
    """
    if not run.tokenizers.conditional and count == SAMPLE and to not in (ONE_FILE, WEB):
        return [Example("")]
    try:
        examples = run.examples("valid")
    except DataError as error:
        raise UserError(f"no sample to compare the engines with: {error}; or give --sample FILE") from error
    if not run.tokenizers.conditional:
        return examples[:count]
    return list({each.source: each for each in reversed(examples)}.values())[::-1][:count]


def _check_free(folder: Path) -> None:
    """Raises UserError if the folder is not empty and has no export.json, or if it has files that the export did not
    write.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not is_export(folder):
        raise UserError(f"{folder} exists and is no export, so it is not replaced: name another folder with --out")
    if is_export(folder) and (others := foreign_files(folder)):
        raise UserError(
            f"{folder} would be replaced, and has files that are no part of the export: {', '.join(others[:5])}; move "
            "them elsewhere, or name another folder with --out"
        )
