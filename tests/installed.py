"""What this installation of transduce has: a test of the hall asks, so that it also runs where wings were removed."""

from __future__ import annotations

from typing import Any

from transduce.core import registry

OF_WINGS = ("--report", "--record", "--against", "--frames")  # options of commands of the hall that a wing answers


def runs(command: str) -> bool:
    """True if a command line, without ``transduce``, needs no wing that is missing."""
    needed = [registry.COMMANDS.get(command.split()[0], "transduce.cli")]
    needed += [registry.SERVICES["comparison"]] * any(option in command for option in OF_WINGS)
    return all(map(registry.has, needed))


def of_hall(table: Any) -> bool:
    """True if all parts that a table of settings names by their ``type`` are installed."""
    if isinstance(table, dict):
        parts = [("type", table.get("type")), *((key, value) for key, value in table.items() if isinstance(value, str))]
        places = [
            places[name]
            for protocol, places in registry.NAMES.items()
            for key, name in parts
            if name in places and protocol != "Metric" and key in ("type", protocol.lower())
        ]
        return all(map(registry.has, places)) and all(map(of_hall, table.values()))
    return all(map(of_hall, table)) if isinstance(table, list | tuple) else True
