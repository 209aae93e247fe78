"""The answer to the most similar training example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import NearestNeighbors

from simple_methods.base import Splits, outputs, sources, targets
from transduce.core.types import Prediction


def text(data: Splits) -> list[Prediction]:
    """The target of the training source with the highest cosine of TF-IDF vectors of words."""
    counts = TfidfVectorizer(token_pattern=r"\w+").fit(sources(data.train))
    known, asked = counts.transform(sources(data.train)), counts.transform(sources(data.test))
    near = NearestNeighbors(n_neighbors=1, metric="cosine", algorithm="brute").fit(known)
    answers = targets(data.train)
    return outputs([answers[index] for (index,) in near.kneighbors(asked, return_distance=False)])


def signal(data: Splits) -> list[Prediction]:
    """The target of the training picture or clip with the smallest difference of pixels. A file is 16 steps of it."""
    near = NearestNeighbors(n_neighbors=1).fit(flat(data, sources(data.train)))
    answers = targets(data.train)
    found = near.kneighbors(flat(data, sources(data.test)), return_distance=False)
    return outputs([answers[index] for (index,) in found])


def flat(data: Splits, paths: Sequence[str], steps: int = 16) -> Any:
    """The numbers [N, steps * D] of signals, at equally distant steps."""
    assert data.read is not None
    rows = (data.read(path) for path in paths)
    return np.stack([row[np.linspace(0, len(row) - 1, steps).round().astype(int)].ravel() for row in rows])
