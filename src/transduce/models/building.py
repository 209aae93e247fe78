"""Builds a model from its table."""

from __future__ import annotations

from typing import cast

from torch import nn

from transduce.core import config
from transduce.core.protocols import Model


def build_model(table: config.Table, facts: object) -> nn.Module:
    """The model that a configuration's table ``model`` describes, for the ``facts`` of the data. Every class of models
    is an ``nn.Module``, which the protocol cannot say.
    """
    return cast("nn.Module", config.build(table, Model, facts, "model"))
