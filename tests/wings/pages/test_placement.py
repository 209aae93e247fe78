"""Labels beside points: none hides another one or a point."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from transduce.wings.pages.placement import Box, label_boxes


def test_no_label_meets_another_one_or_a_point() -> None:
    random = np.random.default_rng(1)
    points = [(float(x), float(y)) for x, y in random.uniform(20, 380, (60, 2))]
    page = Box(0, 0, 400, 400)
    boxes = label_boxes(points, [60.0] * len(points), 13, 8, page)
    placed = [box for box in boxes if box is not None]
    assert 20 < len(placed) <= 60
    assert not any(one.meets(other) for one, other in combinations(placed, 2))
    assert not any(box.meets(Box(x - 1, y - 1, 2, 2)) for box in placed for x, y in points)
    assert all(box.x >= 0 and box.x + box.width <= 400 for box in placed)


def test_a_label_stands_to_the_right_if_there_is_room() -> None:
    assert label_boxes([(50, 50)], [20], 10, 8, Box(0, 0, 200, 200)) == [Box(58, 45, 20, 10)]
    (left,) = label_boxes([(190, 50)], [20], 10, 8, Box(0, 0, 200, 200))
    assert left == Box(162, 45, 20, 10)
