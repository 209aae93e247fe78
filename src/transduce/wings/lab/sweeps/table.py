"""The tables of a sweep: results.md for people, results.csv (one line per run, without averages) for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable

from transduce.core.config.errors import shown
from transduce.metrics.base import metric
from transduce.wings.lab.sweeps.grid import SweepGrid
from transduce.wings.lab.sweeps.measurement import Measurement
from transduce.wings.lab.sweeps.results import ResultRow, Spread, SweepResults
from transduce.wings.records.changes import PLACES

PICTURE = "results.png"
Cell = tuple[str, float | None]
NUMBERS: tuple[tuple[str, Callable[[Measurement], float], str], ...] = (
    ("updates", lambda each: each.updates, ",.0f"),
    ("training tokens/s", lambda each: each.tokens_per_second, ",.0f"),
    ("search, ms", lambda each: 1000 * each.search_seconds, ".1f"),
    ("greedy, ms", lambda each: 1000 * each.greedy_seconds, ".1f"),
)
"""The columns beside scores and parameters: title, value to average over seeds, number format."""


# ----------------------------------------------------------------------- page


def page(results: SweepResults) -> str:
    """The text of results.md: question, table, picture if there is one, unfinished cells, conditions."""
    picture = [f"![{results.out.name}]({PICTURE})"] if (results.out / PICTURE).exists() else []
    blocks = [
        f"# {results.out.name}",
        _asked(results),
        table(results),
        *picture,
        *_unfinished(results),
        _notes(results),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def table(results: SweepResults) -> str:
    """A Markdown table with one row per variant, in the order of ``results.rows``; a sentence if nothing is
    finished.

    Scores are the mean over seeds, with the lowest and the highest if there are several. Other numbers are means. A
    column that is 0 everywhere is left out.
    """
    if not results.rows:
        return "Nothing is finished."
    head, rows = cells(results)
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *([text for text, _ in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(results: SweepResults) -> tuple[list[str], list[list[Cell]]]:
    """The head and the rows of the table. Each cell has its text and, for a number, the number; None for a name and for
    a number that is missing.
    """
    names = results.metrics
    known = [(title, of, form) for title, of, form in NUMBERS if any(map(of, results.measurements))]  # 0: not measured
    chosen_by = None if _on_validation(results) else results.ranked_by
    head = ["", *_column(chosen_by), *names, "seeds", "parameters", *(title for title, _, _ in known)]
    rows = []
    for row in results.rows:
        spreads = [row.spread(lambda each: each.validation[chosen_by])] if chosen_by else []
        spreads += [row.score(name) for name in names]
        parameters = row.spread(lambda each: each.parameters).mean
        means = [(row.spread(of).mean, form) for _, of, form in known]
        rows.append(
            [
                (row.variant.name, None),
                *((written(spread), spread.mean if spread.values else None) for spread in spreads),
                (str(len(row.cells)), float(len(row.cells))),
                (_parameters(parameters), parameters),
                *((format(mean, form), mean) for mean, form in means),
            ]
        )
    return head, rows


def _column(chosen_by: str | None) -> list[str]:
    return [f"valid {chosen_by}"] if chosen_by else []


def _on_validation(results: SweepResults) -> bool:
    return all(each.split == "valid" for each in results.measurements)


def written(spread: Spread) -> str:
    """The mean with the lowest and highest value in brackets; for one value the value alone; "" for none."""
    if not spread.values:
        return ""
    if len(spread.values) == 1:
        return f"{spread.mean:.2f}"
    return f"{spread.mean:.2f} ({spread.low:.2f} to {spread.high:.2f})"


def _parameters(count: float) -> str:
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"


def _asked(results: SweepResults) -> str:
    question = results.question
    settings = [f"`{key}={shown(value)}`" for key, value in question.settings.items() if key not in PLACES]
    lines = [
        *([f"Recipe: `{question.recipe}`."] if question.recipe else []),
        *([f"Settings: {', '.join(settings)}."] if settings else []),
        *(f"Compared: {_varied(grid)}seeds {', '.join(map(str, grid.seeds))}." for grid in question.grids),
    ]
    return "  \n".join(lines)


def _varied(grid: SweepGrid) -> str:
    return "".join(
        f"`{key}` = {', '.join(f'`{shown(each)}`' for each in values)}; " for key, values in grid.vary.items()
    )


def _unfinished(results: SweepResults) -> list[str]:
    if not results.unfinished:
        return []
    names = (f"- {name} ({folder / 'log.txt'})" for name, folder in results.unfinished_folders.items())
    return ["Not finished, with the log of each:", "\n".join(names)]


def _notes(results: SweepResults) -> str:
    return "\n".join(f"- {note}" for note in told(results))


def told(results: SweepResults) -> list[str]:
    """Notes about the table: where it was measured, what ranks, and under which conditions."""
    found = results.measurements
    if not found:
        return []
    splits = sorted({f"{each.split} ({each.examples:,} examples)" for each in found})
    signatures = sorted({f"{name}: `{text}`" for each in found for name, text in each.signatures.items() if text})
    worst = [name for name in results.metrics if not metric(name).higher_is_better]
    return [
        f"Measured on {' and '.join(splits)} with each run's own search. {_ranking(results)}"
        + (f" Lower is better for {', '.join(worst)}." if worst else ""),
        _of_seeds(results.rows),
        "Training tokens/s: target tokens without padding, the median of each run's log."
        + (
            " Milliseconds: for one sentence of the split searched in batches of 64, text in to text out."
            if any(each.search_seconds for each in found)
            else ""
        ),
        *(f"{'; '.join(_conditions(found))}.",),
        *dict.fromkeys(line for each in found for line in each.concerns),
        *signatures,
    ]


def _ranking(results: SweepResults) -> str:
    if results.ranked_by is None:
        return "Not ranked: the runs have no common score on validation data, so rows are in order of their names."
    if _on_validation(results):
        return f"Ranked by {results.ranked_by} on validation data."
    return (
        f"Ranked by {results.ranked_by} on validation data, as training measured it for the chosen checkpoint; a rank "
        "by the scores on test would be a choice on test."
    )


def _of_seeds(rows: Iterable[ResultRow]) -> str:
    if all(len(row.cells) == 1 for row in rows):
        return "One seed each: how much the scores vary by chance is not known."
    return "Scores are means over seeds, with the lowest and the highest in brackets; other numbers are means."


def _conditions(measurements: Iterable[Measurement]) -> list[str]:
    each = dict.fromkeys(found.conditions for found in measurements)
    told = [
        f"{c.threads} thread{'s' * (c.threads > 1)}, {c.jobs} run{'s' * (c.jobs > 1)} at a time, device {c.device}, "
        f"{c.machine}"
        for c in each
    ]
    return told if len(told) == 1 else ["Not all under the same conditions: " + told[0], *told[1:]]


# ------------------------------------------------------------------------ csv


def runs(results: SweepResults) -> str:
    """The text of results.csv: a head, and one line per finished run with the varied values, the metrics and the other
    numbers.
    """
    keys = list(dict.fromkeys(key for row in results.rows for key in row.variant.changes))
    others = ["split", "examples", "parameters", "updates", "training_seconds", "tokens_per_second"]
    others += ["search_seconds", "greedy_seconds"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["variant", "seed", *keys, *results.metrics, *others])
    for row in results.rows:
        varied = [shown(row.variant.changes[key]) if key in row.variant.changes else "" for key in keys]
        for seed, found in row.cells.items():
            scores = [found.metrics.get(name, "") for name in results.metrics]
            writer.writerow([row.variant.name, seed, *varied, *scores, *(getattr(found, name) for name in others)])
    return text.getvalue()
