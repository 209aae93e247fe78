"""The table and the picture that compare families on the same tasks, from the records that
benchmarks/results/families.toml names.

A cell shows the record of the family's recipe for the task, as shipped. If there is none, it shows the family's system
in the record ``families-TASK.json`` of benchmarks/compare_families.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from publishing.rows import other_search, written_scores
from transduce import config
from transduce.pages.drawing import Drawing, line, text
from transduce.pages.markup import Markup, element
from transduce.records.changes import as_shipped
from transduce.records.record import Figure, MeasuredSystem, Record

OWN = "families-"  # the names of these records begin so; no other table shows them
MISSING, UNSUITED = "not measured", "–"
SPEED = ": sentences a second (times torch float32)"  # the end of a table's heading in benchmarks/engines.py
COLUMN = "beam 5, batches"
BEGIN = "<!-- Made by `bash scripts/results` from records, down to the next mark. -->"
END = "<!-- The table ends here. -->"


@dataclass(frozen=True)
class Task:
    """A task: its name, the heading of its column, and the metric that ranks it (higher is better)."""

    name: str
    heading: str
    metric: str


@dataclass(frozen=True)
class Family:
    """A family. ``recipes`` has its recipe for each task; "+" joins several. ``system`` is its name in these records.

    ``engines`` is the run whose speed is in a record of benchmarks/engines.py, in ``outputs`` a second. The family is
    ``unsuited`` for some tasks, whose cells stay empty.
    """

    name: str
    system: str = ""
    recipes: dict[str, str] = field(default_factory=dict)
    unsuited: tuple[str, ...] = ()
    engines: str = ""
    outputs: str = "sentences"


@dataclass(frozen=True)
class Comparison:
    tasks: tuple[Task, ...]
    families: tuple[Family, ...]

    @classmethod
    def read(cls, path: Path) -> Comparison:
        """Reads a TOML file. Raises ConfigError, which names the key, if the file does not fit the dataclasses."""
        return config.build(config.read(path), cls)


@dataclass(frozen=True)
class Ranked:
    """A family and its systems by task. ``share`` is the mean, over these tasks, of its score divided by the best
    score.
    """

    family: Family
    measured: Mapping[str, MeasuredSystem]
    share: float


def ranked(compared: Comparison, records: Mapping[str, Record]) -> list[Ranked]:
    """The families, best first. Families without a record are last."""
    found = {family.name: _measured(family, compared.tasks, records) for family in compared.families}
    best = {
        task.name: max(
            (_figure(each[task.name], task).value for each in found.values() if task.name in each), default=1
        )
        for task in compared.tasks
    }

    def share(measured: Mapping[str, MeasuredSystem]) -> float:
        shares = [
            _figure(measured[task.name], task).value / best[task.name]
            for task in compared.tasks
            if task.name in measured
        ]
        return fmean(shares) if shares else 0.0

    rows = [Ranked(family, found[family.name], share(found[family.name])) for family in compared.families]
    return sorted(rows, key=lambda row: -row.share)


def table(compared: Comparison, records: Mapping[str, Record]) -> str:
    """The table in Markdown."""
    lines = [
        ["family", *(task.heading for task in compared.tasks), "a second, fastest engine"],
        ["---"] * (len(compared.tasks) + 2),
    ]
    for row in ranked(compared, records):
        cells = [_cell(row, task) for task in compared.tasks]
        lines.append([row.family.name, *cells, _fastest(row.family, records)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def filled(page: str, shown: str) -> str:
    """The page with ``shown`` between its two marks. Raises ValueError if a mark is missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page of families needs {BEGIN!r} and, below, {END!r}: the table stands between them")
    return f"{before}{begin}\n\n{shown}\n\n{end}{after}"


def _cell(row: Ranked, task: Task) -> str:
    if task.name in row.family.unsuited:
        return UNSUITED
    if task.name not in row.measured:
        return MISSING
    system = row.measured[task.name]
    minutes = sum(model.effort.minutes for model in system.models if model.effort is not None)
    parameters = sum(model.parameters for model in system.models)
    return f"{written_scores([_figure(system, task)])}; {minutes:.1f} min; {parameters / 1e6:.1f} M"


def _fastest(family: Family, records: Mapping[str, Record]) -> str:
    """The speed and the name of the engine that writes the most outputs a second."""
    rates = [
        (float(cells[columns.index(COLUMN)].split()[0].replace(",", "")), cells[0])
        for columns, cells in _engine_rows(family.engines, records)
    ]
    if not rates:
        return MISSING
    rate, engine = max(rates)
    return f"{rate:,.0f} {family.outputs}, {engine}"


def _engine_rows(run: str, records: Mapping[str, Record]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    for record in records.values():
        for printed in record.tables:
            if run and printed.heading == f"{run}{SPEED}":
                for row in printed.rows:
                    yield printed.columns, row


# -------------------------------------------------------------------- measured


def _measured(family: Family, tasks: Sequence[Task], records: Mapping[str, Record]) -> dict[str, MeasuredSystem]:
    found = {
        task.name: _of_recipe(family.recipes.get(task.name, ""), records) or _of_comparison(family, task, records)
        for task in tasks
    }
    return {name: system for name, system in found.items() if system is not None}


def _of_recipe(recipe: str, records: Mapping[str, Record]) -> MeasuredSystem | None:
    """The newest system of a recipe as shipped, on test, by its own search."""
    found = [
        (record.date, system)
        for record in records.values()
        for system in record.systems
        if record.split == "test"
        and "+".join(model.recipe for model in system.models) == recipe
        and all(as_shipped(model) for model in system.models)
        and not other_search(system)
    ]
    return max(found, key=lambda each: each[0])[1] if recipe and found else None


def _of_comparison(family: Family, task: Task, records: Mapping[str, Record]) -> MeasuredSystem | None:
    record = records.get(f"{OWN}{task.name}")
    systems = record.systems if record and record.split == "test" else ()
    return next((system for system in systems if family.system and system.name == family.system), None)


def _figure(system: MeasuredSystem, task: Task) -> Figure:
    return system.scores[task.metric]


# --------------------------------------------------------------------- picture

NAMES, PANEL, BETWEEN, TOP, ROW = 290.0, 180.0, 60.0, 34.0, 26.0  # pixels; a score is written between two panels
RULE, MARK = "stroke: #e1e5ea", "#1d4ed8"


def picture(compared: Comparison, records: Mapping[str, Record]) -> str:
    """The scores as the text of an SVG file: a panel for each task, a row for each family, with 95 % intervals."""
    rows = ranked(compared, records)
    bottom = TOP + ROW * len(rows)
    width = NAMES + len(compared.tasks) * (PANEL + BETWEEN)
    parts = []
    for place, row in enumerate(rows):
        parts.append(line(8, TOP + ROW * (place + 1), width - 8, TOP + ROW * (place + 1), style=RULE))
        parts.append(text(8, TOP + ROW * (place + 0.5), row.family.name))
    for number, task in enumerate(compared.tasks):
        parts += _panel(NAMES + number * (PANEL + BETWEEN), task, rows, bottom)
    about = "The score of each family on each task, with 95 % intervals; the table has the same numbers"
    return Drawing(width, bottom + 26, about, parts).alone()


def _panel(left: float, task: Task, rows: Sequence[Ranked], bottom: float) -> Iterator[Markup]:
    highest = max(
        (_figure(row.measured[task.name], task).value for row in rows if task.name in row.measured), default=1
    )
    step = 10 if highest <= 50 else 25
    end = step * (highest // step + 1)

    def across(value: float) -> float:
        return left + PANEL * value / end

    yield text(left, 14, task.heading)
    for tick in range(0, int(end) + 1, step):
        yield line(across(tick), TOP, across(tick), bottom, style=RULE)
        yield text(across(tick), bottom + 14, str(tick), text_anchor="middle", class_="faint")
    for place, row in enumerate(rows):
        y = TOP + ROW * (place + 0.5)
        if task.name not in row.measured:
            said = UNSUITED if task.name in row.family.unsuited else MISSING
            yield text(left + 4, y, said, class_="faint")
            continue
        figure = _figure(row.measured[task.name], task)
        high = figure.value if figure.high is None else figure.high
        if figure.low is not None:
            yield line(across(figure.low), y, across(high), y, style=f"stroke: {MARK}; stroke-width: 3")
        yield element("circle", cx=across(figure.value), cy=y, r=4, fill=MARK)
        yield text(across(high) + 8, y, f"{figure.value:.1f}")
