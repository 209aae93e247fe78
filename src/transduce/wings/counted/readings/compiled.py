"""Readings and steps through them by the compiled library: one call instead of hundreds of small operators.

B sources of up to I tokens, U units of W tokens, N rows, V target vocabulary, E arcs and Q nodes of the largest
lattice. The header kernels/readings.h describes the functions and their structures.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_double, c_int64, c_void_p
from functools import cache
from typing import Any

import torch
from torch import Tensor

from transduce.compute.library import declare, optional_library
from transduce.core import tree
from transduce.core.types import BOS, EOS
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.readings.lattice import JointState, Readings

FAR = 1e30  # in place of an infinite beam, which the library does not know


class JointNgrams(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("units", "keys", "suffix", "after", "log_prob", "back_off")),
        *((name, c_int64) for name in ("unit_count", "source_tokens", "target_tokens", "ngram_count")),
        *((name, c_int64) for name in ("end", "begun", "width")),
        ("beam", c_double),
    )


class ReadingTables(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("sources", "arcs", "nodes", "depth")),
        *((name, c_void_p) for name in ("start", "stop", "token", "chance", "silent", "silent_stop", "ending")),
    )


class ReadingStep(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("rows", "vocabulary", "begin", "end")),
        ("escape", c_double),
        *((name, c_void_p) for name in ("tokens", "next", "ending", "next_after", "ending_after", "log_probs")),
    )


def fits(numbers: Tensor) -> bool:
    """True if the library was built, and the model's ``numbers`` are float32 on the CPU."""
    return numbers.dtype == torch.float32 and numbers.device.type == "cpu" and _functions() is not None


def read_sources(
    units_UW: Tensor,
    source_tokens: int,
    ngrams: NgramLookup,
    beam: float,
    width: int,
    source_BI: Tensor,
    lengths_B: Tensor,
) -> Readings:
    """The readings of a ``Reader`` with these settings. ``lengths_B`` do not count EOS."""
    functions = _functions()
    parts = (units_UW, ngrams.keys, ngrams.suffix, ngrams.after, ngrams.log_prob, ngrams.back_off)
    held = [part.contiguous() for part in (*parts, source_BI, lengths_B)]
    *model_parts, sources, lengths = (part.data_ptr() for part in held)
    sizes = len(units_UW), source_tokens, units_UW.shape[1] - source_tokens, len(ngrams)
    model = JointNgrams(*model_parts, *sizes, ngrams.end, ngrams.begun, width, min(beam, FAR))
    tables = ReadingTables()
    lattices = functions.transduce_read_sources(byref(model), sources, lengths, *source_BI.shape, byref(tables))
    start_BE, end_BE, token_BE = torch.empty(3, tables.sources, tables.arcs, dtype=torch.long).unbind()
    chance_BE = torch.empty(tables.sources, tables.arcs, dtype=torch.float64)
    silent_BQ, ending_BQ = torch.empty(2, tables.sources, tables.nodes, dtype=torch.float64).unbind()
    silent_end_BQ = torch.empty(tables.sources, tables.nodes, dtype=torch.long)
    found = start_BE, end_BE, token_BE, chance_BE, silent_BQ, silent_end_BQ, ending_BQ
    functions.transduce_take_lattices(lattices, byref(_tables(found, tables.depth)))
    return Readings(*found, tables.depth)


def step(token_N: Tensor, state: JointState, vocabulary: int, escape: float) -> tuple[Tensor, JointState]:
    """Takes a step of all rows: returns ``lattice.log_probs`` after the token, in float32, and the state
    ``lattice.written``.
    """
    readings = state.readings.value
    held = [each.contiguous() for each in tree.leaves(readings)]
    read = [each.contiguous() for each in (token_N, state.next_NE, state.ending_N)]
    next_NE, ending_N = torch.empty_like(read[1]), torch.empty_like(read[2])
    log_probs_NV = torch.empty(len(token_N), vocabulary)
    addresses = (each.data_ptr() for each in (*read, next_NE, ending_N, log_probs_NV))
    taken = ReadingStep(len(token_N), vocabulary, BOS, EOS, escape, *addresses)
    _functions().transduce_reading_step(byref(_tables(held, readings.depth)), byref(taken))
    return log_probs_NV, JointState(next_NE, ending_N, state.readings)


def _tables(tensors: Sequence[Tensor], depth: int) -> ReadingTables:
    (B, E), Q = tensors[0].shape, tensors[-1].shape[1]
    return ReadingTables(B, E, Q, depth, *(each.data_ptr() for each in tensors))


@cache
def _functions() -> Any:
    functions = optional_library()
    return None if functions is None else declared(functions)


def declared(functions: CDLL) -> CDLL:
    """The library, whose functions for readings know their arguments."""
    read: list[type] = [POINTER(JointNgrams), c_void_p, c_void_p, c_int64, c_int64, POINTER(ReadingTables)]
    structures = {each.__name__: each for each in (JointNgrams, ReadingTables, ReadingStep)}
    declare(functions, {"read_sources": read}, c_void_p, structures)
    declare(functions, {"take_lattices": [c_void_p, POINTER(ReadingTables)]}, None)
    declare(functions, {"reading_step": [POINTER(ReadingTables), POINTER(ReadingStep)]})
    return functions
