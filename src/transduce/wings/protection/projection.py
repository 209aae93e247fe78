"""Where spans of a source belong in an output, by the alignment of the two.

V output units, W source units. A gap is a place before a unit, 0 to V (0 to W in the source).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from transduce.wings.alignment.token_alignment import TokenAlignment

Numbers = npt.NDArray[np.float64]
Range = tuple[int, int]
SIGNS = str.maketrans("。，、！？；：（）“”„«»「」‘’‚", '.,,!?;:()"""""""\'\'\'')
"""Signs of other scripts, and the ones of this script that mean the same."""
LEAST = 0.02  # of a weight
NEAR = 0.25  # how much a unit counts for a gap beside the next nearer one


@dataclass
class Element:
    """Pieces that are placed together: those in one gap of the source, or a pair of tags with all pieces inside.

    ``range`` are the source gaps of its first and its last piece; ``pieces`` the indices of pieces, of a pair the tags.
    ``inner`` are the elements between a pair's tags. ``binds``: how much the units before and after the gap count.
    ``apart``: whether it stands at an end of its stretch if it does so in the source, as a line break.
    ``place``: the output gaps, when it is placed.
    """

    range: Range
    pieces: list[int]
    pair: bool = False
    inner: list[Element] = field(default_factory=list)
    binds: tuple[float, float] = (1.0, 1.0)
    place: Range | None = None
    apart: bool = False

    @property
    def encloses(self) -> bool:
        """True for a pair of tags with words between them."""
        return self.pair and self.range[0] < self.range[1]


def unit_weights(
    found: TokenAlignment, source: Sequence[Range], target: Sequence[Range], falls_TW: Numbers | None = None
) -> Numbers:
    """[V, W]: how much each output unit comes from each source unit: the weights of their tokens, times how much each
    token of the output needs the unit (``falls_TW``). Units that have one spelling and occur equally often on both
    sides are aligned in their order. Other signs of the output are aligned with nothing.
    """
    from_VT, to_SW = _overlap(target, found.target.spans), _overlap(source, found.source.spans).T
    from_VT = _shares(from_VT)
    weights_VW = _shares(from_VT @ found.weights_TS.double().numpy() @ _shares(to_SW))
    if falls_TW is not None and falls_TW.shape == (len(found.target.spans), len(source)):
        need_VW = _shares(from_VT @ falls_TW)
        weights_VW = _shares((weights_VW + LEAST) * (need_VW + LEAST))
    for unit, (start, end) in enumerate(target):
        if not any(map(str.isalnum, found.target.text[start:end])):
            weights_VW[unit] = 0.0  # a sign without its like
    for one, other in _same(found.source.text, source, found.target.text, target):
        weights_VW[other] = 0.0
        weights_VW[other, one] = 1.0
    return weights_VW


def _shares(weights: Numbers, axis: int = 1) -> Numbers:
    """The weights as shares of the sum over an axis; 0 if the sum is 0."""
    shares: Numbers = weights / np.maximum(weights.sum(axis, keepdims=True), 1e-9)
    return shares


def _overlap(units: Sequence[Range], spans: Sequence[Range]) -> Numbers:
    """[units, spans]: how many characters they share."""
    if not units or not spans:
        return np.zeros((len(units), len(spans)))
    unit_U2, span_S2 = np.array(units, float), np.array(spans, float)
    starts: Numbers = np.maximum(unit_U2[:, None, 0], span_S2[None, :, 0])
    ends = np.minimum(unit_U2[:, None, 1], span_S2[None, :, 1])
    shared: Numbers = np.maximum(ends - starts, 0.0)
    return shared


def _same(source: str, ones: Sequence[Range], target: str, others: Sequence[Range]) -> list[tuple[int, int]]:
    places: dict[str, tuple[list[int], list[int]]] = {}
    for side, (text, ranges) in enumerate(((source, ones), (target, others))):
        for number, (start, end) in enumerate(ranges):
            places.setdefault(text[start:end].translate(SIGNS), ([], []))[side].append(number)
    equal = (both for both in places.values() if len(both[0]) == len(both[1]))
    return [link for both in equal for link in zip(*both, strict=True)]


def place_all(elements: Sequence[Element], weights_VW: Numbers) -> None:
    """Sets the ``place`` of each element, and of those inside it."""
    both_VW = (_shares(weights_VW) + _shares(weights_VW, 0)) / 2
    _place(elements, (0, weights_VW.shape[1]), (0, weights_VW.shape[0]), both_VW)


def _place(elements: Sequence[Element], inside: Range, within: Range, weights_VW: Numbers) -> None:
    """Places elements of a stretch of the source (``inside``) in a stretch of the output (``within``). Pairs come
    first, by their weights, so that no two overlap. Then the others are placed outside of all pairs.
    """
    taken = list[Range]()
    pairs = [each for each in elements if each.encloses]
    while pairs:
        every = [
            (np.inf, within, number)
            if each.range == inside and not taken
            else (*_stretch(each.range, within, taken, weights_VW), number)
            for number, each in enumerate(pairs)
        ]
        _weight, place, number = max(every, key=lambda one: (one[0], -one[2]))
        pair = pairs.pop(number)
        pair.place = place
        if place[0] < place[1]:
            taken.append(place)
        _place(pair.inner, pair.range, place, weights_VW)
    for each in elements:
        if each.encloses:
            continue
        ends = {inside[1]: within[1], inside[0]: within[0]} if each.apart else {}
        gap = ends.get(each.range[0], -1)
        gap = _gap(each, inside, within, taken, weights_VW) if gap < 0 else gap
        each.place = (gap, gap)
        _place(each.inner, each.range, each.place, weights_VW)


def _stretch(range: Range, within: Range, taken: Sequence[Range], weights_VW: Numbers) -> tuple[float, Range]:
    """The stretch of output units that come most from this range of the source, and its weight. A unit counts with its
    weight from the range, less its weight from elsewhere; the stretch has the largest sum.
    """
    start, end = range
    inside_V = weights_VW[:, start:end].sum(1)
    worth_V = inside_V - (weights_VW.sum(1) - inside_V)
    worth_V = worth_V / np.maximum(weights_VW.sum(1), 1e-9)
    best: tuple[float, Range] = (-np.inf, (within[0], within[0]))
    for low, high in _free(within, taken):
        total, first = 0.0, low
        for unit in np.arange(low, high):
            if total <= 0.0:
                total, first = 0.0, int(unit)
            total += float(worth_V[unit])
            if total > best[0]:
                best = total, (first, int(unit) + 1)
    return best


def _free(within: Range, taken: Sequence[Range]) -> list[Range]:
    found, low = list[Range](), within[0]
    for start, end in sorted(taken):
        found.append((low, start))
        low = end
    return [*found, (low, within[1])]


def _gap(element: Element, inside: Range, within: Range, taken: Sequence[Range], weights_VW: Numbers) -> int:
    """The output gap whose neighbours come most from the neighbours of the element's source gap. The ends of the two
    stretches count as neighbours that belong together.
    """
    gap, (low, high) = element.range[0], within
    before_W, after_W = np.arange(inside[0], gap), np.arange(gap, inside[1])
    left_V = weights_VW[low:high, before_W] @ NEAR ** (gap - 1 - before_W)
    right_V = weights_VW[low:high, after_W] @ NEAR ** (after_W - gap)
    left_V = np.append(NEAR ** (gap - inside[0]), left_V) * element.binds[0]
    right_V = np.append(right_V, NEAR ** (inside[1] - gap)) * element.binds[1]
    best, chosen = -np.inf, low
    for place in range(low, high + 1):
        if any(start < place < end for start, end in taken):
            continue
        left_P, right_P = left_V[: place - low + 1], right_V[place - low :]
        score = float(left_P @ NEAR ** np.arange(len(left_P))[::-1] + right_P @ NEAR ** np.arange(len(right_P)))
        if score > best + 1e-9:
            best, chosen = score, place
    return chosen
