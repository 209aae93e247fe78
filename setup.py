"""Builds two small C++ libraries for each kind of processor: of the package, and of the engine that needs nothing else
(engine/README.md). pyproject.toml has everything else.

The libraries are optional: without a C++ compiler, transduce installs without the engine, which then says so. They have
a plain C interface for ctypes and use nothing of Python's. So one wheel of a platform is for every Python 3.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

PACKAGE = Path("src/transduce")
KERNELS = PACKAGE / "compute" / "native"  # the hall's C++, and where all is put together
OF_WINGS = sorted(PACKAGE.glob("wings/**/kernels"))  # what families.cpp includes if it is there
OF_ENGINE = ("counted/readings", "ctc")  # the wings whose kernels the engine includes
ENGINE = Path("engine/src")  # the engine's own C++, which includes the kernels of both
# No flag reorders additions or contracts them with products, so the variants differ in one place only: float32 products
# of matrices, whose AVX-512 code adds each product without rounding it first (sums.h). int8 products are exact in all.
GIVEN = [flag for name in ("CFLAGS", "CXXFLAGS") for flag in os.environ.get(name, "").split()]
FLAGS = "-std=c++11 -pthread -fvisibility=hidden -Wno-psabi "
FLAGS += "-ffp-contract=off -fno-math-errno -fno-trapping-math -fno-signed-zeros"
# Without notes for debuggers, which Python's own flags ask for, a library has a quarter of the size.
FLAGS += "" if "-g" in GIVEN or "-g1" in GIVEN else " -g0"
FLAGS += "" if any(flag.startswith("-O") for flag in GIVEN) else " -O3"  # tests compile with less
AVX512 = "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma -mprefer-vector-width=512"
VARIANTS = {"portable": "", "avx2": "-mavx2 -mfma", "avx512": AVX512}


def variants() -> dict[str, list[str]]:
    """The flags of each variant that this kind of machine can run: none on Windows, whose compiler has other flags."""
    if sys.platform == "win32":
        return {}
    names = VARIANTS if platform.machine() in ("x86_64", "AMD64") else ["portable"]
    asked = os.environ.get("TRANSDUCE_VARIANTS", " ".join(names)).split()  # tests compile fewer
    return {name: f"{FLAGS} {VARIANTS[name]}".split() for name in names if name in asked}


class PlainNames(build_ext):
    """Names the libraries without the version of Python that builds them, and compiles two at once."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.parallel = 2  # a compiler takes 0.7 GB

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")).with_suffix(".so"))


class AnyPython(bdist_wheel):
    """Names the wheel without the version of Python that builds it."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


def extension(name: str, source: Path, flags: list[str], folders: list[Path]) -> Extension:
    """A library that is compiled from one file, which includes files of ``folders``."""
    return Extension(
        name,
        [source.as_posix()],
        depends=[path.as_posix() for folder in (*folders, *OF_WINGS) for path in sorted(folder.glob("*.*"))],
        include_dirs=[folder.as_posix() for folder in (*folders, PACKAGE)],
        extra_compile_args=flags,
        extra_link_args=["-pthread"],
        language="c++",
        optional=True,
    )


def extensions() -> Iterator[Extension]:
    of_engine = [ENGINE, ENGINE / "kernels", KERNELS, *(PACKAGE / f"wings/{wing}/kernels" for wing in OF_ENGINE)]
    for name, flags in variants().items():
        yield extension(f"transduce.compute._{name}", KERNELS / f"{name}.cpp", flags, [KERNELS])
        if all(folder.is_dir() for folder in of_engine):
            newer = [flag.replace("c++11", "c++17") for flag in flags]
            yield extension(f"transduce_engine._{name}", ENGINE / f"{name}.cpp", newer, of_engine)


setup(cmdclass={"build_ext": PlainNames, "bdist_wheel": AnyPython}, ext_modules=list(extensions()))
