"""Inputs to try a run with: from its file examples.txt, or from the card of a packed run. No torch."""

from __future__ import annotations

import html
from itertools import dropwhile, takewhile
from pathlib import Path

from transduce.core.text_files import read_text
from transduce.runs.packed import CARD
from transduce.wings.engines.sharing.card import EXAMPLES

FILE = "examples.txt"  # in the folder of a run, an input on each line; its owner writes it
MOST, LONGEST = 12, 500  # inputs; characters of one


def examples_of(run: Path | None) -> tuple[str, ...]:
    """The inputs to try: at most ``MOST``, and none above ``LONGEST``. () if the run has none, or no folder (None)."""
    if run is None:
        return ()
    if (run / FILE).is_file():
        lines = read_text(run / FILE).splitlines()
    elif (run / CARD).is_file():
        section = list(dropwhile(lambda line: line != EXAMPLES, read_text(run / CARD).splitlines()))[1:]
        inside = takewhile(lambda line: not line.startswith("#"), section)
        lines = [html.unescape(line[2:]) for line in inside if line.startswith("- ")]
    else:
        lines = []
    return tuple(line for line in lines if line.strip() and len(line) <= LONGEST)[:MOST]
