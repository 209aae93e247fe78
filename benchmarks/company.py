"""How many sources get another output if other sources are in the same batch?

Predicts each run's test split in float32, or with an export of the run. The batches have 1, 7 and 64 sources, in the
given order and shuffled. The searches are greedy search and a beam of 5, or the searches that benchmarks/engines.py
uses instead. If the run has a shortlist (`transduce shortlist RUN`), they also run with it. Each output is compared
with the output of the same source alone. A source counts once, even if several batches change its output.

The margin is the largest difference between the scores of a source's two outputs. The run's own model computes the
scores in float64.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from engines import searches
from report import Report, columns, row, titled

import transduce
from transduce.answers.transducer import Transducer
from transduce.core.protocols import Autoregressive, can
from transduce.runs.layout import SHORTLIST
from transduce.runs.manifest import Manifest
from transduce.runs.run import Run
from transduce.wings.counted.shortlist import ListedModel, Shortlist

SIZES = (7, 64)
COLUMNS = ["run", "engine", "search", "sources", "that differ in company", "largest margin in float64"]


def outputs(transducer: Transducer, sources: list[str], search: Any, size: int, shuffled: bool) -> list[str]:
    order = list(range(len(sources)))
    if shuffled:
        random.Random(size).shuffle(order)
    found = transducer.predict([sources[i] for i in order], search, batch_size=size)
    texts = [""] * len(sources)
    for place, answers in zip(order, found, strict=True):
        texts[place] = answers[0].text
    return texts


def differing(transducer: Transducer, sources: list[str], search: Any) -> list[tuple[str, str, str]]:
    """Triples of a source, its output alone, and a different output that it had in a batch. Each different output is
    listed once.
    """
    alone = outputs(transducer, sources, search, 1, shuffled=False)
    found = dict[tuple[str, str, str], None]()
    for size in SIZES:
        for shuffled in (False, True):
            every = zip(sources, alone, outputs(transducer, sources, search, size, shuffled), strict=True)
            found.update((each, None) for each in every if each[1] != each[2])
    return list(found)


def margin(transducer: Transducer, source: str, texts: list[str], search: Any) -> float:
    """The difference of two outputs' scores in float64. If ``search`` is a shortlist, only the listed words have
    probabilities.
    """
    model: Any = transducer.model.double()
    padded = transducer.padded(transducer.source_tokenizer.encode([source] * len(texts)))
    targets = transducer.padded(transducer.target_tokenizer.encode(texts))
    if isinstance(search, Shortlist):
        lists = search.candidates.of(padded)
        model, targets = ListedModel(model, lists), lists.columns(targets)
    one, other = (each.score for each in search.force(model, padded, targets))
    transducer.model.float()
    return float(abs(one - other))


def rows(run: Path, export: Path | None, limit: int | None) -> Iterator[str]:
    """The lines of the table for one run."""
    transducer = transduce.load(run, device="cpu")
    engine, name = transducer, "torch float32"
    if export is not None:
        engine, manifest = transduce.load(export), Manifest.read(export)
        name = f"{manifest.engine} {manifest.precision}"
    sources = [each.source for each in Run.open(run).examples("test")][:limit]
    ways = searches(transducer)
    if (path := run / SHORTLIST).exists() and can(type(transducer.model), Autoregressive) and not engine.searching:
        ways |= {f"{way}, shortlist": Shortlist(path, search) for way, search in ways.items()}
    for way, search in ways.items():
        pairs = differing(engine, sources, search)
        margins = [margin(transducer, source, [alone, other], search) for source, alone, other in pairs]
        count = len({source for source, _, _ in pairs})
        shown = f"{max(margins):.1e}" if margins else "–"
        yield row([run.name, name, way, f"{len(sources):,}", f"{count:,}", shown])


def main(report: Report, runs: Annotated[Sequence[str], "RUN or RUN=EXPORT"], *, limit: int | None = None) -> None:
    report.tell(*titled("Sources in different company"), *columns(row(COLUMNS)))
    for given in runs:
        run, _, export = given.partition("=")
        for line in rows(Path(run), Path(export) if export else None, limit):
            report.tell(line, runs=[Path(run)])
