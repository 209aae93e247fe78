"""Fills the marks of a template, benchmarks/results/page.md, which becomes docs/results.md.

- ``{{scores TABLE: METRIC, ... | RECIPE, ...}}`` is a table: the records of these recipes (g2p-* is a pattern), then
  the old figures of TABLE.
- ``{{summary RECIPE: METRIC, ...}}`` is the rest of a line of a table: the recipe, its score, work and source.
- ``{{sweep NAME}}`` is the table of an old sweep, and ``{{findings GROUP}}`` a list of old findings.
- ``{{tables NAME}}`` holds the tables of a benchmark's record, NAME.json.
- ``{{machines}}`` lists the machines that old figures name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from publishing import families
from publishing.legacy import Legacy, LegacyFinding
from publishing.rows import LEGACY, ResultRow, row_of_legacy, rows_of_record
from transduce.records.record import PrintedTable, Record
from transduce.sweeps.question import Question
from transduce.sweeps.results import collect
from transduce.sweeps.table import table as sweep_table

MARK = re.compile(r"\{\{(.*?)\}\}")
NOTICE = (
    "<!-- Made by `bash scripts/results` from benchmarks/results. Change page.md and the records there, not this. -->"
)


class TemplateError(ValueError):
    """The template has a mark that says nothing, or leaves something out."""


@dataclass
class Results:
    """All that there is to show, and what of it has been shown."""

    folder: Path
    records: dict[str, Record]
    legacy: Legacy
    rows: list[ResultRow] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Reads records/*.json and legacy.toml of ``folder``. Raises RecordError or ConfigError for a broken file."""
        files = sorted((folder / "records").glob("*.json"))
        found = cls(folder, {file.stem: Record.read(file) for file in files}, Legacy.read(folder / "legacy.toml"))
        for file in files:
            if file.stem.startswith(families.OWN):  # docs/families.md shows these
                continue
            found.rows += rows_of_record(file, found.records[file.stem])
        found.rows += [row_of_legacy(each, found.legacy.machines) for each in found.legacy.figures]
        return found

    def of_recipe(self, recipe: str) -> list[ResultRow]:
        """The rows that a recipe's header may show: of records, the newest first; without one, of old figures."""
        found = [row for row in self.rows if row.recipe == recipe and row.shipped and row.split == "test"]
        backed = [row for row in found if not row.table]
        return sorted(backed, key=lambda row: row.date, reverse=True)[:1] or found

    def page(self) -> str:
        """The page. Raises TemplateError for a mark that says nothing, and for a record that no mark shows."""
        template = (self.folder / "page.md").read_text(encoding="utf-8")
        text = MARK.sub(lambda mark: self._filled(mark.group(1)), template)
        left = [row.model for number, row in enumerate(self.rows) if number not in self.shown]
        left += [name for name, record in self.records.items() if record.tables and name not in self.used]
        if left:
            raise TemplateError(f"page.md shows nothing of {', '.join(left)}: add the recipe to a {{{{scores}}}} mark")
        return f"{NOTICE}\n\n{text}"

    # ---------------------------------------------------------------- marks

    def _filled(self, mark: str) -> str:
        kind, _, rest = mark.partition(" ")
        match kind:
            case "scores":
                return self._scores(rest)
            case "summary":
                return self._summary(rest)
            case "sweep":
                return self._sweep(rest)
            case "findings":
                return "\n".join(_finding(each) for each in self.legacy.findings if each.group == rest)
            case "tables":
                return self._printed(rest)
            case "machines":
                return "\n".join(f"- {name}: {text}" for name, text in self.legacy.machines.items())
        raise TemplateError(f"{{{{{mark}}}}}: expected scores, summary, sweep, findings, tables or machines")

    def _scores(self, rest: str) -> str:
        head, _, recipes = rest.partition("|")
        table, _, metrics = head.partition(":")
        patterns, names = _listed(recipes), _listed(metrics)
        chosen = [
            number
            for number, row in enumerate(self.rows)
            if (row.table == table.strip() if row.table else any(fnmatch(row.recipe, each) for each in patterns))
        ]
        self.shown |= {*chosen}
        rows = sorted((self.rows[number] for number in chosen), key=lambda row: (row.recipe == "", row.recipe))
        if not rows:
            raise TemplateError(f"{{{{scores {rest}}}}}: no record and no old figure has this table or these recipes")
        return _table(rows, names or list(dict.fromkeys(name for row in rows for name in row.scores)))

    def _summary(self, rest: str) -> str:
        recipe, _, metrics = rest.partition(":")
        named = [row for row in self.rows if row.recipe == recipe.strip()]
        # An ensemble is no shipped recipe, but its record comes before an old figure.
        shipped, recorded = self.of_recipe(recipe.strip()), [row for row in named if not row.table]
        found = [row for row in shipped if not row.table] or recorded or shipped or named
        if not found:
            raise TemplateError(f"{{{{summary {rest}}}}}: there is no figure of {recipe.strip()}")
        row = found[0]
        names = [name for name in _listed(metrics) if name in row.scores] or list(row.scores)
        scores = ", ".join(f"{name} {row.scores[name]}" for name in names)
        return f"{row.model} | {scores} | {row.work} | {row.source}"

    def _sweep(self, name: str) -> str:
        folder = self.folder / "sweeps" / name
        question = Question.read(folder)
        about = next((each for each in self.legacy.sweeps if each.name == name), None)
        if question is None or about is None:
            raise TemplateError(
                f"{{{{sweep {name}}}}}: expected {folder / 'sweep.toml'}, and a [[sweeps]] of legacy.toml"
            )
        results = collect(question, folder)
        split = results.measurements[0].split
        ranking = "in order of names" if results.ranked_by is None else f"ranked by {results.ranked_by} on validation"
        source = ", ".join((LEGACY, about.machine, about.commit))
        notes = (f"Measured on {split}; rows are {ranking}.", f"`{about.command}` ({source}).")
        doubt = [f"Doubtful: {about.doubt}."] if about.doubt else []
        return "\n\n".join([sweep_table(results), " ".join([*notes, *doubt])])

    def _printed(self, name: str) -> str:
        if name not in self.records:
            raise TemplateError(f"{{{{tables {name}}}}}: expected {self.folder / 'records' / name}.json")
        self.used.add(name)
        record = self.records[name]
        source = f"[Record](../benchmarks/results/records/{name}.json), {record.date}: `{record.command}`"
        return "\n\n".join([*map(_markdown, record.tables), source])


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _table(rows: Sequence[ResultRow], metrics: Sequence[str]) -> str:
    """The rows; columns of metrics that none has are left out, and the split is told where it is not test."""
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


def _markdown(printed: PrintedTable) -> str:
    heading = [f"**{printed.heading}**"] if printed.heading else []
    return "\n\n".join([*heading, _lines([printed.columns, ["---"] * len(printed.columns), *printed.rows])])


def _lines(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _finding(finding: LegacyFinding) -> str:
    more = f"[{finding.page}](../benchmarks/results/{finding.page})" if finding.page else ""
    where = ", ".join(filter(None, (more, LEGACY, finding.commit or finding.date)))
    doubt = f"; doubtful: {finding.doubt}" if finding.doubt else ""
    return f"- {finding.text} ({where}{doubt})"
