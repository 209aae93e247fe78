"""Checks that the parts of a configuration fit: the model has the methods that its search and objective call, and it
can read its source."""

from __future__ import annotations

from transduce.core import registry
from transduce.core.config.errors import ConfigError, Table
from transduce.core.protocols import lacking_for
from transduce.core.types import Facts


def check_fit(path: str, protocol: str, user: type, model: type) -> None:
    """Raises ConfigError if the class ``model`` lacks a method that the class ``user``, a search or an objective, calls
    (``lacking_for``).

    ``path`` is the configuration's key for the user, and ``protocol`` the user's protocol in ``registry.NAMES``. The
    error lists the names of this protocol that fit the model.
    """
    lacking = lacking_for(user, model)
    if lacking:
        fitting = [
            name for name in registry.installed(protocol) if not lacking_for(registry.find(protocol, name), model)
        ]
        raise ConfigError(
            path,
            f"{user.__name__} asks its model to {' and '.join(lacking)}, which {model.__name__} does not; "
            f"set {path} to {' or '.join(map(repr, fitting))}",
        )


def check_words(model: Table, facts: Facts) -> None:
    """Raises ConfigError if the source has whole words with ids of their own, and no part of ``model`` asks for them.

    ``model`` is the table with all defaults. A part asks for them if its table has the key ``source_words``.
    """
    if facts.source_words and not _asks(model, "source_words"):
        raise ConfigError(
            "data.units.source.words",
            f"the source has {facts.source_words} words known as wholes, and nothing of the model reads them: set "
            'model.encoder.embedding to one of type = "spelled", with word_width, or leave words out',
        )


def _asks(value: object, fact: str) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and fact in value) or any(_asks(one, fact) for one in inner)
