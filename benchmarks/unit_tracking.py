"""Which units of a recurrent language model follow a property of a text that it was not trained on?

Units and probe are chosen on the first half of the text, and measured on the second half.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from report import Report, columns, machine, row

import transduce
from transduce.wings.looking.inspection.cells import trace
from transduce.wings.looking.inspection.tracking import PROPERTIES, track


def main(
    report: Report,
    run: Path,
    text: Path,
    *,
    properties: Annotated[Sequence[str], PROPERTIES] = ("quotes",),
    characters: int = 60_000,
) -> None:
    found = trace(transduce.load(run, device="cpu"), text.read_text(encoding="utf-8")[:characters])
    report.tell("# Units that follow a property", "", f"{len(found.text):,} characters of {text.name}. {machine()}", "")
    report.tell(*columns("| property | best unit | its correlation | probe, F1 % | probe, R² |"))
    for name in properties:
        tracking = track(found, name)
        unit, correlation = tracking.units[0]
        shown = found.name(unit), f"{correlation:+.3f}", f"{tracking.f1:.1f}", f"{tracking.explained:.3f}"
        report.tell(row([name, *shown]), runs=[run])
