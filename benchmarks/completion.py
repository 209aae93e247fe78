"""How often is the next word of a text among a language model's completions, and how much typing do they save?

Prints the accuracy at 1, 5 and 10 at every word of the first lines of a file. Words that the model does not know count,
too. ``keystrokes saved`` is the share of keystrokes that a user saves with a list of ``--shown`` words. The user types
letters until the list has the word, and needs one more keystroke to choose it. A word that the list never has needs all
its letters and a space. The time is processor time for one request of 10 words, one request after another, on one
thread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

from report import Report, columns, machine, row

import transduce
from transduce.data import corpora
from transduce.wings.language.completion import Completer
from transduce.wings.language.completion_search import NextWords

BATCH = 64
REQUESTS = 300


def keystrokes(completer: Completer, prefixes: list[str], words: list[str]) -> int:
    """The number of keystrokes that these words need with completions, each after its prefix."""
    typed, waiting = sum(len(word) + 1 for word in words), list(range(len(words)))
    for length in range(max(map(len, words))):
        waiting = [place for place in waiting if len(words[place]) > length]
        still = []
        for first in range(0, len(waiting), BATCH):
            some = waiting[first : first + BATCH]
            lists = completer([prefixes[place] for place in some], [words[place][:length] for place in some])
            for place, shown in zip(some, lists, strict=True):
                if words[place] in [word.text for word in shown]:
                    typed -= len(words[place]) - length
                else:
                    still.append(place)
        waiting = still
    return typed


def measured(run: Path, text: Path, lines: int, shown: int) -> dict[str, str]:
    """The figures of one run on the first ``lines`` of a text, by their names."""
    transducer = transduce.load(run, device="cpu")
    texts = [line.decode().split() for line in islice(corpora.lines(text), lines)]
    prefixes = [" ".join(text[:place]) for text in texts for place in range(len(text))]
    words = [word for text in texts for word in text]
    ten = Completer(transducer, NextWords(10))
    lists = [[word.text for word in found] for _, found in ten.in_batches(prefixes, batch_size=BATCH)]
    figures = {"run": run.name, "words": f"{len(words):,}"}
    for k in (1, 5, 10):
        right = sum(word in found[:k] for word, found in zip(words, lists, strict=True))
        figures[f"accuracy at {k}, %"] = f"{100 * right / len(words):.1f}"
    typed = keystrokes(Completer(transducer, NextWords(shown)), prefixes, words)
    figures[f"keystrokes saved with {shown}, %"] = f"{100 * (1 - typed / sum(len(word) + 1 for word in words)):.1f}"
    seconds = []
    for prefix in prefixes[:REQUESTS]:
        began = time.process_time()
        ten([prefix])
        seconds.append(time.process_time() - began)
    figures["processor ms a request, median"] = f"{1000 * statistics.median(seconds):.1f}"
    figures["95 %"] = f"{1000 * statistics.quantiles(seconds, n=20)[-1]:.1f}"
    return figures


def main(
    report: Report,
    runs: Sequence[Path],
    text: Path,
    *,
    lines: int = 200,
    shown: Annotated[int, "words in the list"] = 5,
) -> None:
    report.tell("# Completion of the next word", "", f"The first {lines} lines of {text.name}. {machine()}", "")
    for number, run in enumerate(runs):
        found = measured(run, text, lines, shown)
        report.tell(*([] if number else columns(row(found))), row(found.values()), runs=[run])
