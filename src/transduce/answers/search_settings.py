"""Another search for a trained model, from changed settings of its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import cast

from torch import nn

from transduce.core import config, registry
from transduce.core.errors import UserError
from transduce.core.protocols import AnySearch, Autoregressive, Search, lacking_verbs
from transduce.core.registry import model_name
from transduce.data.preparation import Tokenizers
from transduce.models.compatibility import check_fit
from transduce.search.base import with_run

Changes = Mapping[str, object] | Sequence[str]


@dataclass(frozen=True)
class OtherModel:
    """The model of another run, for a search, with its tokenizers."""

    model: nn.Module
    tokenizers: Tokenizers


LoadOther = Callable[[Path], OtherModel]


def search_of_run(search: AnySearch, tokenizers: Tokenizers, load: LoadOther | None) -> AnySearch:
    """The search with what it needs of runs: the language models of the runs that it names, and the vocabularies of the
    searched model, whose tokenizers are ``tokenizers``.

    Raises FileNotFoundError if there is no such run. Raises UserError if it has another target vocabulary or, where
    both models read a source, another source vocabulary, or if its model does not go token by token.
    """

    def loaded(path: Path) -> Autoregressive[object]:
        if load is None:
            raise UserError(f"language_model = {str(path)!r}: only a model of a run can be searched with another run")
        other = load(path)
        if lacking := lacking_verbs(type(other.model), Autoregressive):
            raise UserError(
                f"language_model = {str(path)!r}: its {model_name(type(other.model))} model cannot "
                f"{' and '.join(lacking)}, so it cannot score the next token; give a language model"
            )
        if differing := tokenizers.differing(other.tokenizers, tokenizers.conditional and other.tokenizers.conditional):
            raise UserError(
                f"language_model = {str(path)!r} has another {' and another '.join(differing)} vocabulary than the "
                "model that is searched: train it with the vocabulary of that run (`transduce train ptb-ngram --init "
                "RUN`, or `language-model` for a neural one, and data.train.path = a file of text), or rerank as text "
                "(`transduce rerank --language-model`)"
            )
        return cast(Autoregressive[object], other.model)

    return with_run(search, loaded, tokenizers.source, tokenizers.target)


def changed_search(
    settings: config.Table, search: AnySearch, model: type, changes: Changes, size: int | None
) -> tuple[config.Table, AnySearch]:
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


def _built(settings: config.Table, model: type, changes: Changes, size: int | None) -> tuple[config.Table, AnySearch]:
    table = config.change(settings, changes)
    for key, value in table.items():
        if key != "search" and value != settings.get(key):
            raise config.ConfigError(
                key, "a trained model keeps its settings but for its search: search.size=10, search.type=greedy"
            )
    # Options such as nbest must fit the new size, and not the size in the run's settings.
    if size is not None and "size" in config.resolve(table.get("search", {}), Search, path="search"):
        table = config.assign(table, "search.size", size)
    search: AnySearch = config.build(table.get("search", {}), Search, path="search")
    check_fit("search", "Search", type(search), model)
    return table, search


def _with_numbers_of(search: AnySearch, settings: config.Table) -> config.Table:
    """The settings with the type and the numbers of a search that was resized. Resizing turns greedy search into a
    beam.
    """
    kind = registry.name_of("Search", type(search))
    if kind is None or "search" not in settings or not is_dataclass(search):
        return settings
    before = config.resolve(settings["search"], Search, path="search")
    numbers = {each.name: value for each in fields(search) if isinstance(value := getattr(search, each.name), int)}
    return {**settings, "search": {**before, **numbers, "type": kind}}
