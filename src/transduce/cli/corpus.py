"""What models are measured on: a split of a run's data, or files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.options import SourceFile
from transduce.cli.reading import check_sides, examples_of

if TYPE_CHECKING:
    from transduce.data.corpora import Files
    from transduce.types import Example


@dataclass(frozen=True)
class Corpus:
    """The options that say which examples: ``--split``, or ``--source`` with ``--target``, or ``--pairs``; of a
    language model ``--target`` alone."""

    split: Annotated[str, typer.Option(help="test, valid or train.")] = "test"
    source: SourceFile = None
    target: Annotated[
        list[Path] | None, typer.Option(help="Its targets, line by line; several times: several references.")
    ] = None
    pairs: Annotated[
        Path | None, typer.Option(help="A .tsv or .jsonl file of sources and targets, instead.", metavar="FILE")
    ] = None

    def __post_init__(self) -> None:
        if self.source is not None and not self.target:
            raise ValueError("--source and --target go together: give both or neither")
        if self.target and self.pairs is not None:
            raise ValueError("--pairs has both sides: give it, or --source and --target")
        if self.split not in ("test", "valid", "train"):
            raise ValueError(f"--split {self.split!r}: expected test, valid or train")

    @property
    def of_files(self) -> bool:
        return bool(self.target) or self.pairs is not None

    @property
    def name(self) -> str:
        return str(self.pairs or self.source or next(iter(self.target or ()), self.split))

    def read(self, settings: dict[str, Any], run: Path) -> list[Example]:
        """The files' examples, or those of the run's split, by its own ``group_references``."""
        from transduce.training.data import split_of

        if self.of_files:
            units = settings["data"]["units"]
            conditional = "source" in units or "joint" in units
            check_sides(not self.files.targets_only, True, conditional)
            return self.read_files(settings, settings["data"]["group_references"])
        return split_of(settings, run, self.split)

    def read_files(self, settings: dict[str, Any], grouped: bool = False) -> list[Example]:
        """Those of the files, one for each line unless ``grouped`` by source; what a source is, a run's settings say
        (empty: text)."""
        from transduce import config
        from transduce.data.settings import Units

        units = settings.get("data", {}).get("units")
        signal = units is not None and config.build(units, Units, path="data.units").signal is not None
        return examples_of(self.files, grouped, signal)

    @property
    def files(self) -> Files:
        from transduce.data.corpora import Files

        if self.pairs is not None:
            return Files(path=str(self.pairs))
        source, targets = None if self.source is None else str(self.source), tuple(map(str, self.target or ()))
        return Files(source=source, target=targets)
