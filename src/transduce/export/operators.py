"""Translations of this package's operators to ONNX.

B rows, T positions, D input numbers, W the cell's width, G the number of gates times W.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxscript import opset20 as op

from transduce.modules.cells import fused

LSTM_GATES = (0, 3, 1, 2)  # ONNX has input, output, forget, cell where PyTorch has input, forget, cell, output
GRU_GATES = (1, 0, 2)  # ONNX has update, reset, new where PyTorch has reset, update, new


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """The translation of each operator of this package (``modules/cells/fused.py``), for ``torch.onnx.export``."""
    return {fused.lstm._opoverload: lstm, fused.gru._opoverload: gru}


def lstm(x: Any, h: Any, c: Any, weights: Sequence[Any]) -> Any:
    """``fused.lstm`` in ONNX: outputs [B, T, W], and h and c [B, W] after the last position. ``x`` is [B, T, D], ``h``
    and ``c`` are the first states [B, W].
    """
    weight_1GD, recurrent_1GW, bias_1G = _parameters(weights, LSTM_GATES)
    first = op.Constant(value_ints=[0])
    y_T1BW, last_1BW, memory_1BW = op.LSTM(
        op.Transpose(x, perm=[1, 0, 2]),
        weight_1GD,
        recurrent_1GW,
        bias_1G,
        None,
        op.Unsqueeze(h, first),
        op.Unsqueeze(c, first),
        hidden_size=_width(weights),
    )
    return _rows_first(y_T1BW), op.Squeeze(last_1BW, first), op.Squeeze(memory_1BW, first)


def gru(x: Any, h: Any, weights: Sequence[Any]) -> Any:
    """``fused.gru`` in ONNX: outputs [B, T, W], and h [B, W] after the last position. ``x`` is [B, T, D], ``h`` is the
    first state [B, W].
    """
    weight_1GD, recurrent_1GW, bias_1G = _parameters(weights, GRU_GATES)
    first = op.Constant(value_ints=[0])
    y_T1BW, last_1BW = op.GRU(
        op.Transpose(x, perm=[1, 0, 2]),
        weight_1GD,
        recurrent_1GW,
        bias_1G,
        None,
        op.Unsqueeze(h, first),
        hidden_size=_width(weights),
        linear_before_reset=1,
    )
    return _rows_first(y_T1BW), op.Squeeze(last_1BW, first)


def _rows_first(y_T1BW: Any) -> Any:
    return op.Transpose(op.Squeeze(y_T1BW, op.Constant(value_ints=[1])), perm=[1, 0, 2])


def _width(params: Sequence[Any]) -> int:
    return int(params[1].shape[1])


def _parameters(params: Sequence[Any], gates: Sequence[int]) -> tuple[Any, Any, Any]:
    """ONNX's parameters of a cell: the matrix of the input [1, G, D], the matrix of the state [1, G, W], and both
    biases as one vector [1, 2 * G]. The gates are in ONNX's order.
    """
    W = _width(params)
    order = [gate * W + unit for gate in gates for unit in range(W)]
    order_G = op.Constant(value_ints=order)
    weight_GD, recurrent_GW, bias_ih_G, bias_hh_G = (op.Gather(each, order_G, axis=0) for each in params)
    first = op.Constant(value_ints=[0])
    bias_G = op.Concat(bias_ih_G, bias_hh_G, axis=0)
    return tuple(op.Unsqueeze(each, first) for each in (weight_GD, recurrent_GW, bias_G))
