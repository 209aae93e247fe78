"""Python that a user brings along: classes of their own, registered before a configuration names them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from transduce.errors import MissingPackageError


def load_plugins(plugins: Iterable[str] | None) -> None:
    """Import each file or module; it calls ``transduce.register``. Named on the command line, never by a run's file."""
    for name in plugins or ():
        if not name.endswith(".py"):
            _import_module(name)
            continue
        # named apart from what is installed: a plugin called json.py must not stand in for json
        spec = importlib.util.spec_from_file_location(f"plugin_{Path(name).stem}", name)
        if spec is None or spec.loader is None or not Path(name).exists():
            raise FileNotFoundError(f"--plugin {name}: no such Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)


def _import_module(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"--plugin {name}: there is no module {error.name!r}; name an installed module, or a file that ends in .py"
        ) from error
