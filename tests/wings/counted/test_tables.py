"""Counted tables from strangers: tables that do not fit each other are refused when they are loaded, and never read."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_phrases import counted_phrases

from families import ALIGNERS, CHAINS, COUNTED, PARALLEL, build
from transduce.core import config
from transduce.core.errors import UserError
from transduce.models.weights import set_weights, weights

TABLES: dict[str, config.Table] = {
    **{name: COUNTED[name] for name in ("n-grams", "joint n-grams", "noisy channel", "affix rules")},
    **{name: CHAINS[name] for name in ("hmm", "hmm, of two labels, known words", "hmm, gaussian, diagonal")},
    **{name: ALIGNERS[name] for name in ("ibm model 2, a prior", "diagonal", "fertilities")},
    "classifier": PARALLEL["classifier, hidden Markov models"],
}


def counted(name: str) -> Any:
    return counted_phrases() if name == "phrases" else build(TABLES[name], dtype=torch.float32)


def test_the_line_names_the_table_and_the_rule() -> None:
    model = counted("joint n-grams")
    tables = {name: table.clone() for name, table in weights(model).items()}
    circle = tables["ngrams.suffix"].clone()
    circle[-1] = len(circle) - 1  # a history that leads to itself
    with pytest.raises(
        UserError, match=r"w: in ngrams, the table suffix is damaged: shorter n-grams was expected; copy"
    ):
        set_weights(model, tables | {"ngrams.suffix": circle}, "w")
    writing = tables["units"].clone()
    writing[0, -1] = 10**6  # a token outside of the vocabulary
    with pytest.raises(UserError, match=r"the table units is damaged: numbers from 0 to \d+ instead of \d+ to 1000000"):
        set_weights(model, tables | {"units": writing}, "w")
