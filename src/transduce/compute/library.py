"""The compiled library: the choice of the variant for this processor, and the functions that searches and all families
of models share.

The C++ code of the hall is in compute/native; its headers interface.h and choice.h describe the functions that are
declared here. A wing has its own C++ code in a folder ``kernels``, and declares its functions and structures.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
from collections.abc import Mapping, Sequence
from ctypes import CDLL, Structure, c_char_p, c_double, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from types import MappingProxyType

from transduce.core.errors import MissingPackageError

FOLDER = Path(__file__).parent
VARIANTS = ("_portable", "_avx2", "_avx512")  # by the number that transduce_processor returns
VERSION = 3  # of the interface; native/interface.h has the same number
DONE, NO_MEMORY = -(2**63), 2 - 2**63  # results; any other result is an unknown id


def built(folder: Path = FOLDER) -> dict[str, Path]:
    """The variants of the library that were built when the package was installed, by name."""
    endings = importlib.machinery.EXTENSION_SUFFIXES[::-1]  # first the ending without a version of Python
    paths = {name: [folder / (name + ending) for ending in endings] for name in VARIANTS}
    there = {name: [path for path in several if path.exists()] for name, several in paths.items()}
    return {name: several[0] for name, several in there.items() if several}


def choose(variants: dict[str, Path]) -> Path:
    """The fastest of the variants that this processor runs. Raises MissingPackageError if there is none."""
    if VARIANTS[0] not in variants:
        raise MissingPackageError(
            "the library was not built, because no C++ compiler was found when transduce was installed: install one "
            "(g++ or clang++) and repeat `pip install --force-reinstall --no-deps transduce`"
        )
    best = open_library(variants[VARIANTS[0]]).transduce_processor()
    return next(variants[name] for name in reversed(VARIANTS[: best + 1]) if name in variants)


@cache
def library() -> CDLL:
    """The functions of the fastest variant for this processor. Raises MissingPackageError if none was built."""
    return open_library(choose(built()))


@cache
def optional_library() -> CDLL | None:
    """The functions of ``library``, or None if no variant was built."""
    return library() if built() else None


def open_library(path: Path) -> CDLL:
    """The functions of a variant. Raises MissingPackageError if the variant was compiled from another version of its
    files.
    """
    functions = CDLL(str(path))
    declare(functions, {"version": [], "processor": []}, c_int32)
    declare(functions, {"size_of": [c_char_p]})
    if (found := functions.transduce_version()) != VERSION:
        raise _of_another_version(f"it has interface {found}, and {VERSION} was expected")
    without_memory: dict[str, Sequence[type]] = {
        "highest": [c_void_p] * 2 + [c_int64] * 3 + [c_void_p] * 2,
        "log_softmax": [c_void_p] + [c_int64] * 3,
        "extend": [c_void_p] * 6 + [c_int64] * 6 + [c_void_p] * 8,
    }
    declare(functions, without_memory, None)
    others: dict[str, Sequence[type]] = {
        "choose": [c_void_p] * 2 + [c_int64] * 4 + [c_void_p] * 5,
        "prefix_beam": [c_void_p] * 2 + [c_int64] * 6 + [c_double] + [c_void_p] * 3,
        "align": [c_void_p] * 2 + [c_int64] * 5 + [c_void_p] * 2 + [c_int64] + [c_void_p] * 4,
    }
    declare(functions, others)
    return functions


def declare(
    functions: CDLL,
    signatures: Mapping[str, Sequence[type]],
    result: type | None = c_int64,
    structures: Mapping[str, type[Structure]] = MappingProxyType({}),
) -> None:
    """Tells ctypes the types of the arguments and of the result of functions, by their names without "transduce_".

    A function whose ``result`` is a number or an address raises MemoryError if the system gives no memory. Functions
    without a result take no memory. ``structures`` are the structures of the arguments, by their names in C++.

    Raises MissingPackageError if the library lacks a function, or if a structure has another size there. Then the
    library was compiled from another version of its files.
    """
    for name, structure in structures.items():
        if (found := functions.transduce_size_of(name.encode())) != ctypes.sizeof(structure):
            raise _of_another_version(f"its {name} has {found} bytes, and {ctypes.sizeof(structure)} were expected")
    for name, arguments in signatures.items():
        try:
            function = getattr(functions, f"transduce_{name}")
        except AttributeError as error:
            raise _of_another_version(str(error)) from error
        function.restype, function.argtypes = result, arguments
        if result in (c_int64, c_void_p):
            function.errcheck = _with_memory


def _with_memory(result: int | None, function: object, arguments: object) -> int:
    """The result of a function. Raises MemoryError if it says that the system gave no memory."""
    if result is None or result == NO_MEMORY:
        raise MemoryError("the compiled library got no memory from the system; use smaller batches or a smaller beam")
    return result


def _of_another_version(reason: str) -> MissingPackageError:
    return MissingPackageError(
        f"the compiled library is not of this version of transduce ({reason}): install transduce again, or run "
        "`python setup.py build_ext --inplace` in a clone"
    )
