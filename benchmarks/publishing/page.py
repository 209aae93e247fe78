"""Fills the marks of a template, benchmarks/results/page.md, which becomes docs/results.md.

- ``{{scores METRIC, ... | RECIPE, ...}}`` is a table: the records of these recipes (g2p-* is a pattern).
- ``{{summary RECIPE: METRIC, ...}}`` is the rest of a line of a table: the recipe, its score, work and source.
- ``{{tables NAME}}`` holds the tables of a benchmark's record, NAME.json. ``{{tables NAME without COLUMN}}`` leaves a
  column out whose figures have turned out to be wrong.
- ``{{joined NAME-}}`` holds one table with the rows of all records whose names begin with NAME-.
- ``{{differences NAME}}`` holds the scores of a record of ``transduce compare`` and the differences that it tested. The
  tables of ``scores`` leave this record out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from publishing import families, simple
from publishing.differences import difference_tables
from publishing.rows import ResultRow, rows_of_record, source_of
from transduce.wings.records.record import PrintedTable, Record

MARK = re.compile(r"\{\{(.*?)\}\}")
COMPARED = re.compile(r"\{\{differences (.*?)\}\}")
NOTICE = (
    "<!-- Made by `bash scripts/results` from benchmarks/results. Change page.md and the records there, not this. -->"
)


class TemplateError(ValueError):
    """The template has a mark that cannot be filled, or leaves a record out."""


@dataclass
class Results:
    """All records and rows, and the ones that the page shows. ``shown`` has the indices of the rows that it shows, and
    ``used`` the names of the records whose tables it shows.
    """

    folder: Path
    records: dict[str, Record]
    rows: list[ResultRow] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    compared: set[str] = field(default_factory=set)  # the names of the records that a mark ``differences`` shows

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Reads records/*.json of ``folder``. Raises RecordError for a broken file."""
        files = sorted((folder / "records").glob("*.json"))
        found = cls(folder, {file.stem: Record.read(file) for file in files})
        for file in files:
            if file.stem.startswith(families.OWN):  # docs/families.md shows these
                continue
            found.rows += rows_of_record(file, found.records[file.stem])
        return found

    def of_recipe(self, recipe: str) -> list[ResultRow]:
        """The newest row that a recipe's header may show, or nothing."""
        found = [row for row in self.rows if row.recipe == recipe and row.shipped and row.split == "test"]
        return sorted(found, key=lambda row: row.date, reverse=True)[:1]

    def page(self) -> str:
        """The page. Raises TemplateError for a mark that cannot be filled, and for a record that no mark shows."""
        template = (self.folder / "page.md").read_text(encoding="utf-8")
        self.compared |= {name.strip() for name in COMPARED.findall(template)}
        text = MARK.sub(lambda mark: self._filled(mark.group(1)), template)
        left = [row.model for number, row in enumerate(self.rows) if number not in self.shown | self._compared_rows]
        left += [name for name, record in self.records.items() if record.tables and name not in self.used]
        if left:
            raise TemplateError(f"page.md shows nothing of {', '.join(left)}: add the recipe to a {{{{scores}}}} mark")
        return f"{NOTICE}\n\n{text}"

    @property
    def _compared_rows(self) -> set[int]:
        return {number for number, row in enumerate(self.rows) if row.record in self.compared}

    # ---------------------------------------------------------------- marks

    def _filled(self, mark: str) -> str:
        kind, _, rest = mark.partition(" ")
        match kind:
            case "scores":
                return self._scores(rest)
            case "summary":
                return self._summary(rest)
            case "joined":
                return self._joined(rest.strip())
            case "tables" | "differences":
                name, _, column = rest.partition(" without ")
                return self._printed(kind, name.strip(), column.strip())
        raise TemplateError(f"{{{{{mark}}}}}: expected scores, summary, tables, joined or differences")

    def _scores(self, rest: str) -> str:
        metrics, _, recipes = rest.partition("|")
        patterns, names = _listed(recipes), _listed(metrics)
        chosen = {number for number, row in enumerate(self.rows) if any(fnmatch(row.recipe, each) for each in patterns)}
        chosen -= self._compared_rows
        self.shown |= chosen
        rows = sorted((self.rows[number] for number in sorted(chosen)), key=lambda row: (row.recipe == "", row.recipe))
        if not rows:
            raise TemplateError(f"{{{{scores {rest}}}}}: no record has these recipes")
        return _table(rows, names or list(dict.fromkeys(name for row in rows for name in row.scores)))

    def _summary(self, rest: str) -> str:
        recipe, _, metrics = rest.partition(":")
        # An ensemble is never a shipped recipe, so ``of_recipe`` finds none.
        found = self.of_recipe(recipe.strip()) or [row for row in self.rows if row.recipe == recipe.strip()]
        if not found:
            raise TemplateError(f"{{{{summary {rest}}}}}: there is no record of {recipe.strip()}")
        row = found[0]
        names = [name for name in _listed(metrics) if name in row.scores] or list(row.scores)
        scores = ", ".join(f"{name} {row.scores[name]}" for name in names)
        return f"{row.model} | {scores} | {row.work} | {'; '.join(filter(None, (row.source, row.doubt)))}"

    def _joined(self, start: str) -> str:
        found = {name: record for name, record in self.records.items() if name.startswith(start)}
        if not found:
            raise TemplateError(f"{{{{joined {start}}}}}: no record has a name that begins so")
        self.used |= found.keys()
        sources = "\n".join(f"- {source_of(name, record)}" for name, record in found.items())
        return f"{_markdown(simple.joined(found, start))}\n\n{sources}"

    def _printed(self, kind: str, name: str, column: str) -> str:
        if name not in self.records:
            raise TemplateError(f"{{{{{kind} {name}}}}}: expected {self.folder / 'records' / name}.json")
        record = self.records[name]
        tables = record.tables if kind == "tables" else difference_tables(record)
        if not tables:
            raise TemplateError(f"{{{{{kind} {name}}}}}: the record {name}.json has no {kind}")
        if column and not any(column in table.columns for table in tables):
            raise TemplateError(f"{{{{{kind} {name} without {column}}}}}: no table of {name}.json has this column")
        self.used.add(name)
        return "\n\n".join([*(_markdown(_without(table, column)) for table in tables), source_of(name, record)])


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _table(rows: Sequence[ResultRow], metrics: Sequence[str]) -> str:
    """The table of the rows, without metrics that no row has. A note names the split of a row if it is not test."""
    names = [name for name in metrics if any(name in row.scores for row in rows)]
    lines = [
        ["model (parameters)", *names, "work", "source", "notes"],
        ["---", *["---:"] * len(names), "---", "---", "---"],
    ]
    for row in rows:
        notes = [*([] if row.split == "test" else [f"on {row.split}"]), *row.notes]
        scores = [row.scores.get(name, "–") for name in names]
        model = f"{row.model} ({row.parameters})" if row.parameters else row.model
        lines.append([model, *scores, row.work, row.source, "; ".join(notes)])
    return _lines(lines)


def _without(printed: PrintedTable, column: str) -> PrintedTable:
    """The table without a column."""
    kept = [number for number, title in enumerate(printed.columns) if not column or title != column]
    rows = (tuple(row[number] for number in kept) for row in printed.rows)
    return PrintedTable(printed.heading, tuple(printed.columns[number] for number in kept), tuple(rows))


def _markdown(printed: PrintedTable) -> str:
    heading = [f"**{printed.heading}**"] if printed.heading else []
    return "\n\n".join([*heading, _lines([printed.columns, ["---"] * len(printed.columns), *printed.rows])])


def _lines(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
