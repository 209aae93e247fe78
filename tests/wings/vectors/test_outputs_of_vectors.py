"""What the wing vectors adds to test_outputs.py."""

from __future__ import annotations

import inspect

from transduce.cli import commands
from transduce.cli.options import with_option_groups
from transduce.cli.output_check import OUTPUTS
from transduce.wings.vectors.commands.app import vectors


def test_every_path_that_a_command_writes_is_known() -> None:
    """An option that writes is in ``OUTPUTS``, or a test below names it as read."""
    read = {"files", "run", "runs", "source", "target", "pairs", "against", "aligner", "dictionary", "prefixes"}
    read |= {"constraints", "system", "systems", "also", "paths", "gold", "like", "occupations", "conllu", "key_file"}
    read |= {"init", "teacher", "sample", "folder", "train", "valid", "test", "file", "vectors", "questions", "other"}
    read |= {"weat", "similarity", "analogies", "sentences", "specific", "equalise", "recipe", "opened", "models"}
    read |= {"after", "config", "baseline", "glossary", "protect_patterns", "learn_into", "rules", "speller"}
    read |= {"language"}
    functions = [with_option_groups(commands.function(name)) for name in commands.SUMMARIES if name != "vectors"]
    functions += [each.callback for each in vectors.registered_commands if each.callback is not None]
    unknown = {
        f"{function.__name__} {parameter.name}"
        for function in functions
        for parameter in inspect.signature(function).parameters.values()
        if "Path" in str(parameter.annotation) and parameter.name not in read | set(OUTPUTS)
    }
    assert not unknown
