"""The table of all commands, and a group that imports the module of a command when it is called.

The list of commands needs the table alone, so ``--help`` imports none of their modules.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from transduce.core.registry import COMMANDS
from transduce.core.registry import imported as found

# Each command's line in the list: the first paragraph of its function's docstring.
PANELS = {
    "Train and use": {
        "fit": "Choose a model for your data: train the candidates for its task, and keep the best with a report.",
        "train": "Train a model. The run directory then has everything that is needed to use it.",
        "predict": "Write the model's best output for each input line, in order.",
        "score": "Write the model's log-probability of each target, given its source.",
        "generate": "Write texts that go on with a prompt, by sampling from a language model.",
        "complete": "Write the most probable next words of each prefix with their probabilities, best first.",
        "chat": "Talk with a model: each line is a turn, and the model replies to the last turns.",
        "embed": "Write one vector for each line as a NumPy file: a matrix of float32, a row for each line.",
        "correct": "Correct the spelling of running text, in which most words are right.",
        "music": "Write chords as a MIDI file, and draw their piano roll.",
        "back-translate": "Write synthetic training pairs, by translating targets into sources.",
    },
    "Measure and compare": {
        "evaluate": "Evaluate a model on a split of its data, or on files.",
        "compare": "Test which differences between systems are significant.",
        "sweep": "Train a grid of models, each with several seeds, and compare them in a table and a picture.",
        "rerank": "Write the best of several outputs for each input line, ranked by other models or by risk.",
        "rank": "Rank the true target of each example among targets of other examples.",
        "benchmark": "Measure how fast a run predicts and trains on this machine.",
        "examine": "Count odd behaviour of a run: repeated words, copies, lost parts, and outputs for changed sources.",
    },
    "Look inside": {
        "inspect": "Show the attention while the model writes its output, or another view.",
        "heads": "Show where each attention head of a Transformer looks.",
        "lattice": "Show the alignments that CTC sums over.",
        "distance": "Show the edit distance of two texts: the filled table and the best path.",
        "map": "Draw the vectors of lines, sentences or words, as points of a plane. A point tells its text.",
    },
    "Data and counted models": {
        "data": "Summarise the data that a run would train on.",
        "align": "Write which source word each target word comes from, or score these links.",
        "shortlist": "Learn the likely target words of each source word.",
        "ngram": "Convert an n-gram language model between a run and an ARPA file, prune it, or count its n-grams.",
        "vectors": "Train, question and measure word vectors: files of them, or the tables of a run.",
    },
    "Share and serve": {
        "serve": "Answer requests over HTTP with trained runs, and show them in the browser.",
        "export": "Export a run for another engine, and compare its outputs with PyTorch's.",
        "import": "Make a run of a checkpoint of Marian, OPUS-MT or JoeyNMT.",
        "pack": "Pack a run for other people: one folder or file with a model card, without the state of training.",
        "push": "Pack a run and upload it to the Hugging Face hub.",
        "pull": "Copy a packed run, such as one of the Hugging Face hub, to a run directory.",
    },
    "Find your way": {
        "recipes": "List the recipes in the package by task, with score and time; or show one recipe.",
        "runs": "List the runs below a folder: recipe, scores on validation, updates, minutes, size and date.",
        "doctor": "Show what this machine can do, and what is missing.",
    },
}
"""The lists of commands, by their headings."""

SUMMARIES = {name: summary for summaries in PANELS.values() for name, summary in summaries.items()}

_KEYWORDS = ("import", "map")  # their functions end in an underscore


class Commands(TyperGroup):
    """A group of stubs. The command itself takes the place of its stub when its arguments are read or completed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, stub, rest = super().resolve_command(ctx, args)
        return name, imported(name) if name in SUMMARIES else stub, rest


def add_commands(app: typer.Typer) -> None:
    """Adds a stub of each command, which has the command's name and summary."""
    for heading, summaries in PANELS.items():
        for name, summary in summaries.items():
            app.command(name, help=summary, rich_help_panel=heading)(_stub)


def function(name: str) -> Any:
    """Imports a command's module, and returns its function; for ``vectors``, its group of commands."""
    module = COMMANDS.get(name, f"transduce.cli.{name}")
    return found(f"{module}:{name.replace('-', '_') + '_' * (name in _KEYWORDS)}", f"the command {name!r}")


def imported(name: str) -> Any:
    """The command of this name, as typer runs it."""
    from transduce.cli.options import with_option_groups

    command = function(name)
    if isinstance(command, typer.Typer):
        return get_command(command)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name)(with_option_groups(command))
    return get_command(app)


def _stub() -> None:
    """Never called: ``Commands`` replaces it."""
