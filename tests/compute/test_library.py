"""The compiled library that PyTorch's searches and trainings call: its choice, and its check of versions."""

from __future__ import annotations

import ctypes

import pytest

from libraries import BUILT, needs_library
from transduce.compute import library
from transduce.core.errors import MissingPackageError


@needs_library
def test_a_library_of_another_version_is_told() -> None:
    functions = ctypes.CDLL(str(BUILT["_portable"]))
    with pytest.raises(MissingPackageError, match=r"not of this version .*transduce_later.*build_ext --inplace"):
        library.declare(functions, {"later": []})


@needs_library
def test_a_library_with_other_structures_or_of_another_interface_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Larger(ctypes.Structure):
        _fields_ = (("seed", ctypes.c_uint64), ("dropped", ctypes.c_uint64), ("later", ctypes.c_uint64))

    with pytest.raises(MissingPackageError, match=r"its Dropped has 16 bytes, and 24 were expected"):
        library.declare(library.optional_library(), {}, structures={"Dropped": Larger})
    monkeypatch.setattr(library, "VERSION", library.VERSION + 1)
    with pytest.raises(MissingPackageError, match=r"it has interface \d+, and \d+ was expected"):
        library.open_library(BUILT["_portable"])


def test_a_missing_library_is_named() -> None:
    with pytest.raises(MissingPackageError, match=r"no C\+\+ compiler was found .*pip install --force-reinstall"):
        library.choose({})


@needs_library
def test_the_processor_chooses_the_variant() -> None:
    best = library.open_library(BUILT["_portable"]).transduce_processor()
    assert library.choose(BUILT).name.startswith(library.VARIANTS[best]) or library.VARIANTS[best] not in BUILT
    assert library.choose({"_portable": BUILT["_portable"]}) == BUILT["_portable"]
