"""Options that several commands share. Each is declared once."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from transduce.cli.output_check import check_outputs
from transduce.core.errors import UserError
from transduce.core.files import is_engine_file
from transduce.core.finite import check_options, finite_number
from transduce.core.plugins import load_plugins
from transduce.core.registry import SERVICES, find, has, service
from transduce.core.stages import Stage

if TYPE_CHECKING:
    from transduce.answers.answer import LightModel
    from transduce.answers.transducer import Transducer
    from transduce.compute.precision import Precision as Bits
    from transduce.core.protocols import Metric
    from transduce.metrics.significance import Resampling
    from transduce.runs.layout import Checkpoint

Files = Annotated[
    list[Path] | None,
    typer.Argument(help="Text files in UTF-8, plain or gzipped, a source a line; standard input if none."),
]
SourceFile = Annotated[Path | None, typer.Option("--source", help="A file of sources, with --target, instead.")]
TargetFile = Annotated[Path | None, typer.Option("--target", help="Its targets, line by line.")]
BeamSize = Annotated[int | None, typer.Option("--beam", min=1, max=10_000, help="Beam size; 1 is greedy.")]
BatchSize = Annotated[int, typer.Option(min=1, max=1_000_000, help="Sentences searched at a time.")]
Pause = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=3600.0,
        help="Answer what has come when a pipe or a terminal gives no line for this many seconds.",
        metavar="SECONDS",
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps or auto.")]
Precision = Annotated[
    str,
    typer.Option(
        help="float32; int8: our own kernels, usually the fastest on a CPU; float16: for one line after another on a "
        "CPU; bfloat16: for large batches."
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Processor threads; all cores if not given.")]
Report = Annotated[Path | None, typer.Option(help="Write a page for the browser.", metavar="FILE.html")]
AttentionName = Annotated[
    str | None, typer.Option("--attention", help="Align by this attention; by default the mean of all.", metavar="NAME")
]
AttentionHead = Annotated[
    int | None, typer.Option("--head", min=0, help="Align by this head of it; by default the mean of its heads.")
]
AfterWord = Annotated[
    bool, typer.Option("--after", help="Align by the attention of the next step, which has read the output word.")
]
Plugins = Annotated[list[str] | None, typer.Option("--plugin", help="A Python file or module that registers classes.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting: model.encoder.layers=2; model.encoder.layers= takes it back."),
]


@dataclass(frozen=True, kw_only=True)
class LoadingOptions:
    """Options for loading a run."""

    checkpoint: Annotated[str, typer.Option(help="best, last or average; of several runs, the same one of each.")] = (
        "best"
    )
    device: Device = "auto"
    threads: Threads = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change the search: search.size=10, search.type=greedy; a run's other settings stay."
        ),
    ] = None
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Search only among the words that `transduce shortlist RUN` learned.")
    ] = False
    precision: Precision = "float32"
    engine: Annotated[
        str | None,
        typer.Option(
            help="torch; native: the package's own kernels, for CPUs; onnx or ctranslate2: an export of the run."
        ),
    ] = None
    workers: Annotated[
        int, typer.Option(min=1, help="Worker processes; each has --threads threads, by default one.")
    ] = 1
    plugin: Plugins = None

    @property
    def identity_options(self) -> tuple[Checkpoint, str | None, Bits]:
        """What decides which weights of a run are used: checkpoint, engine and precision (``runs.identity``)."""
        return cast("Checkpoint", self.checkpoint), self.engine, cast("Bits", self.precision)

    def prepare(self) -> None:
        """Loads the plugins and, if ``threads`` is given, sets PyTorch's number of threads."""
        from transduce.compute.threads import use_threads

        load_plugins(self.plugin)
        use_threads(self.threads)

    def of(
        self, run: Path, beam: int | None = None, weights: Sequence[float] | None = None, mapped: bool = False
    ) -> Transducer:
        """The model of a run directory, or of RUN+RUN, loaded as all these options say. ``beam`` is the beam size; None
        keeps the size of the run's own search.

        ``weights`` make a log-linear mixture of several runs (``fusion`` of ``transduce.load``); None takes the mean of
        their probabilities. Several runs share one ``--checkpoint``. ``mapped`` as for ``transduce.load``.
        """
        from transduce.compute.workers import Workers
        from transduce.runs.layout import SHORTLIST, members
        from transduce.runs.loading import load

        self.prepare()
        with Stage(f"load {run}"):
            transducer = load(
                run,
                checkpoint=self.checkpoint,  # type: ignore[arg-type]
                device=self.device,
                fusion=weights,
                settings=self.settings or (),
                precision=self.precision,  # type: ignore[arg-type]
                size=beam,
                engine=self.engine,
                mapped=mapped,
            )
        if self.shortlist:
            transducer = replace(
                transducer, search=find("Search", "shortlist")(members(run)[0] / SHORTLIST, transducer.search)
            )
        if self.workers > 1:
            load_again = functools.partial(replace(self, workers=1).of, run, beam, weights, mapped=True)
            transducer = replace(transducer, workers=Workers(load_again, self.workers, self.threads or 1))
        return transducer


@dataclass(frozen=True, kw_only=True)
class RunOptions(LoadingOptions):
    """Options of the commands that use one trained model: the run, and how to load it."""

    run: Annotated[
        Path,
        typer.Argument(
            help="A run directory from `transduce train`; RUN+RUN makes one model of several.", metavar="RUN"
        ),
    ]
    fusion: Annotated[
        str | None, typer.Option(help="Weights of several runs, 0.7,0.3: a log-linear mixture instead of the mean.")
    ] = None

    def load(self, beam: int | None = None) -> Transducer:
        return self.of(self.run, beam, None if self.fusion is None else numbers(self.fusion, "--fusion"))

    def light(self, beam: int | None = None) -> LightModel | None:
        """The file of an engine, or the export in the folder ``run``, opened without PyTorch. None unless it is an
        export for CTranslate2, and the other options are ones that need no PyTorch: ``threads``, and defaults.
        """
        from transduce.runs.manifest import find_export, is_export

        plain = type(self)(run=self.run, threads=self.threads, engine=self.engine)
        folder = is_export(self.run) and find_export(self.run, self.engine) is not None
        if self != plain or not (folder or is_engine_file(self.run)):
            return None
        found: LightModel | None = service("light export")(self.run, self.threads or 0, beam)
        return found

    def another(self, run: Path) -> Transducer:
        """The model of another run, loaded like this one, in this process and with its own search."""
        return replace(self, settings=None, shortlist=False, workers=1).of(run)

    @property
    def runs(self) -> list[Path]:
        """The run directories of RUN+RUN, or the only one. The mixture has the search and the settings of the first."""
        from transduce.runs.layout import members

        return members(self.run)


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """Options of ``evaluate`` and ``compare``: which metrics to compute, the beam size, the batch size of the search,
    and the text before a line that a language model reads.
    """

    metric: Annotated[list[str] | None, typer.Option(help="Metrics instead of the run's own.")] = None
    beam: BeamSize = None
    batch_size: BatchSize = 64
    context: Annotated[
        str | None,
        typer.Option(
            help="The text before a line that a language model reads: line (none), carried (all), or a window, "
            "SIZE/STRIDE in tokens; by default the run's own."
        ),
    ] = None

    def in_context(self, transducer: Transducer) -> Transducer:
        """The transducer with the ``context`` of the option; unchanged if it is not given. Raises UserError for
        another word.
        """
        if self.context is None:
            return transducer
        return replace(transducer, context=service("text context")(self.context))

    def metrics(self, own: Sequence[str]) -> list[Metric]:
        from transduce.metrics.base import metric

        return [metric(name) for name in self.metric or own]


@dataclass(frozen=True)
class RecordOptions:
    """Options for keeping a record of the scores."""

    record: Annotated[
        Path | None,
        typer.Option("--record", help="Write the scores with everything needed to repeat them.", metavar="FILE.json"),
    ] = None
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Write the record of code that is not committed; it is marked.")
    ] = False

    def check(self) -> None:
        """Raises UserError if the code is not committed and ``uncommitted`` is False, and for ``uncommitted`` alone.

        Call it before the work that the record is about.
        """
        if self.record is None:
            if self.uncommitted:
                raise UserError("--uncommitted marks a record: give --record FILE.json too, or leave it out")
            return
        service("committed code")(self.uncommitted)

    def keep(self, made: Callable[[str], Any]) -> None:
        """Writes the record of this command, and prints the path of the written file on standard error. Does nothing if
        no record is wanted.

        ``made`` returns the record. It is given the command line as text.
        """
        if self.record is not None:
            command = service("command line")("transduce", sys.argv[1:])
            typer.echo(f"{made(command).write(self.record)}", err=True)


@dataclass(frozen=True)
class ResamplingOptions:
    """Options for confidence intervals and significance tests."""

    resamples: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Resampled corpora for intervals and the paired bootstrap.")
    ] = 1000
    trials: Annotated[int, typer.Option(min=1, max=10_000_000, help="Trials of paired approximate randomisation.")] = (
        10_000
    )
    seed: Annotated[int, typer.Option(min=0, help="Seed of both; 12345 is sacreBLEU's.")] = 12345

    @property
    def resampling(self) -> Resampling:
        from transduce.metrics.significance import Resampling

        return Resampling(self.resamples, self.trials, self.seed)


@dataclass(frozen=True)
class DocumentOptions:
    """Options for a document, such as XLIFF or HTML, whose texts are the sources."""

    column: Annotated[
        str | None,
        typer.Option(help="The column of a table, or the key of JSON lines, that has the texts.", metavar="NAME"),
    ] = None
    sentences: Annotated[
        str | None,
        typer.Option(
            help="Divide the texts of a document into sentences of this language, such as de.", metavar="CODE"
        ),
    ] = None
    previous: Annotated[
        int, typer.Option(help="Read each text of a document with so many before it.", metavar="COUNT")
    ] = 0

    def chosen(self, files: list[Path] | None, out: Path | None, format: str, unfit: bool) -> Path | None:
        """The document among ``files``; None if they are lines. Raises UserError as the service "document" does."""
        asked = format == "document" or self.column is not None or self.sentences is not None or self.previous != 0
        if not asked and (not files or not has(SERVICES["document"])):
            return None
        found: Path | None = service("document")(files or [], out, asked, unfit or format not in ("text", "document"))
        return found


def numbers(text: str, option: str) -> list[float]:
    """The numbers in an option's value, separated by commas: "0.7,0.3". Raises UserError for anything else."""
    try:
        return [finite_number(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} {text!r}: numbers separated by commas were expected, such as 0.7,0.3") from None


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Lets a command take groups of options: returns the command with each parameter that is a dataclass replaced by
    the dataclass's fields. Its outputs and its numbers are checked before it begins (``check_outputs``,
    ``check_options``).

    typer reads the signature of one function and knows no groups. The order of the new parameters is: required fields
    of the groups, the command's other parameters, optional fields of the groups.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    fields = {name: _parameters(group) for name, group in groups.items()}
    of_groups = [parameter for group in fields.values() for parameter in group]
    own = [parameter for parameter in _parameters(command) if parameter.name not in groups]
    required = [parameter for parameter in of_groups if parameter.default is parameter.empty]
    optional = [parameter for parameter in of_groups if parameter.default is not parameter.empty]
    defaults = {parameter.name: parameter.default for parameter in (*own, *optional)}

    @functools.wraps(command)
    def called(**arguments: object) -> None:
        given = dict(arguments)
        made = {
            name: group(**{field.name: arguments.pop(field.name) for field in fields[name]})
            for name, group in groups.items()
        }
        check_options(given)
        check_outputs(given, defaults)
        command(**made, **arguments)

    called.__signature__ = inspect.Signature([*required, *own, *optional])  # type: ignore[attr-defined]
    return called


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters of a function or dataclass as keyword-only parameters, with their annotations evaluated."""
    hints = typing.get_type_hints(function, include_extras=True)
    return [
        parameter.replace(annotation=_unwrapped(hints[parameter.name]), kind=parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(function).parameters.values()
    ]


def _unwrapped(hint: object) -> object:
    """Python 3.10 makes ``Annotated[…]`` with the default None an ``Optional[Annotated[…]]``, in which typer does not
    see the option's names and help. Returns the inner hint.
    """
    inner = [each for each in typing.get_args(hint) if typing.get_origin(each) is typing.Annotated]
    return inner[0] if inner and typing.get_origin(hint) is typing.Union else hint
