"""The options that choose the examples to evaluate on: a split of a run's data, or files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.inputs import check_sides, examples_of, longest_line, targets_only
from transduce.cli.options import SourceFile
from transduce.core.errors import UserError

if TYPE_CHECKING:
    from transduce.answers.transducer import Transducer
    from transduce.core.types import Example
    from transduce.data.corpora import ColumnNames, Files


@dataclass(frozen=True)
class CorpusOptions:
    """Options that choose the examples to evaluate on: ``--split`` of a run's data (default test), or the files
    ``--source`` and ``--target``, or the file ``--pairs``.

    For a language model ``--target`` is given without ``--source``. Raises UserError if the options contradict each
    other.
    """

    split: Annotated[str | None, typer.Option(help="test, valid or train.", show_default="test")] = None
    source: SourceFile = None
    target: Annotated[
        list[Path] | None, typer.Option(help="Its targets, line by line; repeat the option for several references.")
    ] = None
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="A .tsv or .jsonl file of sources and targets, instead; for `evaluate`, also a folder of them.",
            metavar="FILE",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.source is not None and not self.target:
            raise UserError("--source and --target go together: give both or neither")
        if self.target and self.pairs is not None:
            raise UserError("--pairs has both sides: give it, or --source and --target")
        if self.split not in (None, "test", "valid", "train"):
            raise UserError(f"--split {self.split!r}: expected test, valid or train")
        if self.split is not None and self.of_files:
            raise UserError(
                f"--split {self.split} is a part of a run's own data, and files are given: leave it out, or leave out "
                "--source, --target and --pairs"
            )

    @property
    def of_files(self) -> bool:
        return bool(self.target) or self.pairs is not None

    @property
    def name(self) -> str:
        return str(self.pairs or self.source or next(iter(self.target or ()), self.split or "test"))

    def read(self, transducer: Transducer, run: Path) -> list[Example]:
        """The examples to evaluate on: from the given files or, without files, from the chosen split of ``run``.

        If the run's ``data.group_references`` is true, examples with the same source become one example with several
        references.
        """
        from transduce.runs.run import Run

        if self.of_files:
            return self.read_files(transducer, transducer.settings["data"]["group_references"])
        return Run.open(run).examples(self.split or "test")

    def read_files(self, transducer: Transducer | None, grouped: bool = False) -> list[Example]:
        """The examples in the given files: one for each line or, if ``grouped`` is True, one for each source with all
        its references.

        The transducer's run decides whether a source is text or the path of a signal, and names the columns of
        ``--pairs``. If ``transducer`` is None, a source is text and may be missing. Raises UserError if the files have
        a source and the model takes none, or the reverse.
        """
        if transducer is None:
            return examples_of(self.files, grouped)
        columns = _columns(transducer)
        check_sides(not targets_only(self.files, columns), True, transducer.conditional)
        signal, longest = transducer.source_tokenizer.signal, longest_line(transducer)
        return examples_of(self.files, grouped, signal, columns, longest)

    def of(self, shard: Path) -> CorpusOptions:
        """The options for one file of the folder that ``pairs`` names."""
        return CorpusOptions(pairs=shard)

    @property
    def files(self) -> Files:
        from transduce.data.corpora import Files

        if self.pairs is not None:
            return Files(path=str(self.pairs))
        source, targets = None if self.source is None else str(self.source), tuple(map(str, self.target or ()))
        return Files(source=source, target=targets)


def _columns(transducer: Transducer) -> ColumnNames | None:
    """The setting ``data.columns`` of the transducer's run; None if the run has none. A file for ``--pairs`` is
    expected to have the same columns.
    """
    from transduce.core import config
    from transduce.data.corpora import ColumnNames

    table = transducer.settings.get("data", {}).get("columns")
    return None if table is None else config.build(table, ColumnNames, path="data.columns")
