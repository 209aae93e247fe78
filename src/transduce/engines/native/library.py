"""The compiled library: which variant this processor runs, its functions, and their structures for ctypes.

kernels/transformer.h describes the functions and the memory layout.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from transduce.errors import MissingPackageError

VARIANTS = ("_portable", "_avx2", "_avx512")  # by the number that transduce_processor returns
DONE, NO_ROOM = -(2**63), 1 - 2**63


class Norm(Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


class Layer(Structure):
    _fields_ = (
        ("mixer_norm", Norm),
        ("memory_norm", Norm),
        ("feedforward_norm", Norm),
        ("project", c_void_p),
        ("out", c_void_p),
        ("query", c_void_p),
        ("read_out", c_void_p),
        ("widen", c_void_p),
        ("narrow", c_void_p),
    )


class Stack(Structure):
    _fields_ = (
        ("width", c_int32),
        ("heads", c_int32),
        ("count", c_int32),
        ("vocabulary", c_int32),
        ("most_positions", c_int32),
        ("pre_norm", c_int32),
        ("activation", c_int32),
        ("embedding_scale", c_float),
        ("eps", c_float),
        ("embedding", c_void_p),
        ("positions", c_void_p),
        ("final_norm", Norm),
        ("layers", POINTER(Layer)),
    )


class Step(Structure):
    _fields_ = (
        ("rows", c_int64),
        ("sources", c_int64),
        ("places", c_int64),
        ("capacity", c_int64),
        ("longest", c_int64),
        ("tokens", c_void_p),
        ("place", c_void_p),
        ("lengths", c_void_p),
        ("memory", c_void_p),
        ("past", c_void_p),
        ("outputs", c_void_p),
        ("origin", c_void_p),
    )


def built(folder: Path = Path(__file__).parent) -> dict[str, Path]:
    """The variants of the library that were built when the package was installed, by name."""
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    paths = {name: [folder / (name + suffix) for suffix in suffixes] for name in VARIANTS}
    return {name: path for name, several in paths.items() for path in several[:1] if path.exists()}


def choose(variants: dict[str, Path]) -> Path:
    """The fastest of the variants that this processor runs. Raises MissingPackageError if there is none."""
    if VARIANTS[0] not in variants:
        raise MissingPackageError(
            "the native engine was not built, because no C++ compiler was found when transduce was installed: install "
            "one (g++ or clang++) and repeat `pip install --force-reinstall --no-deps transduce`, or use --engine onnx "
            "or torch"
        )
    best = open_library(variants[VARIANTS[0]]).transduce_processor()
    return next(variants[name] for name in reversed(VARIANTS[: best + 1]) if name in variants)


@cache
def library() -> Any:
    """The functions of the fastest variant for this processor. Raises MissingPackageError if none was built."""
    return open_library(choose(built()))


def open_library(path: Path) -> Any:
    functions = ctypes.CDLL(str(path))
    for name, result, arguments in (
        ("processor", c_int32, []),
        ("pack_integers", c_void_p, [c_void_p, c_void_p, c_void_p, c_int32, c_int32]),
        ("pack_floats", c_void_p, [c_void_p, c_void_p, c_int32, c_int32]),
        ("free", None, [c_void_p]),
        ("multiply", None, [c_void_p, c_void_p, c_void_p, c_int64]),
        ("encode", c_int64, [POINTER(Stack), c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_void_p]),
        ("step", c_int64, [POINTER(Stack), POINTER(Step)]),
    ):
        function = getattr(functions, f"transduce_{name}")
        function.restype, function.argtypes = result, arguments
    return functions
