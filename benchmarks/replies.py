"""How diverse are a model's replies, and how often does it rank the true reply first?

Compares the replies of the run's own beam, of the same beam reranked, of one sample, and of samples reranked. The
reranker is maximum mutual information (Li et al. 2016): log p(reply | source) plus ``--weight`` times log p(reply) of
the run ``--prior``. The ranks are among ten replies, as in `transduce rank`. They are measured without the prior, and
with ``--rank-weight`` times the prior. The last table has one reply of each of the first dialogues, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from report import Report, machine

import transduce
from transduce.answers.transducer import Transducer
from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics, statistics
from transduce.runs.run import Run
from transduce.wings.combining.reranking.base import Reranker, rerank
from transduce.wings.combining.reranking.loglinear import Language, LogLinear, Own
from transduce.wings.combining.reranking.ranks import ranks

METRICS = ("distinct1", "distinct2", "mean_length")
SHOWN = 20
Row = dict[str, str]


def replies(
    transducer: Transducer, sources: Sequence[str], reranker: Reranker | None, size: int | None = None
) -> list[str]:
    """The first reply to each source: by the search, or by the reranker among ``size`` outputs of the search."""
    if reranker is None:
        return [outputs[0].text for outputs in transducer.predict(sources)]
    search = transducer.search.resized(size, size)
    return [answer.best.text for answer in rerank(transducer, sources, reranker, search)]


def figures(name: str, outputs: Sequence[str], examples: Sequence[Example]) -> Row:
    """A row of the table of diversity."""
    found = statistics([metric(each) for each in METRICS], [Prediction(each) for each in outputs], examples)
    scores = {each.name: f"{each.score:.1f}" for each in found}
    return {"replies": name, **scores, "different replies": f"{len(set(outputs)):,}"}


def rank_row(name: str, transducer: Transducer, examples: Sequence[Example], reranker: Reranker) -> Row:
    """A row of the table of ranks, with the 95 % interval of the share of true replies that are first."""
    found = ranks(transducer, examples, reranker)
    first = Statistics(metric("exact"), np.array([(float(rank == 1), 1.0) for rank in found.ranks]))
    low, high = Resampling().interval(first)
    return {
        "scores": name,
        "first, %": f"{100 * found.first():.1f} ({low:.1f} to {high:.1f})",
        "among the first 3, %": f"{100 * found.first(3):.1f}",
        "mean reciprocal rank": f"{found.mean_reciprocal:.3f}",
    }


def markdown(rows: Sequence[Row]) -> list[str]:
    return [
        f"| {' | '.join(rows[0])} |",
        f"|{'---|' * len(rows[0])}",
        *(f"| {' | '.join(cell.replace('|', '/') for cell in row.values())} |" for row in rows),
    ]


def dialogue_starts(examples: Sequence[Example]) -> list[int]:
    """The index of the first example of each dialogue whose history has the largest number of turns."""
    turns = [example.source.count("|") for example in examples]
    most = max(turns)
    return [place for place, each in enumerate(turns) if each == most and turns[place - 1] == most - 1]


def main(
    report: Report,
    run: Path,
    *,
    prior: Annotated[Path, "a language model of replies"],
    split: str = "test",
    examples: int = 1000,
    weight: Annotated[float, "of the prior, to choose an output"] = -0.5,
    rank_weight: Annotated[float, "of the prior, to rank given replies"] = -1.0,
    samples: int = 16,
    beam: int = 50,
    temperature: float = 0.7,
) -> None:
    model, language = (transduce.load(each, device="cpu") for each in (run, prior))
    sampled = model.changed({"search.type": "sampling", "search.temperature": temperature}).changed(
        {"search.max_length": model.settings["search"]["max_length"]}
    )
    asked = Run.open(run).examples(split)[:examples]
    sources = [example.source for example in asked]
    mutual = LogLinear(((Own(), 1.0), (Language(language), weight)))
    best = replies(model, sources, None)
    chosen = replies(sampled, sources, mutual, samples)
    diversity = [
        figures("the beam", best, asked),
        figures(f"a beam of {beam}, reranked", replies(model, sources, mutual, beam), asked),
        figures("one sample", replies(sampled, sources, None), asked),
        figures(f"{samples} samples, reranked", chosen, asked),
        figures("people", [example.references[0] for example in asked], asked),
    ]
    of_prior = LogLinear(((Own(), 1.0), (Language(language), rank_weight)))
    ranked = [
        rank_row("log p(reply given source)", model, asked, LogLinear(((Own(), 1.0),))),
        rank_row(f"and {rank_weight:g} log p(reply)", model, asked, of_prior),
        {"scores": "chance", "first, %": "10.0", "among the first 3, %": "30.0", "mean reciprocal rank": "0.293"},
    ]
    report.split = split
    report.tell(
        "# Replies",
        "",
        f"The first {len(asked):,} examples of {split}. Temperature {temperature}, weight {weight:g}. {machine()}",
        "",
        *markdown(diversity),
        runs=[run, prior],
    )
    report.tell("", "# Rank of the true reply among ten", "", *markdown(ranked))
    first = [
        {
            "topic and history": sources[place].replace("\t", ": "),
            "beam": best[place],
            "reranked samples": chosen[place],
            "person": asked[place].references[0],
        }
        for place in dialogue_starts(asked)[:SHOWN]
    ]
    print("\n".join(["", "# Twenty replies", "", *markdown(first)]))
