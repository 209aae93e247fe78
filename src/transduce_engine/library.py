"""The compiled library: the choice of the variant for this processor, and its functions. engine/src/engine.h describes
them.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
FOLDER = Path(__file__).parent
VARIANTS = ("_portable", "_avx2", "_avx512")  # by the number that transduce_processor returns
VERSION = 7  # of the interface; engine.h has the same number
ROOM = 1000  # bytes of a message


class EngineError(ValueError):
    """A file that is no model's, or a text that cannot be answered. The message is one line."""


class MissingLibraryError(RuntimeError):
    """The library was not built, or is of another version."""


class Options(Structure):
    _fields_ = (("beam", c_int64), ("nbest", c_int64), ("batch", c_int64))


class Sampling(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("samples", "length", "top_k", "seed")),
        ("temperature", c_double),
        ("top_p", c_double),
    )


class WantedRows(Structure):
    _fields_ = (
        *(
            (f"{name}{part}", c_void_p)
            for name in ("prefix", "listed", "forbidden", "required")
            for part in ("", "_ends")
        ),
        ("borders", c_void_p),
    )
    kept: object  # the memory that the fields point to


class Answers(Structure):
    _fields_ = (
        ("sources", c_int64),
        ("outputs", c_int64),
        *((name, POINTER(c_int64)) for name in ("output_ends", "text_ends", "token_ends", "tokens")),
        ("texts", c_void_p),
        *((name, POINTER(c_double)) for name in ("token_log_probs", "log_prob", "score")),
        *((name, POINTER(c_int64)) for name in ("source_tokens", "read_tokens", "unknown", "cut", "choices")),
        ("choice_log_probs", POINTER(c_double)),
        ("keys", POINTER(c_int64)),
    )


def built(folder: Path = FOLDER) -> dict[str, Path]:
    """The variants that were built when the package was installed, by name."""
    endings = importlib.machinery.EXTENSION_SUFFIXES[::-1]  # first the ending without a version of Python
    paths = {name: [folder / (name + ending) for ending in endings] for name in VARIANTS}
    there = {name: [path for path in several if path.exists()] for name, several in paths.items()}
    return {name: several[0] for name, several in there.items() if several}


@cache
def library() -> ctypes.CDLL:
    """The functions of the fastest variant for this processor. Raises MissingLibraryError if none was built."""
    variants = built()
    if VARIANTS[0] not in variants:
        raise MissingLibraryError(
            "the engine was not built: when it was installed, there was no C++ compiler, or no folder engine beside "
            "src. Install a compiler (g++ or clang++), and install the engine again from a whole clone"
        )
    best = int(open_library(variants[VARIANTS[0]]).transduce_processor())
    return open_library(next(variants[name] for name in reversed(VARIANTS[: best + 1]) if name in variants))


def open_library(path: Path) -> ctypes.CDLL:
    """The functions of a variant. Raises MissingLibraryError if it was compiled from other files than these."""
    functions = ctypes.CDLL(str(path))
    try:
        found = functions.transduce_engine_version()
    except AttributeError:
        found = 0
    message: list[type] = [c_char_p, c_uint64]
    rows: list[type] = [c_void_p, c_void_p]
    signatures: dict[str, tuple[type | None, list[type]]] = {
        "open": (c_void_p, [c_void_p, c_uint64, *message]),
        "close": (None, [c_void_p]),
        "note": (c_void_p, [c_void_p, c_char_p, POINTER(c_uint64)]),
        "answer": (POINTER(Answers), [c_void_p, *rows, c_int64, Options, *message]),
        "answer_ids": (POINTER(Answers), [c_void_p, *rows, c_int64, Options, *message]),
        "search_ids": (
            POINTER(Answers),
            [c_void_p, c_char_p, c_uint64, *rows, POINTER(WantedRows), c_int64, Options, *message],
        ),
        "search_signals": (
            POINTER(Answers),
            [c_void_p, c_char_p, c_uint64, c_void_p, POINTER(WantedRows), c_int64, Options, *message],
        ),
        "score_signals": (POINTER(Answers), [c_void_p, c_void_p, *rows, c_int64, Options, *message]),
        "score_ids": (POINTER(Answers), [c_void_p, *rows, *rows, c_int64, Options, *message]),
        "encode": (POINTER(Answers), [c_void_p, *rows, c_int64, *message]),
        "encode_sources": (POINTER(Answers), [c_void_p, *rows, c_int64, *message]),
        "decode": (POINTER(Answers), [c_void_p, *rows, c_int64, *message]),
        "generate_ids": (POINTER(Answers), [c_void_p, c_void_p, c_int64, Sampling, *message]),
        "begin": (c_void_p, [c_void_p, Options, *message]),
        "end": (None, [c_void_p]),
        "enter": (c_void_p, [c_void_p, c_void_p, *rows, POINTER(WantedRows), c_int64, *message]),
        "step": (POINTER(Answers), [c_void_p, c_int64, c_int64, *message]),
        "drop": (None, [c_void_p, c_void_p, c_int64]),
        "free": (None, [POINTER(Answers)]),
    }
    if not all(hasattr(functions, f"transduce_engine_{name}") for name in signatures):
        found = 0
    if found != VERSION:
        raise MissingLibraryError(
            f"the compiled library is not of this version of the engine (it has interface {found}, and {VERSION} was "
            "expected): install the engine again, or run `python setup.py build_ext --inplace` in a clone"
        )
    for name, (result, arguments) in signatures.items():
        function = getattr(functions, f"transduce_engine_{name}")
        function.restype, function.argtypes = result, arguments
    # Quick ones keep the lock of the interpreter, for which a thread of a server would wait afterwards.
    quick = ctypes.PyDLL(str(path))
    for name in ("enter", "free"):
        function = getattr(quick, f"transduce_engine_{name}")
        function.restype, function.argtypes = signatures[name]
        functions.__dict__[f"transduce_engine_{name}"] = function
    functions.transduce_set_threads.argtypes = [c_int32]
    functions.transduce_set_threads.restype = None
    return functions


def whole(**numbers: int) -> tuple[int, ...]:
    """The numbers, which a structure would silently cut to 64 bits. Raises EngineError for a larger one."""
    for name, number in numbers.items():
        if not -(2**63) <= number < 2**63:
            raise EngineError(f"{name} = {number}: a number of at most 64 bits was expected")
    return tuple(numbers.values())


def told(function: Callable[..., T], *arguments: object) -> T:
    """The result of a function that writes a message. Raises EngineError with the message if the result is null."""
    message = ctypes.create_string_buffer(ROOM)
    found = function(*arguments, message, ROOM)
    if not found:
        raise EngineError(message.value.decode(errors="replace"))
    return found
