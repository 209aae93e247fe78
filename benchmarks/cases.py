"""The table of all benchmarks, and their command line.

A benchmark is the module of its name with a function ``main``, whose parameters after the report are its command line:
one that may be given by its place is an argument, and a keyword is an option.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import torch
from report import Report

from transduce.core.errors import UserError
from transduce.wings.records.provenance import check_committed

CASES = {  # the first line of a module says what it measures
    "Scores": (
        "accents",
        "back_translation",
        "cells",
        "compare_families",
        "compression",
        "contexts",
        "domains",
        "edits",
        "extrapolation",
        "family_curves",
        "filters",
        "fitting",
        "forecasting",
        "growth",
        "inflection",
        "kalman",
        "lines_of_scripts",
        "most_frequent",
        "plain_loop",
        "protected_spans",
        "reading",
        "replies",
        "robustness",
        "running_text",
        "scheduled_sampling",
        "simple",
        "speakers",
        "speedrun",
        "spelling",
        "summaries",
        "tagged_sources",
        "terms",
        "text_before",
        "transfer",
        "variants",
        "word_alignment",
        "word_vectors",
    ),
    "Speed": (
        "cell_speed",
        "completion",
        "complexity",
        "engines",
        "gpu",
        "instant_speed",
        "serve_load",
        "toolkits",
        "training_speed",
        "web_speed",
    ),
    "Memory": (
        "exact_memory",
        "large_data",
        "many_lines",
        "ngram_memory",
    ),
    "Behaviour": (
        "company",
        "exports",
        "gradients",
        "kill_and_resume",
        "odd_behaviour",
        "pointing",
        "pruning",
        "rank_collapse",
        "search_errors",
        "unit_tracking",
    ),
    "Data": (
        "beyond_dictionary",
        "name_lists",
    ),
}
# The meanings of parameters, for benchmarks that do not tell their own.
MEANINGS = {
    "batch_size": "lines in a batch",
    "checkpoint": "of the run",
    "clock": "seconds of the wall, or of the processor, which other programs change less",
    "folder": "a local copy of the data",
    "limit": "the first lines only, this number of them",
    "minutes": "of training each model",
    "picture": "draw a picture, too",
    "plot": "draw a picture, too",
    "rounds": "how often all are measured in turn",
    "runs": "the trained runs, or the folder of those that are trained here; the same command continues them",
    "seconds": "of each measurement",
    "seeds": "of the trainings",
    "settings": "a setting of the recipe; may be given several times",
    "updates": "of training each model",
    "work": "a folder for files that are made on the way",
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs a benchmark by its command line, without the program."""
    name, *rest = (sys.argv[1:] if words is None else words) or ["--help"]
    if name in ("-h", "--help"):
        print(f"usage: python benchmarks NAME [--help]\n\n{listed()}")
        return
    names = [each for some in CASES.values() for each in some]
    if name not in names:
        near = get_close_matches(name, names, 3)
        sys.exit(f"python benchmarks: no benchmark {name!r}" + f"; did you mean {' or '.join(near)}?" * bool(near))
    function = import_module(name).main
    parser = parser_of(name, function)
    given = vars(parser.parse_args(rest))
    torch.set_num_threads(given["threads"])
    report = Report(given.pop("out"), given.pop("record"), given.pop("threads"))
    try:
        if not given.pop("uncommitted") and report.record is not None:
            check_committed()
        function(report, **given)
    except UserError as error:
        parser.error(str(error))


def listed() -> str:
    """A line for each benchmark."""
    told = list[str]()
    for subject, names in CASES.items():
        told += [f"{subject}:", *(f"  {name:20}  {_first_line(name)}" for name in names)]
    return "\n".join(told)


def _first_line(name: str) -> str:
    with (Path(__file__).parent / f"{name}.py").open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')


def parser_of(name: str, function: Callable[..., None]) -> argparse.ArgumentParser:
    """The command line of a benchmark.

    ``Annotated[type, "text"]`` has a help text, and ``Annotated[type, NAMES]`` the allowed values. A sequence has any
    number of values. ``settings`` is written ``--set``.
    """
    parser = argparse.ArgumentParser(
        f"python benchmarks {name}",
        description=inspect.getdoc(sys.modules[function.__module__]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = get_type_hints(function, include_extras=True)
    for parameter in [*inspect.signature(function).parameters.values()][1:]:
        _add(parser, parameter, kinds[parameter.name])
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the printed lines")
    parser.add_argument("--record", type=Path, metavar="FILE.json", help="keep the tables with all that made them")
    parser.add_argument(
        "--uncommitted", action="store_true", help="also if the code is not committed; marks the record"
    )
    return parser


def _add(parser: argparse.ArgumentParser, parameter: inspect.Parameter, kind: Any) -> None:
    given: dict[str, Any] = {"help": MEANINGS.get(parameter.name)}
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        for note in notes:
            given |= {"help": note} if isinstance(note, str) else {"choices": list(note)}
    if NoneType in get_args(kind):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    several, needed = get_origin(kind) is Sequence, parameter.default is parameter.empty
    if several:
        (kind,) = get_args(kind)
        given["nargs"] = "+" if needed else "*"
    if get_origin(kind) is Literal:
        kind, given["choices"] = str, get_args(kind)
    if not needed:
        given["default"] = list(parameter.default) if several and parameter.default is not None else parameter.default
    given |= {"action": "store_true"} if kind is bool else {"type": kind}
    if parameter.kind is not parameter.KEYWORD_ONLY:
        given |= {} if needed or several else {"nargs": "?"}
        parser.add_argument(parameter.name, **given)
    elif parameter.name == "settings":
        given |= {"action": "extend", "nargs": "+", "metavar": "KEY=VALUE"}
        parser.add_argument("--set", dest="settings", **given)
    else:
        parser.add_argument(f"--{parameter.name.replace('_', '-')}", required=needed, **given)
