"""Files of arrays from strangers."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from transduce.core.errors import DataError
from transduce.wings.documents.npz_arrays import read_npz


def test_a_file_larger_than_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", zeros=np.zeros(10_000_000, np.uint8))
    assert (tmp_path / "bomb.npz").stat().st_size < 20_000
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1024}[name])
    with pytest.raises(DataError, match=r"bomb\.npz unpacks to 0\.0 GiB, and this machine has 0\.0 GiB"):
        read_npz(tmp_path / "bomb.npz")
