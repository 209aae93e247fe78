"""Whether an objective or a search can ask the model: each is written for one way to own a distribution."""

from __future__ import annotations

import typing
from typing import Any

from transduce import names
from transduce.protocols import lacking_verbs
from transduce.spec import ConfigError


def check_fit(path: str, protocol: str, user: type, model: type) -> None:
    """Raise ConfigError where ``user`` is annotated to be called with a ``model`` that can do more than this one.

    ``path`` is where the configuration chooses the user, one of the classes of ``protocol``; those that fit are named.
    """
    lacking = _lacking(user, model)
    if lacking:
        fitting = [name for name in names.NAMES[protocol] if not _lacking(names.find(protocol, name), model)]
        raise ConfigError(
            path,
            f"{user.__name__} asks its model to {' and '.join(lacking)}, which {model.__name__} does not; "
            f"set {path} to {' or '.join(map(repr, fitting))}",
        )


def _lacking(user: Any, model: type) -> list[str]:
    asked = typing.get_type_hints(user.__call__).get("model", Any)
    way = typing.get_origin(asked) or asked
    return lacking_verbs(model, way) if isinstance(way, type) else []
