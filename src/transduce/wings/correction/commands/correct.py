"""``transduce correct``: the spelling of running text, corrected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli import inputs
from transduce.cli.options import Plugins


def correct(
    speller: Annotated[Path, typer.Argument(help="A run of the recipe spelling-channel.", metavar="SPELLER")],
    language: Annotated[Path, typer.Argument(help="A run of n-grams of words in small letters.", metavar="LANGUAGE")],
    errors: Annotated[float, typer.Option(help="The share of words that are wrong.")] = 0.01,
    unlisted: Annotated[
        float, typer.Option(help="The share of a word that neither run knows, such as a name; more keeps more of them.")
    ] = 1e-9,
    candidates: Annotated[int, typer.Option(help="Other words to try for each word.")] = 10,
    beam: Annotated[int, typer.Option(help="Beginnings of a line that the search keeps.")] = 5,
    plugin: Plugins = None,
) -> None:
    """Correct the spelling of running text, in which most words are right.

    Reads lines of standard input. Each word may stay, and the context decides.

    \b
    Examples:
      echo "He recieved a lettre." | transduce correct runs/speller runs/words
    """
    from transduce.core.plugins import load_plugins
    from transduce.runs.loading import load
    from transduce.wings.correction.corrector import Corrector

    load_plugins(plugin)
    channel, words = load(speller, device="cpu"), load(language, device="cpu")
    corrector = Corrector(channel, words, errors, unlisted, candidates, beam)
    for line in inputs.lines(None):
        print(corrector(line))
