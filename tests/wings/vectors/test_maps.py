"""Maps of vectors: the principal plane against numpy's covariance, groups that stay together, and the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.core.errors import MissingPackageError, UserError
from transduce.wings.vectors.map_report import drawing, map_page
from transduce.wings.vectors.representations.maps import Map, mapped, principal_plane


def groups(seed: int = 1) -> np.ndarray:
    """Thirty vectors of 12 features in three groups that lie far apart."""
    random = np.random.default_rng(seed)
    return (np.repeat(10 * np.eye(12)[:3], 10, 0) + random.normal(size=(30, 12))).astype(np.float32)


def test_the_plane_is_that_of_the_largest_variance() -> None:
    matrix = np.random.default_rng(2).normal(size=(40, 6)) @ np.diag([5, 1, 3, 0.1, 0.2, 0.3])
    points, explained = principal_plane(matrix.astype(np.float32))
    values, directions = np.linalg.eigh(np.cov(matrix.T))
    for axis, column in enumerate((-1, -2)):
        expected = (matrix - matrix.mean(0)) @ directions[:, column]
        assert np.abs(np.corrcoef(points[:, axis], expected)[0, 1]) == pytest.approx(1, abs=1e-5)
        assert points[:, axis].var(ddof=1) == pytest.approx(values[column], rel=1e-4)
    assert explained == pytest.approx(values[-2:].sum() / values.sum(), rel=1e-4)
    line, whole = principal_plane(np.array([[1.0], [2.0], [4.0]], dtype=np.float32))
    assert (line[:, 1] == 0).all()
    assert whole == 1


@pytest.mark.parametrize("method", ["pca", "tsne", pytest.param("umap", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_neighbours_stay_together(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if method == "umap":  # to compile the library takes a minute, and to interpret it for thirty vectors a few seconds
        monkeypatch.setattr(pytest.importorskip("numba").config, "DISABLE_JIT", 1)
    found = mapped(groups(), [str(n) for n in range(30)], [""] * 30, method, seed=3)
    points = found.points_N2
    for group in range(3):
        own = points[10 * group : 10 * group + 10]
        others = np.delete(points, range(10 * group, 10 * group + 10), 0)
        inside = np.linalg.norm(own[:, None] - own[None], axis=-1).max(0)
        outside = np.linalg.norm(own[:, None] - others[None], axis=-1).min(1)
        assert (np.median(inside) < outside).all()
    assert (found.explained is not None) == (method == "pca")
    again = mapped(groups(), found.texts, found.labels, method, seed=3)
    assert np.array_equal(again.points_N2, points)


def test_what_has_no_map() -> None:
    with pytest.raises(UserError, match="2 vectors: a map needs at least 3"):
        mapped(groups()[:2], ["a", "b"], ["", ""])
    with pytest.raises(UserError, match="expected pca, tsne, umap"):
        mapped(groups(), [""] * 30, [""] * 30, "isomap")  # type: ignore[arg-type]
    broken = groups()
    broken[3, 4] = np.nan
    with pytest.raises(UserError, match="not finite"):
        mapped(broken, [""] * 30, [""] * 30)


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for method, module in (("tsne", "sklearn.manifold"), ("umap", "umap")):
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(MissingPackageError, match=r"pip install 'transduce\[maps\]'"):
            mapped(groups(), [""] * 30, [""] * 30, method)  # type: ignore[arg-type]


def test_points_tell_their_texts_and_labels_have_colours() -> None:
    texts = [f"sentence <{n}>" for n in range(12)]
    labels = [f"label {n % 10}" for n in range(12)]
    found = Map(texts, labels, np.arange(24.0).reshape(12, 2), "pca", 0.5)
    drawn = drawing(found).alone()
    assert drawn.count("<title>") == 12
    assert "sentence &lt;3&gt; (label 3)" in drawn
    assert ">others<" in drawn  # ten labels, eight colours
    many = drawing(
        Map([f"text {n}" for n in range(100)], [""] * 100, np.arange(200.0).reshape(100, 2), "pca", 0.5)
    ).alone()
    assert many.count('class="name"') > 20  # as many names as there is room for
    page = map_page(found, "Map")
    assert "50.0 % of the variance" in page
    assert "<script" not in page


def test_map_of_a_run_and_of_words(trained: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    given = b"abc\tA\nab\tA\nba\tB\ncab\tB\n"
    out = tmp_path / "map.json"
    assert call("map", trained, "--labels", "--out", out, "--device=cpu", stdin=given)[0] == 0
    points = json.loads(out.read_text())["points"]
    assert [(each["text"], each["label"]) for each in points] == [("abc", "A"), ("ab", "A"), ("ba", "B"), ("cab", "B")]
    vectors = tmp_path / "words.vec"
    vectors.write_text("4 2\na 0 1\nb 1 0\nc 1 1\nd 0 0.5\n")
    page = tmp_path / "map.html"
    assert call("map", vectors, "--out", page, stdin=b"a\nb\nc\n")[0] == 0
    assert "100.0 % of the variance" in page.read_text()
    for options, message in (
        (("--out", "x.png"), "a map is a page .html"),
        (("--labels",), "line 1 has no tab"),
    ):
        status, _, err = call("map", trained, *options, stdin=b"abc\nab\n")
        assert status == 2
        assert message in err
