"""How often do models behave oddly? Several runs side by side, by the counts of `transduce examine`.

Each run gets sources of its own test split, and the same changes of them. LANGUAGE is de, fr, es or it, for a model
that translates from English. Then the gender of 40 translated occupations is counted, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from report import Report, titled

import transduce
from transduce.runs.run import Run
from transduce.wings.lab.reports.passages import drawn
from transduce.wings.looking.examination.examination import Examiner
from transduce.wings.looking.examination.findings import Examination, Finding


def examined(name: str, limit: int, seed: int) -> tuple[Path, Examination]:
    """Examines the run of an argument RUN or RUN:LANGUAGE. Returns its path and the findings."""
    path, _, language = name.partition(":")
    run = Path(path)
    examples = Run.open(run).examples("test")
    chosen = [examples[number] for number in drawn(examples, seed, limit)]
    return run, Examiner(seed, language or None)(run.name, transduce.load(run, device="cpu"), chosen)


def cell(finding: Finding) -> str:
    low, high = finding.interval
    references = "" if finding.references is None else f"; references {finding.references}"
    share = f"{100 * finding.rate:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
    return f"{len(finding.cases)} of {finding.of}, {share}{references}"


def rows(found: Sequence[Examination]) -> list[str]:
    """The lines of a table: a finding in each row, a model in each column."""
    columns = [{finding.name: cell(finding) for finding in each.findings} for each in found]
    meanings = {finding.name: finding.meaning for each in found for finding in each.findings}
    head = ["finding", "what is counted", *(each.name for each in found)]
    lines = [" | ".join(head), "|".join(["---"] * len(head))]
    for name, meaning in meanings.items():
        lines.append(" | ".join([name, meaning, *(column.get(name, "–") for column in columns)]))
    return [f"| {line} |" for line in lines]


def main(
    report: Report, runs: Annotated[Sequence[str], "RUN or RUN:LANGUAGE"], *, limit: int = 500, seed: int = 1
) -> None:
    found = [examined(name, limit, seed) for name in runs]
    report.tell(*titled("Odd behaviour"), *rows([each for _, each in found]), runs=[run for run, _ in found])
