"""The engine's products of matrices and its attention against brute force: sums of integers are exact, and no number
depends on the company or on threads.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

import transduce_engine.library
from selection import mostly_slow
from transduce_engine.library import VARIANTS, built

ROOT = Path(__file__).parents[3]
FLAGS = {
    "_portable": "",
    "_avx2": "-mavx2 -mfma",
    "_avx512": "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma -mprefer-vector-width=512",
}


@pytest.mark.skipif(shutil.which("g++") is None or not built(), reason="there is no C++ compiler: g++")
@pytest.mark.parametrize(
    ("name", "variant"),
    mostly_slow(product(["products", "attention"], VARIANTS), fast=[("products", "_avx2"), ("attention", "_portable")]),
)
def test_sums_are_those_of_brute_force(name: str, variant: str, tmp_path: Path) -> None:
    best = transduce_engine.library.library().transduce_processor()
    if VARIANTS.index(variant) > best or (FLAGS[variant] and platform.machine() != "x86_64"):
        pytest.skip(f"this processor has no {variant[1:]}")
    engine, compute = ROOT / "engine" / "src", ROOT / "src" / "transduce" / "compute" / "native"
    folders = [f"-I{folder}" for folder in (engine, engine / "kernels", compute)]
    options = ["-O2", "-std=c++17", "-pthread", "-Wno-psabi", "-ffp-contract=off", *FLAGS[variant].split()]
    program = tmp_path / name
    subprocess.run(["g++", *options, *folders, Path(__file__).with_name(f"{name}.cpp"), "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
