"""``transduce rank``: the rank of the true target among targets of other examples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.corpus import CorpusOptions
from transduce.cli.options import BatchSize, RunOptions
from transduce.core.errors import UserError
from transduce.wings.combining.commands.rerank import RankingOptions, ranking_models

if TYPE_CHECKING:
    from transduce.wings.combining.reranking.base import Reranker


def rank(
    trained: RunOptions,
    corpus: CorpusOptions,
    ranking: RankingOptions,
    others: Annotated[int, typer.Option(min=1, help="Targets of other examples beside the true one.")] = 9,
    examples: Annotated[int | None, typer.Option(min=1, help="Only this number of first examples.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other targets.")] = 1,
    batch_size: BatchSize = 64,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a line.")] = False,
) -> None:
    """Rank the true target of each example among targets of other examples.

    The rank is by the model's log-probability or by the features of rerank.

    \b
    Examples:
      transduce rank runs/replies --others 9
    """
    from transduce.wings.combining.reranking.loglinear import LogLinear, Own
    from transduce.wings.combining.reranking.ranks import ranks

    if ranking.nbest is not None:
        raise UserError("--nbest is a number of outputs, and no outputs are searched for: --others sets their number")
    transducer = trained.load()
    reranker: Reranker = LogLinear(((Own(), 1.0),))
    if ranking.given:
        criteria = ranking.criteria()
        if criteria.candidates:
            raise UserError("--candidates are outputs of another program, and only targets are ranked: leave it out")
        reranker = ranking_models(criteria, trained, transducer, [], batch_size)
    read = corpus.read(transducer, trained.runs[0])[:examples]
    found = ranks(transducer, read, reranker, others, seed, batch_size)
    figures = {
        "examples": len(found.ranks),
        "choices": found.choices,
        "first": found.first(),
        "first_three": found.first(3),
        "mean_reciprocal_rank": found.mean_reciprocal,
        "chance": 1 / found.choices,
    }
    if as_json:
        print(json.dumps(figures))
        return
    print(
        f"{corpus.name}: the true target is first of {found.choices} for {found.first():.1%} of {len(found.ranks):,} "
        f"examples (chance {1 / found.choices:.1%}), among the first 3 for {found.first(3):.1%}; mean reciprocal rank "
        f"{found.mean_reciprocal:.3f}"
    )
