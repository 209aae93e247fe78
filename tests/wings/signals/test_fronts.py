"""Embeddings of signals: their laws, their parts by hand, and inputs that they refuse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d
from torch.testing import assert_close

from transduce.core import config
from transduce.core.config.errors import ConfigError
from transduce.core.protocols import Encoder, Model
from transduce.core.types import Facts, Padded
from transduce.layers.encoders.bag import BagEncoder
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.positions import Learned, NoPositions, Sinusoidal
from transduce.training.settings import Training
from transduce.wings.signals.modules.clips import ClipEmbedding
from transduce.wings.signals.modules.columns import ColumnEmbedding
from transduce.wings.signals.modules.convolutional_attention import ConvolutionalAttention
from transduce.wings.signals.modules.ended import EndedEmbedding
from transduce.wings.signals.modules.feature_map import FeatureMapEmbedding
from transduce.wings.signals.modules.features import FrameEmbedding
from transduce.wings.signals.modules.grid import Grid, GridPositions, boxes
from transduce.wings.signals.modules.grid_convolutions import GridConvolution
from transduce.wings.signals.modules.norms import PictureNorm
from transduce.wings.signals.modules.numbers import NumberEmbedding
from transduce.wings.signals.modules.patches import PatchEmbedding
from transduce.wings.signals.modules.subsampling import SubsamplingEmbedding

D, WIDTH = 12, 8  # numbers per step and per vector: pictures of height 6 and 2 channels, clips of 3 columns
LENGTHS = [5, 11, 8, 1]
TALL = {"height": 6, "channels": 2}

TABLES: dict[str, config.Table] = {
    "features": {"type": "features"},
    "stacked": {"type": "features", "stack": 3},
    "subsampling": {"type": "subsampling", "channels": 3},
    "columns": {"type": "columns", "stages": [3, 5], **TALL},
    "columns, wide": {"type": "columns", "stages": [3, 4], "shrink": 1, **TALL},
    "patches": {"type": "patches", "patch": [3, 2], **TALL},
    "map": {"type": "map", "stages": [4, 6], "blocks": 2, "positions": "sinusoidal", **TALL},
    "map, steps": {"type": "map", "stages": [4, 6], "stem": 2, **TALL},
    "map, norm of pictures": {"type": "map", "stages": [4, 6], "norm": "picture", **TALL},
    "frames": {"type": "frames", "columns": 3, "embedding": {"type": "map", "height": 4, "stages": [3, 4]}},
    "frames, max": {
        "type": "frames",
        "columns": 3,
        "pooling": "max",
        "embedding": {"type": "patches", "height": 4, "patch": [2, 2]},
    },
    "convolutional attention": {
        "type": "convolutional-attention",
        "layers": 2,
        "heads": 2,
        "embedding": {"type": "map", "stages": [4, 6], **TALL},
    },
    "closed": {"type": "closed", "embedding": {"type": "columns", "stages": [3, 5], **TALL}},
}
CELLS: dict[str, Any] = {
    "stacked": lambda n: -(-n // 3),
    "subsampling": lambda n: -(-n // 4),
    "columns": lambda n: -(-n // 4),
    "patches": lambda n: 2 * -(-n // 2),
    "map": lambda n: 3 * -(-n // 2),
    "map, norm of pictures": lambda n: 3 * -(-n // 2),
    "map, steps": lambda n: 2 * -(-n // 4),
    "convolutional attention": lambda n: 3 * -(-n // 2),
    "closed": lambda n: -(-n // 4) + 1,
}
"""The number of vectors for a signal of n steps, if it is not n."""


def build(table: config.Table, seed: int = 3) -> Any:
    """The embedding as an encoder makes it, in float64."""
    torch.manual_seed(seed)
    encoder: Any = config.build(
        {"type": "bag", "width": WIDTH, "embedding": table}, Encoder, Facts(D, 9, source_factors=D), "model.encoder"
    )
    return encoder.embedding.double().eval()


def signal(lengths: list[int], steps: int | None = None, padding: float = 0.0, numbers: int = D) -> Padded:
    """Random rows with ``padding`` behind them. The numbers of a row depend only on its index."""
    values = torch.full((len(lengths), steps or max(lengths), numbers), padding, dtype=torch.float64)
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(row)
        values[row, :length] = torch.randn(length, numbers, generator=generator, dtype=torch.float64)
    return Padded(values, torch.tensor(lengths))


def rows(x: Padded) -> list[Tensor]:
    return [row[:length] for row, length in zip(x.values, x.lengths.tolist(), strict=True)]


def alone(x: Padded, row: int) -> Padded:
    return Padded(x.values[row : row + 1, : int(x.lengths[row])], x.lengths[row : row + 1])


@pytest.fixture(params=TABLES, scope="module")
def name(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def embedding(name: str) -> Any:
    return build(TABLES[name])


# ---------------------------------------------------------------------- laws


def test_padding_and_company(embedding: Any) -> None:
    """A source has the same vectors alone and in any batch, with any padding."""
    expected = rows(embedding.embed(signal(LENGTHS)))
    for source in (signal(LENGTHS, 15), signal(LENGTHS, 15, padding=7.7), signal(LENGTHS, padding=-3.0)):
        assert_close(rows(embedding.embed(source)), expected)
    for row in range(len(LENGTHS)):
        assert_close(rows(embedding.embed(alone(signal(LENGTHS), row))), [expected[row]])


def test_lengths(name: str, embedding: Any) -> None:
    embedded = embedding.embed(signal(LENGTHS))
    lengths = [CELLS.get(name, lambda n: n)(length) for length in LENGTHS]
    assert embedded.lengths.tolist() == lengths
    assert embedded.values.shape == (len(LENGTHS), max(lengths), WIDTH)


def test_every_number_matters_to_its_own_source(embedding: Any) -> None:
    source = signal(LENGTHS)
    values = source.values.requires_grad_()
    (gradient_BSD,) = torch.autograd.grad((embedding.embed(source).values[1] ** 2).sum(), values)
    assert not gradient_BSD[[0, 2, 3]].any()
    assert (gradient_BSD[1] != 0).all(1).any(0)  # max pooling and rectifiers pass only some of the numbers
    assert gradient_BSD[1].any(1).all()


def test_boxes_tile_the_source(name: str, embedding: Any) -> None:
    """Each vector has one box inside the source. Together the boxes are the whole source, and boxes past the end are
    zero.
    """
    source = signal(LENGTHS)
    boxes_BS4, lengths_B = embedding.boxes(source), embedding.embed(source).lengths
    assert boxes_BS4.shape[:2] == (len(LENGTHS), int(lengths_B.max()))
    for boxes_S4, length in zip(boxes_BS4, lengths_B.tolist(), strict=True):
        left, top, right, bottom = boxes_S4[: length - (name == "closed")].unbind(1)
        assert_close(((right - left) * (bottom - top)).sum(), torch.tensor(1.0))
        assert (left >= 0).all()
        assert (right > left).all()
        assert (bottom > top).all()
        assert (bottom <= 1).all()
        assert (right <= 1).all()
        assert not boxes_S4[length:].any()
        if name == "closed":
            assert boxes_S4[length - 1].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("front", ["map", "map, steps", "columns", "subsampling", "patches", "stacked"])
def test_a_box_is_around_the_middle_of_what_its_vector_sees(front: str) -> None:
    """A vector in the middle of a wide source depends on pixels that reach equally far to both sides of its box. The
    norm of pictures is left out: its mean and its variance depend on all pixels.
    """
    module, length = build(TABLES[front]), 61
    for part in module.modules():
        if isinstance(getattr(part, "norm", None), PictureNorm):
            part.norm = torch.nn.Identity()
    seen_S = torch.zeros(length, dtype=torch.bool)
    source, boxes_N4 = signal([length]), module.boxes(signal([length]))[0]
    place = int((boxes_N4[:, 0] > 0.4).nonzero()[0])
    for seed in range(9):  # a rectifier may block the gradient
        torch.manual_seed(seed)
        values = torch.randn_like(source.values).requires_grad_()
        out_D = module.embed(Padded(values, source.lengths)).values[0, place]
        (gradient_BSD,) = torch.autograd.grad((out_D * torch.randn_like(out_D)).sum(), values)
        seen_S |= (gradient_BSD[0] != 0).any(1)
    left, _, right, _ = boxes_N4[place].tolist()
    first, last = (int(seen_S.nonzero()[end]) for end in (0, -1))
    assert (first + last + 1) / 2 == pytest.approx(length * (left + right) / 2, abs=1e-4)


def test_boxes_of_strided_cells_in_both_directions() -> None:
    """Cells of four pixels in nine have their middles at 0.5, 4.5 and 8.5. Their boxes meet half way between."""
    boxes_YX4 = boxes((4, 4), 9, torch.tensor([9]), strided=True)[0].unflatten(0, (3, 3))
    edges = torch.tensor([0, 2.5, 6.5, 9]) / 9
    for place in range(3):
        assert_close(boxes_YX4[:, place, [0, 2]], edges[place : place + 2].expand(3, 2))
        assert_close(boxes_YX4[place, :, [1, 3]], edges[place : place + 2].expand(3, 2))


def test_it_reads_float32_and_trains_in_its_own_type(name: str) -> None:
    module = build(TABLES[name]).float()
    embedded = module.embed(signal(LENGTHS))  # of float64
    assert embedded.values.dtype == torch.float32
    embedded.values.sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_bfloat16_is_near(name: str) -> None:
    """Training may use bfloat16. All parameters get gradients, and the vectors are near the float32 vectors."""
    module = build(TABLES[name]).float()
    source = signal(LENGTHS)
    whole = module.embed(source)
    with torch.autocast("cpu", torch.bfloat16):
        half = module.embed(source)
    half.values.float().square().sum().backward()
    assert_close(rows(Padded(half.values.float(), half.lengths)), rows(whole), rtol=0.1, atol=0.1)
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in module.parameters())


# --------------------------------------------------------------------- parts


def test_features_are_linear_in_stacked_frames() -> None:
    module: FrameEmbedding = build(TABLES["stacked"])
    source = signal([5])
    padded_SD = torch.cat([source.values[0], torch.zeros(1, D, dtype=torch.float64)])
    expected = torch.stack([padded_SD[:3].flatten(), padded_SD[3:].flatten()]) @ module.kernel.T + module.bias
    assert_close(rows(module.embed(source)), [expected])


def test_subsampling_is_two_convolutions_over_time_and_frequency() -> None:
    module: SubsamplingEmbedding = build(TABLES["subsampling"])
    source = signal([7])
    x_1CFT = source.values.mT[:, None]
    for layer in (module.first.convolution, module.second.convolution):
        x_1CFT = conv2d(x_1CFT, layer.weight, layer.bias, stride=2, padding=1).relu()
    expected = torch.stack([module.out(x_1CFT[0, :, :, t].flatten()) for t in range(2)])
    assert_close(rows(module.embed(source)), [expected])


def test_a_column_is_channels_by_height() -> None:
    """Number c * height + y of a step is channel c of pixel y. Patches of one pixel show this, row by row."""
    module = PatchEmbedding(D, WIDTH, False, **TALL, patch=(1, 1), positions=NoPositions).double()
    source = signal([2])
    kernel_DC, vectors_ND = module.project.weight[:, :, 0, 0], rows(module.embed(source))[0]
    for y in range(6):
        for x in range(2):
            pixel_C = source.values[0, x, [y, 6 + y]]
            assert_close(vectors_ND[2 * y + x], kernel_DC @ pixel_C + module.project.bias)


def test_patches_are_cut_row_by_row_and_told_where_they_lie() -> None:
    module: PatchEmbedding = build(TABLES["patches"])
    source = signal([5])
    picture_CHW = torch.nn.functional.pad(source.values[0].T.reshape(2, 6, 5), (0, 1))
    expected = []
    for y in range(2):
        for x in range(3):
            patch = picture_CHW[:, 3 * y : 3 * y + 3, 2 * x : 2 * x + 2]
            projected = module.project.weight.flatten(1) @ patch.flatten() + module.project.bias
            expected.append(
                projected + torch.cat([module.positions.rows.weight[y], module.positions.columns.weight[x]])
            )
    assert_close(rows(module.embed(source)), [torch.stack(expected)])


def test_a_patch_is_where_its_box_is() -> None:
    module: PatchEmbedding = build(TABLES["patches"])
    source = signal([5, 11])
    before, boxes_S4 = rows(module.embed(source))[1], module.boxes(source)[1]
    for x, y in ((0, 0), (4, 2), (10, 5)):
        source.values[1, x, 6 + y] += 1
        after = rows(module.embed(source))[1]
        (changed,) = (after - before).abs().sum(1).nonzero()[:, 0].tolist()
        left, top, right, bottom = boxes_S4[changed].tolist()
        assert left < (x + 0.5) / 11 < right
        assert top < (y + 0.5) / 6 < bottom
        before = after


def test_grids_are_read_as_a_page_is() -> None:
    values = torch.arange(6.0).reshape(1, 1, 2, 3).expand(2, -1, -1, -1)
    flat = Grid(values, torch.tensor([3, 2])).flat()
    assert [row[:, 0].tolist() for row in rows(flat)] == [[0, 1, 2, 3, 4, 5], [0, 1, 3, 4]]


@pytest.mark.parametrize("positions", [Learned, Sinusoidal])
def test_positions_on_a_grid(positions: Any) -> None:
    module = GridPositions(positions, 8)
    placed_BDHW = module(Grid(torch.zeros(1, 8, 3, 4), torch.tensor([4]))).values
    for y in range(3):
        for x in range(4):
            expected = torch.cat([module.rows(torch.tensor([[y]])), module.columns(torch.tensor([[x]]))], -1)
            assert_close(placed_BDHW[0, :, y, x], expected[0, 0])


def test_columns_are_norms_of_largest_values_of_what_convolutions_find() -> None:
    module: ColumnEmbedding = build({"type": "columns", "stages": [3], "shrink": 2, **TALL})
    source = signal([5])
    (stage,) = module.stages
    layer: Any = stage.convolution
    found_CHW = conv2d(source.values[0].T.reshape(1, 2, 6, 5), layer.convolution.weight, layer.convolution.bias,
                       padding=1)[0]  # fmt: skip
    largest = [[found_CHW[:, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2].amax((1, 2)) for x in range(3)] for y in range(3)]
    largest_CYX = torch.stack([torch.stack(row, 1) for row in largest], 1).relu()
    normal_CYX = torch.nn.functional.instance_norm(largest_CYX[None])[0]
    assert_close(rows(module.embed(source)), [module.out(normal_CYX.flatten(0, 1).T)])


def test_the_norm_of_pictures_has_the_gradients_of_its_definition() -> None:
    norm, widths = PictureNorm(3).double(), torch.tensor([5, 3])
    norm.scale.data, norm.shift.data = torch.rand(3).double() + 0.5, torch.randn(3).double()
    x_BDHW = torch.randn(2, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    expected_BDHW = torch.zeros_like(x_BDHW)
    for row, width in enumerate(widths.tolist()):
        cells_DHW = x_BDHW[row, ..., :width]
        variance_DHW, mean_DHW = torch.var_mean(cells_DHW, (1, 2), correction=0, keepdim=True)
        normal_DHW = (cells_DHW - mean_DHW) / (variance_DHW + 1e-5).sqrt()
        expected_BDHW[row, ..., :width] = norm.scale[:, None, None] * normal_DHW + norm.shift[:, None, None]
    real = Grid(norm(Grid(x_BDHW, widths)).values, widths).real()
    assert_close(real, expected_BDHW)
    mixed_BDHW, inputs = torch.randn_like(real), (x_BDHW, norm.scale, norm.shift)
    found, right = (torch.autograd.grad((each * mixed_BDHW).sum(), inputs) for each in (real, expected_BDHW))
    assert_close(found, right)


def test_noise_of_an_empty_place_stays_weaker_than_ink() -> None:
    """Noise in an empty place stays weaker than ink. A norm over a cell's features would make both equally strong."""
    module: ColumnEmbedding = build({"type": "columns", "stages": [8], "shrink": 1, **TALL})
    stage: Any = module.stages[0]
    generator = torch.Generator().manual_seed(1)
    picture = 0.01 * torch.randn(1, 2, 6, 40, generator=generator, dtype=torch.float64)
    picture[..., 30:] += torch.randn(1, 2, 6, 10, generator=generator, dtype=torch.float64)
    found = stage(Grid(picture, torch.tensor([40]))).values
    assert found[..., :28].std(3).mean() < 0.1 * found[..., 31:].std(3).mean()


def test_a_residual_block_without_convolutions_hands_on() -> None:
    module: FeatureMapEmbedding = build({"type": "map", "stages": [4], "blocks": 2, **TALL})
    source = signal([5])
    with torch.no_grad():
        for block in module.blocks:
            block.second.convolution.weight.zero_()
    entered = module.enter(Grid(source.values.mT.unflatten(1, (2, 6)), source.lengths))
    expected = module.out(Grid(module.norm(entered).values.relu(), source.lengths)).flat()
    assert_close(module.embed(source).values, expected.values)


def test_convolutional_attention_reads_cells_by_what_stands_around_them() -> None:
    """One head by hand: queries and keys are convolved, and the weights over the cells have the sum 1."""
    module = ConvolutionalAttention(6, 1, dropout=0.0, kernel=3).double()
    values = torch.randn(1, 6, 2, 3, dtype=torch.float64)
    layer, out = module.project.convolution, module.out.convolution
    query, key, value = (part[0].flatten(1) for part in conv2d(values, layer.weight, layer.bias, padding=1).chunk(3, 1))
    weights_NN = (query.T @ key / 6**0.5).softmax(1)
    expected = out.weight[:, :, 0, 0] @ (value @ weights_NN.T) + out.bias[:, None]
    assert_close(module(Grid(values, torch.tensor([3]))).values[0].flatten(1), expected)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_frame_is_its_pictures_cells_pooled(pooling: str) -> None:
    module: ClipEmbedding = build(TABLES["frames"] | {"pooling": pooling})
    source = signal([2, 3])
    for clip, vectors in zip(rows(source), rows(module.embed(source)), strict=True):
        for frame, vector in zip(clip, vectors, strict=True):
            picture = Padded(frame.reshape(4, 3).T[None], torch.tensor([3]))
            cells = module.embedding.embed(picture).values[0]
            assert_close(vector, cells.mean(0) if pooling == "mean" else cells.amax(0))


def test_closed_ends_with_a_vector_of_its_own() -> None:
    module: EndedEmbedding = build({"type": "closed", "embedding": "features"})
    source = signal(LENGTHS)
    for inner, outer in zip(rows(module.embedding.embed(source)), rows(module.embed(source)), strict=True):
        assert_close(outer, torch.cat([inner, module.end[None]]))


# ------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"type": "columns", "height": 7}, r"height \* channels = 7 \* 1 = 7, but a step .* has 12 numbers"),
        ({"type": "map", "height": 6}, "has 12 numbers: make these equal"),
        ({"type": "patches", "height": 12, "patch": [5, 2]}, "height 12 does not divide into patches of 5 rows"),
        ({"type": "columns", "height": 12, "stages": [4]}, r"stages = \[4\], shrink = 4"),
        ({"type": "map", "height": 12, "stages": []}, r"stages = \[\], blocks = 1, stem = 1"),
        ({"type": "map", "height": 12, "stem": 0}, "stem = 0: at least one"),
        ({"type": "map", "height": 12, "norm": "batch"}, 'expected "cell" or "picture"'),
        ({"type": "features", "stack": 0}, "stack = 0"),
        ({"type": "frames", "columns": 5, "embedding": "features"}, "frame of 12 numbers does not divide"),
        ({"type": "frames", "columns": 3, "embedding": {"type": "map", "height": 3}}, "has 4 numbers"),
        ({"type": "convolutional-attention", "embedding": "features"}, "FrameEmbedding lays nothing on a grid"),
        ({"type": "columns"}, "missing; ColumnEmbedding needs height, an integer"),
    ],
)
def test_what_cannot_be_is_refused(table: config.Table, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        build(table)
    assert error.value.path.startswith("model.encoder.embedding")


@pytest.mark.parametrize(
    ("values", "what"), [(torch.zeros(1, 4, dtype=torch.long), "given ids"), (torch.zeros(1, 5), "numbers in a line")]
)
@pytest.mark.parametrize("table", ["features", "columns", "frames"])
def test_ids_are_no_signal(values: Tensor, what: str, table: str) -> None:
    with pytest.raises(ValueError, match=f"{what}.*data.units.source"):
        build(TABLES[table]).embed(Padded(values, torch.tensor([values.shape[1]])))


def test_a_signal_is_no_series_and_no_text() -> None:
    with pytest.raises(
        ValueError, match=r'reads a series, and the source is a signal, steps of 12 numbers: set .*"feat'
    ):
        NumberEmbedding(D, WIDTH, scaled=False, source_factors=D).embed(signal([3]))
    with pytest.raises(ValueError, match=r"given numbers; .* \(docs/fronts\.md\)"):
        TokenEmbedding(D, WIDTH, scaled=False).embed(signal([3]))


def test_a_signal_has_no_table_to_share() -> None:
    stack = {"type": "transformer", "width": 8, "heads": 2, "positions": "none"}
    table = {"type": "encoder-decoder", "encoder": stack | {"embedding": "features"}, "decoder": stack, "tie": "all"}
    with pytest.raises(ConfigError, match=r'FrameEmbedding makes vectors of a signal .* set tie = "target"'):
        config.build(table, Model, Facts(11, 11, source_factors=11), "model")


PAGE = Path(__file__).parents[3] / "docs" / "fronts.md"
SHOWN = [
    config.parse(block.encode(), "fronts.md")
    for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
]


@pytest.mark.parametrize(
    ("table", "numbers"),
    [
        (table["model"]["encoder"], numbers)
        for table, numbers in zip(
            (table for table in SHOWN if "model" in table), (40, 32, 28, 192, 28, 28), strict=True
        )
    ],
)
def test_the_page_shows_what_works(table: config.Table, numbers: int) -> None:
    encoder: Any = config.build(table, Encoder, Facts(numbers, 9, source_factors=numbers), "model.encoder")
    memory = encoder(signal([28], numbers=numbers))
    assert memory.states.values.isfinite().all()
    assert memory.states.values.shape[2] == encoder.width


def test_the_page_shows_an_embedding_of_clips_and_augmentations() -> None:
    (clips,) = (table["embedding"] for table in SHOWN if "embedding" in table)
    numbers = 3 * 32 * 32
    table = {"type": "bag", "width": WIDTH, "embedding": clips}
    encoder: Any = config.build(table, Encoder, Facts(numbers, 9, source_factors=numbers), "model.encoder")
    assert encoder(signal([2], numbers=numbers)).states.lengths.tolist() == [2]
    (training,) = (table["training"] for table in SHOWN if "training" in table)
    config.check(training | {"steps": 1}, Training, path="training")


def test_encoders_read_them() -> None:
    encoder = BagEncoder(D, WIDTH, embedding=lambda **known: FrameEmbedding(stack=3, **known)).double()
    assert encoder(signal([4])).states.lengths.tolist() == [2]


def test_single_cells_with_a_stride_are_a_convolution_and_have_a_gradient() -> None:
    """Torch's direct computation ends the process (oneDNN, features last in memory). This one has the same outputs."""
    own = GridConvolution(4, 4, 1, stride=2)
    x_BDHW = torch.rand(5, 4, 31, 127, requires_grad=True)
    found = own(Grid(x_BDHW, torch.full((5,), 127)))
    plain = torch.nn.functional.conv2d(x_BDHW.detach(), own.weight, own.convolution.bias, stride=2)
    torch.testing.assert_close(found.values, plain)
    assert found.widths.tolist() == [64] * 5
    found.values.square().sum().backward()
    assert x_BDHW.grad is not None
