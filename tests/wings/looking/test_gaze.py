"""Attention in pictures: the share of each place, heat maps, pointing at named things, and pictures in pages."""

from __future__ import annotations

import base64
import io
import re
import sys
from html import escape
from pathlib import Path
from typing import Any
from wave import open as wave_file

import numpy as np
import pytest
import torch
from PIL import Image

from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.protocols import Model
from transduce.core.types import Facts
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Symbols
from transduce.search.greedy import Greedy
from transduce.wings.looking.inspection.pointing import Named, Pointed, distance, pointed
from transduce.wings.looking.inspection.signal_attention import SignalAttention, Spectrum, signal_attention
from transduce.wings.looking.reports.heat_map import coloured, density, page, panels, plot
from transduce.wings.pages import images, signals
from transduce.wings.pages.page import foreign
from transduce.wings.signals.tokenizers.picture import Picture
from transduce.wings.signals.tokenizers.sound import Sound

HEIGHT = 8
MAP = {"type": "map", "height": HEIGHT, "channels": 3, "stages": [4, 4]}  # a cell is two pixels
ENCODERS: dict[str, dict[str, Any]] = {
    "map": {"type": "bag", "width": 6, "embedding": MAP},
    "closed": {"type": "bag", "width": 6, "embedding": {"type": "closed", "embedding": MAP}},
    "patches": {
        "type": "transformer",
        "positions": "none",
        "width": 6,
        "layers": 1,
        "heads": 1,
        "embedding": {"type": "patches", "height": HEIGHT, "channels": 3, "patch": [4, 2]},
    },
}
DECODERS: dict[str, dict[str, Any]] = {
    "bahdanau": {
        "type": "recurrent",
        "cell": "lstm",
        "bridge": "linear",
        "embedding_width": 4,
        "width": 5,
        "wiring": {"type": "bahdanau", "attention": {"type": "global", "energy": "additive"}},
    },
    "transformer": {"type": "transformer", "positions": "none", "width": 6, "layers": 2, "heads": 2},
}
CELLS = {"map": 4 * 5, "closed": 4 * 5 + 1, "patches": 2 * 5}  # of a picture of 8 by 10


def transducer(encoder: str | dict[str, Any] = "map", decoder: str = "bahdanau", channels: int = 3) -> Transducer:
    torch.manual_seed(1)
    source, target = Picture(HEIGHT, channels=channels).learn([]), Symbols().learn(["a red circle"])
    chosen = ENCODERS[encoder] if isinstance(encoder, str) else encoder
    table = {"type": "encoder-decoder", "encoder": chosen, "decoder": DECODERS[decoder]}
    model: Any = config.build(table, Model, Facts(len(source), len(target), source.factors), "model")
    return Transducer(model.eval(), Greedy(6), Tokenizers(source, target))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A picture of 8 by 10 pixels."""
    noise = np.random.default_rng(1).integers(0, 256, (HEIGHT, 10, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    return str(tmp_path / "noise.png")


# ---------------------------------------------------------------------- gaze


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("target", [None, "", "a red circle a red circle a red circle a red circle"])
def test_shares_of_all_places_for_each_token(encoder: str, decoder: str, target: str | None, path: str) -> None:
    found = signal_attention(transducer(encoder, decoder), path, target)
    assert found.tokens[-1] == "</s>"
    if target is not None:
        assert found.text == target
        assert found.tokens == (*target.split(), "</s>")
    assert found.boxes_N4.shape == (CELLS[encoder], 4)
    for weights_TN in [*found.weights.values(), found.mean()]:
        assert weights_TN.shape == (len(found.tokens), CELLS[encoder])
        torch.testing.assert_close(weights_TN.sum(-1), torch.ones(len(found.tokens)))
    left, top, right, bottom = found.boxes_N4[: CELLS["patches"] if encoder == "patches" else CELLS["map"]].unbind(1)
    assert float(((right - left) * (bottom - top)).sum()) == pytest.approx(1)  # they tile the picture


def test_the_shares_are_those_the_context_was_made_with(path: str) -> None:
    model = transducer()
    contexts: list[torch.Tensor] = []
    hook = model.model.decoder.wiring.attention.register_forward_hook(lambda _m, _i, out: contexts.append(out[0]))
    states: list[torch.Tensor] = []
    other = model.model.encoder.register_forward_hook(lambda _m, _i, out: states.append(out.states.values))
    found = signal_attention(model, path, "a red circle")
    hook.remove()
    other.remove()
    torch.testing.assert_close(found.mean() @ states[0][0], torch.cat(contexts, 1)[0, :4])


def test_a_state_of_a_pyramid_lies_where_those_lie_that_it_is_made_of(path: str) -> None:
    """There are five columns of two pixels. The states of a pyramid cover two columns, two columns and the last one."""
    columns = {"type": "columns", "height": HEIGHT, "channels": 3, "stages": [4], "shrink": 2}
    apart = signal_attention(transducer(columns_of(columns, layers=1)), path, "a")
    found = signal_attention(transducer(columns_of(columns, layers=2)), path, "a")
    assert (len(apart.boxes_N4), len(found.boxes_N4)) == (5, 3)
    for state, box_4 in enumerate(found.boxes_N4):
        of_N4 = apart.boxes_N4[2 * state : 2 * state + 2]
        torch.testing.assert_close(box_4, torch.cat([of_N4[:, :2].amin(0), of_N4[:, 2:].amax(0)]))
    torch.testing.assert_close(found.mean().sum(-1), torch.ones(2))


def columns_of(embedding: dict[str, Any], layers: int) -> dict[str, Any]:
    return {"type": "pyramidal", "cell": "gru", "width": 3, "layers": layers, "embedding": embedding}


def test_a_model_that_knows_no_places_says_so(path: str) -> None:
    model = transducer()
    model.model.encoder.embedding = Blind(model.model.encoder.embedding)
    with pytest.raises(ValueError, match=r'does not say where in its source.*"map", "patches" and "columns"'):
        signal_attention(model, path)


class Blind(torch.nn.Module):
    def __init__(self, seeing: Any) -> None:
        super().__init__()
        self.embed = seeing.embed


def test_text_has_no_places_and_a_missing_picture_is_told(path: str) -> None:
    words = Symbols().learn(["a"])
    model = transducer()
    with pytest.raises(ValueError, match="'a' is text to this model"):
        signal_attention(Transducer(model.model, Greedy(3), Tokenizers(words, words)), "a")
    with pytest.raises(ValueError, match="no such file"):
        signal_attention(model, path + "x")


LOOKED = SignalAttention(
    "x.png",
    "a $small$ red circle",
    ("a", "$small$", "red", "circle", "</s>"),
    {"only": torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0.4, 0.6, 0], [0.3, 0.4, 0.2, 0.1], [0.25] * 4])},
    torch.tensor([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]]),
)


def test_in_words() -> None:
    assert LOOKED.lines()[1:3] == [
        "$small$  1.00 at 50-100 % across, 0-50 % down",
        "    red  0.60 at 0-50 % across, 50-100 % down",
    ]


# ----------------------------------------------------------------- heat maps


def test_heat_is_spread_over_boxes() -> None:
    weights_N, boxes_N4 = torch.tensor([0.75, 0.25]), torch.tensor([[0, 0, 0.5, 1.0], [0, 0, 1.0, 1.0]])
    heat_HW = density(weights_N, boxes_N4, 2, 4)
    assert np.allclose(heat_HW, [[1, 1, 0.25 / 1.75, 0.25 / 1.75]] * 2)
    assert density(weights_N, boxes_N4, 1, 1).shape == (1, 1)  # one pixel for two boxes


def test_what_was_looked_at_is_orange_and_the_rest_paler() -> None:
    black = Image.new("RGB", (2, 1))
    drawn = coloured(black, np.array([[1.0, 0.0]])).astype(int)
    red, green, blue = drawn[0, 0]
    assert red > green > blue
    assert len(set(drawn[0, 1])) == 1
    assert 0 < drawn[0, 1, 0] < 128


def test_a_page_and_a_drawing_have_a_panel_for_each_token(path: str, tmp_path: Path) -> None:
    found = SignalAttention(path, LOOKED.text, LOOKED.tokens, LOOKED.weights, LOOKED.boxes_N4)
    assert len(panels(found)) == 5
    assert panels(found)[0].shape == (120, 150, 3)  # of 8 by 10 pixels, fifteen times as large
    written = page(found)
    assert written.count("data:image/png;base64,") == 6  # five panels and the source
    assert f'<figcaption class="">{foreign("$small$")}<small class="faint"> ' in written
    assert [f'alt="{escape(line)}"' in written for line in found.lines()] == [True] * 5
    assert not re.search(r"https?://", written)
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    plot(found, tmp_path / "heat.png")
    with Image.open(tmp_path / "heat.png") as drawn:
        heat_HW = np.asarray(drawn.convert("RGB")).astype(int) @ [1, 0, -1] > 60  # more red than blue
    assert 0.02 < heat_HW.mean() < 0.9


def test_a_source_that_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    (tmp_path / "clip").mkdir()
    with pytest.raises(ValueError, match="is no picture to draw on; without --out it is told in words"):
        page(SignalAttention(str(tmp_path / "clip"), "", LOOKED.tokens, LOOKED.weights, LOOKED.boxes_N4))


# ---------------------------------------------------------------- recordings

HEARD = SignalAttention(
    "x.wav",
    "one",
    ("one", "</s>"),
    {"only": torch.tensor([[0.9, 0.1], [0.2, 0.8]])},
    torch.tensor([[0, 0, 0.5, 1.0], [0.5, 0, 1.0, 1.0]]),
    Spectrum(torch.tensor([[0.0, 0], [0, 1], [0, 0], [2, 0]]), ("0.00 s", "0.01 s", "0.02 s", "0.03 s")),
)


def test_where_in_a_recording_is_when() -> None:
    assert HEARD.lines() == [" one  0.90 at 0.00 s to 0.01 s", "</s>  0.80 at 0.02 s to 0.03 s"]


def test_a_recording_is_drawn_as_its_spectrum() -> None:
    """Four steps of two bands, each 60 pixels wide: the loud low band at the end is black, at the bottom right."""
    first_HW3, last_HW3 = (drawn.astype(int) for drawn in panels(HEARD))
    assert first_HW3.shape == (120, 240, 3)
    assert last_HW3[90, 210].sum() < last_HW3[30, 210].sum()
    red, _, blue = first_HW3[30, 30]
    assert red > blue + 60  # attended
    red, _, blue = first_HW3[30, 230]
    assert red < blue + 30
    assert page(HEARD).count("data:image/png;base64,") == 3


def test_a_model_that_hears_tells_when(tmp_path: Path) -> None:
    wave = (np.sin(np.arange(2400) / 3) * 8000).astype("<i2")
    with wave_file(str(tmp_path / "tone.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(wave.tobytes())
    source, target = Sound(8000, mels=8).learn([]), Symbols().learn(["one two"])
    subsampled = {"type": "bag", "width": 6, "embedding": {"type": "subsampling", "channels": 2}}
    table = {"type": "encoder-decoder", "encoder": subsampled, "decoder": DECODERS["bahdanau"]}
    model: Any = config.build(table, Model, Facts(len(source), len(target), source.factors), "model")
    found = signal_attention(
        Transducer(model.eval(), Greedy(6), Tokenizers(source, target)), str(tmp_path / "tone.wav"), "one"
    )
    assert found.spectrum is not None
    assert found.spectrum.bands_SD.shape == (len(found.spectrum.times), 8)
    assert all(re.search(r"at 0\.\d\d s to 0\.\d\d s$", line) for line in found.lines())
    assert len(panels(found)) == 2


# ------------------------------------------------------------------ pointing


def test_words_of_what_is_there_are_compared_with_its_box() -> None:
    looked = SignalAttention("x.png", "", ("a", "small", "red", "circle", "</s>"), LOOKED.weights, LOOKED.boxes_N4)
    answers = pointed(
        looked, [Named("small red circle", (0.6, 0.0, 0.9, 0.4)), Named("large blue square", (0, 0, 1, 1))]
    )
    assert [(each.part, each.inside) for each in answers] == [(0, True), (1, False), (2, True)]
    assert pointed(looked, [Named("small red square", (0, 0, 1, 1))]) == []
    twice = SignalAttention("x.png", "", ("a", "a"), {"only": torch.eye(4)[:2]}, LOOKED.boxes_N4)
    assert [each.inside for each in pointed(twice, [Named("a", (0.6, 0, 1, 0.4))])] == [False, True]


def test_a_place_is_where_its_middle_is() -> None:
    assert LOOKED.peaks()[0] == pytest.approx((0.25, 0.25))
    assert distance((0.25, 0.25), (0.2, 0.2, 0.3, 0.3)) == 0
    assert distance((0.25, 0.25), (0.3, 0.0, 1.0, 1.0)) == pytest.approx(0.05)
    assert distance((0.25, 0.25), (0.3, 0.0, 1.0, 0.1)) == pytest.approx(0.15)
    assert (Pointed(0, 0.0).inside, Pointed(0, 0.05).inside) == (True, False)


def test_smoothed_attention_is_strongest_where_most_of_it_is_near() -> None:
    """Each of two neighbours has less weight than a third place far away, but together they have more."""
    boxes = torch.tensor([[0.0, 0, 0.1, 0.1], [0.1, 0, 0.2, 0.1], [0.8, 0.8, 0.9, 0.9]])
    looked = SignalAttention("x.png", "", ("a",), {"only": torch.tensor([[0.33, 0.3, 0.37]])}, boxes)
    assert looked.peaks() == [pytest.approx((0.85, 0.85))]
    assert looked.peaks(0.09) == [pytest.approx((0.1, 0.05), abs=0.01)]  # between the two, a little nearer the first
    there = [Named("a", (0, 0, 0.3, 0.3))]
    assert [pointed(looked, there, deviation)[0].inside for deviation in (0.0, 0.09)] == [False, True]


# ------------------------------------------------------------ pictures in pages


def embedded(markup: str) -> Image.Image:
    (found,) = re.findall(r"base64,([^\"]*)", markup)
    return Image.open(io.BytesIO(base64.b64decode(found)))


def test_a_picture_is_small_and_part_of_the_page(tmp_path: Path) -> None:
    Image.new("RGB", (2000, 500), "red").save(tmp_path / "<large>.png")
    markup = signals.shown(str(tmp_path / "<large>.png"))
    assert embedded(markup).size == (320, 80)
    assert "&lt;large&gt;.png" in markup
    assert len(markup) < 4000


def test_a_clip_is_its_frames_in_a_row(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (10, 8), (number * 8, 0, 0)) for number in range(30)]
    frames[0].save(tmp_path / "clip.png", save_all=True, append_images=frames[1:])
    row = images.picture(tmp_path / "clip.png")
    assert row is not None
    assert row.size == (10 * (10 + 2) - 2, 8)  # every third of thirty frames
    assert [row.getpixel((12 * number, 0))[0] for number in (0, 1, 9)] == [0, 24, 216]  # type: ignore[index]


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\nbroken", b"text"])
def test_what_is_no_picture_is_its_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(content)
    assert signals.shown(str(tmp_path / "x.png")).startswith("<small")
    assert images.picture(tmp_path / "missing.png") is None


def test_a_picture_too_large_to_open_is_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (20, 20)).save(tmp_path / "x.png")
    monkeypatch.setattr(images, "LARGEST", 399)
    assert images.picture(tmp_path / "x.png") is None


def test_without_pillow_there_are_names(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert signals.shown(path).startswith("<small")
