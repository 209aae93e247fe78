"""Augmentations: examples do not change each other, each augmentation against a computation by hand, and whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_resume import At, KilledError, kill, same_bytes
from torch import Tensor
from torch.testing import assert_close

from transduce import api
from transduce.core.errors import UserError
from transduce.core.types import Batch, Padded
from transduce.data.tokenizers.text import Characters
from transduce.training import loop
from transduce.training.augmentation import augmented, check_augmentation
from transduce.wings.signals.augmentation.affine import Affine
from transduce.wings.signals.augmentation.masks import SpecAugment
from transduce.wings.signals.augmentation.noise import Noise
from transduce.wings.signals.augmentation.stretch import Stretch
from transduce.wings.signals.augmentation.warp import Warp, warped
from transduce.wings.signals.tokenizers.picture import Picture
from transduce.wings.signals.tokenizers.sound import Sound

ALL: dict[str, Any] = {
    "spec-augment": SpecAugment(time=5, share=0.5, frequency=3),
    "noise": Noise(0.3),
    "stretch": Stretch(0.4),
    "affine": Affine(rotation=20, channels=2),
    "warp": Warp(0.3),
}
LENGTHS, D = [9, 20, 14], 8
IDS = torch.tensor([5, 2, 11])


@pytest.fixture(params=ALL)
def augmentation(request: pytest.FixtureRequest) -> Any:
    return ALL[request.param]


def signal(lengths: list[int], steps: int = 0, padding: float = 0.0) -> Padded:
    values = torch.full((len(lengths), max(steps, *lengths), D), padding)
    for row, length in enumerate(lengths):
        values[row, :length] = torch.randn(length, D, generator=torch.Generator().manual_seed(row))
    return Padded(values, torch.tensor(lengths))


def rows(x: Padded) -> list[Tensor]:
    return [row[:length] for row, length in zip(x.values, x.lengths.tolist(), strict=True)]


# ---------------------------------------------------------------------- laws


def test_what_happens_is_a_function_of_seed_epoch_and_example(augmentation: Any) -> None:
    """The result does not depend on the other examples of the batch, their order, or the padding."""
    before = signal(LENGTHS)
    expected = rows(augmentation(before, IDS, epoch=3, seed=1))
    assert_close(before.values, signal(LENGTHS).values, rtol=0, atol=0)
    for source in (signal(LENGTHS, 25), signal(LENGTHS, 25, padding=9.0)):
        assert_close(rows(augmentation(source, IDS, epoch=3, seed=1)), expected, rtol=1e-5, atol=1e-5)
    order = torch.tensor([2, 0])
    turned = augmentation(Padded(before.values[order], before.lengths[order]), IDS[order], epoch=3, seed=1)
    assert_close(rows(turned), [expected[2], expected[0]], rtol=1e-5, atol=1e-5)
    for row in range(3):
        alone = Padded(before.values[row : row + 1, : LENGTHS[row]], before.lengths[row : row + 1])
        (again,) = rows(augmentation(alone, IDS[row : row + 1], epoch=3, seed=1))
        assert_close(again, expected[row], rtol=1e-5, atol=1e-5)


def test_it_is_another_in_another_epoch_of_another_seed_and_of_another_example(augmentation: Any) -> None:
    source = Padded(signal([20]).values.expand(2, -1, -1), torch.tensor([20, 20]))
    first, second = rows(augmentation(source, torch.tensor([1, 2]), epoch=0, seed=1))
    others = [
        rows(augmentation(source, torch.tensor([1, 2]), epoch=epoch, seed=seed))[0] for epoch, seed in ((1, 1), (0, 2))
    ]
    for other in (second, *others):
        assert other.shape != first.shape or not torch.equal(other, first)


def test_two_of_a_kind_draw_apart() -> None:
    batch = Batch(signal(LENGTHS), signal(LENGTHS), IDS)
    once = augmented([Noise(1.0)], batch, 0, 1).source.values - batch.source.values
    twice = augmented([Noise(1.0), Noise(1.0)], batch, 0, 1).source.values - batch.source.values
    assert not torch.allclose(twice, 2 * once)
    assert augmented([], batch, 0, 1) == batch


# --------------------------------------------------------------------- parts


def test_masks_are_bands_of_time_and_frequency() -> None:
    """Every number is unchanged or masked. Masks cover bands of time or frequency; their number and width stay within
    the limits.
    """
    augmentation = SpecAugment(time_masks=1, time=7, share=0.5, frequency_masks=1, frequency=4)
    ones = Padded(torch.ones(400, 10, D), torch.full((400,), 10))
    hidden_BSD = augmentation(ones, torch.arange(400), 0, 1).values == 0
    times_BS, bands_BD = hidden_BSD.all(2), hidden_BSD.all(1)
    assert torch.equal(hidden_BSD, times_BS[:, :, None] | bands_BD[:, None])
    for mask_BN, widest in ((times_BS, 5), (bands_BD, 4)):  # at most half of 10 frames
        widths = mask_BN.sum(1)
        assert set(widths.tolist()) == set(range(widest + 1))
        edges = (mask_BN[:, 1:] != mask_BN[:, :-1]).sum(1) + mask_BN[:, 0] + mask_BN[:, -1]
        assert (edges <= 2).all()  # one stretch at most
        assert mask_BN.any(0).all()  # masks can be anywhere


def test_no_masks_hide_nothing() -> None:
    source = signal(LENGTHS)
    assert torch.equal(SpecAugment(0, 0, 0.2, 0, 0)(source, IDS, 0, 1).values, source.values)


def test_noise_has_the_deviation_asked_for() -> None:
    still = Padded(torch.zeros(8, 100, 40), torch.full((8,), 100))
    drawn = Noise(0.5)(still, torch.arange(8), 0, 1).values
    assert drawn.mean().abs() < 5 * 0.5 / 32000**0.5
    assert drawn.std() == pytest.approx(0.5, rel=5 / 64000**0.5)


def test_a_stretched_ramp_is_a_ramp() -> None:
    ramp = Padded(torch.arange(20.0)[None, :, None].expand(50, -1, 2), torch.full((50,), 20))
    stretched = Stretch(0.5)(ramp, torch.arange(50), 0, 1)
    assert stretched.lengths.min() < 14
    assert stretched.lengths.max() > 26
    for row, length in zip(rows(stretched), stretched.lengths.tolist(), strict=True):
        expected = ((torch.arange(length) + 0.5) * 20 / length - 0.5).clamp(0, 19)
        assert_close(row, expected[:, None].expand(-1, 2))


def test_the_shortest_signals_and_no_stretch_stay() -> None:
    source = signal([1, 6])
    assert torch.equal(Stretch(0.0)(source, IDS[:2], 0, 1).values, source.values)
    assert Stretch(0.9)(source, IDS[:2], 0, 1).lengths[0] == 1


def test_a_warped_ramp_is_two_lines_that_end_in_the_last_band() -> None:
    ramp = Padded(torch.arange(1.0, 41)[None, None].expand(3, 2, -1), torch.full((3,), 2))  # band m, from 1, has m
    lower, same, higher = warped(ramp, torch.tensor([0.8, 1.0, 1.25], dtype=torch.float64)).values[:, 0]
    assert_close(same, ramp.values[0, 0])
    bands = torch.arange(1.0, 41)
    assert_close(lower[:32], (0.8 * bands[:32]).clamp(min=1))  # up to 0.8 of 41
    assert_close(higher[:26], 1.25 * bands[:26])  # up to 0.8 of 41 / 1.25
    assert_close(lower[32:], 26.24 + (41 - 26.24) / (41 - 32.8) * (bands[32:] - 32.8))
    assert_close(higher[26:], (32.8 + (41 - 32.8) / (41 - 26.24) * (bands[26:] - 26.24)).clamp(max=40))


def test_no_warping_and_one_band_stay() -> None:
    source = signal(LENGTHS)
    assert_close(Warp(0.0)(source, IDS, 0, 1).values, source.values)
    one = Padded(source.values[..., :1], source.lengths)
    assert_close(Warp(0.5)(one, IDS, 0, 1).values, one.values)


MIDDLE = torch.full((1, 5), 0.5, dtype=torch.float64)


def drawn(place: int, value: float) -> Tensor:
    draws = MIDDLE.clone()
    draws[0, place] = value
    return draws


def picture(height: int, width: int, padding: int = 0) -> tuple[Tensor, Padded]:
    """Pixels [height, width], and the same pixels as a signal of columns, with ``padding`` columns behind them."""
    pixels_HW = torch.rand(height, width, generator=torch.Generator().manual_seed(3))
    columns = torch.nn.functional.pad(pixels_HW.T[None], (0, 0, 0, padding), value=5.0)
    return pixels_HW, Padded(columns, torch.tensor([width]))


def shown(x: Padded) -> Tensor:
    return rows(x)[0].T


def test_what_is_drawn_in_the_middle_changes_nothing() -> None:
    pixels_HW, columns = picture(5, 7, padding=2)
    assert_close(shown(Affine().moved(columns, MIDDLE)), pixels_HW)


@pytest.mark.parametrize("padding", [0, 3])
def test_a_quarter_turn(padding: int) -> None:
    pixels_HW, columns = picture(6, 6, padding)
    assert_close(shown(Affine(rotation=90).moved(columns, drawn(0, 1.0))), pixels_HW.rot90(1))
    assert_close(shown(Affine(rotation=90).moved(columns, drawn(0, 0.0))), pixels_HW.rot90(-1))


@pytest.mark.parametrize("padding", [0, 3])
def test_a_shift_brings_in_the_pictures_own_edge(padding: int) -> None:
    pixels_HW, columns = picture(4, 7, padding)
    left = shown(Affine(shift=0.5).moved(columns, drawn(3, 1.0)))
    assert_close(left, torch.cat([pixels_HW[:, 2:], pixels_HW[:, -1:].expand(-1, 2)], 1))
    up = shown(Affine(shift=0.5).moved(columns, drawn(4, 1.0)))
    assert_close(up, torch.cat([pixels_HW[2:], pixels_HW[-1:].expand(2, -1)], 0))


def test_shear_and_scale_keep_the_middle() -> None:
    pixels_HW, columns = picture(5, 9)
    for place in (1, 2):
        moved = shown(Affine(shear=30, scale=0.5).moved(columns, drawn(place, 1.0)))
        assert moved[2, 4] == pytest.approx(float(pixels_HW[2, 4]), abs=1e-5)
        assert not torch.allclose(moved, pixels_HW)
    larger = Affine(scale=0.5).pixels_read(drawn(2, 1.0), torch.tensor([9]), 5)[0]
    assert_close(larger @ torch.tensor([7.0, 2.0, 1.0], dtype=torch.float64), larger.new_tensor([4 + 3 / 1.5, 2, 1]))
    leant = Affine(shear=45).pixels_read(drawn(1, 1.0), torch.tensor([9]), 5)[0]
    assert_close(leant @ torch.tensor([4.0, 3.0, 1.0], dtype=torch.float64), leant.new_tensor([5, 3, 1]))


def test_channels_move_together() -> None:
    red, green = (torch.rand(1, 7, 4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    draws, lengths = torch.rand(1, 5, dtype=torch.float64), torch.tensor([7])
    both = Affine(channels=2).moved(Padded(torch.cat([red, green], 2), lengths), draws).values
    each = [Affine().moved(Padded(channel, lengths), draws).values for channel in (red, green)]
    assert_close(both, torch.cat(each, 2))


# ---------------------------------------------------------------------- runs

RUN = """
[data.units.source]
type = "picture"
height = 4
[data.units]
target = "words"
[data.train]
path = "{folder}/pairs.tsv"
[data.valid]
path = "{folder}/pairs.tsv"
[model]
type = "encoder-decoder"
[model.encoder]
type = "recurrent"
cell = "gru"
embedding_width = 6
width = 5
embedding = {{ type = "columns", height = 4, stages = [3], shrink = 2 }}
[model.decoder]
type = "recurrent"
cell = "gru"
embedding_width = 6
width = 10
bridge = "linear"
wiring = {{ type = "luong", attention = {{ type = "global", energy = "dot" }} }}
[training]
steps = 8
batching = {{ tokens = 40 }}
precision = "float32"
checkpoint_every = 2
average = 2
augmentation = ["stretch", {{ type = "affine", rotation = 10.0 }}, "noise", {{ type = "spec-augment", frequency = 1 }}]
validation = {{ every = 3, search = {{ type = "greedy", max_length = 6 }} }}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    images = pytest.importorskip("PIL.Image")
    lines = []
    for number in range(12):
        pixels = np.random.default_rng(number).integers(0, 256, (4, 5 + number % 4), dtype=np.uint8)
        images.fromarray(pixels).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png\t{'ab'[number % 2]} c\n")
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    file = tmp_path / "recipe.toml"
    file.write_text(RUN.format(folder=tmp_path))
    return file


def train(recipe: Path, run: Path, *callbacks: Any, **options: Any) -> None:
    api.train(str(recipe), run, callbacks=callbacks, device="cpu", progress=False, **options)


def test_a_resumed_run_sees_what_it_would_have_seen(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed and resumed run equals an uninterrupted one to the last bit. Each training batch is augmented, and no
    other batch.
    """
    seen: list[tuple[int, int]] = []

    def counted(augmentations: Any, batch: Batch, epoch: int, seed: int) -> Batch:
        seen.append((epoch, seed))
        return augmented(augmentations, batch, epoch, seed)

    monkeypatch.setattr(loop, "augmented", counted)
    train(recipe, tmp_path / "whole")
    assert len(seen) == 8
    assert {epoch for epoch, _ in seen} > {0}
    with pytest.raises(KilledError):
        train(recipe, tmp_path / "killed", At(5, kill))
    train(recipe, tmp_path / "killed", resume=True)
    same_bytes(tmp_path / "whole", tmp_path / "killed")
    train(recipe, tmp_path / "plain", settings={"training.augmentation": []})
    with pytest.raises(AssertionError):
        same_bytes(tmp_path / "whole", tmp_path / "plain")


def test_text_is_not_augmented(tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"training\.augmentation: Noise changes signals .* source is text"):
        api.train("reverse", tmp_path / "run", tiny | {"training.augmentation": ["noise"]}, progress=False)
    assert not (tmp_path / "run").exists()
    check_augmentation((), Characters().learn(["a"]))


@pytest.mark.parametrize("unit", [Sound(cepstra=13), Sound(differences=1), Picture(8)])
def test_only_bands_are_warped(unit: Any) -> None:
    check_augmentation((Noise(),), unit.tokenizer(unit))
    check_augmentation((Noise(), Warp()), Sound().tokenizer(Sound()))
    with pytest.raises(UserError, match="Warp moves frequency bands, and the source has other numbers"):
        check_augmentation((Noise(), Warp()), unit.tokenizer(unit))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpecAugment(time_masks=-1), "time_masks = -1"),
        (lambda: SpecAugment(share=1.5), r"share = 1\.5: 0 to 1"),
        (lambda: Noise(-0.1), r"deviation = -0\.1"),
        (lambda: Stretch(1.0), r"most = 1\.0: 0 to 0\.9"),
        (lambda: Affine(rotation=-1), "rotation = -1: 0 to 180"),
        (lambda: Affine(shear=80), "shear = 80: 0 to 60"),
        (lambda: Affine(scale=1), "scale = 1: 0 to 0.9"),
        (lambda: Affine(shift=2), "shift = 2: 0 to 1"),
        (lambda: Affine(channels=0), "channels = 0"),
        (lambda: Affine(channels=3)(signal(LENGTHS), IDS, 0, 1), "channels = 3: a column of 8 numbers"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
