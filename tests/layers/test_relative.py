"""Relative positions against loops over every head, query and key, in float64."""

from __future__ import annotations

import cmath
import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from transduce.core.types import Padded
from transduce.layers.modules.attention.relative import T5, Alibi, NoRelative, Rotary, Shaw
from transduce.layers.modules.mixers.attention import CausalSelfAttention, SelfAttention

ROWS, LENGTH, WIDTH, HEADS = 2, 7, 12, 3
D = WIDTH // HEADS
LENGTHS = torch.tensor([7, 4])
exactly = partial(assert_close, rtol=0, atol=1e-12)
CAUSAL = pytest.mark.parametrize("causal", [False, True])


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def attention(relative: Any, causal: bool, heads: int = HEADS) -> Any:
    torch.manual_seed(0)
    made: nn.Module = (CausalSelfAttention if causal else SelfAttention)(WIDTH, heads, 0.0, relative)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.uniform_(-0.9, 0.9)
    return made.double().eval()


def attend(ours: Any, x: Tensor, causal: bool) -> Tensor:
    if causal:
        places = torch.arange(x.shape[1]).expand(len(x), -1)
        return ours(x, ours.start(len(x), x), places)[0]
    return ours(Padded(x, LENGTHS))


class Loop:
    """Self-attention one pair of positions after the other; the variants say what a pair adds."""

    def __init__(self, ours: Any, causal: bool) -> None:
        self.ours, self.causal, self.relative = ours, causal, ours.relative

    def energy(self, q: Tensor, k: Tensor, t: int, s: int, h: int) -> Tensor:
        return q @ k / math.sqrt(D)

    def value(self, v: Tensor, t: int, s: int) -> Tensor:
        return v

    def __call__(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for b, length in enumerate(LENGTHS.tolist()):
            q, k, v = (self.ours.project(x[b]).view(LENGTH, 3, HEADS, D)[:, i] for i in range(3))
            for t in range(length):
                seen = range(t + 1) if self.causal else range(length)
                read = []
                for h in range(HEADS):
                    energies = torch.stack([self.energy(q[t, h], k[s, h], t, s, h) for s in seen])
                    values = torch.stack([self.value(v[s, h], t, s) for s in seen])
                    read.append(torch.softmax(energies, 0) @ values)
                out[b, t] = self.ours.out(torch.cat(read))
        return out


class ShawLoop(Loop):
    limit = 2

    def row(self, t: int, s: int) -> int:
        return max(-self.limit, min(self.limit, s - t)) + self.limit

    def energy(self, q: Tensor, k: Tensor, t: int, s: int, h: int) -> Tensor:
        return q @ (k + self.relative.key[self.row(t, s)]) / math.sqrt(D)

    def value(self, v: Tensor, t: int, s: int) -> Tensor:
        return v + self.relative.value[self.row(t, s)]


class RotaryLoop(Loop):
    base = 50.0

    def turned(self, x: Tensor, place: int) -> list[complex]:
        planes = [complex(x[i], x[i + D // 2]) for i in range(D // 2)]
        return [z * cmath.exp(1j * place * self.base ** (-2 * i / D)) for i, z in enumerate(planes)]

    def energy(self, q: Tensor, k: Tensor, t: int, s: int, h: int) -> Tensor:
        pairs = zip(self.turned(q, t), self.turned(k, s), strict=True)
        return torch.tensor(sum((a * b.conjugate()).real for a, b in pairs) / math.sqrt(D), dtype=torch.float64)


class AlibiLoop(Loop):
    def energy(self, q: Tensor, k: Tensor, t: int, s: int, h: int) -> Tensor:
        return q @ k / math.sqrt(D) - abs(t - s) * 2 ** (-8 * (h + 1) / HEADS)


class T5Loop(Loop):
    """Half of the buckets are single distances. The others grow with the logarithm up to the farthest distance."""

    buckets, distance = 8, 6

    def energy(self, q: Tensor, k: Tensor, t: int, s: int, h: int) -> Tensor:
        count = self.buckets if self.causal else self.buckets // 2
        later, single, far = 0 if s <= t else count, count // 2, abs(s - t)
        if far < single:
            return q @ k / math.sqrt(D) + self.relative.weight[later + far, h]
        wide = int(math.log(far / single) / math.log(self.distance / single) * (count - single))
        bucket = later + min(single + wide, count - 1)
        return q @ k / math.sqrt(D) + self.relative.weight[bucket, h]


VARIANTS: dict[str, tuple[Any, type[Loop]]] = {
    "none": (NoRelative, Loop),
    "shaw": (partial(Shaw, distance=2), ShawLoop),
    "t5": (partial(T5, buckets=8, distance=6), T5Loop),
    "rotary": (partial(Rotary, base=50.0), RotaryLoop),
    "alibi": (Alibi, AlibiLoop),
}


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> tuple[Any, type[Loop]]:
    return VARIANTS[request.param]


@CAUSAL
def test_relative_attention_is_its_formula(variant: Any, causal: bool) -> None:
    relative, loop = variant
    ours, x = attention(relative, causal), randn(ROWS, LENGTH, WIDTH)
    with torch.no_grad():
        got, expected = attend(ours, x, causal), loop(ours, causal)(x)
    real = Padded(x, LENGTHS).mask
    exactly(got[real], expected[real])


@CAUSAL
def test_relative_positions_tell_order(variant: Any, causal: bool) -> None:
    """Two earlier positions exchanged: only without relative positions does the last one not notice."""
    relative, _ = variant
    ours, x = attention(relative, causal), randn(1, LENGTH, WIDTH).expand(ROWS, -1, -1)
    swapped = x[:, [0, 1, 2, 3, 5, 4, 6]]
    with torch.no_grad():
        same = torch.allclose(attend(ours, x, causal)[0, -1], attend(ours, swapped, causal)[0, -1])
    assert same == (relative is NoRelative)


@CAUSAL
@pytest.mark.parametrize("name", ["shaw", "t5", "rotary", "alibi"])
def test_only_distance_counts(name: str, causal: bool) -> None:
    """Queries and keys that all stand four positions later have the same biases and products."""
    relative = VARIANTS[name][0](heads=HEADS, width=D, causal=causal)
    relative = relative.double()
    query, key = randn(1, HEADS, 3, D), randn(1, HEADS, 3, D, seed=1)
    energies = []
    for first in (0, 4):
        places = torch.arange(first, first + 3)[None]
        q, k = relative.turn(query, key, places)
        bias = relative.bias(torch.zeros(1, 1, 3, first + 3, dtype=torch.float64), query, places)[..., first:]
        compared = torch.ones(3, 3).tril() if causal else torch.ones(3, 3)
        energies.append((q @ k.transpose(-1, -2) + bias)[..., compared.bool()])
    exactly(*energies)


@pytest.mark.slow  # the import of transformers takes seconds
@CAUSAL
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20), (6, 5)])
def test_buckets_are_transformers(causal: bool, buckets: int, distance: int) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    distances = torch.arange(-300, 1 if causal else 301)
    ours = T5(1, 1, causal, buckets, distance).buckets(distances)
    expected = T5Attention._relative_position_bucket(distances, not causal, buckets, distance)
    assert torch.equal(ours, expected)


def test_a_narrow_type_does_not_round_places() -> None:
    """bfloat16 cannot represent 257. Position 257 must not be rotated as position 256."""
    rotary, x = Rotary(1, 2, True), torch.tensor([1.0, 0.0], dtype=torch.bfloat16).expand(1, 1, 1, 2)
    turned, _ = rotary.turn(x, x, torch.tensor([[257]]))
    assert_close(turned.flatten().double(), torch.tensor([math.cos(257), math.sin(257)]).double(), rtol=0, atol=2**-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rotary(2, 5, True), "heads of width 5: rotary positions turn pairs"),
        (lambda: Shaw(2, 4, True, distance=0), "distance = 0: .* at least 1"),
        (lambda: T5(2, 4, False, buckets=3), "buckets = 3, distance = 128: at least 4 buckets"),
        (lambda: T5(2, 4, True, buckets=32, distance=16), "distance = 16: .* beyond the 16"),
    ],
)
def test_bad_options_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
