"""The Transformer against torch's with copied weights, and its positions against the paper's formula, in float64."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from drawn import spread
from transduce.core import config
from transduce.core.protocols import Encoder
from transduce.core.types import Facts, Memory, MemoryWidths, Padded
from transduce.layers.decoders.stacked import TransformerDecoder
from transduce.layers.encoders.stacked import TransformerEncoder
from transduce.layers.modules.mixers.attention import SelfAttention
from transduce.layers.modules.positions import TABULATED, Learned, NoPositions, Sinusoidal
from transduce.layers.modules.residual import PostNorm, PreNorm

VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS = 11, 8, 2, 12, 3
SOURCE = Padded(torch.tensor([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0]]), torch.tensor([5, 3]))
TARGET = torch.tensor([[1, 4, 9, 5], [1, 6, 3, 3]])
exactly = partial(assert_close, rtol=0, atol=1e-10)
RESIDUALS: dict[str, Any] = {"pre": PreNorm, "post": PostNorm}
NORMS = pytest.mark.parametrize("norm", RESIDUALS)


def encoder(norm: str) -> TransformerEncoder:
    return spread(TransformerEncoder(VOCABULARY, Sinusoidal, WIDTH, LAYERS, HEADS, HIDDEN, 0.1, RESIDUALS[norm]))


def decoder(norm: str, memory_width: int = WIDTH) -> TransformerDecoder:
    memory = MemoryWidths(memory_width, (memory_width,))
    stack = TransformerDecoder(VOCABULARY, memory, Sinusoidal, WIDTH, LAYERS, HEADS, HIDDEN, 0.1, RESIDUALS[norm])
    return spread(stack)


def paper_positions(length: int) -> Tensor:
    """PE(pos, 2i) and PE(pos, 2i + 1) of Vaswani et al. 2017, section 3.5, one number after the other."""
    angle = [[pos / 10000 ** (2 * (j // 2) / WIDTH) for j in range(WIDTH)] for pos in range(length)]
    return torch.tensor(
        [[math.cos(a) if j % 2 else math.sin(a) for j, a in enumerate(row)] for row in angle], dtype=torch.float64
    )


def embed(ours: Any, ids: Tensor) -> Tensor:
    return ours.embedding.weight[ids] * math.sqrt(WIDTH) + paper_positions(ids.shape[1])


def copy(theirs: Any, ours: Any) -> None:
    """Weight and bias of a linear layer, a norm, or attention's stacked projection."""
    theirs.weight.data, theirs.bias.data = ours.weight.data.clone(), ours.bias.data.clone()


def copy_self_attention(theirs: nn.MultiheadAttention, ours: Any) -> None:
    theirs.in_proj_weight.data = ours.project.weight.data.clone()
    theirs.in_proj_bias.data = ours.project.bias.data.clone()
    copy(theirs.out_proj, ours.out)


def copy_cross_attention(theirs: nn.MultiheadAttention, ours: Any) -> None:
    theirs.in_proj_weight.data = torch.cat([ours.query.weight, ours.project.weight]).data
    theirs.in_proj_bias.data = torch.cat([ours.query.bias, ours.project.bias]).data
    copy(theirs.out_proj, ours.out)


def torch_encoder(ours: TransformerEncoder, norm: str) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True, norm_first=norm == "pre")
    last = nn.LayerNorm(WIDTH) if norm == "pre" else None
    oracle = nn.TransformerEncoder(layer, LAYERS, norm=last, enable_nested_tensor=False).double().eval()
    for theirs, mine in zip(oracle.layers, ours.layers, strict=True):
        copy_self_attention(theirs.self_attn, mine.mixer)
        copy(theirs.linear1, mine.feedforward.widen)
        copy(theirs.linear2, mine.feedforward.narrow)
        copy(theirs.norm1, mine.mixer_residual.norm)
        copy(theirs.norm2, mine.feedforward_residual.norm)
    if last is not None:
        copy(oracle.norm, ours.norm)
    return oracle


def torch_decoder(ours: TransformerDecoder, norm: str) -> nn.TransformerDecoder:
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True, norm_first=norm == "pre")
    last = nn.LayerNorm(WIDTH) if norm == "pre" else None
    oracle = nn.TransformerDecoder(layer, LAYERS, norm=last).double().eval()
    for theirs, mine in zip(oracle.layers, ours.layers, strict=True):
        copy_self_attention(theirs.self_attn, mine.mixer)
        copy_cross_attention(theirs.multihead_attn, mine.memory)
        copy(theirs.linear1, mine.feedforward.widen)
        copy(theirs.linear2, mine.feedforward.narrow)
        copy(theirs.norm1, mine.mixer_residual.norm)
        copy(theirs.norm2, mine.memory_residual.norm)
        copy(theirs.norm3, mine.feedforward_residual.norm)
    if last is not None:
        copy(oracle.norm, ours.norm)
    return oracle


@NORMS
def test_the_encoder_is_torchs(norm: str) -> None:
    ours = encoder(norm)
    memory = ours(SOURCE)
    expected = torch_encoder(ours, norm)(embed(ours, SOURCE.values), src_key_padding_mask=~SOURCE.mask)
    exactly(memory.states.values[SOURCE.mask], expected[SOURCE.mask])
    averages = [expected[row, :length].mean(0) for row, length in enumerate(SOURCE.lengths)]
    exactly(memory.summary[0], torch.stack(averages))
    assert memory.source is SOURCE


@NORMS
def test_the_decoder_is_torchs(norm: str) -> None:
    ours = decoder(norm)
    states = torch.randn(2, 5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    output, _ = ours.extend(TARGET, ours.start(Memory(Padded(states, SOURCE.lengths), (), None)))
    causal = nn.Transformer.generate_square_subsequent_mask(TARGET.shape[1], dtype=torch.float64)
    expected = torch_decoder(ours, norm)(
        embed(ours, TARGET),
        states,
        tgt_mask=causal,
        memory_key_padding_mask=torch.zeros(2, 5, dtype=torch.float64).masked_fill(~SOURCE.mask, float("-inf")),
    )
    exactly(output, expected)
    exactly(ours.readout(output), expected @ ours.projection.weight.T + ours.projection.bias)


@NORMS
def test_gradients_are_torchs(norm: str) -> None:
    ours = encoder(norm)
    oracle = torch_encoder(ours, norm)
    away = torch.linspace(-1, 1, 8 * WIDTH, dtype=torch.float64).view(8, WIDTH)  # 8 real positions
    (ours(SOURCE).states.values[SOURCE.mask] * away).sum().backward()
    x = embed(ours, SOURCE.values).detach()
    (oracle(x, src_key_padding_mask=~SOURCE.mask)[SOURCE.mask] * away).sum().backward()
    for theirs, mine in zip(oracle.layers, ours.layers, strict=True):
        exactly(mine.mixer.project.weight.grad, theirs.self_attn.in_proj_weight.grad)
        exactly(mine.feedforward.narrow.bias.grad, theirs.linear2.bias.grad)
        exactly(mine.mixer_residual.norm.weight.grad, theirs.norm1.weight.grad)


def test_a_memory_of_another_width_is_read() -> None:
    ours = decoder("pre", memory_width=5)
    states = torch.randn(2, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    output, _ = ours.extend(TARGET, ours.start(Memory(Padded(states, SOURCE.lengths), (), None)))
    assert output.shape == (2, 4, WIDTH)


# ------------------------------------------------------------------- positions


def test_sinusoidal_positions_are_the_papers() -> None:
    exactly(Sinusoidal(WIDTH).double()(torch.arange(300)[None])[0], paper_positions(300))
    exactly(Sinusoidal(WIDTH).double()(torch.arange(TABULATED + 9)[None])[0], paper_positions(TABULATED + 9))


def test_sinusoidal_positions_of_staggered_rows() -> None:
    places = torch.tensor([[0, 1], [7, 8]])
    exactly(Sinusoidal(WIDTH).double()(places), paper_positions(9)[places])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 2**-8)])
def test_sinusoidal_positions_in_narrow_types_are_rounded_only_at_the_end(dtype: torch.dtype, tolerance: float) -> None:
    got = Sinusoidal(WIDTH).to(dtype)(torch.arange(1000)[None])[0]
    assert got.dtype == dtype
    assert_close(got.double(), paper_positions(1000), rtol=0, atol=tolerance)


def test_sinusoidal_positions_refuse_an_odd_width() -> None:
    with pytest.raises(ValueError, match=r"width = 7: .* even width"):
        Sinusoidal(7)


def test_learned_positions_end() -> None:
    positions = Learned(WIDTH, length=6)
    assert_close(positions(torch.tensor([[5, 0]])), positions.weight[[5, 0]][None])
    with pytest.raises(ValueError, match=r"position 6: .* positions 0 to 5 only; .*positions\.length"):
        positions(torch.tensor([[0, 6]]))
    assert positions(torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, WIDTH)


def test_no_positions_are_nothing() -> None:
    assert NoPositions(WIDTH)(torch.arange(4)[None]) == 0.0


# ---------------------------------------------------------------------- mixers


class Still(nn.Module):
    """A mixer that mixes nothing, and says which of the stack's it is."""

    def __init__(self, width: int, heads: int, dropout: float, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: Padded) -> Tensor:
        return torch.full_like(x.values, self.number)


def test_an_array_of_mixers_is_one_a_layer_from_the_lowest() -> None:
    mixers = [partial(Still, number=1.0), SelfAttention, partial(Still, number=3.0)]
    stack = TransformerEncoder(VOCABULARY, Sinusoidal, WIDTH, LAYERS, HEADS, HIDDEN, 0.1, PreNorm, mixers)
    assert [getattr(layer.mixer, "number", None) for layer in stack.layers] == [1.0, None, 3.0]


@pytest.mark.parametrize("stack", [TransformerEncoder, partial(TransformerDecoder, memory=MemoryWidths(8, ()))])
def test_an_array_of_mixers_must_fit_the_layers(stack: Any) -> None:
    with pytest.raises(ValueError, match=r"mixer has 2 entries, the stack 3 layers: give one for all, or one a layer"):
        stack(VOCABULARY, positions=Sinusoidal, width=8, layers=3, heads=2, mixer=[SelfAttention, SelfAttention])


def test_mixers_by_name() -> None:
    """One name, a table, or an array of them; a wrong one is told where it stands."""
    stack = {"type": "transformer", "positions": "none", "width": 8, "layers": 2, "heads": 2}
    for mixer in ("attention", {"type": "attention"}, ["attention", {"type": "attention"}]):
        built: Any = config.build(stack | {"mixer": mixer}, Encoder, Facts(5, 5), "encoder")
        assert [type(layer.mixer) for layer in built.layers] == [SelfAttention, SelfAttention]
    for mixer, where in (("atention", "mixer"), (["attention", "atention"], r"mixer\[1\]")):
        with pytest.raises(config.ConfigError, match=rf'^encoder\.{where}: "atention" is no Mixer; did'):
            config.build(stack | {"mixer": mixer}, Encoder, Facts(5, 5), "encoder")
