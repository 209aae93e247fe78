"""Another search for a trained model, from changed settings of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from transduce import config, names
from transduce.models.compatibility import check_fit
from transduce.protocols import Search

Changes = Mapping[str, Any] | Sequence[str]


def changed_search(
    settings: config.Table, search: Search[Any], model: type, changes: Changes, size: int | None
) -> tuple[config.Table, Search[Any]]:
    """A run's ``settings`` with these ``changes``, and the search that they describe.

    ``search`` is the run's own, which stays unless there are changes. If ``size`` is given, the search is resized to
    it, and the settings have its numbers. Raises ConfigError if a change is outside the search, if the search has no
    such option, or if a ``model`` of this class cannot be searched in this way.
    """
    if changes:
        settings, search = _built(settings, model, changes, size)
    if size is not None:
        search = search.resized(size)
        settings = _with_numbers_of(search, settings)
    return settings, search


def _built(settings: config.Table, model: type, changes: Changes, size: int | None) -> tuple[config.Table, Search[Any]]:
    table = config.change(settings, changes)
    for key, value in table.items():
        if key != "search" and value != settings.get(key):
            raise config.ConfigError(
                key, "a trained model keeps its settings but for its search: search.size=10, search.type=greedy"
            )
    # Options such as nbest must fit the new size, and not the size in the run's settings.
    if size is not None and "size" in config.resolve(table.get("search", {}), Search, path="search"):
        table = config.assign(table, "search.size", size)
    search: Search[Any] = config.build(table.get("search", {}), Search, path="search")
    check_fit("search", "Search", type(search), model)
    return table, search


def _with_numbers_of(search: Search[Any], settings: config.Table) -> config.Table:
    """The settings with the type and the numbers of a search that was resized. Resizing turns greedy search into a
    beam.
    """
    kind = names.name_of("Search", type(search))
    if kind is None or "search" not in settings or not is_dataclass(search):
        return settings
    before = config.resolve(settings["search"], Search, path="search")
    numbers = {each.name: value for each in fields(search) if isinstance(value := getattr(search, each.name), int)}
    return {**settings, "search": {**before, **numbers, "type": kind}}
