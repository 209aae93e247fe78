"""Links of a corpus: Pharaoh format, checks, and symmetrisation against the usual form of the heuristics."""

from __future__ import annotations

import numpy as np
import pytest

from transduce.core.errors import UserError
from transduce.core.types import EOS
from transduce.data.pairs import Ragged
from transduce.wings.alignment.links import NEIGHBOURS, Gold, Links, symmetrise
from transduce.wings.counted.alignment.quick import quick_links

Points = set[tuple[int, int]]


def as_links(points: list[Points]) -> Links:
    rows = np.array([(n, s, t) for n, links in enumerate(points) for s, t in links], np.int64).reshape(-1, 3)
    return Links.of(len(points), *rows.T)


def drawn(seed: int, share: float, pairs: int = 150) -> list[Points]:
    generator = np.random.default_rng(seed)
    lengths = np.random.default_rng(0).integers(0, 9, (pairs, 2))
    return [{(s, t) for s in range(S) for t in range(T) if generator.random() < share} for S, T in lengths]


def grown(forward: Points, backward: Points, heuristic: str) -> Points:
    """Symmetrises one pair, one link at a time, by the procedure of Koehn et al. (2003)."""
    union, alignment = forward | backward, forward & backward

    def free(s: int, t: int) -> list[bool]:
        return [s not in {s for s, _ in alignment}, t not in {t for _, t in alignment}]

    added = True
    while added:
        added = False
        for t in range(10):
            for s in range(10):
                for down, right in NEIGHBOURS if (s, t) in alignment else ():
                    new = (s + int(right), t + int(down))
                    if new in union - alignment and any(free(*new)):
                        alignment.add(new)
                        added = True
    for direction in (forward, backward) if "final" in heuristic else ():
        for t in range(10):
            for s in range(10):
                if (s, t) in direction and (all if heuristic.endswith("and") else any)(free(s, t)):
                    alignment.add((s, t))
    return alignment


@pytest.mark.parametrize("heuristic", ["grow-diag", "grow-diag-final", "grow-diag-final-and"])
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_whole_arrays_grow_like_one_link_at_a_time(heuristic: str, share: float) -> None:
    forward, backward = drawn(1, share), drawn(2, share)
    expected = as_links([grown(*each, heuristic) for each in zip(forward, backward, strict=True)])
    found = symmetrise(as_links(forward), as_links(backward), heuristic)  # type: ignore[arg-type]
    assert found.write() == expected.write()
    assert np.array_equal(found.pair_L, expected.pair_L)


def test_union_and_intersection_are_those_of_sets() -> None:
    forward, backward = drawn(1, 0.3), drawn(2, 0.3)
    for heuristic, both in (("union", set.union), ("intersection", set.intersection)):
        expected = as_links([both(*each) for each in zip(forward, backward, strict=True)])
        assert symmetrise(as_links(forward), as_links(backward), heuristic).write() == expected.write()  # type: ignore[arg-type]


def test_pharaoh_format_round_trips() -> None:
    lines = ["0-0 2-1 1-3", "", "0-0 1-0"]
    links = Links.read(lines)
    assert links.write() == lines
    assert links.pairs == 3
    assert links.of_pair(0) == [(0, 0), (2, 1), (1, 3)]
    assert links.turned().write() == ["0-0 3-1 1-2", "", "0-0 0-1"]


def test_gold_has_sure_and_possible_links() -> None:
    gold = Gold.read(["0-0 1p1", "2p0"])
    assert gold.sure.write() == ["0-0", ""]
    assert gold.possible.write() == ["0-0 1-1", "2-0"]


def test_mistakes_in_alignments_name_their_line() -> None:
    with pytest.raises(UserError, match=r"line 2: '0:1' is no link"):
        Links.read(["0-0", "1-1 0:1"])
    with pytest.raises(UserError, match=r"line 2: 0p1 is a possible link"):
        Links.read(["0-0", "0p1"])
    with pytest.raises(UserError, match=r"line 2: the link 0-3 is outside its sentence: the target has 3 words"):
        Links.read(["0-0", "0-3"]).check([1, 1], [1, 3])
    with pytest.raises(UserError, match=r"the link 1-0 is outside its sentence: the source has 1 words"):
        Links.read(["1-0"]).check([1], [1])
    with pytest.raises(UserError, match=r"alignments of 1 pairs, and 2 source and 2 target"):
        Links.read(["0-0"]).check([1, 1], [1, 1])
    with pytest.raises(UserError, match=r"heuristic = 'grow'"):
        symmetrise(Links.read([""]), Links.read([""]), "grow")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"links of 1 pairs, the other of 2"):
        symmetrise(Links.read([""]), Links.read(["", ""]))


def test_no_links_at_all() -> None:
    for pairs in (0, 2):
        none = Links.read([""] * pairs)
        assert symmetrise(none, none, "grow-diag-final").write() == [""] * pairs


def test_quick_links_find_a_dictionary() -> None:
    generator = np.random.default_rng(5)
    rows = []
    for _ in range(200):
        source = generator.choice(np.arange(4, 30), generator.integers(0, 7), replace=False).tolist()
        rows.append(([*source, EOS], [*(word + 30 for word in reversed(source)), EOS]))
    links = quick_links(*(ragged([row[side] for row in rows]) for side in (0, 1)))
    expected = [{(place, len(source) - 2 - place) for place in range(len(source) - 1)} for source, _ in rows]
    assert links.write() == as_links(expected).write()


def ragged(rows: list[list[int]]) -> Ragged:
    return Ragged(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))
