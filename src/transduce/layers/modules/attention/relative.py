"""Relative positions in self-attention: the distance between query and key.

Key s of a row has position s. B rows (1 if all rows have the same positions), H heads, T queries, S keys, D features of
a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import widened

Read = Callable[[Tensor], Tensor]


class NoRelative(nn.Module):
    """No relative positions: ``turn`` returns the same query and key, ``bias`` the same bias, and ``read`` None. The
    other classes override the methods that they change.
    """

    def __init__(self, heads: int, width: int, causal: bool) -> None:
        super().__init__()

    def turn(self, query_BHTD: Tensor, key_BHTD: Tensor, places_BT: Tensor) -> tuple[Tensor, Tensor]:
        return query_BHTD, key_BHTD

    def bias(self, bias_B1TS: Tensor, query_BHTD: Tensor, places_BT: Tensor) -> Tensor:
        return bias_B1TS

    def read(self, places_BT: Tensor, keys: int) -> Read | None:
        return None

    def keep(self, heads: Sequence[int]) -> None:
        """Removes all heads but these: here nothing, because no head has positions of its own."""


class Shaw(NoRelative):
    """For each distance up to ``distance``, one vector a that is added to keys, and one vector b that is added to
    values. All heads share them.

    Shaw et al. 2018, eq. 3-4: e_ts = q_t . (k_s + a_ts) / sqrt(D); z_t = sum_s weight_ts (v_s + b_ts). Keys after the
    query have vectors of their own, unless the attention is ``causal``. Longer distances share the last vector of their
    side. Raises UserError for a ``distance`` below 1.
    """

    def __init__(self, heads: int, width: int, causal: bool, distance: int = 16) -> None:
        super().__init__(heads, width, causal)
        if distance < 1:
            raise UserError(f"distance = {distance}: the distances told apart, at least 1")
        self.distance = distance
        self.ahead = 0 if causal else distance
        self.key = nn.Parameter(torch.empty(distance + 1 + self.ahead, width))
        self.value = nn.Parameter(torch.empty_like(self.key))
        nn.init.xavier_uniform_(self.key)
        nn.init.xavier_uniform_(self.value)

    def bias(self, bias_B1TS: Tensor, query_BHTD: Tensor, places_BT: Tensor) -> Tensor:
        # One product per vector instead of one per pair of positions; then each pair selects its own.
        energy_BHTR = torch.matmul(query_BHTD * query_BHTD.shape[-1] ** -0.5, self.key.T)
        index_B1TS = self._index(places_BT, bias_B1TS.shape[-1])
        return energy_BHTR.gather(-1, index_B1TS.expand(*energy_BHTR.shape[:3], -1)) + bias_B1TS

    def read(self, places_BT: Tensor, keys: int) -> Read:
        return partial(self._read, self._index(places_BT, keys))

    def _read(self, index_B1TS: Tensor, weights_BHTS: Tensor) -> Tensor:
        nothing_BHTR = weights_BHTS.new_zeros(*weights_BHTS.shape[:3], len(self.value))
        share_BHTR = nothing_BHTR.scatter_add(-1, index_B1TS.expand_as(weights_BHTS), weights_BHTS)
        return torch.matmul(share_BHTR, self.value)

    def _index(self, places_BT: Tensor, keys: int) -> Tensor:
        distance_BTS = ahead(places_BT, keys)
        return (distance_BTS.clamp_(-self.distance, self.ahead) + self.distance)[:, None]


class T5(NoRelative):
    """A number for each head and bucket of distances, added to the energies: Raffel et al. 2020, section 2.1.

    An encoder uses half of the ``buckets`` for each direction; a decoder uses all for the past. Half of a direction's
    buckets hold one distance each. The others grow logarithmically up to ``distance``, and the last one holds all
    longer distances too. Each layer has its own numbers; Raffel et al. share them. Raises UserError if a direction has
    fewer than 2 buckets, or if ``distance`` is not beyond the distances with a bucket of their own.
    """

    def __init__(self, heads: int, width: int, causal: bool, buckets: int = 32, distance: int = 128) -> None:
        super().__init__(heads, width, causal)
        self.causal = causal
        self.side = buckets if causal else buckets // 2  # buckets of one side
        if self.side < 2 or distance <= self.side // 2:
            raise UserError(
                f"buckets = {buckets}, distance = {distance}: at least {2 if causal else 4} buckets, and a distance "
                f"beyond the {self.side // 2} that have one each"
            )
        self.distance = distance
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=width**-0.5)

    def keep(self, heads: Sequence[int]) -> None:
        self.weight = nn.Parameter(self.weight.detach()[:, list(heads)].clone())

    def bias(self, bias_B1TS: Tensor, query_BHTD: Tensor, places_BT: Tensor) -> Tensor:
        # The logarithm is computed once per distance, not once per pair of positions.
        S = bias_B1TS.shape[-1]
        first, last = 1 - S, 0 if self.causal else S - 1
        distances_R = torch.arange(first, last + 1, device=places_BT.device)
        weight_RH = nn.functional.embedding(self.buckets(distances_R), self.weight)
        index_BTS = ahead(places_BT, S).clamp_(first, last) - first
        return nn.functional.embedding(index_BTS, weight_RH).permute(0, 3, 1, 2) + bias_B1TS

    def buckets(self, distances: Tensor) -> Tensor:
        """The bucket of each distance (place of the key minus place of the query), in the shape of ``distances``.

        An encoder has separate buckets for keys after the query. A decoder (``causal``) has no such keys.
        """
        far = distances.abs()
        single = self.side // 2
        growth = torch.log(far.clamp(min=1).float() / single) / math.log(self.distance / single)
        bucket = (single + (growth * (self.side - single)).long()).clamp(max=self.side - 1)
        bucket = torch.where(far < single, far, bucket)
        return bucket if self.causal else bucket + self.side * (distances > 0)


class Rotary(NoRelative):
    """Rotates queries and keys by their positions, so that their product depends on positions only through the
    distance.

    Su et al. 2021, eq. 34. Features i < D/2 and i + D/2 form a plane, rotated by position / base^(2i/D) radians. The
    paper pairs neighbours, which differs only in the order of the features. Raises UserError if D is odd.
    """

    def __init__(self, heads: int, width: int, causal: bool, base: float = 10000.0) -> None:
        super().__init__(heads, width, causal)
        if width % 2:
            raise UserError(f"heads of width {width}: rotary positions turn pairs of features and need an even width")
        self.base = base

    def turn(self, query_BHTD: Tensor, key_BHTD: Tensor, places_BT: Tensor) -> tuple[Tensor, Tensor]:
        D = query_BHTD.shape[-1]
        wide = widened(query_BHTD.dtype)  # in bfloat16, position 257 is 256
        exponents_F = torch.arange(0, D, 2, dtype=wide, device=places_BT.device) / D
        angles_B1TF = places_BT[:, None, :, None].to(wide) * self.base**-exponents_F
        cos, sin = angles_B1TF.cos().to(query_BHTD.dtype), angles_B1TF.sin().to(query_BHTD.dtype)
        return _turned(query_BHTD, cos, sin), _turned(key_BHTD, cos, sin)


def _turned(x_BHTD: Tensor, cos_B1TF: Tensor, sin_B1TF: Tensor) -> Tensor:
    a, b = x_BHTD.chunk(2, -1)
    return torch.cat([a * cos_B1TF - b * sin_B1TF, a * sin_B1TF + b * cos_B1TF], -1)


class Alibi(NoRelative):
    """A linear penalty on the distance: Press et al. 2022, section 3.

    Energies e_ts become e_ts - m_h |t - s|, with m_h = 2^(-8h/H) for head h = 1 to H. It has no parameters and works
    for any length. Both directions have the same penalty in an encoder.
    """

    def __init__(self, heads: int, width: int, causal: bool) -> None:
        super().__init__(heads, width, causal)
        self.slopes = [2.0 ** (-8 / heads * head) for head in range(1, heads + 1)]

    def keep(self, heads: Sequence[int]) -> None:
        self.slopes = [self.slopes[head] for head in heads]

    def bias(self, bias_B1TS: Tensor, query_BHTD: Tensor, places_BT: Tensor) -> Tensor:
        slope_H11 = torch.tensor(self.slopes, dtype=bias_B1TS.dtype, device=bias_B1TS.device)[:, None, None]
        return bias_B1TS - slope_H11 * ahead(places_BT, bias_B1TS.shape[-1]).abs_()[:, None]


def ahead(places_BT: Tensor, keys: int) -> Tensor:
    """The place of each of ``keys`` keys minus the place of the query, [B, T, S]; negative if the key is behind."""
    return torch.arange(keys, device=places_BT.device) - places_BT[:, :, None]
