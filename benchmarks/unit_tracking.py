"""Which units of a recurrent language model follow a property of a text that it was not trained on?

    python benchmarks/unit_tracking.py RUN TEXT.txt --properties quotes place [--out FILE.md] [--record FILE.json]

Units and probe are chosen on the first half of the text, and measured on the second half.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from report import Report, columns, machine, parse, parser_of

import transduce
from transduce.wings.looking.inspection.cells import trace
from transduce.wings.looking.inspection.tracking import PROPERTIES, track


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("text", type=Path, metavar="TEXT")
    parser.add_argument("--properties", nargs="+", default=["quotes"], choices=list(PROPERTIES))
    parser.add_argument("--characters", type=int, default=60_000)
    given = parse(parser, arguments)
    text = given.text.read_text(encoding="utf-8")[: given.characters]
    found = trace(transduce.load(given.run, device="cpu"), text)
    lines = [
        "# Units that follow a property",
        "",
        f"{len(found.text):,} characters of {given.text.name}. {machine()}",
        "",
        *columns("| property | best unit | its correlation | probe, F1 % | probe, R² |"),
    ]
    for name in given.properties:
        tracking = track(found, name)
        unit, correlation = tracking.units[0]
        shown = found.name(unit), f"{correlation:+.3f}", f"{tracking.f1:.1f}", f"{tracking.explained:.3f}"
        lines.append(f"| {name} | {' | '.join(shown)} |")
    Report.asked(given).show(lines, [given.run])


if __name__ == "__main__":
    main()
