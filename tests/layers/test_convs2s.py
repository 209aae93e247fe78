"""ConvS2S in float64, against a NumPy twin that follows the paper's equations position by position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from drawn import spread
from transduce.core import tree
from transduce.core.types import Memory, MemoryWidths, Padded
from transduce.layers.decoders.convs2s import ConvS2SDecoder
from transduce.layers.encoders.convs2s import ConvS2SEncoder
from transduce.layers.modules.convolution import Convolution, GatedConvolution, convolve, scale_gradient
from transduce.layers.modules.embedding import TokenEmbedding

SOURCE_WORDS, TARGET_WORDS, E, D, LAYERS = 11, 9, 5, 6, 3
ROWS = [[4, 5, 6, 7, 8, 2], [9, 3, 2], [2]]
SOURCE = Padded(torch.tensor([row + [7] * (6 - len(row)) for row in ROWS]), torch.tensor([6, 3, 1]))
TARGET = torch.tensor([[1, 4, 8, 5, 5], [1, 6, 3, 3, 2], [1, 1, 7, 6, 5]])
HALF = np.sqrt(0.5)
Array = Any


def encoder(kernel: int = 3) -> ConvS2SEncoder:
    return spread(ConvS2SEncoder(SOURCE_WORDS, embedding_width=E, width=D, layers=LAYERS, kernel=kernel))


def decoder(kernel: int = 3) -> ConvS2SDecoder:
    return spread(
        ConvS2SDecoder(TARGET_WORDS, MemoryWidths(E, (E,)), embedding_width=E, width=D, layers=LAYERS, kernel=kernel)
    )


def numbers(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy()


# ------------------------------------------------------------------- the twin


def kernel_at(layer: Convolution, window: list[Array]) -> Array:
    """One output position. A feature is its gain times the product with its normalised weights, plus its bias."""
    weight, gain, bias = numbers(layer.weight), numbers(layer.gain), numbers(layer.bias)
    y = np.zeros(len(gain))
    for o in range(len(gain)):
        length = np.sqrt(sum(w * w for w in weight[o].ravel()))
        product = sum(weight[o, :, j] @ x for j, x in enumerate(window))
        y[o] = gain[o] * product / length + bias[o]
    return y


def gate(y: Array) -> Array:
    half = len(y) // 2
    return y[:half] / (1 + np.exp(-y[half:]))


def embed(ours: Any, ids: list[int]) -> list[Array]:
    table, places = numbers(ours.embedding.weight), numbers(ours.positions.weight)
    return [table[word] + places[p] for p, word in enumerate(ids)]


def encode(ours: ConvS2SEncoder, ids: list[int]) -> tuple[list[Array], list[Array]]:
    embedded = embed(ours, ids)
    x = [kernel_at(ours.widen, [e]) for e in embedded]
    for layer in ours.layers:
        reach = range(-(ours.kernel // 2), ours.kernel // 2 + 1)
        windows = [[x[s + r] if 0 <= s + r < len(x) else np.zeros(D) for r in reach] for s in range(len(x))]
        x = [(gate(kernel_at(layer.convolution, w)) + x[s]) * HALF for s, w in enumerate(windows)]
    states = [kernel_at(ours.narrow, [h]) for h in x]
    return states, [(z + e) * HALF for z, e in zip(states, embedded, strict=True)]


def attend(query: Array, states: list[Array], values: list[Array]) -> Array:
    shares = np.exp([query @ z for z in states])
    context = sum(share * value for share, value in zip(shares / shares.sum(), values, strict=True))
    return context * len(states) * np.sqrt(1 / len(states))


def decode(ours: ConvS2SDecoder, kernel: int, ids: list[int], states: list[Array], values: list[Array]) -> Array:
    embedded = embed(ours, ids)
    x = [kernel_at(ours.widen, [e]) for e in embedded]
    for layer in ours.layers:
        padded, after = [np.zeros(D)] * (kernel - 1) + x, []
        for t in range(len(x)):
            h = gate(kernel_at(layer.gated.convolution, padded[t : t + kernel]))
            query = (kernel_at(layer.query, [h]) + embedded[t]) * HALF
            read = kernel_at(layer.out, [attend(query, states, values)])
            after.append(((read + h) * HALF + x[t]) * HALF)
        x = after
    return np.stack([kernel_at(ours.narrow, [h]) for h in x])


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_encoder_is_the_paper_position_by_position(kernel: int) -> None:
    ours = encoder(kernel)
    memory = ours(SOURCE)
    for row, ids in enumerate(ROWS):
        states, values = encode(ours, ids)
        assert_close(memory.states.values[row, : len(ids)], torch.tensor(np.stack(states)))
        assert_close(memory.read_BSD[row, : len(ids)], torch.tensor(np.stack(values)))
        assert_close(memory.summary[0][row], torch.tensor(np.mean(values, 0)))


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_decoder_is_the_paper_position_by_position(kernel: int) -> None:
    reader, ours = encoder(), decoder(kernel)
    output, _ = ours.extend(TARGET, ours.start(reader(SOURCE)))
    for row, ids in enumerate(ROWS):
        assert_close(output[row], torch.tensor(decode(ours, kernel, TARGET[row].tolist(), *encode(reader, ids))))


# ------------------------------------------------------------------ its parts


@pytest.mark.parametrize(("positions", "kernel"), [(7, 1), (7, 4), (4, 4)])
def test_convolve_is_a_sum_over_its_window_however_it_is_computed(positions: int, kernel: int) -> None:
    x = torch.randn(2, positions, 3, dtype=torch.float64)
    weight = torch.randn(5, 3, kernel, dtype=torch.float64)
    windows = torch.stack([x[:, t : t + kernel] for t in range(positions - kernel + 1)], 1)
    assert_close(convolve(x, weight), torch.einsum("btkd,odk->bto", windows, weight))


def test_the_memory_gets_a_share_of_the_gradient() -> None:
    """States and values each get 1 / (2 layers) of their gradient. Finite differences give the whole gradient."""
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    (scale_gradient(x, 0.25) * torch.arange(3.0)).sum().backward()
    assert_close(x.grad, 0.25 * torch.arange(3.0, dtype=torch.float64))
    ours, read = decoder(), encoder()(SOURCE)
    states, values = (part.detach().requires_grad_() for part in (read.states.values, read.read_BSD))

    def loss(states: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        output, _ = ours.extend(TARGET, ours.start(Memory(Padded(states, SOURCE.lengths), (), None, values)))
        return output.square().sum()

    loss(states, values).backward()
    with torch.no_grad():
        for part, other, order in ((states, values, 1), (values, states, -1)):
            step = torch.randn(part.shape, dtype=torch.float64) * 1e-6
            change = loss(*(part + step, other)[::order]) - loss(*(part - step, other)[::order])
            assert_close((part.grad * step).sum() * 2 * LAYERS, change / 2, rtol=1e-5, atol=0)


def test_a_gated_convolution_keeps_the_variance() -> None:
    torch.manual_seed(0)
    gated, linear = GatedConvolution(256, 3, 0.25), Convolution(256, 256, variance=0.75)
    dropped = torch.randn(8, 40, 256) * (torch.rand(8, 40, 256) > 0.25) / 0.75
    assert linear(dropped).var().item() == pytest.approx(1.0, abs=0.05)
    assert gated(dropped).var().item() == pytest.approx(1.2, abs=0.2)  # "roughly": section 3.5 treats the gate as 1/2


def test_embeddings_are_drawn_as_in_the_paper() -> None:
    plain = ConvS2SDecoder(2000, MemoryWidths(16, (16,)), embedding_width=16, width=8)
    assert plain.embedding.weight.std().item() == pytest.approx(0.1, rel=0.03)
    assert TokenEmbedding(2000, 16, scaled=False).weight.std().item() == pytest.approx(0.25, rel=0.03)


def test_a_state_keeps_no_more_than_the_kernels_reach() -> None:
    ours = decoder(4)
    with torch.inference_mode():
        state = ours.start(encoder()(SOURCE))
        sizes = [leaf.numel() for leaf in tree.leaves(state)]
        for t in range(5):
            _, state = ours.extend(TARGET[:, t : t + 1], state)
    assert [leaf.numel() for leaf in tree.leaves(state)] == sizes


def test_every_layer_has_a_tap() -> None:
    ours, seen = decoder(), []
    for layer in ours.layers:
        layer.attention.weights.register_forward_hook(lambda module, inputs, output: seen.append(output))
    ours.extend(TARGET, ours.start(encoder()(SOURCE)))
    assert len(seen) == LAYERS
    for weights in seen:
        assert_close(weights.sum(-1), torch.ones(3, 5, dtype=torch.float64))
        assert (weights[2, :, 1:] == 0).all()


# ------------------------------------------------------------------ bad input


def test_an_even_kernel_has_no_centre() -> None:
    with pytest.raises(ValueError, match=r"kernel = 4: .*make it odd"):
        ConvS2SEncoder(11, kernel=4)


def test_a_kernel_reads_something() -> None:
    with pytest.raises(ValueError, match="kernel = 0: a convolution reads at least one position"):
        ConvS2SDecoder(11, MemoryWidths(256, (256,)), kernel=0)


def test_embeddings_as_wide_as_the_memory() -> None:
    with pytest.raises(ValueError, match=r"embedding_width = 4: .*memory of width 6; make the two equal"):
        ConvS2SDecoder(11, MemoryWidths(6, (6,)), embedding_width=4)
