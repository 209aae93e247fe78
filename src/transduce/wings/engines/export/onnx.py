"""Writes a model's graphs as ONNX files."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transduce.core.config import Table
from transduce.core.errors import MissingPackageError, UserError
from transduce.core.registry import model_name
from transduce.core.types import Padded
from transduce.wings.engines.export.graphs import Axes, Graph, graphs_of
from transduce.wings.engines.export.quantisation import quantise

OPSET = 20
LONGER = 4  # more positions of padding in the second example


def write_onnx(model: nn.Module, source: Padded, folder: Path, precision: str = "float32") -> Table:
    """Writes a file NAME.onnx into ``folder`` for each graph of a model. Returns the notes for export.json: the model's
    kind, and the notes of each graph by name.

    ``source`` is an example of several rows. ``precision`` is float32 or int8 (``quantisation.quantise``); with int8,
    the notes of a graph count its quantised matrices. Raises UserError for a model that cannot be a graph, and
    MissingPackageError if onnx, onnxruntime or onnxscript is missing.
    """
    _check_installed()
    longer = Padded(_wider(source.values, source.values.shape[1] + LONGER), source.lengths)
    try:
        kind, graphs = graphs_of(model, source, longer)
        notes: Table = {"model": kind}
        for name, graph in graphs.items():
            path = folder / f"{name}.onnx"
            _write(graph, path)
            notes[name] = graph.notes if precision == "float32" else graph.notes | {"quantised": quantise(path)}
    except RuntimeError as error:
        raise UserError(
            f"this {model_name(type(model))} model cannot be exported to ONNX: {_reason(error)}; predict with "
            "--engine torch"
        ) from error
    return notes


def _write(graph: Graph, path: Path) -> None:
    from transduce.wings.engines.export.operators import translations

    dynamic = torch.export.Dim.DYNAMIC
    shapes = tuple(_dims(axes, dynamic) for axes in graph.varying)
    with _quiet(), torch.no_grad():
        program: Any = torch.onnx.export(
            graph.module,
            graph.inputs,
            dynamo=True,
            dynamic_shapes=shapes,
            opset_version=OPSET,
            custom_translation_table=translations(),
            verbose=False,
        )
        program.save(str(path), external_data=False)


def _dims(axes: Axes | list[Axes], dynamic: object) -> object:
    if isinstance(axes, list):
        return [_dims(each, dynamic) for each in axes]
    return dict.fromkeys(axes, dynamic)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A context in which nothing is printed, warnings are ignored, and log messages up to the level WARNING
    are dropped.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        outputs = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with warnings.catch_warnings(), outputs[0], outputs[1]:
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _reason(error: BaseException) -> str:
    """Why PyTorch makes no graph, in one line: a sentence for the reason that is frequent. Otherwise the summary in the
    exporter's report, or the whole message if there is none, at most 400 characters.
    """
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    if "GuardOnDataDependentSymNode" in text:
        place = re.search(r'The following call raised this error:\s+File ".*?(transduce/[^"]+)", line (\d+)', text)
        where = f" ({place[1]}, line {place[2]})" if place else ""
        return f"a size or a branch of its computation depends on the values of the source{where}"
    found = re.search(r"## Exception summary\s+(.*?)(?:\n\n|$)", text, re.DOTALL)
    return " ".join((found[1] if found else text).split())[:400]


def _wider(values: torch.Tensor, size: int) -> torch.Tensor:
    return torch.nn.functional.pad(values, (*(0, 0) * (values.ndim - 2), 0, size - values.shape[1]))


def _check_installed() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            f"an export to ONNX needs {error.name}, which is not installed: pip install 'transduce[onnx]'"
        ) from error
