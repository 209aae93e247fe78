"""``transduce vectors bias`` and ``debias``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import RecordOptions, Report
from transduce.core.errors import UserError
from transduce.wings.vectors.commands.options import AsJson, VectorOptions, show, show_json

if TYPE_CHECKING:
    from transduce.wings.vectors.bias import Questions
    from transduce.wings.vectors.representations.downstream import Tasks

METHODS = ("neutralise", "hard", "soft")
Pairs = Annotated[
    Path, typer.Option(help='Pairs of words that define the direction: JSON, [["woman", "man"], ["she", "he"]].')
]
Direction = Annotated[str, typer.Option("--direction", help="pca or mean, of the differences of the pairs.")]


def bias(
    opened: VectorOptions,
    recorded: RecordOptions,
    pairs: Pairs,
    after: Annotated[
        list[Path] | None, typer.Option(help="Other vectors to measure beside, such as debiased ones.")
    ] = None,
    occupations: Annotated[
        Path | None, typer.Option(help="Occupations: JSON, words or [word, definition, stereotype].")
    ] = None,
    weat: Annotated[list[Path] | None, typer.Option(help="WEAT tests: JSON, targ1, targ2, attr1, attr2.")] = None,
    similarity: Annotated[
        list[Path] | None, typer.Option(help="Scored pairs of words: what debiasing may cost.")
    ] = None,
    analogies: Annotated[
        Path | None, typer.Option(help="A task: questions in the form of word2vec's questions-words.txt.")
    ] = None,
    sentences: Annotated[
        tuple[Path, Path, Path] | None,
        typer.Option(help="A task: pairs of sentences in SICK's columns, TRAIN VALID TEST, by average vectors."),
    ] = None,
    kind: Direction = "pca",
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Measure bias along a direction: occupations, their analogies and WEAT; several vectors side by side.

    --similarity, --analogies and --sentences show what debiasing costs in tasks that use the vectors.
    """
    from transduce.wings.vectors.bias import bias as measure
    from transduce.wings.vectors.direction import direction

    recorded.check()
    questions = _questions(pairs, kind, occupations, weat or [], similarity or [])
    tasks = _tasks(analogies, sentences)
    words = None if tasks.words is None else questions.words | tasks.words
    every = [opened, *(replace(opened, vectors=path) for path in after or [])]
    opened_all = [each.open(words) for each in every]
    first_D = direction(opened_all[0], questions.pairs, questions.kind)
    results = [
        measure(vectors, questions, each.vectors.name, first_D if vectors.width == len(first_D) else None)
        for each, vectors in zip(every, opened_all, strict=True)
    ]
    results = [replace(each, tasks=tasks.figures(opened)) for each, opened in zip(results, opened_all, strict=True)]
    measures = [each.rows() for each in results]
    rows = [["", *(each.name for each in results)]]
    rows += [[row[0][0], *(value for _, value in row)] for row in zip(*measures, strict=True)]
    if as_json:
        show_json([each.as_json() for each in results])
    else:
        show(rows, align="<<")
    if report is not None:
        from transduce.wings.pages.page import write
        from transduce.wings.vectors.report import bias_page

        write(report, bias_page(results))
        typer.echo(f"{report}", err=True)
    if recorded.record is not None:
        from transduce.wings.records.making import new_record
        from transduce.wings.records.record import PrintedTable

        printed = PrintedTable("Bias of word vectors", tuple(rows[0]), tuple(map(tuple, rows[1:])))
        recorded.keep(lambda command: new_record(command, "test", tables=[printed]))


def debias(
    opened: VectorOptions,
    pairs: Pairs,
    out: Annotated[Path, typer.Option(help="NAME.vec: word2vec text. NAME.bin: word2vec binary.")],
    method: Annotated[
        str,
        typer.Option(help="neutralise; hard: neutralise, then equalise pairs; soft: a linear map that keeps products."),
    ] = "hard",
    specific: Annotated[
        Path | None, typer.Option(help="Words that keep their component: JSON, such as aunt and king for gender.")
    ] = None,
    equalise: Annotated[
        Path | None, typer.Option(help="Of hard: pairs to equalise, as JSON; by default those of --pairs.")
    ] = None,
    weight: Annotated[float, typer.Option(help="Of soft: how much neutrality counts beside the old products.")] = 0.2,
    kind: Direction = "pca",
) -> None:
    """Write vectors without their component along a direction (Bolukbasi et al. 2016). Vectors get length 1."""
    from transduce.wings.vectors.debiasing import equalise as equalised
    from transduce.wings.vectors.debiasing import neutralise, soften
    from transduce.wings.vectors.direction import direction, read_word_pairs, read_words
    from transduce.wings.vectors.files import save

    if method not in METHODS:
        raise UserError(f"--method {method!r}: expected {', '.join(METHODS)}")
    if equalise is not None and method != "hard":
        raise UserError(f"--equalise belongs to --method hard, and this is {method}: leave it out")
    defining = read_word_pairs(pairs)
    kept = read_words(specific) if specific is not None else []
    vectors = opened.open()
    along_D = direction(vectors, defining, kind)  # type: ignore[arg-type]
    changed = soften(vectors, along_D, kept, weight) if method == "soft" else neutralise(vectors, along_D, kept)
    if method == "hard":
        changed = equalised(changed, along_D, read_word_pairs(equalise) if equalise is not None else defining)
    save(changed, out)
    print(out)


def _tasks(analogies: Path | None, sentences: tuple[Path, Path, Path] | None) -> Tasks:
    """Reads the files of the tasks. Raises UserError for one of another form."""
    from transduce.wings.vectors.analogies import read_questions
    from transduce.wings.vectors.representations.downstream import Tasks
    from transduce.wings.vectors.representations.pairs import PairSets, read_sick

    return Tasks(
        None if analogies is None else read_questions(analogies),
        None if sentences is None else PairSets(*map(read_sick, sentences)),
    )


def _questions(
    pairs: Path, kind: str, occupations: Path | None, tests: list[Path], similarities: list[Path]
) -> Questions:
    """Reads the files. Raises UserError for one of another form, and for an unknown ``kind``."""
    from transduce.wings.vectors.association import read_test
    from transduce.wings.vectors.bias import Questions
    from transduce.wings.vectors.direction import read_word_pairs
    from transduce.wings.vectors.occupations import read_occupations
    from transduce.wings.vectors.similarity import read_pairs

    if kind not in ("pca", "mean"):
        raise UserError(f"--direction {kind!r}: expected pca or mean")
    return Questions(
        read_word_pairs(pairs),
        kind,  # type: ignore[arg-type]
        read_occupations(occupations) if occupations is not None else (),
        [read_test(path) for path in tests],
        {path.name.split(".")[0]: read_pairs(path) for path in similarities},
    )
