"""Plug-ins: a user's Python files or modules, which register classes of their own before a configuration names them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from transduce.core.errors import MissingPackageError, UserError


def load_plugins(plugins: Iterable[str] | None) -> None:
    """Imports each plug-in, a Python file (a name that ends in ".py") or an installed module.

    A file's path is relative to the working directory. None imports nothing. A plug-in calls ``transduce.register``. A
    run's configuration cannot name plug-ins. Raises FileNotFoundError for a missing file. Raises MissingPackageError
    if an installed module, or one that it imports, is missing, and UserError for a file that is not Python. Other
    errors of a plug-in's code are not changed.
    """
    for name in plugins or ():
        if name.endswith(".py"):
            _import_file(name)
        else:
            _import_module(name)


def _import_file(name: str) -> None:
    # the prefix keeps a plug-in called json.py from replacing the module json
    spec = importlib.util.spec_from_file_location(f"plugin_{Path(name).stem}", name)
    if spec is None or spec.loader is None or not Path(name).exists():
        raise FileNotFoundError(f"--plugin {name}: no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:  # also of a file that is not UTF-8
        where = f"{error.filename or name}, line {error.lineno or 1}"
        raise UserError(f"--plugin {name}: {where} is not Python: {error.msg}; mend the line") from error


def _import_module(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"--plugin {name}: there is no module {error.name!r}; name an installed module, or a file that ends in .py"
        ) from error
