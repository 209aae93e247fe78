"""``transduce pack``, ``push`` and ``pull``: runs for other people, and from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import Plugins

if TYPE_CHECKING:
    from transduce.runs.layout import Checkpoint
    from transduce.wings.engines.sharing.packing import Measure
    from transduce.wings.records.scores import Score

Trained = Annotated[str, typer.Argument(help="A run directory.", metavar="RUN")]
Hub = Annotated[str, typer.Argument(help="A repository of the Hugging Face hub: hf:owner/name.", metavar="ADDRESS")]
Weights = Annotated[str, typer.Option("--checkpoint", help="best, last or average.")]
Scored = Annotated[
    str | None,
    typer.Option(
        "--evaluate", help="The split whose scores the card has, or none; by default the test split if it is here."
    ),
]


def pack(
    run: Trained,
    out: Annotated[
        Path | None, typer.Option(help="A folder, or a file that ends in .zip; by default RUN.zip.", metavar="PATH")
    ] = None,
    checkpoint: Weights = "best",
    evaluate: Scored = None,
    plugin: Plugins = None,
) -> None:
    """Pack a run for other people: one folder or file with a model card, without the state of training.

    \b
    Examples:
      transduce pack runs/g2p --out g2p.zip
    """
    from transduce.core.plugins import load_plugins
    from transduce.wings.engines.sharing import packing

    load_plugins(plugin)
    target = Path(f"{Path(run).resolve().name}.zip") if out is None else out
    print(packing.pack(run, target, _checkpoint(checkpoint), _measure(run, evaluate, checkpoint)))


def push(
    run: Trained,
    address: Hub,
    checkpoint: Weights = "best",
    evaluate: Scored = None,
    private: Annotated[bool, typer.Option("--private", help="Only you can see a repository that is made.")] = False,
    message: Annotated[str, typer.Option(help="The message of the commit.")] = "A run of transduce",
    plugin: Plugins = None,
) -> None:
    """Pack a run and upload it to the Hugging Face hub.

    \b
    Examples:
      transduce push runs/g2p hf:owner/name --private
    """
    from transduce.core.plugins import load_plugins
    from transduce.wings.engines.sharing import exchange

    load_plugins(plugin)
    print(exchange.push(run, address, _checkpoint(checkpoint), _measure(run, evaluate, checkpoint), private, message))


def pull(
    run: Annotated[str, typer.Argument(help="hf:owner/name, or a packed folder or .zip file.", metavar="PACKED")],
    out: Annotated[Path | None, typer.Option(help="The run directory; by default runs/NAME.", metavar="DIR")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let the copy read data that its settings name on other machines.")
    ] = False,
) -> None:
    """Copy a packed run, such as one of the Hugging Face hub, to a run directory.

    Nothing of it is executed.

    \b
    Examples:
      transduce pull hf:owner/name --out runs/name
    """
    from transduce.wings.engines.sharing import exchange

    name = Path(run.partition("@")[0]).stem if run.endswith(".zip") else run.partition("@")[0].rpartition("/")[2]
    print(exchange.pull(run, Path("runs") / name if out is None else out, trust))


def _checkpoint(name: str) -> Checkpoint:
    from transduce.core.errors import UserError

    if name not in ("best", "last", "average"):
        raise UserError(f"--checkpoint {name!r}: best, last or average was expected")
    return name  # type: ignore[return-value]


def _measure(run: str, split: str | None, checkpoint: str) -> Measure | None:
    """The function that measures a packed run on a split of ``run``. None if there is nothing to measure. Scores on the
    test split that the run has kept for its best checkpoint are not measured again.
    """
    from transduce.data.corpora import DataError
    from transduce.runs.layout import members
    from transduce.runs.run import Run
    from transduce.wings.records.scores import kept_scores, scores_of

    if split == "none":
        return None
    if split is None and checkpoint == "best" and (kept := kept_scores(members(run)[0])):
        typer.echo("the card has the test scores that were measured before; --evaluate test measures again", err=True)
        return lambda folder: kept
    try:
        examples = Run.open(run).examples(split or "test")
    except DataError as error:
        if split is not None:
            raise
        typer.echo(f"the card has no scores of a test split (--evaluate SPLIT): {error}", err=True)
        return None

    def measure(folder: Path) -> list[Score]:
        from transduce.evaluation.systems import evaluate_model
        from transduce.metrics.base import metric
        from transduce.runs.loading import load

        transducer = load(folder)
        metrics = [metric(name) for name in transducer.settings.get("metrics", ())]
        return scores_of(
            evaluate_model(str(folder), transducer, examples, metrics).statistics, split or "test", examples
        )

    return measure
