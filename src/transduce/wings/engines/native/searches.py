"""The searches that the native engine has, and how it is told of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch

import transduce_engine
from transduce.core import config, registry
from transduce.core.errors import UserError
from transduce.core.protocols import AnySearch
from transduce.core.types import Padded
from transduce.search.allocation.best import BestContinuations
from transduce.search.constraints.automata import Automata
from transduce.search.constraints.banks import Banks
from transduce.search.constraints.forbidden import Forbidden
from transduce.wings.engines.native.conversion.models import BY_TOKENS, ENGINE, LINEAR
from transduce.wings.engines.transformers import kind
from transduce.wings.engines.translation import rows

SEARCHES = {
    **dict.fromkeys(BY_TOKENS, ("greedy", "beam", "sampling")),
    **dict.fromkeys(("classifier", "labels-with-counts", *LINEAR, "parallel-ensemble", "tagger"), ("labels",)),
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
        refuse("filters", [kind(each) for each in filters], "one filter, length")
    if kind(search.get("allocation") or "top-k") != "top-k":
        refuse("allocation", kind(search["allocation"]), "top-k")
    if kind(search) in ("beam", "length-beam") and kind(search["ranking"]) not in RANKINGS:
        refuse("ranking", kind(search["ranking"]), ", ".join(RANKINGS))
    if not -LARGEST_SEED <= search.get("seed", 0) <= LARGEST_SEED:
        refuse("seed", search["seed"], "seeds of at most 53 bits")
    for key in ("observer", "language_model"):
        if search.get(key):
            refuse(key, search[key], "none")


def told_apart(search: Any, source: Padded, prefix: Padded | None) -> tuple[AnySearch, transduce_engine.Wanted]:
    """The search without a shortlist and phrases, and what is wanted of each source: its list, its phrases, and its
    prefix.
    """
    listed, borders = list[list[int]](), None
    phrases: dict[str, list[list[int]]] = {"forbidden": [], "required": []}
    if registry.name_of("Search", type(search)) == "shortlist":
        lists = search.candidates.of(source, prefix)
        listed = [lists.words_C[row_C].tolist() for row_C in lists.listed_BC]
        search = search.search
    for part in (*getattr(search, "filters", ()), getattr(search, "allocation", None)):
        if isinstance(part, Forbidden | Banks):
            phrases["forbidden" if isinstance(part, Forbidden) else "required"] = _numbers(part.automata)
            borders = None if part.borders is None else part.borders.bits()
    if phrases["forbidden"]:
        search = replace(search, filters=tuple(each for each in search.filters if not isinstance(each, Forbidden)))
    if phrases["required"]:
        search = replace(search, allocation=BestContinuations())
    begun = () if prefix is None else rows(prefix)
    return search, transduce_engine.Wanted(begun, listed, **phrases, borders=borders)


def _numbers(automata: Automata) -> list[list[int]]:
    """The automata of the sources as ``Automaton.numbers`` has them."""
    own_BE = torch.zeros_like(automata.token_BE).scatter_(1, automata.own_BP, 1)
    own_BE[:, 0] = 0  # padding
    columns = automata.finished_BQ, automata.waiting_BQ, automata.phrase_BQ, automata.worth_BQ
    states_BQ4 = torch.stack([column_BQ.long() for column_BQ in columns], 2)
    edges_BE4 = torch.stack([automata.origin_BE, automata.token_BE, automata.goal_BE, own_BE], 2)
    return [
        [len(states_Q4), *states_Q4.flatten().tolist(), *edges_E4.flatten().tolist()]
        for states_Q4, edges_E4 in zip(states_BQ4, edges_BE4, strict=True)
    ]


def search_table(search: AnySearch) -> config.Table:
    """The table ``search`` of a configuration that describes a search, with all options. A part that no configuration
    can name, such as a user's own ranking, has the name of its class.
    """
    return _described(search, "Search") | penalties(search)


def penalties(search: AnySearch) -> config.Table:
    """What the table of Viterbi's search with penalties has more: the ids of labels, and their penalties."""
    pairs = getattr(search, "penalty_of", ())
    return (
        {"type": "viterbi", "penalised": [i for i, _ in pairs], "penalised_by": [x for _, x in pairs]} if pairs else {}
    )


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
