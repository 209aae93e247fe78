"""Quantises the weights of ONNX graphs to 8 bits, with a scale for each row of activations.

M rows of activations, K inputs, N outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from transduce.core.errors import UserError

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

LEAST = 64  # numbers of a matrix: smaller ones stay as they are
ZERO = 128  # the zero of activations: they are unsigned, because the fastest instruction wants one side unsigned
LARGEST = 127  # of the absolute values of an integer, on both sides
TINY = 1e-30  # added to the largest value of a row, so that a row of zeros is not divided by 0


def quantise(path: Path) -> int:
    """Replaces the products with constant matrices in the ONNX graph at ``path`` by products of integers. Returns the
    number of matrices that it quantised.

    A matrix [K, N] gets signed 8-bit integers and a scale for each column. Activations [..., K] are quantised when the
    graph runs, with a scale for each row: the largest absolute value becomes 127. So a row does not depend on the other
    rows of a batch, and the sums of integers are exact. Operators that hold their own matrices (LSTM, GRU, Conv),
    embeddings, and matrices of fewer than 64 numbers keep their float32 weights. All operators are of standard ONNX.

    Raises UserError if the file is no graph, or if the graph cannot be written.
    """
    import onnx
    from google.protobuf.message import Error  # type: ignore[import-untyped]
    from onnx import numpy_helper

    problems = (Error, ValueError, RuntimeError, onnx.checker.ValidationError)  # a graph above 2 GB is a ValueError
    try:
        model = onnx.load(str(path))
    except problems as error:
        raise UserError(f"{path} is no ONNX graph: {_line(error)}; export again") from error
    graph = model.graph
    weights = {each.name: each for each in graph.initializer}
    writer = _Writer()
    nodes: list[NodeProto] = []
    for node in graph.node:
        matrix_KN = _matrix(node, weights)
        nodes += [node] if matrix_KN is None else writer.product(node, matrix_KN)
    if not writer.matrices:
        return 0
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in writer.constants.items())
    used = {name for node in nodes for name in _names(node)} | {each.name for each in graph.output}
    kept = [each for each in graph.initializer if each.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    try:
        onnx.checker.check_model(model)
        onnx.save(model, str(path))
    except problems as error:
        raise UserError(f"{path} cannot be quantised: {_line(error)}; export it with --precision float32") from error
    return len(writer.matrices)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def integers(matrix_KN: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Signed 8-bit integers [K, N] and a scale for each column [N]. Their product is the matrix, each number within
    half a scale of its column. A column of zeros has the scale 1.
    """
    largest_N = np.abs(matrix_KN).max(0)
    scale_N = np.where(largest_N > 0, largest_N / LARGEST, 1).astype(np.float32)
    return np.rint(matrix_KN / scale_N).astype(np.int8), scale_N


class _Writer:
    """Writes the nodes of products. ``constants`` are the new constants by name. ``matrices`` are the names of the
    quantised ones. Products of the same activations share their integers.
    """

    def __init__(self) -> None:
        self.constants: dict[str, np.ndarray] = {
            "int8.axis": np.array([-1], np.int64),
            "int8.tiny": np.array(TINY, np.float32),
            "int8.step": np.array(1 / LARGEST, np.float32),
            "int8.offset": np.array(ZERO + 0.5, np.float32),  # the cast cuts: half more makes it round
            "int8.zero": np.array(ZERO, np.uint8),
        }
        self.matrices: set[str] = set()
        self._rows: set[str] = set()

    def product(self, node: NodeProto, matrix_KN: npt.NDArray[np.float32]) -> list[NodeProto]:
        """The nodes that replace a MatMul or a Gemm. They have its name and its output."""
        from onnx import TensorProto, helper

        x, weight, (y,) = node.input[0], node.input[1], node.output
        values, scale = f"{weight}.int8.{node.op_type}", f"{weight}.scale.{node.op_type}"
        if values not in self.constants:  # a graph may use one matrix several times
            self.constants[values], self.constants[scale] = integers(matrix_KN)
        self.matrices.add(weight)
        bias = node.input[2] if len(node.input) > 2 and node.input[2] else None
        scaled = y if bias is None else f"{y}.int8.scaled"
        made = helper.make_node
        nodes = [
            *(() if x in self._rows else self._quantised(x)),
            made("MatMulInteger", [f"{x}.int8", values, "int8.zero"], [f"{y}.int8.sum"], f"{node.name}.int8"),
            made("Cast", [f"{y}.int8.sum"], [f"{y}.int8.float"], to=TensorProto.FLOAT),
            made("Mul", [f"{y}.int8.float", f"{x}.int8.scale"], [f"{y}.int8.row"]),
            made("Mul", [f"{y}.int8.row", scale], [scaled]),
        ]
        self._rows.add(x)
        return nodes if bias is None else [*nodes, made("Add", [scaled, bias], [y])]

    def _quantised(self, x: str) -> Iterator[NodeProto]:
        """The nodes that quantise activations: the scale of each row, and the integers."""
        from onnx import TensorProto, helper

        made = helper.make_node
        yield made("Abs", [x], [f"{x}.int8.size"])
        yield made("ReduceMax", [f"{x}.int8.size", "int8.axis"], [f"{x}.int8.largest"], keepdims=1)
        yield made("Add", [f"{x}.int8.largest", "int8.tiny"], [f"{x}.int8.positive"])
        yield made("Mul", [f"{x}.int8.positive", "int8.step"], [f"{x}.int8.scale"])
        yield made("Div", [x, f"{x}.int8.scale"], [f"{x}.int8.ratio"])
        yield made("Add", [f"{x}.int8.ratio", "int8.offset"], [f"{x}.int8.shifted"])
        yield made("Cast", [f"{x}.int8.shifted"], [f"{x}.int8"], to=TensorProto.UINT8)


def _matrix(node: NodeProto, weights: dict[str, TensorProto]) -> npt.NDArray[np.float32] | None:
    """The constant matrix [K, N] of a product that can be quantised. None for every other node."""
    from onnx import numpy_helper

    if node.op_type not in ("MatMul", "Gemm") or node.input[1] not in weights:
        return None
    matrix: np.ndarray = numpy_helper.to_array(weights[node.input[1]])
    if matrix.dtype != np.float32 or matrix.ndim != 2 or matrix.size < LEAST:
        return None
    if node.op_type == "MatMul":
        return matrix
    options = {each.name: each for each in node.attribute}
    factors = [options[name].f for name in ("alpha", "beta") if name in options]
    biased = len(node.input) > 2 and bool(node.input[2])
    if ("transA" in options and options["transA"].i) or any(factor != 1 for factor in factors[: 1 + biased]):
        return None
    return np.ascontiguousarray(matrix.T) if "transB" in options and options["transB"].i else matrix


def _names(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, also those in its subgraphs (of an If or a Loop)."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _names(inner)
            yield from (each.name for each in graph.output)
