"""The searches that the native engine has, and how it is told of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from transduce.core import config, registry
from transduce.core.errors import UserError
from transduce.core.protocols import AnySearch
from transduce.wings.engines.native.conversion.models import BY_TOKENS, ENGINE
from transduce.wings.engines.transformers import kind

SEARCHES = {
    **dict.fromkeys(BY_TOKENS, ("greedy", "beam", "sampling")),
    **dict.fromkeys(("classifier", "parallel-ensemble", "tagger"), ("labels",)),
    **dict.fromkeys(("chain-fusion", "crf"), ("viterbi", "posterior")),
    "ctc": ("best-path", "prefix-beam"),
    "instant": ("length-beam",),
}
"""The searches that the engine has, by the type of the model."""
RANKINGS = ("none", "average", "wu", "brevity", "bounded-reward")
LARGEST_SEED = 2**53
PARTS = {"allocation": "Allocation", "filters": "Filter", "ranking": "Ranking", "truncations": "Truncation"}
"""The options of a search that are objects, with their protocols."""


def check_search(search: config.TableView, model: str = "encoder-decoder") -> None:
    """Raises UserError for the first setting of the table ``search`` that the engine does not have for a model of this
    type.
    """

    def refuse(key: str, value: object, expected: str) -> None:
        raise UserError(f"search.{key} = {value!r}: {ENGINE} has {expected}; predict with --engine torch")

    if kind(search) not in SEARCHES[model]:
        refuse("type", kind(search), f"{' and '.join(SEARCHES[model])} for the model {model}")
    filters = search.get("filters") or ()
    if len(filters) > 1 or any(kind(each) != "length" for each in filters):
        refuse("filters", [kind(each) for each in filters], "one filter, length, and no phrases")
    if kind(search.get("allocation") or "top-k") != "top-k":
        refuse("allocation", kind(search["allocation"]), "top-k, and no phrases")
    if kind(search) in ("beam", "length-beam") and kind(search["ranking"]) not in RANKINGS:
        refuse("ranking", kind(search["ranking"]), ", ".join(RANKINGS))
    if not -LARGEST_SEED <= search.get("seed", 0) <= LARGEST_SEED:
        refuse("seed", search["seed"], "seeds of at most 53 bits")
    for key in ("observer", "penalties", "language_model"):
        if search.get(key):
            refuse(key, search[key], "none")


def search_table(search: AnySearch) -> config.Table:
    """The table ``search`` of a configuration that describes a search, with all options. A part that no configuration
    can name, such as a user's own ranking, has the name of its class.
    """
    return _described(search, "Search")


def _described(part: Any, protocol: str) -> config.Table:
    table: config.Table = {"type": registry.name_of(protocol, type(part)) or type(part).__name__}
    for each in fields(part):
        value = getattr(part, each.name)
        if each.name in PARTS and value is not None:
            some = value if isinstance(value, Sequence) else [value]
            found = [_described(own, PARTS[each.name]) for own in some]
            table[each.name] = found if isinstance(value, Sequence) else found[0]
        elif value is not None:
            table[each.name] = value
    return table
