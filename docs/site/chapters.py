"""How the chapters of the book run while Sphinx makes the site: each in a kernel, a process of its own (kernels.py)."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from pathlib import Path

import kernels

QUIET = "get_config().Application.log_level = 40\n"


def prepare(root: Path) -> None:
    """Sets the environment of the kernels. They find the book and the package of the clone ``root``, run the short form
    with one thread, write nothing outside of the clone, and say nothing of their sockets.
    """
    place = root / "build" / "kernels"
    paths = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "TRANSDUCE_BOOK": "short",
        "OMP_NUM_THREADS": "1",
        "IPYTHONDIR": str(place),
        "JUPYTER_RUNTIME_DIR": str(place / "runtime"),
    }
    settings = place / "profile_default" / "ipython_kernel_config.py"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(QUIET, encoding="utf-8")
    logging.getLogger("traitlets").setLevel(logging.WARNING)
    if hasattr(os, "fork"):
        kernels.start(place)


def cache(root: Path) -> Path:
    """The folder of the results of chapters. Its name changes with the code of the package and of the book, so a
    chapter runs again if it or this code has changed. Older folders are removed.
    """
    read = hashlib.sha256()
    for folder, pattern in (("src", "*.py"), ("book", "*.py"), ("book", "*.json")):
        for path in sorted((root / folder).rglob(pattern)):
            read.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    kept = root / "build" / "book-cache" / read.hexdigest()[:12]
    for other in kept.parent.glob("*"):
        if other != kept:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    return kept
