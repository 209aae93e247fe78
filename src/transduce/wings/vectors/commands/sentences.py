"""``transduce vectors sentences`` and ``nearest``: sentence vectors measured on pairs, and the nearest sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import LoadingOptions, RecordOptions
from transduce.core.errors import UserError
from transduce.wings.vectors.commands.options import AsJson, show, show_json, written

if TYPE_CHECKING:
    from transduce.wings.vectors.representations.pairs import PairResult, PairSets
    from transduce.wings.vectors.table import Floats

TITLES = (
    "sentence vectors",
    "width",
    "cosine: Pearson with relatedness",
    "regression: Pearson with relatedness",
    "entailment accuracy, %",
    "nearest sentence is a paraphrase, %",
)


def sentences(
    loading: LoadingOptions,
    systems: Annotated[
        list[Path], typer.Argument(help="Runs with an encoder, and files of word vectors.", metavar="RUN|VECTORS...")
    ],
    train: Annotated[Path, typer.Option(help="Pairs: number, sentence, sentence, relatedness 1 to 5, label (TSV).")],
    valid: Annotated[Path, typer.Option(help="Pairs that choose the strength of the regressions.")],
    test: Annotated[Path, typer.Option(help="Pairs to measure on.")],
    recorded: RecordOptions,
) -> None:
    """Measure sentence vectors on pairs: relatedness, entailment by logistic regression, and retrieval of paraphrases.

    A run's vectors are those of its own pooling. A run without one is measured with the mean of its states and with its
    summary. A file of word vectors is measured as a plain average and weighted (SIF), with the words of --train
    counted.
    """
    from transduce.wings.vectors.representations.pairs import PairSets, measure_majority, measure_overlap, read_sick

    recorded.check()
    sets = PairSets(read_sick(train), read_sick(valid), read_sick(test))
    results = [measure_majority(sets), measure_overlap(sets)]
    for path in systems:
        results += _of_run(loading, path, sets) if path.is_dir() else _of_words(path, sets)
    rows = [list(TITLES), *map(_row, results)]
    show(rows, ["Intervals are for 95 %. Strengths of the regressions are chosen on the validation pairs."])
    if recorded.record is not None:
        from transduce.wings.records.making import new_record, trained_model
        from transduce.wings.records.record import PrintedTable

        table = PrintedTable("Sentence vectors on pairs of sentences", TITLES, tuple(map(tuple, rows[1:])))
        runs = tuple(trained_model(path) for path in systems if path.is_dir())
        recorded.keep(lambda command: replace(new_record(command, test.name, tables=[table]), models=runs))


def nearest(
    loading: LoadingOptions,
    system: Annotated[
        Path, typer.Argument(help="A run with an encoder, or a file of word vectors.", metavar="RUN|VECTORS")
    ],
    file: Annotated[Path, typer.Argument(help="The sentences to search among, one a line.", metavar="SENTENCES")],
    query: Annotated[
        list[str] | None, typer.Option(help="A sentence; several are allowed. Lines of standard input if not given.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Sentences to write for each query.")] = 5,
    pooling: Annotated[
        str, typer.Option(help="Of a run: own (the model's way, else mean), mean or max of the states, or summary.")
    ] = "own",
    as_json: AsJson = False,
) -> None:
    """Write the nearest sentences of each query in a file, with their cosines, the nearest first."""
    from transduce.cli import inputs
    from transduce.wings.vectors.commands.embed import vectors_of_lines
    from transduce.wings.vectors.representations.retrieval import nearest_sentences

    texts = list(inputs.lines([file]))
    queries = list(inputs.lines(None)) if query is None else query
    if not texts or not queries:
        raise UserError(
            f"{len(texts)} sentences and {len(queries)} queries: at least one sentence and one query were expected"
        )
    vectors_ND = vectors_of_lines(loading, system, [*texts, *queries], pooling, 64)
    found = nearest_sentences(vectors_ND[: len(texts)], texts, vectors_ND[len(texts) :], k)
    if as_json:
        pairs = zip(queries, found, strict=True)
        show_json([{"query": each, "nearest": [near._asdict() for near in nears]} for each, nears in pairs])
        return
    for number, nears in enumerate(found):
        print("\n" * bool(number) + "\n".join(f"{near.cosine:.4f}\t{near.text}" for near in nears))


def _row(result: PairResult) -> list[str]:
    cosine = "-" if result.cosine is None else written(result.cosine)
    near = "-" if result.retrieval is None else written(result.retrieval, 1, 100)
    related, entailed = written(result.relatedness), written(result.entailment, 1, 100)
    return [result.name, str(result.width), cosine, related, entailed, near]


def _of_run(loading: LoadingOptions, path: Path, sets: PairSets) -> list[PairResult]:
    from transduce.wings.vectors.representations.pairs import measure_vectors
    from transduce.wings.vectors.representations.sentences import own_pooling, sentence_vectors, stacked

    transducer = loading.of(path)
    poolings = ["own"] if own_pooling(transducer) else ["mean", "summary"]

    def embed(pooling: str) -> Callable[[Sequence[str]], Floats]:
        return lambda texts: stacked(sentence_vectors(transducer, texts, pooling))  # type: ignore[arg-type]

    return [measure_vectors(f"{path.name}, {pooling}", embed(pooling), sets) for pooling in poolings]


def _of_words(path: Path, sets: PairSets) -> list[PairResult]:
    from transduce.wings.vectors.corpus import counted
    from transduce.wings.vectors.files import load
    from transduce.wings.vectors.representations.pairs import measure_vectors
    from transduce.wings.vectors.sentences import SmoothInverseFrequency, average

    learned_from = [text for pair in sets.train for text in pair[:2]]
    every = counted(text for pairs in (sets.train, sets.valid, sets.test) for pair in pairs for text in pair[:2])
    vectors = load(path, list(every))
    counts: Counter[str] = counted(learned_from)
    return [
        measure_vectors(f"{path.name}, average", lambda texts: average(vectors, texts), sets),
        measure_vectors(f"{path.name}, SIF", SmoothInverseFrequency.fit(vectors, counts, learned_from), sets),
    ]
