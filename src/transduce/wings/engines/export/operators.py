"""Translations of this package's operators to ONNX.

B rows, T positions, D input numbers, W the cell's width, G the number of gates times W.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxscript import opset20 as op

from transduce.layers.modules.cells import torch_operators

LSTM_GATES = (0, 3, 1, 2)  # ONNX has input, output, forget, cell where PyTorch has input, forget, cell, output
GRU_GATES = (1, 0, 2)  # ONNX has update, reset, new where PyTorch has reset, update, new


def translations() -> dict[Callable[..., object], Callable[..., object]]:
    """The translation of each operator of layers/modules/cells/torch_operators.py, for ``torch.onnx.export``."""
    return {torch_operators.lstm._opoverload: lstm, torch_operators.gru._opoverload: gru}


def lstm(x: object, h: object, c: object, weights: Sequence[object]) -> tuple[object, ...]:
    """``torch_operators.lstm`` in ONNX: outputs [B, T, W], and h and c [B, W] after the last position. ``x`` is
    [B, T, D], ``h`` and ``c`` are the first states [B, W].
    """
    return _unrolled(op.LSTM, x, (h, c), _parameters(weights, LSTM_GATES), hidden_size=_width(weights))


def gru(x: object, h: object, weights: Sequence[object]) -> tuple[object, ...]:
    """``torch_operators.gru`` in ONNX: outputs [B, T, W], and h [B, W] after the last position. ``x`` is [B, T, D],
    ``h`` is the first state [B, W].
    """
    parameters = _parameters(weights, GRU_GATES)
    return _unrolled(op.GRU, x, (h,), parameters, hidden_size=_width(weights), linear_before_reset=1)


def _unrolled(
    operator: Callable[..., Sequence[object]],
    x: object,
    states: Sequence[object],
    parameters: Sequence[object],
    **attributes: int,
) -> tuple[object, ...]:
    """The outputs [B, T, W] of a recurrent operator of ONNX, and its last states [B, W] each.

    ``states`` are the first states [B, W], ``parameters`` the result of ``_parameters``, and ``attributes`` the
    operator's own.
    """
    first = op.Constant(value_ints=[0])
    y_T1BW, *last = operator(
        op.Transpose(x, perm=[1, 0, 2]),
        *parameters,
        None,  # lengths: all rows have T positions
        *(op.Unsqueeze(state, first) for state in states),
        **attributes,
    )
    return _rows_first(y_T1BW), *(op.Squeeze(state, first) for state in last)


def _rows_first(y_T1BW: object) -> object:
    return op.Transpose(op.Squeeze(y_T1BW, op.Constant(value_ints=[1])), perm=[1, 0, 2])


def _width(params: Sequence[Any]) -> int:
    return int(params[1].shape[1])


def _parameters(params: Sequence[object], gates: Sequence[int]) -> tuple[object, ...]:
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
