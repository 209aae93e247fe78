"""benchmarks/cases.py: the table has every benchmark, and the command line of each is the signature of its function."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import pytest

from selection import mostly_slow

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
SHARED = ("__main__", "cases", "load_clients", "publish", "report", "stopwatch")
NAMES = sorted({path.stem for path in BENCHMARKS.glob("*.py")} - set(SHARED))
pytestmark = pytest.mark.usefixtures("benchmarks")


def example(
    report: object,
    runs: Sequence[Path],
    *,
    seeds: Sequence[int] = (1, 2),
    minutes: float,
    settings: Sequence[str] = (),
    side: Literal["a", "b"] = "a",
    part: Annotated[str | None, ("x", "y"), "one of them"] = None,
    dry_run: bool = False,
) -> None:
    """A benchmark."""


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> object:
    import cases

    return lambda *words: vars(cases.parser_of("example", example).parse_args(words))


def test_a_signature_is_a_command_line(parsed: object) -> None:
    least = parsed("r1", "r2", "--minutes=2")  # type: ignore[operator]
    assert least["runs"] == [Path("r1"), Path("r2")]
    assert (least["seeds"], least["minutes"], least["settings"]) == ([1, 2], 2.0, [])
    assert (least["side"], least["part"], least["dry_run"], least["threads"]) == ("a", None, False, 1)
    words = "r --minutes 1 --seeds 7 8 --set a=1 --set b=2 c=3 --side b --part y --dry-run --threads 4 --record f.json"
    given = parsed(*words.split())  # type: ignore[operator]
    assert (given["seeds"], given["settings"]) == ([7, 8], ["a=1", "b=2", "c=3"])
    assert (given["side"], given["part"], given["dry_run"], given["threads"]) == ("b", "y", True, 4)
    assert given["record"] == Path("f.json")


@pytest.mark.parametrize("words", ["--minutes=1", "r", "r --minutes=1 --side=c", "r --minutes=1 --part=z"])
def test_other_words_are_refused(parsed: object, words: str) -> None:
    with pytest.raises(SystemExit):
        parsed(*words.split())  # type: ignore[operator]


def test_the_table_has_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    import cases

    assert sorted(name for names in cases.CASES.values() for name in names) == NAMES
    cases.main([])
    listed = capsys.readouterr().out
    for name in NAMES:
        (line,) = [line.split(maxsplit=1) for line in listed.splitlines() if line.startswith(f"  {name} ")]
        assert line[1].endswith((".", "?")), name
    with pytest.raises(SystemExit, match="no benchmark 'pruned'; did you mean pruning"):
        cases.main(["pruned"])


def test_a_module_of_its_own_says_how_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(BENCHMARKS / "pruning.py"), "RUN"])
    with pytest.raises(SystemExit, match="write: python benchmarks pruning …"):
        exec((BENCHMARKS / "report.py").read_text("utf-8"), {"__file__": str(BENCHMARKS / "report.py")})


@pytest.mark.parametrize("name", mostly_slow(NAMES, ["pruning", "simple", "kalman"]))
def test_its_function_has_a_command_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    import cases

    try:
        function = import_module(name).main
    except ModuleNotFoundError as error:
        if error.name not in ("names", "wordfreq", "symspellpy"):  # the benchmark says how to install them
            raise
        pytest.skip(f"{error.name} is not installed")
    shown = cases.parser_of(name, function).format_help()
    assert "--record" in shown
    assert f"python benchmarks {name}" in shown
