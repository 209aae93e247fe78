"""Windows on series: of tables of one's own, and of the series that come with statsmodels."""

from __future__ import annotations

import gzip
import re
import shlex
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from transduce.data.corpora import DataError, Splits, present
from transduce.data.rows import read
from transduce.wings.recipes.origins.series import Series
from transduce.wings.recipes.origins.statsmodels import Statsmodels
from transduce.wings.recipes.origins.windows import Windows

WINDOWS = Windows(3, 2, valid=0.2, test=0.25)


def written(path: Path, steps: int = 40) -> str:
    """A step's number is its place, so that windows can be read off; ``b`` is a hundred more."""
    rows = [f"{year},{year},{100 + year}" for year in range(steps)]
    path.write_text("\n".join(["date,a,b", *rows]) + "\n", encoding="utf-8")
    return str(path)


def windows_of(splits: Splits) -> dict[str, list[tuple[str, str]]]:
    return {split: [(row.source, str(row.target)) for row in read(files)] for split, files in present(splits).items()}


def places(lines: list[tuple[str, str]]) -> set[int]:
    return {int(number) for pair in lines for text in pair for number in text.split()}


def test_a_window_is_so_many_steps_and_those_after_them(tmp_path):
    splits = windows_of(Series(written(tmp_path / "s.csv"), WINDOWS, ("a",)).prepare(tmp_path))
    assert splits["train"][:2] == [("0 1 2", "3 4"), ("1 2 3", "4 5")]
    assert splits["test"][-1] == ("35 36 37", "38 39")


@pytest.mark.parametrize("stride", [1, 3])
def test_splits_are_by_time_and_share_no_step(tmp_path, stride):
    windows = Windows(3, 2, stride, valid=0.2, test=0.25)
    splits = windows_of(Series(written(tmp_path / "s.csv"), windows, ("a",)).prepare(tmp_path))
    bounds = {"train": (0, 22), "valid": (22, 30), "test": (30, 40)}
    for split, (begin, end) in bounds.items():
        whole = set(range(begin, end))
        assert places(splits[split]) <= whole
        assert len(splits[split]) == len(range(begin, end - 5 + 1, stride))
        if stride == 1:
            assert places(splits[split]) == whole


def test_columns_are_channels_and_targets_are_some_of_them(tmp_path):
    path = written(tmp_path / "s.csv")
    both = windows_of(Series(path, WINDOWS, ("b", "a")).prepare(tmp_path / "both"))
    assert both["train"][0] == ("100,0 101,1 102,2", "103,3 104,4")
    every = windows_of(Series(path, WINDOWS).prepare(tmp_path / "every"))
    assert every["train"][0][0] == "0,0,100 1,1,101 2,2,102"
    one = windows_of(Series(path, WINDOWS, ("a", "b"), targets=("b",)).prepare(tmp_path / "one"))
    assert one["train"][0] == ("0,100 1,101 2,102", "103 104")


def test_tables_are_read_as_they_are_named(tmp_path):
    text = Path(written(tmp_path / "s.csv")).read_text(encoding="utf-8")
    (tmp_path / "s.tsv").write_text("\ufeff" + text.replace(",", "\t"), encoding="utf-8")
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress(text.replace("\n", "\r\n").encode()))
    found = [
        windows_of(Series(str(tmp_path / name), WINDOWS, ("a",)).prepare(tmp_path / name.replace(".", "-")))
        for name in ("s.csv", "s.tsv", "s.csv.gz")
    ]
    assert found[0] == found[1] == found[2]


OTHERS = [
    ("date;sold\n{};1.203,5\n{};,5\n{};-12\n", {"separator": ";", "decimal": ",", "thousands": "."}),
    ('date,sold\n{},"1,203.5"\n{},.5\n{},-12\n', {"thousands": ","}),
    ("date|sold\n{}|1 203.5\n{}|0.5\n{}|-12\n", {"separator": "|", "thousands": " "}),
    ('date,sold\n{},"1203,5"\n{},"0,5"\n{},-12\n', {"decimal": ","}),
    ("date;sold\n{};1\u202f203,5 €\n{};,5\n{};−12\n", {"separator": ";", "decimal": ",", "thousands": " "}),
    ('date,sold\n{},"0,01,203.5"\n{},.5\n{},-12\n', {"thousands": ","}),
    ("date;sold\n{};1’203.5\n{};0.5\n{};-12\n", {"separator": ";", "thousands": "'"}),
]


@pytest.mark.parametrize(("text", "form"), OTHERS)
def test_tables_of_other_countries_are_read_as_the_error_proposes(tmp_path, text, form):
    path, windows = tmp_path / "s.csv", Windows(1, 1, valid=0.25, test=0.25)
    path.write_text(text.replace("{}", "1.1.20") + text.partition("\n")[2].replace("{}", "2.1.20") * 3)
    with pytest.raises(DataError) as told:
        Series(str(path), windows, ("sold",)).prepare(tmp_path)
    proposed = [
        re.fullmatch(r'data\.origin\.(\w+)="(.+)"', word) for word in shlex.split(str(told.value).rpartition("with")[2])
    ]
    assert dict(found.groups() for found in proposed if found) == form
    splits = windows_of(Series(str(path), windows, ("sold",), **form).prepare(tmp_path / "read"))
    assert [float(step) for pair in splits["train"][:1] for step in pair] == [1203.5, 0.5]


def test_two_readings_of_a_number_are_both_proposed(tmp_path):
    (tmp_path / "s.csv").write_text('date,sold\n1.1.20,"1,203"\n2.1.20,"1,204"\n')
    with pytest.raises(DataError, match=r"""decimal=","', or with --set 'data\.origin\.thousands=","'"""):
        Series(str(tmp_path / "s.csv"), WINDOWS, ("sold",)).prepare(tmp_path)
    with pytest.raises(DataError, match="decimal and thousands are both"):
        Series("s.csv", WINDOWS, decimal=",", thousands=",")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_and_signs_of_missing_numbers(tmp_path, encoding):
    path = tmp_path / "s.csv"
    path.write_text(
        "sep=;\nverkäuft;x\n" + "".join(f"{row if row % 5 else 'k.A.'};5 %\n" for row in range(40)), encoding
    )
    splits = windows_of(Series(str(path), WINDOWS, ("verkäuft", "x"), missing=True).prepare(tmp_path))
    assert splits["train"][0][0].startswith("nan,5 1,5")


def test_tabs_and_another_sign_are_told_together(tmp_path):
    (tmp_path / "s.csv").write_text("date\tsold\n1.1.20\t1,5\n2.1.20\t1,25\n")
    with pytest.raises(
        DataError, match=r"suffix \.tsv, because tabs separate its columns, --set 'data\.origin\.decimal"
    ):
        Series(str(tmp_path / "s.csv"), WINDOWS, ("sold",)).prepare(tmp_path)


def test_columns_of_one_name_get_numbers(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("sold,sold\n" + "".join(f"{row},{row + 100}\n" for row in range(40)))
    with pytest.raises(DataError, match=r"no column 'sold'; did you mean \"sold\.[12]\"\? Known: sold\.1, sold\.2"):
        Series(str(path), WINDOWS, ("sold",)).prepare(tmp_path)
    splits = windows_of(Series(str(path), WINDOWS, ("sold.2",)).prepare(tmp_path))
    assert splits["train"][0][0].startswith("100 101")


def test_a_table_that_has_changed_is_read_anew(tmp_path):
    series = Series(written(tmp_path / "s.csv"), WINDOWS, ("a",))
    before = windows_of(series.prepare(tmp_path / "cache"))
    assert windows_of(series.prepare(tmp_path / "cache")) == before
    written(tmp_path / "s.csv", 48)
    assert windows_of(series.prepare(tmp_path / "cache")) != before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("7,7,107", "7,,107"), r"s\.csv:9: column 'a' has '', and a number was expected; fill in what is missing"),
        (("7,7,107", "7,NA,107"), r"s\.csv:9: column 'a' has 'NA'"),
        (("7,7,107", "7,nan,107"), r"s\.csv:9: column 'a' has 'nan'"),
        (("7,7,107", "7,7"), r"s\.csv:9: 2 columns, and the header line names 3"),
        (("7,7,107\n", "\n"), r"s\.csv:9: 0 columns"),
        (("date,a,b", "date,aa,b"), r"s\.csv has no column 'a'; did you mean \"aa\"\? Known: aa, b, date"),
    ],
)
def test_what_is_missing_is_told_by_row_and_column(tmp_path, change, message):
    path = Path(written(tmp_path / "s.csv"))
    path.write_text(path.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        Series(str(path), WINDOWS, ("a", "b")).prepare(tmp_path)


def test_tables_that_are_none_are_told(tmp_path):
    with pytest.raises(DataError, match=r"format of 's\.xls' .* expected \.csv or \.tsv"):
        Series("s.xls", WINDOWS).prepare(tmp_path)
    with pytest.raises(DataError, match=r"cannot read .*none\.csv"):
        Series(str(tmp_path / "none.csv"), WINDOWS).prepare(tmp_path)
    (tmp_path / "s.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match=r"cannot read .*s\.csv\.gz"):
        Series(str(tmp_path / "s.csv.gz"), WINDOWS).prepare(tmp_path)


def test_windows_that_do_not_fit_are_told(tmp_path):
    path = written(tmp_path / "s.csv")
    with pytest.raises(DataError, match=r"s\.csv has 40 steps, 6 of them for valid, which hold no .* = 7: choose"):
        Series(path, Windows(4, 3), ("a",)).prepare(tmp_path)
    with pytest.raises(DataError, match=r"windows\.stride = 0: at least one"):
        Windows(3, 2, 0)
    for shares in ({"valid": 0.0}, {"test": -0.1}, {"valid": 0.5, "test": 0.5}):
        with pytest.raises(DataError, match="that leave some for training"):
            Windows(3, 2, **shares)


# --------------------------------------------------------------- statsmodels


def series_of(dataset: str, tmp_path: Path) -> list[float]:
    """The whole series, from windows of one step and the next."""
    whole: list[float] = []
    for lines in windows_of(Statsmodels(dataset, Windows(1, 1)).prepare(tmp_path)).values():
        whole += [float(lines[0][0]), *(float(target) for _, target in lines)]
    return whole


def test_the_series_of_statsmodels_are_what_it_loads(tmp_path):
    datasets = pytest.importorskip("statsmodels.datasets")
    monthly = datasets.co2.load_pandas().data["co2"].resample("MS").mean().interpolate()
    assert series_of("co2", tmp_path / "co2") == pytest.approx(monthly.tolist(), abs=0.00501)
    elnino = datasets.elnino.load_pandas().data.set_index("YEAR").to_numpy().ravel()
    assert series_of("elnino", tmp_path / "elnino") == pytest.approx(elnino.tolist())
    sunspots = datasets.sunspots.load_pandas().data["SUNACTIVITY"]
    assert series_of("sunspots", tmp_path / "sunspots") == pytest.approx(sunspots.tolist())


def test_other_series_are_not_known(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"no series 'co'; did you mean \"co2\"\? Known: co2, elnino, sunspots"):
        Statsmodels("co", WINDOWS).prepare(tmp_path)

    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    with pytest.raises(DataError, match=r"'statsmodels' is not installed: pip install 'transduce\[series\]'"):
        Statsmodels("co2", WINDOWS).prepare(tmp_path)
