"""The page about heads: where each looks, how much it matters, and what the model loses without the least important."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.metrics.units import columns, shown
from transduce.wings.looking.inspection.heads import HeadRole
from transduce.wings.looking.inspection.pruning import Importance
from transduce.wings.looking.inspection.unattended import Unattended
from transduce.wings.looking.reports.head_names import layer_names
from transduce.wings.pages.drawing import Drawing, box, line, path, text
from transduce.wings.pages.legend import scale
from transduce.wings.pages.markup import Markup, element, scrolling, table
from transduce.wings.pages.page import document, section

CELL, WIDE, LETTER = 30, 96, 7.6  # pixels: the height and the width of a head, the width of a letter
ROW = 24  # pixels of the line above the heads
PLOT = (420, 220)  # pixels of the curve
KINDS = {
    "source": "Self-attention of the encoder",
    "output": "Self-attention of the decoder",
    "across": "Attention to the source",
}

STYLE = """
svg .head { fill: var(--blue); } svg .axis { stroke: var(--rule); } svg .curve { stroke: var(--blue); fill: none;
  stroke-width: 2; } svg .mark { fill: var(--blue); } svg .role { font-size: 11px; }
"""


@dataclass(frozen=True)
class Curve:
    """What the model loses: pairs of the number of silenced heads and the score by ``metric``, of ``heads`` in all."""

    metric: str
    heads: int
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class HeadsReport:
    """All that is known about the heads of a model ``name`` over ``pairs`` pairs. What was not measured is None."""

    name: str
    pairs: int
    roles: Sequence[HeadRole]
    unattended: Unattended | None = None
    importance: Sequence[Importance] | None = None
    curve: Curve | None = None


def heads_page(found: HeadsReport) -> str:
    """The text of an HTML page. The mouse shows the figures of a head. There are no scripts."""
    told = (
        "The darker a head, the fewer tokens it looks at. Rest on it for figures and for its name in the model, which "
        "counts from 0."
    )
    key = scale("looks at all tokens alike", "at one token")
    parts = []
    for kind, heading in KINDS.items():
        roles = [role for role in found.roles if role.kind == kind]
        if roles:
            parts.append(section(heading, element("p", told, class_="faint"), key, _wide(grid(roles))))
    if found.unattended is not None:
        tokens = [(shown(token), str(count), str(every)) for token, count, every in found.unattended.most_frequent()]
        about = element("p", found.unattended.lines()[0].partition(":")[0], class_="faint")
        drawn = table(("token", "not attended", "in all"), tokens)
        parts.append(section("Source tokens that no head attends", about, drawn))
    if found.curve is not None:
        scores = [(str(count), f"{score:.2f}") for count, score in found.curve.points]
        about = element("p", "The least important heads are silenced first.", class_="faint")
        drawn = table(("silenced", found.curve.metric), scores)
        parts.append(section("Without heads", about, _wide(curve(found.curve)), drawn))
    if found.importance is not None:
        layers = layer_names(dict.fromkeys(one.head[0] for one in found.importance))
        each = [
            (f"{layers.get(name, name)}, head {head + 1}", f"{one.gradient:.4f}", f"{one.alone:+.4f}")
            for one in found.importance
            for name, head in [one.head]
        ]
        drawn = element(
            "details",
            element("summary", "least important first"),
            table(("head", "gradient", "loss alone"), each),
        )
        parts.append(section("Importance", drawn))
    measured = f"{found.pairs:,} pairs, targets forced"
    return document(f"Heads of {found.name}", measured, *parts, style=STYLE, summary=_summary(found))


def _summary(found: HeadsReport) -> str:
    """How many heads follow a rule, and how many tokens no head attends."""
    roles = Counter(role.role for role in found.roles)
    some = ", ".join(f"{count} {role}" for role, count in roles.most_common() if role != "none")
    told = f"{len(found.roles) - roles['none']} of {len(found.roles)} heads follow a simple rule"
    told = f"{told}: {some}." if some else f"{told}."
    if found.unattended is not None:
        told += f" {found.unattended.lines()[0].partition(':')[0]}."
    if found.curve is not None and len(found.curve.points) > 1:
        count, score = found.curve.points[len(found.curve.points) // 2]
        told += f" Without {count} of {found.curve.heads} heads, {found.curve.metric} is {score:.1f} instead of "
        told += f"{found.curve.points[0][1]:.1f}."
    return told


def grid(roles: Sequence[HeadRole]) -> Drawing:
    """A row for each attention and a square for each of its heads, with its role. A head without a role has the rule
    that it follows most often, and how often. A darker square has less entropy.
    """
    layers = layer_names(dict.fromkeys(role.attention for role in roles))
    names = list(layers)
    left = 12 + LETTER * max(map(columns, layers.values()))
    count = 1 + max(role.head for role in roles)
    parts = [
        text(left + WIDE * (head + 0.5) - 1, ROW / 2, f"head {head + 1}", text_anchor="middle", class_="role")
        for head in range(count)
    ]
    for role in roles:
        x, y = left + WIDE * role.head, ROW + CELL * names.index(role.attention)
        told = (
            f"{layers[role.attention]}, head {role.head + 1} ({role.name}): {role.role}; entropy {role.entropy:.2f}, "
            f"largest weight {role.peak:.2f}, "
            f"{100 * role.at_offset:.0f} % at place {role.offset:+d}, rarest token {100 * role.rarest:.0f} %, "
            f"end {100 * role.end:.0f} %"
        )
        square = box(x, y, WIDE - 2, CELL - 2, class_="head", fill_opacity=f"{0.75 * (1 - min(1.0, role.entropy)):.3f}")
        label = text(x + WIDE / 2 - 1, y + CELL / 2 - 1, _told(role), text_anchor="middle", class_="role")
        parts.append(element("g", element("title", told), square, label))
    for row, name in enumerate(layers.values()):
        parts.append(text(left - 6, ROW + CELL * (row + 0.5) - 1, name, text_anchor="end"))
    return Drawing(left + WIDE * count, ROW + CELL * len(names), "heads by layer, with their roles", parts)


def _told(role: HeadRole) -> str:
    """The role of a head or, without one, how often it follows the rule for the place."""
    if role.role != "none":
        return role.role
    if role.kind == "across":
        return f"diagonal {100 * role.diagonal:.0f} %"
    return f"place {role.offset:+d} {100 * role.at_offset:.0f} %"


def curve(found: Curve) -> Drawing:
    """The score against the share of heads that are silenced."""
    wide, high = PLOT
    left, below = 48, 34
    most = max(score for _, score in found.points) or 1.0
    places = [
        (left + (wide - left - 16) * count / found.heads, high - below - (high - below - 16) * max(0.0, score) / most)
        for count, score in found.points
    ]
    parts = [
        line(left, high - below, wide - 8, high - below, class_="axis"),
        line(left, 8, left, high - below, class_="axis"),
        text(left - 6, 16, f"{most:.1f}", text_anchor="end"),
        text(left - 6, high - below, "0", text_anchor="end"),
        text(wide - 8, high - 10, f"share of {found.heads} heads silenced, 100 %", text_anchor="end"),
        path("M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in places), class_="curve"),
    ]
    for (x, y), (count, score) in zip(places, found.points, strict=True):
        told = element("title", f"{count} silenced: {found.metric} {score:.2f}")
        parts.append(element("circle", told, cx=f"{x:.1f}", cy=f"{y:.1f}", r=4, class_="mark"))
    return Drawing(wide, high, f"{found.metric} against the share of silenced heads", parts)


def _wide(drawn: Drawing) -> Markup:
    return scrolling(drawn.inline(), drawn.about)
