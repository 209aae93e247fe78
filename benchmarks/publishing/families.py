"""The table and the picture that compare families on the same tasks, from the records that
benchmarks/results/families.toml names.

A cell shows the record of the family's recipe for the task, as shipped. If there is none, it shows the family's system
in the record ``families-TASK.json`` of benchmarks/compare_families.py. It has the updates of training and a letter for
the machine, because the records are from several machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from string import ascii_uppercase

from publishing.rows import doubt_of, effort_in_words, other_search, written_scores
from transduce.core import config
from transduce.wings.pages.drawing import Drawing, line, text
from transduce.wings.pages.markup import Markup, element
from transduce.wings.records.changes import as_shipped
from transduce.wings.records.record import Figure, MeasuredSystem, Record

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
class Measured:
    """A system and the record that it is from."""

    system: MeasuredSystem
    record: Record

    def figure(self, task: Task) -> Figure:
        return self.system.scores[task.metric]


@dataclass(frozen=True)
class Ranked:
    """A family and its systems by task. ``share`` is the mean, over these tasks, of its score divided by the best
    score.
    """

    family: Family
    measured: Mapping[str, Measured]
    share: float


def ranked(compared: Comparison, records: Mapping[str, Record]) -> list[Ranked]:
    """The families, best first. Families without a record are last."""
    found = {family.name: _measured(family, compared.tasks, records) for family in compared.families}
    best = {
        task.name: max((each[task.name].figure(task).value for each in found.values() if task.name in each), default=1)
        for task in compared.tasks
    }

    def share(measured: Mapping[str, Measured]) -> float:
        shares = [
            measured[task.name].figure(task).value / best[task.name] for task in compared.tasks if task.name in measured
        ]
        return fmean(shares) if shares else 0.0

    rows = [Ranked(family, found[family.name], share(found[family.name])) for family in compared.families]
    return sorted(rows, key=lambda row: -row.share)


def table(compared: Comparison, records: Mapping[str, Record]) -> str:
    """The table in Markdown, and below it the machines that its letters stand for."""
    rows = ranked(compared, records)
    machines = _machines(each.record for row in rows for each in row.measured.values())
    lines = [
        ["family", *(task.heading for task in compared.tasks), "a second, fastest engine"],
        ["---"] * (len(compared.tasks) + 2),
    ]
    for row in rows:
        cells = [_cell(row, task, machines) for task in compared.tasks]
        lines.append([row.family.name, *cells, _fastest(row.family, records)])
    shown = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{shown}\n\nMachines: {'; '.join(f'{letter}: {name}' for name, letter in machines.items())}."


def filled(page: str, shown: str) -> str:
    """The page with ``shown`` between its two marks. Raises ValueError if a mark is missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page needs {BEGIN!r} and, below, {END!r}: the table stands between them")
    return f"{before}{begin}\n\n{shown}\n\n{end}{after}"


def _machines(measured: Iterable[Record]) -> dict[str, str]:
    """A letter for each kind of machine, by its description, in alphabetical order."""
    return dict(zip(sorted({_machine(record) for record in measured}), ascii_uppercase, strict=False))


def _machine(record: Record) -> str:
    """The processor with its widest instructions for products."""
    machine = record.machine
    return f"{machine.processor}, {machine.instructions[-1]}" if machine.instructions else machine.processor


def _cell(row: Ranked, task: Task, machines: Mapping[str, str]) -> str:
    if task.name in row.family.unsuited:
        return UNSUITED
    if task.name not in row.measured:
        return MISSING
    found = row.measured[task.name]
    models = found.system.models
    parts = [
        written_scores([found.figure(task)]),
        " + ".join(effort_in_words(each, tokens=False) for each in models),
        f"{sum(model.parameters for model in models) / 1e6:.1f} M",
        machines[_machine(found.record)],
        doubt_of(found.record),
    ]
    return "; ".join(filter(None, parts))


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


def _measured(family: Family, tasks: Sequence[Task], records: Mapping[str, Record]) -> dict[str, Measured]:
    found = {
        task.name: _of_recipe(family.recipes.get(task.name, ""), records) or _of_comparison(family, task, records)
        for task in tasks
    }
    return {name: system for name, system in found.items() if system is not None}


def _of_recipe(recipe: str, records: Mapping[str, Record]) -> Measured | None:
    """The newest system of a recipe as shipped, on test, by its own search."""
    found = [
        (record.date, Measured(system, record))
        for record in records.values()
        for system in record.systems
        if record.split == "test"
        and "+".join(model.recipe for model in system.models) == recipe
        and all(as_shipped(model) for model in system.models)
        and not other_search(system)
    ]
    return max(found, key=lambda each: each[0])[1] if recipe and found else None


def _of_comparison(family: Family, task: Task, records: Mapping[str, Record]) -> Measured | None:
    record = records.get(f"{OWN}{task.name}")
    if record is None or record.split != "test":
        return None
    named = (system for system in record.systems if family.system and system.name == family.system)
    return next((Measured(system, record) for system in named), None)


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
    highest = max((row.measured[task.name].figure(task).value for row in rows if task.name in row.measured), default=1)
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
        figure = row.measured[task.name].figure(task)
        high = figure.value if figure.high is None else figure.high
        if figure.low is not None:
            yield line(across(figure.low), y, across(high), y, style=f"stroke: {MARK}; stroke-width: 3")
        yield element("circle", cx=across(figure.value), cy=y, r=4, fill=MARK)
        yield text(across(high) + 8, y, f"{figure.value:.1f}")
