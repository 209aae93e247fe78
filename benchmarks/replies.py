"""How diverse are a model's replies, and how often does it rank the true reply first?

    python benchmarks/replies.py runs/replies --prior runs/replies-prior [--record FILE.json]

Compares the replies of the run's own beam, of the same beam reranked, of one sample, and of samples reranked. The
reranker is maximum mutual information (Li et al. 2016): log p(reply | source) plus ``--weight`` times log p(reply) of
the run ``--prior``. The ranks are among ten replies, as in `transduce rank`. They are measured without the prior, and
with ``--rank-weight`` times the prior. The last table has one reply of each of the first dialogues, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from report import Report, machine, parse, parser_of

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


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--prior", type=Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--weight", type=float, default=-0.5)
    parser.add_argument("--rank-weight", type=float, default=-1.0)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--beam", type=int, default=50)
    parser.add_argument("--temperature", type=float, default=0.7)
    given = parse(parser, threads=1)
    model, prior = (transduce.load(run, device="cpu") for run in (given.run, given.prior))
    sampled = model.changed({"search.type": "sampling", "search.temperature": given.temperature}).changed(
        {"search.max_length": model.settings["search"]["max_length"]}
    )
    examples = Run.open(given.run).examples(given.split)[: given.examples]
    sources = [example.source for example in examples]
    mutual = LogLinear(((Own(), 1.0), (Language(prior), given.weight)))
    beam = replies(model, sources, None)
    chosen = replies(sampled, sources, mutual, given.samples)
    diversity = [
        figures("the beam", beam, examples),
        figures(f"a beam of {given.beam}, reranked", replies(model, sources, mutual, given.beam), examples),
        figures("one sample", replies(sampled, sources, None), examples),
        figures(f"{given.samples} samples, reranked", chosen, examples),
        figures("people", [example.references[0] for example in examples], examples),
    ]
    of_prior = LogLinear(((Own(), 1.0), (Language(prior), given.rank_weight)))
    ranked = [
        rank_row("log p(reply given source)", model, examples, LogLinear(((Own(), 1.0),))),
        rank_row(f"and {given.rank_weight:g} log p(reply)", model, examples, of_prior),
        {"scores": "chance", "first, %": "10.0", "among the first 3, %": "30.0", "mean reciprocal rank": "0.293"},
    ]
    first = [
        {
            "topic and history": sources[place].replace("\t", ": "),
            "beam": beam[place],
            "reranked samples": chosen[place],
            "person": examples[place].references[0],
        }
        for place in dialogue_starts(examples)[:SHOWN]
    ]
    lines = [
        "# Replies",
        "",
        f"The first {len(examples):,} examples of {given.split}. Temperature {given.temperature}, weight "
        f"{given.weight:g}. {machine()}",
        "",
        *markdown(diversity),
        "",
        "# Rank of the true reply among ten",
        "",
        *markdown(ranked),
    ]
    print("\n".join([*lines, "", "# Twenty replies", "", *markdown(first)]))
    Report.asked(given, given.split).write(lines, [given.run, given.prior])


if __name__ == "__main__":
    main()
