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

HALL = (
    "core", "compute", "metrics", "layers", "search", "data", "models", "objectives", "answers", "runs", "training",
    "evaluation", "cli",
)  # fmt: skip
"""The rooms of what every run needs, the lowest first. A room may import those before it, and no wing."""

DOOR = {"api", "__main__"}  # loose modules that lead in; they may import everything

WINGS: dict[str, set[str]] = {
    "pages": set(),
    "documents": set(),
    "records": set(),
    "labels": set(),
    "ctc": {"pages"},
    "signals": {"pages"},
    "summaries": {"labels"},
    "syntax": {"labels"},
    "language": {"labels"},
    "recipes": {"documents", "language", "pages", "signals", "syntax"},
    "alignment": {"ctc", "pages", "records"},
    "protection": {"alignment"},
    "combining": {"alignment"},
    "counted": {"alignment", "labels", "recipes", "records", "signals"},
    "adaptation": set(),
    "optimisers": set(),
    "dilation": set(),
    "refinement": set(),
    "sharding": set(),
    "terminal": set(),
    "robustness": {"recipes"},
    "filtering": {"counted"},
    "correction": {"counted"},
    "vectors": {"labels", "pages", "records"},
    "lab": {"pages", "records"},
    "fitting": {"lab", "pages", "records"},
    "engines": {"ctc", "documents", "labels", "records", "signals"},
    "looking": {"alignment", "counted", "ctc", "lab", "labels", "pages", "signals"},
    "serving": {
        "alignment",
        "combining",
        "documents",
        "engines",
        "language",
        "looking",
        "pages",
        "protection",
        "records",
    },
}
"""Each wing, a subject of its own, with the wings that it may import. All may import the hall. A wing stands below the
wings that it is listed in, so there is no circle."""

KNOWS_ONLY: dict[str, set[str]] = {
    "search": {"core", "compute"},  # the compiled library chooses continuations; it knows numbers, and no model
    "metrics": {"core"},
    "layers": {"core", "compute"},
    "data": {"core", "compute"},
    "wings.pages": {"core"},
}
OWNERS = {"typer": {"cli", "commands"}, "rich": {"cli", "commands"}, "fastapi": {"serving"}}
"""Libraries, and the folders that may import them. A model in a notebook must not draw on a terminal."""

FACADE = "transduce"  # __init__.py: names resolved when they are first used, so its imports point upwards
COLLECTIONS = {
    "transduce.core.config",
    "transduce.core.protocols",
    "transduce.wings.looking.inspection",
}  # packages whose __init__.py only collects the names of their modules


def module_name(file: Path, source: Path = SOURCE) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in sorted((SOURCE / "transduce").rglob("*.py"))}


@cache
def walked(text: str) -> list[ast.AST]:
    """All nodes of a source."""
    return list(ast.walk(ast.parse(text)))


def imports(text: str, module: str, package: bool, known: set[str]) -> Iterator[str]:
    """Yields every module that the source imports, also inside functions and conditions."""
    for node in walked(text):
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
    """The room, wing ("wings.counted") or loose module that a module belongs to."""
    _, first, *rest = module.split(".")
    return f"{first}.{rest[0]}" if first == "wings" and rest else first


def wrong(importer: str, target: str) -> str | None:
    """Why a part may not import another; None if it may."""
    if target == importer or importer in DOOR:
        return None
    if target in KNOWS_ONLY.get(importer, {target}):
        return _wrong_place(importer, target)
    return f"{importer} knows only {', '.join(sorted(KNOWS_ONLY[importer]))}"


def _wrong_place(importer: str, target: str) -> str | None:
    wing, other = (name.removeprefix("wings.") if "." in name else None for name in (importer, target))
    if other is not None:
        if wing is None:
            return "the hall imports no wing: core/registry.py has the table of services, and finds them"
        return (
            None if other in WINGS[wing] else f"the wing {wing} may import {', '.join(sorted(WINGS[wing])) or 'none'}"
        )
    if target in DOOR:
        return None if importer == "cli" or wing is not None else "it is the door"
    if wing is None and HALL.index(target) > HALL.index(importer):
        return "it is a higher room"
    return None


def test_the_tree_shows_hall_and_wings() -> None:
    top = {path.stem for path in (SOURCE / "transduce").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert top - {"__pycache__", "py"} == {*HALL, *DOOR, "__init__", "wings"}
    there = {path.name for path in (SOURCE / "transduce" / "wings").iterdir() if path.is_dir()} - {"__pycache__"}
    assert there == set(WINGS)


def test_no_wing_is_in_a_circle() -> None:
    TopologicalSorter(WINGS).prepare()


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
        if not OWNERS[target] & set(module.split("."))
    ]
    assert not broken, "\n".join(broken)


def raised(text: str) -> set[str]:
    """The names of the exceptions that a source raises in calls, such as ValueError in ``raise ValueError("...")``."""
    calls = [node.exc for node in walked(text) if isinstance(node, ast.Raise)]
    return {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}


def test_users_mistakes_have_a_type_of_their_own() -> None:
    """The command line prints a UserError in one line. It takes other errors for bugs, and shows a traceback."""
    instead = {
        "ValueError": "UserError, or RequestError for a request",
        "ImportError": "MissingPackageError",
        "RuntimeError": "StoppedError",
    }
    broken = [
        f"{module} raises {name}: raise {instead[name]} of transduce.core.errors"
        for module, file in MODULES.items()
        for name in sorted(raised(file.read_text(encoding="utf-8")) & instead.keys())
    ]
    assert not broken, "\n".join(broken)


def skipping(text: str) -> list[str]:
    """The calls ``Other.__init__(self, ...)`` of a source: a class that skips the constructor of its own parent."""
    calls = (node.func for node in walked(text) if isinstance(node, ast.Call))
    inits = [call for call in calls if isinstance(call, ast.Attribute) and call.attr == "__init__"]
    return [ast.unparse(call) for call in inits if ast.unparse(call.value) != "super()"]


def test_no_class_skips_its_parents_constructor() -> None:
    found = {name: skipping(file.read_text(encoding="utf-8")) for name, file in MODULES.items()}
    assert not {name: calls for name, calls in found.items() if calls}


# ------------------------------------------------------------------ the reader of imports, and the rules, can fail


def test_a_skipped_constructor_is_found() -> None:
    text = "class A(B):\n    def __init__(self):\n        super().__init__()\n        Module.__init__(self)"
    assert skipping(text) == ["Module.__init__"]


def test_what_is_raised_is_found() -> None:
    assert raised("def f():\n    raise ValueError('x') from None\ntry:\n    g()\nexcept KeyError:\n    raise") == {
        "ValueError"
    }


def test_imports_are_found_wherever_they_hide() -> None:
    text = """
import os, transduce.cli
from transduce.core import tree
from transduce.core.types import EOS
from . import beam
from .step import step
def late():
    if True:
        from transduce.training import loop
"""
    known = {"transduce.core.tree", "transduce.search.beam", "transduce.training.loop", "transduce.training"}
    assert set(imports(text, "transduce.search.greedy", False, known)) == {
        "os",
        "transduce.cli",
        "transduce.core.tree",
        "transduce.core.types",
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
        ("training", "objectives", True),
        ("objectives", "training", False),
        ("models", "layers", True),
        ("layers", "models", False),
        ("metrics", "core", True),
        ("metrics", "data", False),
        ("search", "metrics", False),
        ("search", "compute", True),
        ("training", "answers", True),
        ("answers", "training", False),
        ("core", "data", False),
        ("cli", "api", True),
        ("training", "api", False),
        ("api", "wings.lab", True),
        ("training", "wings.counted", False),
        ("cli", "wings.pages", False),
        ("wings.counted", "training", True),
        ("wings.looking", "wings.counted", True),
        ("wings.counted", "wings.looking", False),
        ("wings.pages", "core", True),
        ("wings.pages", "data", False),
    ],
)
def test_the_rules(importer: str, target: str, allowed: bool) -> None:
    assert (wrong(importer, target) is None) is allowed


# ------------------------------------------------------------------ what starts at once


@pytest.mark.parametrize(
    "code",
    [
        "import transduce; dir(transduce)",
        "import transduce.core.recipes as recipes; recipes.names()",
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
