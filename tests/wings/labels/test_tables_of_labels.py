"""What the wing labels adds to test_tables.py."""

from __future__ import annotations

import copy
import random
from contextlib import suppress
from typing import Any

import pytest
import torch
from test_phrases import UNLIMITED
from test_tables import TABLES, counted
from torch import Tensor

from families import ALIGNERS, CHAINS, facts, sources
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.models.weights import set_weights, weights
from transduce.search.greedy import Greedy
from transduce.wings.labels.search import LabelSearch
from transduce.wings.labels.viterbi import Viterbi

KINDS = [*TABLES, "phrases"]


def empty_like(model: Any, name: str) -> Any:
    """The model before it was counted."""
    if name == "phrases":
        own = copy.deepcopy(model)
        for parameter in own.parameters():
            parameter.data = parameter.data[:0] if parameter is not own.weights else parameter.data
        return own
    own = config.build(TABLES[name], Model, facts(TABLES[name]), "model")
    if hasattr(getattr(model, "emission", None), "steps"):  # of families.build
        model.emission, own.emission = model.emission, type(model.emission)(own.emission)
    return own.eval()


def use(model: Any, name: str) -> None:
    """Computes with all tables of the model."""
    source = sources([5, 3, 4])
    if name in ALIGNERS:
        model.align(source, sources([4, 2, 5]))
    elif name == "phrases":
        UNLIMITED(model, sources([3, 4]))
    elif name == "classifier":
        LabelSearch()(model, source)
    elif name in CHAINS:
        Viterbi()(model, source)
    else:
        Greedy(max_length=8)(model, source)


def mutated(tables: dict[str, Tensor], numbers: random.Random) -> dict[str, Tensor]:
    """Tables of which one was changed: in one row, in all rows, in its order, or in its length."""
    changed = {name: table.clone() for name, table in tables.items()}
    name = numbers.choice([name for name, table in tables.items() if len(table)])
    table = changed[name]
    row = numbers.randrange(len(table))
    match numbers.randrange(6):
        case 0:
            table[row] = numbers.choice([-1, 1, 2**31 - 1, -(2**31), 100, 3]) if table.dtype != torch.int8 else 99
        case 1:
            table.random_(0, 100 if table.dtype == torch.int8 else 2**20, generator=torch.Generator().manual_seed(row))
        case 2:
            changed[name] = table.flip(0)
        case 3:
            changed[name] = table[:row].clone()
        case 4:
            changed[name] = torch.cat([table, table[:1]])
        case 5:
            table.zero_()
    return changed


def attack(name: str, tries: int) -> int:
    """Loads mutated tables and computes with them. Returns how many were refused."""
    numbers = random.Random(1)
    model = counted(name)
    tables = dict(weights(model))
    own = empty_like(model, name)
    set_weights(own, tables, "weights")
    use(own, name)
    refused = 0
    for _ in range(tries):
        try:
            set_weights(own := empty_like(model, name), mutated(tables, numbers), "weights.safetensors")
        except UserError as error:
            told = str(error)
        else:
            told = ""
            with suppress(UserError):
                use(own, name)
        assert "\n" not in told
        refused += bool(told)
    return refused


@pytest.mark.parametrize("name", KINDS)
def test_tables_that_do_not_fit_are_refused(name: str) -> None:
    assert attack(name, 12)


@pytest.mark.slow
@pytest.mark.hostile
@pytest.mark.parametrize("name", KINDS)
def test_many_tables_that_do_not_fit_are_refused(name: str) -> None:
    assert attack(name, 200) > 20
