"""The encoders made for signals, by hand: the pyramid, the Conformer's parts, and a picture as one vector."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import conv1d, glu, layer_norm, silu
from torch.testing import assert_close

from families import SIGNAL, conformer, pyramidal, sources
from transduce.core import config
from transduce.core.protocols import Encoder
from transduce.core.types import Facts, Padded
from transduce.layers.modules.convolution import concatenate_neighbours
from transduce.layers.modules.mixers.attention import SelfAttention
from transduce.wings.labels.classifier import Classifier
from transduce.wings.labels.tagger import Tagger
from transduce.wings.signals.modules.conformer import ConvolutionModule
from transduce.wings.signals.perceptron import PerceptronEncoder


def build(table: config.Table, facts: Facts = SIGNAL) -> Any:
    torch.manual_seed(2)
    encoder: Any = config.build(table, Encoder, facts, "model.encoder")
    return encoder.double().eval()


def picture(steps: list[int], numbers: int) -> Padded:
    values = torch.randn(len(steps), max(steps), numbers, generator=torch.Generator().manual_seed(1))
    return Padded(values.double(), torch.tensor(steps))


def test_neighbours_are_joined_in_order_and_the_last_filled_up() -> None:
    values = torch.arange(1.0, 11.0).reshape(1, 5, 2).expand(2, -1, -1)
    joined = concatenate_neighbours(Padded(values, torch.tensor([5, 3])), 2)
    assert joined.lengths.tolist() == [3, 2]
    assert joined.values[0].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 0, 0]]
    assert joined.values[1, :2].tolist() == [[1, 2, 3, 4], [5, 6, 0, 0]]


def test_a_pyramid_halves_time_in_every_layer_but_the_first() -> None:
    encoder = build(pyramidal(embedding="features"))
    source = picture([9, 4, 1], 6)
    memory = encoder(source)
    assert memory.states.lengths.tolist() == [3, 1, 1]
    assert encoder.width == memory.states.values.shape[2] == 10
    assert encoder.summary_widths == (5,) * 12  # h and c of two directions in three layers
    x = encoder.embedding.embed(source)
    for number, layer in enumerate(encoder.layers):
        x = concatenate_neighbours(x, 2) if number else x
        x = Padded(layer.unroll(x.values, x.lengths)[0], x.lengths)
    assert_close(memory.states.values, x.values)


def test_the_convolution_module_is_its_formula() -> None:
    module = ConvolutionModule(4, heads=2, dropout=0.0, kernel=3).double()
    x = picture([6], 4)
    gated = glu(x.values @ module.enter.weight.T + module.enter.bias, -1)
    read = conv1d(gated.mT, module.weight[:, None], module.bias, padding=1, groups=4).mT
    expected = module.leave(silu(layer_norm(read, (4,))))
    assert_close(module(x), expected)


def test_a_conformer_layer_is_two_half_steps_around_attention_and_convolution() -> None:
    encoder = build(conformer(embedding="features"))
    layer = encoder.layers[0]
    x = picture([5], 8).values
    by_hand = x + layer.first(layer_norm(x, (8,))) / 2
    for mixer in (layer.attention, layer.convolution):
        by_hand = by_hand + mixer(Padded(layer_norm(by_hand, (8,)), torch.tensor([5])))
    by_hand = layer_norm(by_hand + layer.last(layer_norm(by_hand, (8,))) / 2, (8,))
    assert_close(layer(x, torch.tensor([5])), by_hand)


@pytest.mark.parametrize(("kernel", "relative", "knows"), [(1, "rotary", True), (3, "none", True), (1, "none", False)])
def test_a_conformer_knows_order(kernel: int, relative: str, knows: bool) -> None:
    """A Conformer has no absolute positions. Its rotary positions and its convolution each tell it the order."""
    encoder = build(conformer(kernel=kernel, relative={"type": relative}), Facts(9, 11))
    ids = sources([6])
    turned = Padded(ids.values.flip(1), ids.lengths)
    assert ((encoder(ids).summary[0] - encoder(turned).summary[0]).abs().max() > 1e-3) == knows


def test_the_lectures_network() -> None:
    """Linear, ReLU, self-attention, twice, over a picture as one vector: attention over one position is W_o W_v x."""
    table = {"type": "perceptron", "steps": 4, "widths": [5, 3], "mixer": "attention", "dropout": 0.0}
    encoder: PerceptronEncoder = build(table)
    source = picture([4, 4], 6)
    x_BD = source.values.flatten(1)
    for layer, mixer in zip(encoder.layers, encoder.mixers, strict=True):
        assert isinstance(mixer, SelfAttention)
        x_BD = layer(x_BD).relu()
        value_BD = (mixer.project.weight @ x_BD.T).T[:, -len(x_BD[0]) :] + mixer.project.bias[-len(x_BD[0]) :]
        x_BD = mixer.out(value_BD)
    memory = encoder(source)
    assert_close(memory.summary[0], x_BD)
    assert_close(memory.states.values[:, 0], x_BD)
    classifier = Classifier(11, encoder)
    assert classifier.double().start(source).shape == (2, 3)


def test_a_tagger_of_a_closed_signal_has_a_label_for_each_step() -> None:
    table = {"type": "recurrent", "cell": "lstm", "embedding_width": 8, "width": 4}
    encoder = build(table | {"embedding": {"type": "closed", "embedding": "features"}})
    source = picture([5, 1, 3], 6)
    assert Tagger(11, encoder).double().start(source).lengths.tolist() == [5, 1, 3]


@pytest.mark.parametrize(
    "table", [pyramidal(cell="lstm"), conformer(), {"type": "perceptron", "steps": 9, "mixer": "attention"}]
)
def test_bfloat16_trains(table: config.Table) -> None:
    encoder = build(table | ({"embedding": "features"} if table["type"] != "perceptron" else {})).float().train()
    with torch.autocast("cpu", torch.bfloat16):
        memory = encoder(picture([9, 4], 6))
    memory.states.values.float().square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())
    assert sum(p.grad is not None for p in encoder.parameters()) > 3


def test_a_perceptron_fills_up_and_refuses_what_is_too_long() -> None:
    encoder = build({"type": "perceptron", "steps": 4, "widths": [5]})
    short = picture([2], 6)
    whole = torch.cat([short.values.flatten(), torch.zeros(12, dtype=torch.float64)])
    assert_close(encoder(short).summary[0][0], encoder.layers[0](whole).relu())
    assert_close(encoder(picture([4, 2], 6)).summary[0][1:],
                 encoder(Padded(picture([4, 2], 6).values[1:, :2], torch.tensor([2]))).summary[0])  # fmt: skip
    with pytest.raises(ValueError, match=r"a source of 5 steps.*model\.encoder\.steps = 4"):
        encoder(picture([5], 6))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pyramidal(joined=0), "joined = 0"),
        (pyramidal(layers=0), "layers = 0"),
        (conformer(kernel=4), "kernel = 4"),
        (conformer(heads=3), "heads = 3"),
        ({"type": "perceptron", "steps": 0}, "steps = 0"),
        ({"type": "perceptron", "steps": 3, "widths": []}, r"widths = \[\]"),
    ],
)
def test_what_cannot_be_is_refused(table: config.Table, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(table, Facts(9, 11))
