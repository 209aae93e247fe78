"""Small models that several chapters look at. Each is trained once and kept in ``build/book-runs``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import transduce
from book import chapter

KEPT = chapter.FOLDER.parent / "build" / "book-runs"
SMALL: dict[str, Any] = {
    "data.origin.pairs": 2000,
    "training.steps": 150,
    "training.validation.times": 1,
    "training.validation.metrics": [],
    "training.precision": "float32",
}
PLAIN: dict[str, Any] = {"model.decoder.wiring": "plain"}


def reversing(**more: Any) -> transduce.Transducer:
    """A model that writes strings backwards: an encoder and a decoder with attention, of the recipe ``reverse``.
    ``more`` settings change it: their names have two underscores in place of a full stop.
    """
    return transduce.load(reversing_run(**more))


def reversing_run(**more: Any) -> Path:
    """The run of ``reversing``."""
    return kept("reverse", SMALL | {key.replace("__", "."): value for key, value in more.items()})


def trained(
    recipe: str, settings: dict[str, Any], pairs: Sequence[tuple[str, str]] | None = None
) -> transduce.Transducer:
    """The model of a recipe with these settings and pairs. It is trained if no kept run has them."""
    return transduce.load(kept(recipe, settings, pairs))


def kept(recipe: str, settings: dict[str, Any], pairs: Sequence[tuple[str, str]] | None = None) -> Path:
    """The run of ``trained``."""
    told = json.dumps([transduce.__version__, recipe, settings, pairs], sort_keys=True)
    path = Path(KEPT) / f"{recipe}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
    if not (path / "done").exists():
        transduce.train(recipe, path, settings, pairs, overwrite=True, progress=False, threads=1, device="cpu")
        (path / "done").touch()
    return path


def spelling() -> transduce.Transducer:
    """A recurrent language model of the letters of English words."""
    from book.corpora import words

    cell: dict[str, Any] = {"type": "recurrent", "cell": "gru", "wiring": "plain", "bridge": "zero", "dropout": 0.0}
    cell |= {"embedding_width": 24, "width": 96}
    settings = {
        "data.units.target": "characters",
        "model": {"type": "language-model", "decoder": cell},
        "training.steps": 150,
        "training.minutes": 20,
        "training.batching.tokens": 1024,
        "training.schedule.warmup": 30,
        "training.optimizer.rate": 1e-2,
        "training.validation.times": 1,
        "training.validation.metrics": [],
        "training.precision": "float32",
    }
    return trained("language-model", settings, [("", word) for word in words()[:5000]])
