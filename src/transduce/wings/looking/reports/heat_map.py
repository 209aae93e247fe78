"""Heat maps: for each output token, the picture with colours where the model looked.

N states of the signal, H by W pixels, S steps and D bands of a recording.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import EOS, SPECIALS
from transduce.wings.looking.inspection.signal_attention import SignalAttention, Spectrum
from transduce.wings.pages import images
from transduce.wings.pages.legend import scale
from transduce.wings.pages.markup import element
from transduce.wings.pages.page import document, foreign, section
from transduce.wings.pages.palette import FAINT, HUES, INK
from transduce.wings.pages.plots import figure, save

if TYPE_CHECKING:
    from PIL.Image import Image

HEAT = tuple(int(HUES[1][place : place + 2], 16) for place in (1, 3, 5))  # orange
DEEP, PALE = 0.65, 0.35  # most heat where the model looked, most paper where it did not
LEAST, MOST = 120, 640  # pixels: the shortest and the longest side of a shown picture

STYLE = """
.looks { display: flex; flex-wrap: wrap; gap: 1.2rem; }
.looks img { image-rendering: pixelated; border: 1px solid var(--rule); }
.looks figcaption { color: var(--ink); font: 1rem ui-monospace, monospace; } .looks .faint { color: var(--faint); }
"""

Pixels = NDArray[np.uint8]


def density(weights_N: Tensor, boxes_N4: Tensor, height: int, width: int) -> NDArray[np.float64]:
    """[H, W], from 0 to 1: each state's weight spread evenly over its box, then divided by the largest pixel.

    Boxes are left, top, right and bottom as fractions. ``height`` and ``width`` are in pixels.
    """
    heat_HW = np.zeros((height, width))
    for weight, (left, top, right, bottom) in zip(weights_N.tolist(), boxes_N4.tolist(), strict=True):
        rows, columns = _pixels(top, bottom, height), _pixels(left, right, width)
        heat_HW[rows, columns] += weight / max((right - left) * (bottom - top), 1e-9)
    return heat_HW / max(float(heat_HW.max()), 1e-9)


def coloured(source: Image, heat_HW: NDArray[np.float64]) -> Pixels:
    """The picture as bytes [H, W, 3], orange where ``heat_HW`` is 1 and pale where it is 0. Sizes must agree."""
    values_HW3 = np.asarray(source.convert("RGB"), np.float64)
    heat_HW1 = heat_HW[..., None]
    paper_HW3 = values_HW3 + PALE * (1 - heat_HW1) * (255 - values_HW3)
    return (paper_HW3 + DEEP * heat_HW1 * (np.array(HEAT) - paper_HW3)).round().astype(np.uint8)


def page(found: SignalAttention) -> str:
    """The text of an HTML page: the source, and a heat map for each token. Raises UserError as ``panels`` does."""
    from PIL import Image

    looks = [
        element(
            "figure",
            element(
                "figcaption", foreign(token), element("small", f" {share:.2f}", class_="faint"), class_=_kind(token)
            ),
            images.image(Image.fromarray(drawn), told),
        )
        for token, drawn, told, (share, _) in zip(
            found.tokens, panels(found), found.lines(), found.strongest(), strict=True
        )
    ]
    told = (
        "Where the model looked just before it wrote each of these, averaged over its attentions: the more orange, the "
        "more. The place that got most is as orange as can be, whatever its share of all, which is the number."
    )
    key = scale("least looked at", "most", "orange")
    return document(
        found.text,
        found.source,
        section("What it read", element("div", images.image(_background(found), found.source), class_="looks")),
        section("Where it looked", element("p", told, class_="faint"), key, element("div", *looks, class_="looks")),
        style=STYLE,
        heading=foreign(found.text),
        summary=_summary(found),
    )


def _summary(found: SignalAttention) -> str:
    """The token that the model looked at one place for most of all."""
    shares = [share for share, _ in found.strongest()]
    most = max(range(len(shares)), key=lambda number: shares[number])
    return (
        f"The model looked most at one place before it wrote {found.tokens[most]}: with {100 * shares[most]:.0f} % of "
        f"its attention. The mean over all tokens is {100 * sum(shares) / len(shares):.0f} %."
    )


def plot(found: SignalAttention, path: str | Path) -> None:
    """Draws the maps into a file (.png, .svg, .pdf), one panel per token.

    Raises MissingPackageError, which is an ImportError, without matplotlib; UserError for an unsupported suffix, and as
    ``panels`` does.
    """
    drawn = panels(found)
    high, wide, _ = drawn[0].shape
    across = min(len(drawn), max(1, round(math.sqrt(1.5 * len(drawn) * high / wide))))
    down = -(-len(drawn) // across)
    size = 1.5 if high >= wide else min(1.5 * wide / high, 6.0)  # inches across
    sheet = figure(across * (size + 0.15), down * (size * high / wide + 0.35))
    axes = list(sheet.subplots(down, across, squeeze=False).flat)
    for ax in axes:
        ax.axis("off")
    for ax, token, each in zip(axes, found.tokens, drawn, strict=False):
        ax.imshow(each)
        ax.set_title(token, fontsize=11, color=FAINT if _kind(token) else INK, pad=4, parse_math=False)
    sheet.supxlabel("the more orange, the more was looked at before the word was written", fontsize=8, color=FAINT)
    save(sheet, path)


def panels(found: SignalAttention) -> list[Pixels]:
    """For each token, the coloured picture as bytes [H, W, 3]. The attentions of the model are averaged. Raises
    UserError if the source is no picture to draw on.
    """
    source = _background(found)
    return [
        coloured(source, density(weights_N, found.boxes_N4, source.height, source.width)) for weights_N in found.mean()
    ]


def write(found: SignalAttention, out: Path) -> None:
    """Writes the file ``out``: an HTML page if its name ends with .html, otherwise a drawing (``plot``)."""
    if out.suffix == ".html":
        from transduce.wings.pages.page import write as write_page

        write_page(out, page(found))
    else:
        plot(found, out)


def _background(found: SignalAttention) -> Image:
    """The picture to draw on: the source itself, reduced if it is large, or the spectrum of a recording. Small ones are
    enlarged by an integer factor.

    Raises UserError if the file is no readable picture, or if Pillow is not installed.
    """
    source = _spectrum(found.spectrum) if found.spectrum else images.picture(found.source, MOST)
    if source is None:
        raise UserError(f"{found.source} is no picture to draw on; without --out it is told in words")
    factor = -(-LEAST // min(source.size)) if min(source.size) < LEAST else 1
    factor = max(1, min(factor, MOST // max(source.size)))
    return source.resize((factor * source.width, factor * source.height), 0)


def _spectrum(found: Spectrum) -> Image:
    """A grey picture with one pixel per step (left to right) and band (lowest at the bottom). Louder is darker.

    A side of more than ``MOST`` pixels is reduced.
    """
    from PIL import Image

    low, high = found.bands_SD.min(), found.bands_SD.max()
    loud_SD = (found.bands_SD - low) / (high - low).clamp(min=1e-9)
    grey_DS = (255 * (1 - loud_SD.T.flip(0))).round().byte()
    drawn = Image.fromarray(grey_DS.numpy()).convert("RGB")
    drawn.thumbnail((MOST, MOST))
    return drawn


def _pixels(low: float, high: float, size: int) -> slice:
    """The pixels between two fractions, ``low`` and ``high``, of an axis of ``size`` pixels, as a slice of at least one
    pixel.
    """
    first = min(round(low * size), size - 1)
    return slice(first, max(round(high * size), first + 1))


def _kind(token: str) -> str:
    return "faint" if token == SPECIALS[EOS] else ""
