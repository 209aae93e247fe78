"""What the wing labels adds to test_laws.py."""

from __future__ import annotations

from typing import Any

from families import FAST, facts
from test_laws import LAWFUL, model  # noqa: F401
from transduce.core import config
from transduce.core.protocols import Model


def parts(value: Any, key: str = "model") -> set[tuple[str, Any]]:
    """Every type and every other named choice in a resolved table, with the key that chooses it."""
    if isinstance(value, dict):
        found = {(key, value["type"])} if "type" in value else set()
        return found.union(*(parts(inner, inner_key) for inner_key, inner in value.items() if inner_key != "type"))
    if isinstance(value, list):
        return set().union(*(parts(inner, key) for inner in value))
    return {(key, value)} if isinstance(value, str | bool) else set()


def test_the_fast_families_have_every_part() -> None:
    resolved = {name: config.resolve(table, Model, facts(table)) for name, table in LAWFUL.items()}
    every = set().union(*map(parts, resolved.values()))
    fast = set().union(*(parts(resolved[name]) for name in FAST))
    assert every == fast, "add a family with these parts to FAST in tests/families.py"
