"""``transduce examine``: odd behaviour of a run, in counts and examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli import formats
from transduce.cli.corpus import CorpusOptions
from transduce.cli.options import BatchSize, BeamSize, Report, RunOptions
from transduce.core.errors import UserError
from transduce.core.text_files import read_text


def examine(
    trained: RunOptions,
    corpus: CorpusOptions,
    against: Annotated[Path | None, typer.Option(help="Examine this run too, and compare.", metavar="RUN")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Examples to use, drawn at random if there are more.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other examples and other changes.")] = 1,
    gender: Annotated[
        str | None,
        typer.Option(help="Count the gender of translated English occupations: de, fr, es or it.", metavar="LANGUAGE"),
    ] = None,
    occupations: Annotated[
        Path | None, typer.Option(help="English occupations for --gender, one a line, instead of 40 own.")
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Cases to print for each finding.")] = 1,
    beam: BeamSize = None,
    batch_size: BatchSize = 64,
    report: Report = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with all cases instead of a table.")] = False,
) -> None:
    """Count odd behaviour of a run: repeated words, copies, lost parts, and outputs for changed sources.

    It counts outputs that are too short or too long, and sources that are not attended to. Changed sources have a
    typing error, no full stop, half of the text, shuffled words, random letters, nothing, or very much text.

    \b
    Examples:
      transduce examine runs/de-en --report odd.html
    """
    from transduce.wings.lab.reports.passages import drawn
    from transduce.wings.looking.examination.examination import Examiner
    from transduce.wings.looking.examination.findings import differences
    from transduce.wings.looking.examination.occupations import OCCUPATIONS
    from transduce.wings.looking.reports.examination import examination_page
    from transduce.wings.pages.page import write

    if occupations is not None and gender is None:
        raise UserError("--occupations is for --gender: add --gender de, fr, es or it")
    people = OCCUPATIONS if occupations is None else read_text(occupations).split("\n")
    transducer = trained.load(beam)
    corpus_examples = corpus.read(transducer, trained.runs[0])
    chosen = [corpus_examples[number] for number in drawn(corpus_examples, seed, limit)]
    examiner = Examiner(seed, gender, [each.strip() for each in people if each.strip()], batch_size)
    found = [examiner(str(trained.run), transducer, chosen)]
    if against is not None:
        found.append(examiner(str(against), trained.another(against), chosen))
    apart = differences(*found) if len(found) == 2 else []
    if as_json:
        print(formats.as_json([each.record() for each in found], indent=1))
    else:
        for each in found:
            print("\n".join([*each.lines(examples), ""]))
        if apart:
            print("\n".join([f"{found[0].name} against {found[1].name}", *(each.line() for each in apart)]))
    if report is not None:  # the findings have been printed, in case the page cannot be written
        write(report, examination_page(found, apart))
