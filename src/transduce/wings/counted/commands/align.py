"""``transduce align``: which source word each target word comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import formats, inputs
from transduce.cli.options import (
    AfterWord,
    AttentionHead,
    AttentionName,
    BatchSize,
    Device,
    LoadingOptions,
    Plugins,
    Precision,
    RecordOptions,
    ResamplingOptions,
    Threads,
)
from transduce.core.errors import UserError
from transduce.core.registry import service

if TYPE_CHECKING:
    from transduce.answers.transducer import Transducer
    from transduce.wings.alignment.attention_weights import AttentionChoice
    from transduce.wings.alignment.corpus import CorpusAlignment
    from transduce.wings.alignment.links import Gold
    from transduce.wings.records.record import TrainedModel

FORMATS = ("text", "jsonl")


@dataclass(frozen=True)
class AlignerOptions:
    """The options that choose how a model aligns."""

    direction: Annotated[
        str | None,
        typer.Option(
            help="forward (each target word to a source word) or backward (the reverse).", metavar="DIRECTION"
        ),
    ] = None
    symmetrise: Annotated[
        str | None,
        typer.Option(
            help="Combine both directions: intersection, union, grow-diag, grow-diag-final or grow-diag-final-and.",
            metavar="HEURISTIC",
        ),
    ] = None
    attention: AttentionName = None
    head: AttentionHead = None
    after: AfterWord = False

    @property
    def chosen_direction(self) -> str | None:
        if self.direction is not None and self.symmetrise is not None:
            raise UserError("--symmetrise combines both directions, and --direction names one: give one of them")
        if self.direction not in (None, "forward", "backward"):
            raise UserError(f"--direction {self.direction!r}: expected forward or backward; --symmetrise combines both")
        return self.direction or self.symmetrise

    @property
    def given(self) -> dict[str, object]:
        """The options that are not at their defaults, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}

    @property
    def choice(self) -> AttentionChoice:
        from transduce.wings.alignment.attention_weights import AttentionChoice

        return AttentionChoice(self.attention, self.head, self.after)


@dataclass(frozen=True)
class ModelOptions:
    """Options for the model that aligns: a trained run, or without one a word aligner that learns from the pairs."""

    model: Annotated[
        str | None,
        typer.Option(
            help="Without a run: the word aligner to train: fertility, hmm, diagonal, ibm2 or ibm1.",
            show_default="hmm",
            metavar="NAME",
        ),
    ] = None
    also: Annotated[
        list[Path] | None,
        typer.Option(
            help="Without a run: a TSV file to learn from too; give the option twice for two parallel files.",
            metavar="FILE",
        ),
    ] = None
    passes: Annotated[
        int | None, typer.Option(min=1, help="Without a run: passes of expectation maximisation.", show_default="5")
    ] = None
    checkpoint: Annotated[str, typer.Option(help="best, last or average.")] = "best"
    device: Device = "auto"
    threads: Threads = None
    precision: Precision = "float32"
    plugin: Plugins = None

    def load(self, run: Path | None, pairs: Sequence[tuple[str, str]]) -> Transducer:
        """The model of a run, or a word aligner that learns from ``pairs``. Raises UserError for an option that is for
        the other kind.
        """
        if run is not None:
            for name in ("model", "also", "passes"):
                if getattr(self, name):
                    raise UserError(
                        f"--{name} is for a word aligner that learns here, and {run} is trained: leave it out"
                    )
            return self._loading.of(run)
        from transduce.wings.counted.alignment.training import learn_aligner

        self._loading.prepare()
        further = read_pairs(self.also) if self.also else []
        return learn_aligner(pairs, self.model or "hmm", further, self.passes)

    def prepare(self) -> None:
        """Loads the plugins, and sets the number of threads."""
        self._loading.prepare()

    def name(self, run: Path | None) -> str:
        return (self.model or "hmm") if run is None else run.name

    def settings(self, run: Path | None) -> dict[str, object]:
        """The options of a word aligner that learns here, for a record; empty for a run, which has its own settings.
        ``also`` has file names without folders, and ``passes`` is None if the option was not given.
        """
        if run is not None:
            return {}
        return {"model": self.model or "hmm", "also": [path.name for path in self.also or ()], "passes": self.passes}

    def models(self, run: Path | None) -> list[TrainedModel]:
        """The models of a run, for a record: several if the run is an ensemble. A word aligner that learns here has
        none.
        """
        from transduce.runs.layout import members
        from transduce.wings.records.making import trained_model

        return [] if run is None else [trained_model(each, self.checkpoint) for each in members(run)]  # type: ignore[arg-type]

    @property
    def _loading(self) -> LoadingOptions:
        return LoadingOptions(
            checkpoint=self.checkpoint,
            device=self.device,
            threads=self.threads,
            precision=self.precision,
            plugin=self.plugin,
        )


def align(
    trained: ModelOptions,
    how: AlignerOptions,
    resampled: ResamplingOptions,
    recorded: RecordOptions,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A TSV file or two parallel files, by default standard input. A run before them aligns; without one, "
            "a word aligner learns from the files.",
            metavar="[RUN] [FILES]",
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(help="Score against these links: Pharaoh format, or the third column of a TSV.", metavar="FILE"),
    ] = None,
    by_head: Annotated[
        bool, typer.Option("--by-head", help="With --gold: the error rate of each layer and head of attention.")
    ] = False,
    format: Annotated[str, typer.Option(help="text (Pharaoh format: 0-0 1-2) or jsonl, with probabilities.")] = "text",
    out: Annotated[Path | None, typer.Option(help="Draw one pair's links in a file (.html, .png, .svg, .pdf).")] = None,
    pair: Annotated[int, typer.Option(min=1, help="The pair to draw, by its line.")] = 1,
    batch_size: BatchSize = 64,
    learn_into: Annotated[
        Path | None,
        typer.Option(help="Learn a word aligner from this run's training pairs, for --protect.", metavar="RUN"),
    ] = None,
) -> None:
    """Write which source word each target word comes from, or score these links.

    One line for each pair; --gold scores the links against gold links.

    \b
    Examples:
      transduce align pairs.tsv > links.txt
      transduce align runs/word-alignment pairs.tsv --gold gold.tsv
      transduce align --learn-into runs/de-en
    """
    from transduce.wings.alignment.evaluation import (
        AlignmentScores,
        check_gold,
        record_heads,
        record_scores,
        scores_by_head,
    )

    if learn_into is not None:
        if paths:
            raise UserError(f"--learn-into {learn_into} reads the training pairs of the run: leave out {paths[0]}")
        trained.prepare()
        print(service("aligner of a run")(learn_into))
        return
    _check_options(format, gold, by_head, out, recorded.record)
    recorded.check()
    run, files = _run_and_files(paths or [])
    pairs = read_pairs(files)
    known = None if gold is None else read_gold(gold, len(pairs))
    model = trained.load(run, pairs)
    if by_head and known is not None:
        heads = scores_by_head(model, pairs, known, batch_size)
        print("\n".join(heads.lines()))
        recorded.keep(lambda command: record_heads(command, str(gold), heads, trained.models(run)))
        return
    found = model.align(pairs, how.chosen_direction, how.choice, batch_size)
    if known is not None:
        check_gold(known, found)
    if out is not None:
        _draw(found, known, pair, out)
    elif known is None:
        for number, line in enumerate(found.links.write()):
            print(line if format == "text" else formats.as_json(found.record(number)))
    else:
        scores = AlignmentScores.of(trained.name(run), found.links, known, resampled.resampling)
        print("\n".join(scores.lines()))
        recorded.keep(
            lambda command: record_scores(
                command, _split_of(run, gold), scores, pairs, trained.settings(run) | how.given, trained.models(run)
            ),
        )


def read_pairs(files: Sequence[Path]) -> list[tuple[str, str]]:
    """Pairs of a source and a target text: from a TSV file, from two parallel files, or from standard input (a TSV) if
    ``files`` is empty.

    A TSV row has a source, a target and perhaps gold links in a third column, which is not read here. Other columns
    after the first two are not read either, and a warning says so. Raises UserError for a row with one column, for
    parallel files of unequal lengths, and for more than two files.
    """
    if len(files) > 2:
        raise UserError(f"{len(files)} files to align: expected one TSV file, or a file of sources and one of targets")
    if len(files) == 2:
        source, target = files
        return list(inputs.pairs(None, source, target))
    return list(inputs.pairs(files, links=True))


def read_gold(path: Path, pairs: int) -> Gold:
    """The gold links of a file: a line in Pharaoh format for each pair, or links in the third column if the name ends
    in .tsv or .tsv.gz.

    Raises UserError, with file and line, for anything else, and unless there are exactly ``pairs`` lines.
    """
    from transduce.wings.alignment.links import Gold

    tabs = ".tsv" in (path.suffix, path.with_suffix("").suffix * (path.suffix == ".gz"))
    lines = [row[2] for row in inputs.rows([path], 3)] if tabs else list(inputs.lines([path]))
    try:
        found = Gold.read(lines)
    except UserError as error:
        raise UserError(f"{path}, {error}") from error
    if len(lines) != pairs:
        line = min(len(lines), pairs) + 1
        side = "has no links for the pair" if len(lines) < pairs else "has links, and there is no pair"
        raise UserError(f"{path} has {len(lines):,} lines, and there are {pairs:,} pairs: it {side} of line {line}")
    return found


def _check_options(format: str, gold: Path | None, by_head: bool, out: Path | None, record: Path | None) -> None:
    if format not in FORMATS:
        raise UserError(f"--format {format!r}: expected {' or '.join(FORMATS)}")
    if by_head and gold is None:
        raise UserError("--by-head measures each head against gold links: give --gold FILE too")
    if record is not None and gold is None:
        raise UserError("--record keeps scores, and there are none without gold links: give --gold FILE too")
    if out is not None and (by_head or record is not None or format != "text"):
        raise UserError("--out draws one pair; --by-head, --record and --format do not apply: leave them out")


def _run_and_files(paths: Sequence[Path]) -> tuple[Path | None, Sequence[Path]]:
    """The run (None if there is none) and the files. The first path is the run if it is a folder. A path that does not
    exist and contains + is several runs joined by +.
    """
    if paths and (paths[0].is_dir() or (not paths[0].exists() and "+" in str(paths[0]))):
        return paths[0], paths[1:]
    return None, paths


def _split_of(run: Path | None, gold: Path | None) -> str:
    """For a record: the name of the split whose file is ``gold`` in the data of ``run``. The path ``gold`` if there is
    no such split, or no run.
    """
    from transduce.data.base import SPLITS
    from transduce.runs.layout import members
    from transduce.runs.run import Run

    if run is not None and gold is not None:
        data = Run.open(members(run)[0]).settings["data"]
        for split in SPLITS:
            path = data.get(split, {}).get("path")
            if isinstance(path, str) and Path(path).exists() and gold.samefile(path):
                return split
    return str(gold)


def _draw(found: CorpusAlignment, gold: Gold | None, number: int, out: Path) -> None:
    from transduce.wings.alignment.report import PairLinks, write

    if number > found.links.pairs:
        raise UserError(f"--pair {number}: there are {found.links.pairs:,} pairs")
    write(PairLinks.of(found, number - 1, gold), f"Pair {number}", out)
