"""``transduce train auto``: the first candidate of ``fit`` for the data, trained without a search."""

from __future__ import annotations

import logging
from dataclasses import replace

from transduce.core import config, recipes
from transduce.core.errors import UserError
from transduce.training.request import TrainingRequest
from transduce.wings.fitting.candidates import task
from transduce.wings.fitting.given import Given, given
from transduce.wings.fitting.survey import survey

log = logging.getLogger("transduce")


def chosen_request(request: TrainingRequest) -> TrainingRequest:
    """The request with the recipe that the rules of ``fit`` put first for its training pairs. The user's settings win.

    Raises UserError if the request names no training pairs in one table or two files.
    """
    changes = recipes.change({}, request.changes)
    data: config.Table = changes.get("data", {})
    pairs = None if request.pairs is None else list(request.pairs)
    found = Given(pairs) if pairs is not None else given(_paths(data.get("train", {})))
    about = survey(found)
    asked = task(about.task, about.pairs)
    first = next((each for each in asked.candidates if not each.instant), asked.candidates[0])
    settings = dict(first.settings)
    if found.columns is not None and "columns" not in data:
        settings["data.columns"] = found.columns
    log.warning("auto: %s, so the settings of %s", asked.title, first.name)
    mine = config.flatten(changes)
    return replace(request, recipe=first.recipe, out=request.run, pairs=pairs, settings={**settings, **mine})


def _paths(train: config.Table) -> list[str]:
    if isinstance(train.get("path"), str):
        return [train["path"]]
    if isinstance(train.get("source"), str) and isinstance(train.get("target"), str):
        return [train["source"], train["target"]]
    raise UserError(
        "the recipe auto needs your pairs: --set data.train.path=FILE, or data.train.source and data.train.target"
    )
