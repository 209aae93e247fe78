"""Reads the YAML files of other toolkits as values. A file can name no Python object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transduce.core.config import Table
from transduce.core.errors import MissingPackageError, UserError
from transduce.core.text_files import read_text


def parsed(text: str, origin: str) -> Any:
    """The value of a text in YAML. ``origin`` names it in messages. Raises UserError if it is no YAML, and
    MissingPackageError if PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise MissingPackageError(
            f"{origin} needs PyYAML, which is not installed: pip install 'transduce[marian]'"
        ) from error
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # or a date that there is not, or too many digits
        raise UserError(f"{origin} is no YAML: {' '.join(str(error).split())[:200]}; copy it again") from error


def read_yaml(path: Path) -> Table:
    """The table in a YAML file. Raises UserError if it is none."""
    found = parsed(read_text(path), str(path))
    if not isinstance(found, dict):
        raise UserError(f"{path} is no table of settings; copy it again")
    return found
