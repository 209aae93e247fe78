"""Saves and loads tokenizers of any kind. ``registry.NAMES["Unit"]`` is the table of units; each unit names its
tokenizer's class.

A user's own unit is loaded like the others: its class has ``tokenizer = MyTokenizer``, and ``transduce.register`` puts
it into the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transduce.core import registry
from transduce.core.config import Table
from transduce.core.errors import MissingWingError
from transduce.data.corpora import DataError
from transduce.data.tokenizers.base import Tokenizer

TEXT = "text"  # a record without a kind: the library's own JSON has no place for one


def load(path: str | Path) -> Tokenizer:
    """The tokenizer of a saved file. Raises DataError if the file is missing or is not a tokenizer's, or if no
    registered unit has tokenizers of its kind.
    """
    try:
        return from_record(json.loads(Path(path).read_text(encoding="utf-8")))
    except RecursionError:
        raise DataError(f"{path} is not a tokenizer's JSON file: it is nested too deep") from None
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a tokenizer's JSON file: {error}") from error


def save(tokenizer: Tokenizer, path: str | Path) -> None:
    """Writes the tokenizer's record as JSON. Raises DataError if no registered unit has this class of tokenizers,
    because ``load`` could not read the file.
    """
    Path(path).write_text(json.dumps(record_of(tokenizer), ensure_ascii=False, indent=1), encoding="utf-8")


def record_of(tokenizer: Tokenizer) -> Table:
    """The JSON record of a tokenizer, with the kind by which ``from_record`` finds its class. A ``TextTokenizer`` has a
    record without a kind.

    Raises DataError if ``from_record`` could not find the class.
    """
    kind = getattr(tokenizer, "kind", None)
    if _find(kind) is not type(tokenizer):
        cls = type(tokenizer).__name__
        raise DataError(
            f"a {cls} could be saved but not loaded: give {cls} a kind of its own (kind = {cls.lower()!r}) and a "
            f"from_json, give its unit's class tokenizer = {cls}, and register that class: "
            'transduce.register("Unit", NAME, CLASS)'
        )
    return tokenizer.as_json() if kind == TEXT else {"kind": kind, **tokenizer.as_json()}


def from_record(record: Table) -> Tokenizer:
    """The tokenizer of a record. A record without a kind has the kind "text".

    Raises DataError if no registered unit has tokenizers of this kind. Errors of the class for a wrong record are not
    changed.
    """
    kind = record.get("kind", TEXT)
    cls = _find(kind)
    if cls is None:
        known = {str(each.kind) for each in _classes()}
        raise DataError(
            f"no registered unit has tokenizers of kind {kind!r}{registry.alternatives(str(kind), known)}; if "
            "it is your own, load the plug-in that registers its unit (--plugin)"
        )
    found: Tokenizer = cls.from_json({key: value for key, value in record.items() if key != "kind"})
    return found


def _find(kind: str | None) -> type[Tokenizer] | None:
    """The class of the tokenizers of this kind; None if no registered unit has them. It imports the units before the
    one that it finds, and text is first.
    """
    return next((each for each in _classes(kind) if getattr(each, "kind", None) == kind), None)


def _classes(kind: str | None = None) -> Iterator[type[Tokenizer]]:
    """The tokenizer classes of all registered units that name one. Each unit is imported when its turn comes.

    Units of wings that are not installed are left out. Raises MissingWingError for the unit that has the name ``kind``,
    if there is no other.
    """
    missing: list[MissingWingError] = []
    for name in sorted(registry.NAMES["Unit"], key=lambda name: name == kind):
        try:
            unit: Any = registry.find("Unit", name)
        except MissingWingError as error:
            missing += [error] if name == kind else []
            continue
        if hasattr(unit, "tokenizer"):
            yield unit.tokenizer
    if missing:
        raise missing[0]
