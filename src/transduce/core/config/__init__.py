"""A run is a constructor call written down: nested TOML tables, checked against the constructors themselves.

The keys of a table are the keyword arguments of a constructor. If a parameter's annotation is a protocol of
``registry.NAMES``, ``type = "name"`` chooses the class. There, a bare ``"name"`` is short for a table with the key
``type`` alone. A parameter annotated ``Factory[T]`` receives a partial call instead of an instance. ``facts``, which
only the data know, fill required parameters of the same name. There is no other schema.

``tables`` reads TOML files, ``overrides`` has ``--set``, ``checking`` finds unknown keys and values of the wrong kind,
``building`` makes the objects, and ``limits`` bounds what a configuration may ask for.
"""

from transduce.core.config.building import build, build_and_resolve, check, resolve
from transduce.core.config.errors import ConfigError, Table, TableView
from transduce.core.config.overrides import assign, change, override
from transduce.core.config.tables import flatten, merge, parse, read, write

__all__ = [
    "ConfigError",
    "Table",
    "TableView",
    "assign",
    "build",
    "build_and_resolve",
    "change",
    "check",
    "flatten",
    "merge",
    "override",
    "parse",
    "read",
    "resolve",
    "write",
]
