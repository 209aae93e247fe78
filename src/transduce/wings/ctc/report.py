"""An SVG drawing of all alignments of an output with the frames of a source (Graves et al. 2006, fig. 3).

S frames from left to right. L states from top to bottom: the symbols of the output, with a blank before, between and
after them. V ids, U symbols of the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from transduce.core.errors import UserError
from transduce.core.types import PAD, Padded
from transduce.metrics.units import columns, shown
from transduce.wings.ctc.lattice import Lattice
from transduce.wings.pages.drawing import Drawing, path, text
from transduce.wings.pages.markup import Markup, element

ACROSS, DOWN, LEFT, TOP = 64, 46, 74, 52  # pixels: between frames, between states, and the margins
LETTER = 10  # pixels per letter of a state's name; LEFT has room for four letters
FITTING = 3  # letters; longer symbols are written beside the rows only, not in the circles
SYMBOL, BLANK, NOTHING = 15, 8, 2.5  # radii
LEAST = 0.002  # smaller shares are not drawn

STYLE = """
svg .head, svg .symbol { text-anchor: middle; } svg .margin, svg .state { text-anchor: end; }
svg .state { font-weight: 600; font-size: 15px; }
svg .symbol { font-size: 14px; } svg .dark .symbol { fill: var(--paper); }
svg circle { fill: var(--paper); stroke: var(--rule); stroke-width: 1.5; }
svg .possible circle { stroke: var(--blue); } svg .share { fill: var(--blue); stroke: none; }
svg .step { stroke: var(--blue); fill: none; } svg .best circle { stroke: var(--orange); stroke-width: 3; }
svg .step.best { stroke: var(--orange); stroke-opacity: 1; }
"""


def of_text(output: str, frames: int) -> Lattice:
    """The lattice of a text's letters with ``frames`` frames, in which every alignment has the weight 1:
    exp(log_likelihood) is the number of alignments.

    Raises UserError for fewer than 1 frame.
    """
    if frames < 1:
        raise UserError(f"{frames} frames: at least 1 was expected")
    ids = {letter: number for number, letter in enumerate(dict.fromkeys(output), PAD + 1)}
    alike_1SV = torch.zeros(1, frames, len(ids) + 1, dtype=torch.float64)
    letters_1U = torch.tensor([[ids[letter] for letter in output]], dtype=torch.long)
    return Lattice.of(Padded(alike_1SV, torch.tensor([frames])), Padded(letters_1U, torch.tensor([len(output)])))


def drawing(lattice: Lattice, symbols: Sequence[str], best: bool = True) -> Drawing:
    """Draws the first item of a lattice's batch. ``symbols`` are the tokens of its output without the end token.

    A state or a step with a larger share of the probability is darker, and the step is also wider. States with almost
    no share are small grey dots. ``best`` highlights the most probable alignment.
    """
    frames, symbols = int(lattice.frames[0]), [shown(symbol) for symbol in symbols]
    share_SL = lattice.posteriors()[0, :frames].tolist()
    way = lattice.best()[0][0, :frames].tolist() if best and lattice.log_likelihood[0].isfinite() else []
    states = [symbols[state // 2] if state % 2 else "" for state in range(2 * len(symbols) + 1)]
    heads = [text(_x(t), TOP / 3, str(t), class_="head faint") for t in range(frames)]
    heads.append(text(LEFT - 30, TOP / 3, "frame", class_="margin faint"))
    names = [text(LEFT - 30, _y(state), name or "–", class_="state") for state, name in enumerate(states)]
    dots = (
        _dot(name, t, state, share_SL[t][state], state == (way[t] if way else None))
        for t in range(frames)
        for state, name in enumerate(states)
    )
    parts = [*heads, *names, *_steps(lattice, frames, way), *dots]
    more = max(0, LETTER * (max(map(columns, symbols), default=0) - 4))
    if more:
        parts = [element("g", *parts, transform=f"translate({more} 0)")]
    between = "" if all(len(symbol) == 1 for symbol in symbols) else " "
    about = f"all alignments of {between.join(symbols)} with {frames} frames"
    return Drawing(more + _x(frames - 1) + LEFT / 2, _y(len(states) - 1) + TOP / 2, about, parts)


def svg(lattice: Lattice, symbols: Sequence[str], best: bool = True) -> str:
    """``drawing`` as the text of an SVG file."""
    return drawing(lattice, symbols, best).alone(STYLE)


def _x(t: int) -> float:
    return LEFT + ACROSS * t


def _y(state: int) -> float:
    return TOP + DOWN * state


def _steps(lattice: Lattice, frames: int, way: Sequence[int]) -> Iterator[Markup]:
    """The lines of all steps that have more than ``LEAST`` of the probability. Steps of the best alignment come last,
    on top.
    """
    share_SL3 = lattice.crossings()[0, : max(frames - 1, 0)]
    taken = [
        (t, state, state + on, float(share_SL3[t, state, on]))
        for t, state, on in (share_SL3 > LEAST).nonzero().tolist()
    ]
    for first in (False, True):
        for t, state, following, share in taken:
            painted = bool(way) and way[t : t + 2] == [state, following]
            if painted is first:
                kind = "step best" if painted else "step"
                along = f"M{_x(t):g} {_y(state):g} L{_x(t + 1):g} {_y(following):g}"
                width, opacity = round(1 + 4 * share, 2), round(0.3 + 0.7 * share, 2)
                yield path(along, class_=kind, stroke_width=width, stroke_opacity=opacity)


def _dot(name: str, t: int, state: int, share: float, painted: bool) -> Markup:
    radius = NOTHING if share <= LEAST else SYMBOL if name else BLANK
    place = {"cx": _x(t), "cy": _y(state), "r": radius}
    kinds = {"possible": share > LEAST, "best": painted, "dark": share > 0.55}
    inside = [element("circle", **place)]
    if share > LEAST:
        inside.append(element("circle", class_="share", fill_opacity=round(share, 3), **place))
    if 0 < columns(name) <= FITTING and share > LEAST:
        inside.append(text(_x(t), _y(state), name, class_="symbol"))
    title = element("title", f"{name or 'blank'} in frame {t}: {100 * share:.1f} %")
    return element("g", title, *inside, class_=" ".join(kind for kind, there in kinds.items() if there))
