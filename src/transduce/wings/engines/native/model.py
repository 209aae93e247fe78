"""A model that the native engine (``transduce_engine``) searches and scores, behind the package's own pipeline."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

import transduce_engine
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import AnySearch
from transduce.core.types import Hypothesis, Padded
from transduce.runs.manifest import Manifest
from transduce.search.front import check_prefix
from transduce.wings.engines.engine_files import BY_TOKENS, told
from transduce.wings.engines.native.content import ids_content
from transduce.wings.engines.native.searches import check_search, search_table, told_apart
from transduce.wings.engines.translation import rows

T = TypeVar("T")
FILE = "model.engine"  # in the folder of an export


class NativeModel(nn.Module):
    """``Searching``: source ids, or steps of signals, to hypotheses, which the engine finds and scores.

    It has the searches of ``searches.SEARCHES``. Each call brings a search with its options. No number of a source
    depends on the other sources.
    """

    def __init__(self, engine: transduce_engine.Engine) -> None:
        super().__init__()
        self.engine = engine
        self.kind = str(engine.description("model")["model"])

    def search(self, search: AnySearch, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        plain, wanted = told_apart(search, source, prefix)
        table = search_table(plain)
        check_search(table, self.kind)
        if prefix is not None and table["type"] not in BY_TOKENS:
            raise UserError(
                f"search.type = {table['type']!r}: it does not write token by token, so no output can begin with a "
                "prefix; leave the prefix out"
            )
        if prefix is not None:
            check_prefix(prefix, len(source.lengths), table["max_length"])
        given = wanted if table["type"] in BY_TOKENS else None
        return [
            [_hypothesis(each) for each in answer.outputs]
            for answer in _answered(lambda: self._searched(source, json.dumps(table), given))
        ]

    def force(self, source: Padded, target: Padded) -> list[Hypothesis]:
        score = self.engine.score_signals if source.values.is_floating_point() else self.engine.score_ids
        return [_hypothesis(each.best) for each in _answered(lambda: score(_given(source), rows(target)))]

    def _searched(
        self, source: Padded, search: str, given: transduce_engine.Wanted | None
    ) -> Sequence[transduce_engine.Answer]:
        signals = source.values.is_floating_point()
        wanted = self.engine.search_signals if signals else self.engine.search_ids
        found: list[transduce_engine.Answer] = wanted(_given(source), search, given)
        return found


def _given(source: Padded) -> list[Any]:
    """The rows of ids, or the steps of signals."""
    if not source.values.is_floating_point():
        return list(rows(source))
    pairs = zip(source.values.float(), source.lengths.tolist(), strict=True)
    return [transduce_engine.Steps(row[:length].contiguous().numpy()) for row, length in pairs]


def _hypothesis(output: transduce_engine.Output) -> Hypothesis:
    return Hypothesis(
        output.ids, output.log_prob, output.score, output.token_log_probs, output.best_log_probs, output.right
    )


def native_model(model: nn.Module, settings: config.TableView, precision: str = "float32") -> NativeModel:
    """A model of ours for the engine, without an export. ``convert`` describes the arguments and the errors. It keeps
    nothing of ``model``. Its products have as many threads as PyTorch now.
    """
    return NativeModel(told(lambda: transduce_engine.load(ids_content(model, settings, precision), _threads()))).eval()


def open_native(folder: Path, manifest: Manifest) -> NativeModel:
    """The model of the export in ``folder``. Its products of matrices have as many threads as PyTorch now. Raises
    MissingPackageError if the engine was not built, and UserError for an export of another version.
    """
    path = folder / FILE
    if not path.exists():
        raise UserError(f"{folder} has no {FILE}: an earlier version of transduce made it; export the run again")
    return NativeModel(told(lambda: transduce_engine.load(path, _threads()))).eval()


def _threads() -> int:
    return int(torch.get_num_threads())


def _answered(work: Callable[[], T]) -> T:
    """The result of a piece of work for a batch. An error leaves out the place in the batch, which nobody knows."""
    try:
        return told(work)
    except UserError as error:
        head, _, rest = str(error).partition(": ")
        raise UserError(rest if head.startswith("input ") else str(error)) from error
