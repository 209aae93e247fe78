"""How often does a search miss a more probable output? Compares it with exact search on a run's test split.

A search error is an output that is less probable than the most probable one (Stahlberg and Byrne 2019). Its
log-probability is lower by more than 1e-4. Beams rank by log-probability, without length normalisation. The first table
counts the sources whose exact search finished within its expansions. For the other sources, the errors against the best
output that was found are a lower bound. Seconds are processor time of the search alone, in batches of 64 sources.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

from report import Report, columns, titled

import transduce
from transduce.core.protocols import Search
from transduce.core.types import Hypothesis, Padded
from transduce.runs.layout import Checkpoint
from transduce.runs.run import Run
from transduce.search.beam import Beam
from transduce.search.exact import Exact, Exploration
from transduce.search.forcing import force
from transduce.search.greedy import Greedy
from transduce.search.ranking import LogProbability

MARGIN = 1e-4


@dataclass
class Comparison:
    """Exact search that also runs the other searches on the same sources. It keeps their outputs, and the seconds of
    each search.
    """

    exact: Exact
    others: dict[int, Search[Any]]
    explored: list[Exploration] = field(default_factory=list)
    found: dict[int, list[Any]] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)  # by beam size; exact search has the key 0

    def __call__(self, model: Any, source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        for size, search in self.others.items():
            began = time.process_time()
            best = [hypotheses[0] for hypotheses in search(model, source, prefix)]
            self.note(size, time.process_time() - began)
            self.found.setdefault(size, []).extend(best)
        began = time.process_time()
        explored = self.exact.explore(model, source, prefix)
        self.note(0, time.process_time() - began)
        self.explored += explored
        return [each.hypotheses for each in explored]

    def note(self, size: int, seconds: float) -> None:
        self.seconds[size] = self.seconds.get(size, 0.0) + seconds

    def force(self, model: Any, source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Comparison:
        raise NotImplementedError

    def rows(self, finished: bool) -> list[str]:
        """A row for each search, over the sources that exact search finished, or over the other sources."""
        chosen = [place for place, each in enumerate(self.explored) if each.finished is finished]
        lines = []
        for size, hypotheses in self.found.items():
            missed = [self.explored[i].hypotheses[0].log_prob - hypotheses[i].log_prob for i in chosen]
            errors = [gap for gap in missed if gap > MARGIN]
            shown = f"{mean(errors):.2f} | {max(errors):.2f}" if errors else "– | –"
            name = "greedy" if size == 1 else f"beam {size}"
            share = f"{len(errors)} of {len(chosen)} | {100 * len(errors) / max(len(chosen), 1):.1f} %"
            lines.append(f"| {name} | {share} | {shown} | {self.seconds[size]:.1f} |")
        return lines


def summary(comparison: Comparison) -> list[str]:
    finished = [each for each in comparison.explored if each.finished]
    steps = [each.expansions for each in finished] or [0]
    empty = sum(each.empty_wins for each in finished)
    longer = [
        len(hypothesis.tokens) - 1
        for hypothesis, each in zip(next(iter(comparison.found.values())), comparison.explored, strict=True)
        if each.finished
    ]
    best = [len(each.hypotheses[0].tokens) - 1 for each in finished]
    return [
        f"Exact search finished {len(finished)} of {len(comparison.explored)} sources within "
        f"{comparison.exact.expansions:,} expansions, in {comparison.seconds[0]:.1f} s for all of them; a finished one "
        f"took {median(steps):,.0f} expansions in the median and {max(steps):,} at most. The empty output is the most "
        f"probable one of {empty} of them. Tokens of the most probable output: {mean(best or [0]):.1f} on average, of "
        f"the first search below: {mean(longer or [0]):.1f}.",
    ]


def main(
    report: Report,
    run: Path,
    *,
    sentences: int | None = None,
    beam: Sequence[int] = (1, 2, 5, 10),
    expansions: int = 10_000,
    checkpoint: Checkpoint = "best",
) -> None:
    transducer = transduce.load(run, checkpoint, "cpu")
    sources = [example.source for example in Run.open(run).examples("test")][:sentences]
    longest: int = transducer.settings["search"]["max_length"]
    others: dict[int, Search[Any]] = {
        size: Greedy(longest) if size == 1 else Beam(size, max_length=longest, ranking=LogProbability())
        for size in beam
    }
    comparison = Comparison(Exact(max_length=longest, expansions=expansions), others)
    list(transducer.predict(sources, comparison))
    head = columns("| search | search errors | share | log p lost by one, mean | most | seconds |")
    report.tell(*titled(f"{run.name}: search errors on {len(sources):,} sources"), *summary(comparison), "")
    report.tell(*head, *comparison.rows(finished=True), runs=[run])
    if any(not each.finished for each in comparison.explored):
        report.tell(
            "",
            "Where exact search did not finish, against the best output it had found (errors there are at least):",
            "",
        )
        report.tell(*head, *comparison.rows(finished=False))
