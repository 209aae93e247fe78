"""Maps: many vectors as points of a plane, so that near vectors are near points.

N vectors, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transduce.core.errors import MissingPackageError, UserError
from transduce.wings.vectors.table import Floats

Method = Literal["pca", "tsne", "umap"]
METHODS = ("pca", "tsne", "umap")
PERPLEXITY, NEIGHBOURS = 30.0, 15  # of t-SNE and of UMAP, as their libraries have them; fewer if there are few points


@dataclass(frozen=True)
class Map:
    """Points of the ``texts`` in a plane, [N, 2]. ``labels`` has a text for each point that chooses its colour; all are
    "" if there are none. ``explained`` is the share of the variance that the plane keeps; None except for "pca".
    """

    texts: Sequence[str]
    labels: Sequence[str]
    points_N2: Floats
    method: Method
    explained: float | None = None

    def record(self) -> dict[str, object]:
        """The map as a JSON object."""
        rows = zip(self.texts, self.labels, self.points_N2.tolist(), strict=True)
        points = [{"text": text, "label": label, "x": x, "y": y} for text, label, (x, y) in rows]
        return {"method": self.method, "explained": self.explained, "points": points}


def mapped(
    matrix_ND: Floats, texts: Sequence[str], labels: Sequence[str], method: Method = "pca", seed: int = 1
) -> Map:
    """A map of the vectors, in the order of ``texts`` and their ``labels``.

    "pca" is the plane of the largest variance. "tsne" (van der Maaten and Hinton 2008; scikit-learn) and "umap"
    (McInnes et al. 2018; umap-learn) keep neighbours together. The distances between their groups mean little, and
    another ``seed`` gives another map. Raises UserError for another method, fewer than 3 vectors, and vectors that are
    not finite. Raises MissingPackageError without the library.
    """
    if method not in METHODS:
        raise UserError(f"method {method!r}: expected {', '.join(METHODS)}")
    if len(matrix_ND) < 3:
        raise UserError(f"{len(matrix_ND)} vectors: a map needs at least 3")
    if not np.isfinite(matrix_ND).all():
        raise UserError("a vector has a number that is not finite, so it has no place on a map")
    if method == "pca":
        points_N2, explained = principal_plane(matrix_ND)
        return Map(texts, labels, points_N2, method, explained)
    flatten = _tsne if method == "tsne" else _umap
    return Map(texts, labels, flatten(matrix_ND.astype(np.float64), seed), method)


def principal_plane(matrix_ND: Floats) -> tuple[Floats, float]:
    """The first two principal components [N, 2], and their share of the variance. Signs make the largest weight of each
    direction positive. If the vectors have one feature, the second component is 0.
    """
    centred_ND = matrix_ND.astype(np.float64) - matrix_ND.mean(0, dtype=np.float64)
    left_NK, sizes_K, right_KD = np.linalg.svd(centred_ND, full_matrices=False)
    signs_K = np.sign(right_KD[np.arange(len(right_KD)), np.abs(right_KD).argmax(1)])
    points_NK = left_NK * sizes_K * signs_K
    points_N2 = np.pad(points_NK[:, :2], ((0, 0), (0, max(0, 2 - points_NK.shape[1]))))
    total = float((sizes_K**2).sum())
    return points_N2, float((sizes_K[:2] ** 2).sum()) / total if total else 1.0


def _tsne(matrix_ND: Floats, seed: int) -> Floats:
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise MissingPackageError("t-SNE needs scikit-learn: pip install 'transduce[maps]'") from error
    few = min(PERPLEXITY, (len(matrix_ND) - 1) / 3)
    points_N2: Floats = TSNE(perplexity=few, init="pca", random_state=seed).fit_transform(matrix_ND)
    return points_N2


def _umap(matrix_ND: Floats, seed: int) -> Floats:
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingPackageError("UMAP needs umap-learn: pip install 'transduce[maps]'") from error
    few = min(NEIGHBOURS, len(matrix_ND) - 1)
    start = "spectral" if len(matrix_ND) > few + 2 else "random"
    points_N2: Floats = UMAP(n_neighbors=few, init=start, random_state=seed, n_jobs=1).fit_transform(matrix_ND)
    return points_N2
