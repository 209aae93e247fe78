"""The order of the layers: which module may import which, read from the source code, and what starts without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

LAYERS: list[set[str]] = [
    {"errors"},
    {
        "types",
        "protocols",
        "finite",
        "tree",
        "chain",
        "links",
        "constituents",
        "selection",
        "code_tokens",
        "chords",
        "dialogue",
        "ctc",
        "names",
        "config",
        "files",
        "schedules",
        "contents",
        "text_files",
    },
    {"pages", "compute"},
    {"data", "modules"},
    {"encoders", "decoders", "statistical", "recipes", "vectors"},
    {"models"},
    {"search", "metrics"},
    {"objectives"},
    {"answers"},
    {"transducer"},
    {"engines", "foreign"},
    {"runs"},
    {"training", "inspect", "examination", "representations", "reranking", "export", "importing", "sharing"},
    {"records"},
    {
        "progress",
        "plugins",
        "api",
        "back_translation",
        "midi",
        "sweeps",
        "evaluation",
        "reports",
        "speed",
        "serving",
        "cli",
        "__main__",
    },
]
"""Lowest layer first. A module may import its own package and lower layers. Packages of one layer do not import each
other."""

FILES_THAT_SHARE_A_LAYER = [LAYERS[1], LAYERS[-1]]  # single files of one purpose; only a cycle is forbidden among them
KNOWS_ONLY: dict[str, set[str]] = {
    "search": {
        "errors",
        "types",
        "protocols",
        "tree",
        "chain",
        "ctc",
        "constituents",
        "selection",
        "code_tokens",
        "chords",
        "compute",  # the compiled library chooses continuations; it knows numbers, and no model
    },
    "metrics": {"errors", "types", "protocols", "tree", "links", "constituents", "selection", "code_tokens", "chords"},
    "pages": {"errors", "files"},
}
OWNERS = {"typer": {"cli", "serving"}, "rich": {"cli", "serving", "progress"}, "fastapi": {"serving"}}
"""Libraries, and the packages that may import them. A model in a notebook must not draw on a terminal."""

FACADE = "transduce"  # __init__.py: names resolved when they are first used, so its imports point upwards
COLLECTIONS = {
    "transduce.config",
    "transduce.inspect",
    "transduce.protocols",
}  # packages whose __init__.py only collects the names of their modules


def module_name(file: Path, source: Path = SOURCE) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in sorted((SOURCE / "transduce").rglob("*.py"))}


def imports(text: str, module: str, package: bool, known: set[str]) -> Iterator[str]:
    """Yields every module that the source imports, also inside functions and conditions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = module.split(".")
                above = here[: len(here) - node.level + package]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in known else base


@cache
def imported(module: str) -> set[str]:
    file = MODULES[module]
    return set(imports(file.read_text(encoding="utf-8"), module, file.name == "__init__.py", set(MODULES))) - {module}


def part(module: str) -> str:
    """The package or file directly under transduce that a module belongs to."""
    return module.split(".")[1]


def layer(name: str) -> int:
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    pytest.fail(f"transduce.{name} has no layer: add it to LAYERS in {Path(__file__).name}, where it belongs")


def wrong(importer: str, target: str) -> str | None:
    """Why a part may not import another; None if it may."""
    if target == importer:
        return None
    if layer(target) > layer(importer):
        return "it is a higher layer"
    if layer(target) == layer(importer) and LAYERS[layer(importer)] not in FILES_THAT_SHARE_A_LAYER:
        return "it is a neighbour in the same layer"
    if target not in KNOWS_ONLY.get(importer, {target}):
        return f"{importer} knows only {', '.join(sorted(KNOWS_ONLY[importer])) or 'itself'}"
    return None


def test_arrows_point_one_way() -> None:
    broken = [
        f"{module} imports {target}: {reason}"
        for module in MODULES
        if module != FACADE
        for target in sorted(imported(module))
        if target.startswith("transduce.") and (reason := wrong(part(module), part(target)))
    ]
    assert not broken, "\n".join(broken)


def dependencies(module: str) -> set[str]:
    """The modules that Python imports before ``module``: the modules it names, the packages that contain them, and its
    own packages.
    """
    names = [*imported(module), module]
    above = {".".join(name.split(".")[:count]) for name in names for count in range(2, name.count(".") + 1)}
    named = imported(module)
    collected = (imported(collection) for collection in named & COLLECTIONS)
    return ((named | above) - COLLECTIONS).union(*collected)


def test_no_module_imports_itself_through_others() -> None:
    graph = {
        module: dependencies(module) & set(MODULES) - {FACADE}
        for module in MODULES
        if module not in {FACADE, *COLLECTIONS}
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_the_terminal_belongs_to_the_command_line() -> None:
    broken = [
        f"{module} imports {target}; only {', '.join(sorted(OWNERS[target]))} may"
        for module in MODULES
        for target in sorted({name.split(".")[0] for name in imported(module)} & OWNERS.keys())
        if module == FACADE or part(module) not in OWNERS[target]
    ]
    assert not broken, "\n".join(broken)


def raised(text: str) -> set[str]:
    """The names of the exceptions that a source raises in calls, such as ValueError in ``raise ValueError("...")``."""
    calls = [node.exc for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Raise)]
    return {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}


def test_users_mistakes_have_a_type_of_their_own() -> None:
    """The command line prints a UserError in one line. It takes other errors for bugs, and shows a traceback."""
    instead = {
        "ValueError": "UserError, or RequestError for a request",
        "ImportError": "MissingPackageError",
        "RuntimeError": "StoppedError",
    }
    broken = [
        f"{module} raises {name}: raise {instead[name]} of transduce.errors"
        for module, file in MODULES.items()
        for name in sorted(raised(file.read_text(encoding="utf-8")) & instead.keys())
    ]
    assert not broken, "\n".join(broken)


# ------------------------------------------------------------------ the reader of imports, and the rules, can fail


def test_what_is_raised_is_found() -> None:
    assert raised("def f():\n    raise ValueError('x') from None\ntry:\n    g()\nexcept KeyError:\n    raise") == {
        "ValueError"
    }


def test_imports_are_found_wherever_they_hide() -> None:
    text = """
import os, transduce.cli
from transduce import tree
from transduce.types import EOS
from . import beam
from .step import step
def late():
    if True:
        from transduce.training import loop
"""
    known = {"transduce.tree", "transduce.search.beam", "transduce.training.loop", "transduce.training"}
    assert set(imports(text, "transduce.search.greedy", False, known)) == {
        "os",
        "transduce.cli",
        "transduce.tree",
        "transduce.types",
        "transduce.search.beam",
        "transduce.search.step",
        "transduce.training.loop",
    }
    assert list(imports("from . import bleu", "transduce.metrics", True, {"transduce.metrics.bleu"})) == [
        "transduce.metrics.bleu"
    ]


@pytest.mark.parametrize(
    ("importer", "target", "allowed"),
    [
        ("recipes", "data", True),
        ("data", "recipes", False),
        ("training", "objectives", True),
        ("objectives", "training", False),
        ("models", "encoders", True),
        ("encoders", "models", False),
        ("encoders", "decoders", False),
        ("metrics", "types", True),
        ("metrics", "data", False),
        ("search", "metrics", False),
        ("inspect", "pages", True),
        ("pages", "types", False),
        ("training", "transducer", True),
        ("transducer", "training", False),
        ("config", "names", True),
        ("config", "data", False),
        ("api", "progress", True),
    ],
)
def test_the_rules(importer: str, target: str, allowed: bool) -> None:
    assert (wrong(importer, target) is None) is allowed


# ------------------------------------------------------------------ what starts at once


@pytest.mark.parametrize(
    "code",
    [
        "import transduce; dir(transduce)",
        "import transduce.recipes as recipes; recipes.names()",
        "from transduce.cli.app import main; sys.argv = ['transduce', '--help']; main()",
        "from transduce.cli.app import main; sys.argv = ['transduce', 'train', '--help']; main()",
    ],
)
def test_torch_is_not_imported(code: str) -> None:
    program = f"""
import sys
try:
    {code}
except SystemExit as exit:
    assert not exit.code, exit.code
heavy = {{"torch", "numpy", "tokenizers", "sacrebleu"}} & sys.modules.keys()
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
