"""Debiasing of word vectors: neutralise, equalise, and the soft form of both (Bolukbasi et al. 2016).

D features, N words. Every function returns unit vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch

from transduce.core.errors import UserError
from transduce.wings.vectors.direction import Pair
from transduce.wings.vectors.table import Floats, Vectors, normalised

STEPS = 500  # of L-BFGS, at most


def neutralise(vectors: Vectors, direction_D: Floats, specific: Collection[str] = ()) -> Vectors:
    """Removes the component along the direction g from all words except the ``specific`` ones. A specific word for
    gender is "aunt". A word w becomes w - (w g) g, divided by its length (section 6, step 2a).

    ``specific`` words are compared exactly. A vector that is parallel to the direction stays unchanged.
    """
    unit_VD = vectors.unit_VD.astype(np.float64)
    g_D = normalised(direction_D).astype(np.float64)
    rest_VD = unit_VD - np.outer(unit_VD @ g_D, g_D)
    kept = set(specific)
    stays_V = np.array([word in kept for word in vectors.words]) | (np.linalg.norm(rest_VD, axis=1) < 1e-6)
    changed_VD = np.where(stays_V[:, None], unit_VD, normalised(rest_VD))
    return vectors.with_matrix(changed_VD.astype(np.float32))


def equalise(vectors: Vectors, direction_D: Floats, pairs: Sequence[Pair]) -> Vectors:
    """Moves the two words of each pair, such as (grandmother, grandfather), to the same distance from every word that
    has no component along the direction (section 6, step 2b).

    The words keep the mean of their components orthogonal to the direction, and differ only along it, with opposite
    signs. Pairs with a word that has no vector, and pairs whose words have equal components along the direction, stay
    unchanged.
    """
    matrix_VD = vectors.unit_VD.astype(np.float64)
    g_D = normalised(direction_D).astype(np.float64)
    for one, other in pairs:
        rows = vectors.places([one, other])
        if len(set(rows)) < 2:
            continue
        pair_2D = matrix_VD[rows]
        on_2 = pair_2D @ g_D
        shared_D = pair_2D.mean(0)
        shared_D = shared_D - (shared_D @ g_D) * g_D
        half = np.sqrt(max(0.0, 1 - float(shared_D @ shared_D)))
        if on_2[0] != on_2[1]:
            matrix_VD[rows] = shared_D + np.outer(half * np.sign(on_2 - on_2.mean()), g_D)
    return vectors.with_matrix(matrix_VD.astype(np.float32))


def soften(vectors: Vectors, direction_D: Floats, specific: Collection[str] = (), weight: float = 0.2) -> Vectors:
    """Soft debiasing by a linear map T, which nearly keeps the inner products of all words. It makes neutral words
    nearly orthogonal to the direction (section 6, step 2 of the soft form).

    T minimises ||(T W)'(T W) - W'W||^2 + weight ||(T N)'(T g)||^2, where W has all words and N the words that are not
    ``specific``. Both terms are divided by the number of their products, so that ``weight`` means the same for any
    vocabulary. L-BFGS starts from the identity. Raises UserError unless ``weight`` > 0.
    """
    if weight <= 0:
        raise UserError(f"weight = {weight}: a number above 0 was expected; 0 changes nothing")
    unit_VD = vectors.unit_VD.astype(np.float64)
    kept = set(specific)
    neutral_ND = unit_VD[[word not in kept for word in vectors.words]]
    words_DD = torch.from_numpy(unit_VD.T @ unit_VD / len(unit_VD))
    neutral_DD = torch.from_numpy(neutral_ND.T @ neutral_ND / max(1, len(neutral_ND)))
    g_D = torch.from_numpy(normalised(direction_D).astype(np.float64))
    identity_DD = torch.eye(len(g_D), dtype=torch.float64)
    map_DD = identity_DD.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([map_DD], max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        product_DD = map_DD.T @ map_DD
        changed_DD = product_DD - identity_DD
        kept_products = torch.trace(words_DD @ changed_DD @ words_DD @ changed_DD)
        on_D = product_DD @ g_D
        total = kept_products + weight * on_D @ neutral_DD @ on_D
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    moved_VD = unit_VD @ map_DD.detach().numpy().T
    return vectors.with_matrix(normalised(moved_VD).astype(np.float32))
