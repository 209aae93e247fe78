"""Figures from before there were records, as benchmarks/results/legacy.toml keeps them by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from transduce import config


@dataclass(frozen=True)
class LegacyFigure:
    """A row without a record.

    ``recipe`` names several with "+" for an ensemble. It is empty for a model of another package, which ``what`` names.
    ``scores`` are by metric, as they were written. ``changes`` says how the settings differ from today's recipe, and
    ``doubt`` why the figure needs another look. ``header = false`` keeps it out of the recipe's header.
    """

    table: str
    scores: dict[str, str]
    recipe: str = ""
    what: str = ""
    work: str = ""
    machine: str = ""
    parameters: str = ""
    command: str = ""
    commit: str = ""
    date: str = ""
    changes: str = ""
    doubt: str = ""
    header: bool = True


@dataclass(frozen=True)
class LegacyFinding:
    """A sentence with figures that no table holds; ``page`` is the file under benchmarks/results that has more."""

    group: str
    text: str
    page: str = ""
    commit: str = ""
    date: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class LegacySweep:
    """A sweep under benchmarks/results/sweeps whose cells kept their scores, and not their settings."""

    name: str
    command: str
    machine: str
    commit: str = ""
    date: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class Legacy:
    """All old figures. ``machines`` describes the machines that they name."""

    machines: dict[str, str] = field(default_factory=dict)
    figures: tuple[LegacyFigure, ...] = ()
    findings: tuple[LegacyFinding, ...] = ()
    sweeps: tuple[LegacySweep, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Legacy:
        """Raises ConfigError, which names the key, for a file that is not as the dataclasses say."""
        return config.build(config.read(path), cls)
