"""Are predictions the same whatever company a sentence keeps? Every line of a test set, by several batch sizes.

    python benchmarks/company.py RUN [--export DIR] [--limit N] [--out benchmarks/results/FILE.md] [--record FILE.json]

Predicts a run's test split in float32, or with an export of the run (--export DIR). The batches have 1, 7 and 64
sentences, in the given order and shuffled. The searches are greedy and a beam of 5, and again with the run's shortlist
where it has one (`transduce shortlist RUN`). Each output is compared with the output of its line alone. If a line
differs, the margin printed is the difference of its two outputs' scores, which the run's own model computes in float64.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from report import Report, add_options, machine

import transduce
from transduce import config
from transduce.data.preparation import examples
from transduce.data.settings import Data
from transduce.engines.manifest import Manifest
from transduce.protocols import Search
from transduce.runs.layout import SHORTLIST
from transduce.runs.run import cache_folder
from transduce.search.beam import Beam
from transduce.search.forcing import force
from transduce.search.greedy import Greedy
from transduce.search.shortlist import ListedModel, Shortlist
from transduce.transducer import Transducer

SIZES = (1, 7, 64)


def outputs(transducer: Transducer, sources: list[str], search: Search[Any], size: int, shuffled: bool) -> list[str]:
    order = list(range(len(sources)))
    if shuffled:
        random.Random(size).shuffle(order)
    found = transducer.predict([sources[i] for i in order], search, batch_size=size)
    texts = [""] * len(sources)
    for place, row in zip(order, found, strict=True):
        texts[place] = row[0].text
    return texts


def margin(
    transducer: Transducer, source: str, texts: list[str], beam: Beam | None, shortlist: Shortlist | None
) -> float:
    """The difference of two outputs' scores in float64, by the model that was searched: the listed words', if so."""
    transducer.model.double()
    padded = transducer.padded(transducer.source_tokenizer.encode([source] * 2))
    targets = transducer.padded(transducer.target_tokenizer.encode(texts))
    model = transducer.model
    if shortlist is not None:
        lists = shortlist.candidates.of(padded)
        model, targets = ListedModel(model, lists), lists.columns(targets)
    length = int(padded.lengths[0])
    scores = [
        beam.ranking(found.log_prob, len(found.tokens), length) if beam else found.log_prob
        for found in force(model, padded, targets)
    ]
    transducer.model.float()
    return abs(scores[0] - scores[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--export", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    add_options(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transducer = transduce.load(arguments.run, device="cpu")
    engine, numbers = transducer, "float32"
    if arguments.export is not None:
        engine, manifest = transduce.load(arguments.export), Manifest.read(arguments.export)
        numbers = f"{manifest.engine}, {manifest.precision}"
    data = config.build(transducer.settings["data"], Data, path="data")
    sources = [e.source for e in examples(data, "test", cache_folder(data, arguments.run))][: arguments.limit]
    beam: Any = transducer.search
    searches: dict[str, Any] = {"greedy": Greedy(beam.max_length), "beam 5": replace(beam, size=5)}
    if (path := arguments.run / SHORTLIST).exists():
        searches |= {f"{name}, shortlist": Shortlist(path, search) for name, search in searches.items()}
    lines = [
        f"# {arguments.run.name}: {len(sources):,} sentences in different company, {numbers}",
        "",
        machine(),
        "",
        "| search | batch | order | differing lines | their margins in float64 |",
        "|---|---|---|---|---|",
    ]
    for name, search in searches.items():
        alone = outputs(engine, sources, search, 1, shuffled=False)
        for size in SIZES[1:]:
            for shuffled in (False, True):
                found = outputs(engine, sources, search, size, shuffled)
                differing = [i for i, (one, other) in enumerate(zip(alone, found, strict=True)) if one != other]
                beam = searches["beam 5"] if name.startswith("beam") else None
                listed = search if name.endswith("shortlist") else None
                margins = [margin(transducer, sources[i], [alone[i], found[i]], beam, listed) for i in differing]
                shown = ", ".join(f"{each:.1e}" for each in margins) or "–"
                order = "shuffled" if shuffled else "as given"
                lines.append(f"| {name} | {size} | {order} | {len(differing)} of {len(sources):,} | {shown} |")
                print(lines[-1], flush=True)
    Report.asked(arguments).write(lines, [arguments.run])


if __name__ == "__main__":
    main()
