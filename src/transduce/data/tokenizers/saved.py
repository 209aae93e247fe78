"""Tokenizers of any kind from the files they were saved in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transduce.data.corpora import DataError
from transduce.data.signals.tokenizer import SignalTokenizer
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.factors import FactoredTokenizer
from transduce.data.tokenizers.features import FeaturesTokenizer
from transduce.data.tokenizers.labels import LabelledTokenizer
from transduce.data.tokenizers.numbers import NumbersTokenizer
from transduce.data.tokenizers.spelled import SpelledTokenizer
from transduce.data.tokenizers.text import TextTokenizer


def load(path: str | Path) -> Tokenizer:
    """The tokenizer of a saved file; raises DataError where it is missing or none."""
    try:
        return made(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a tokenizer's JSON file: {error}") from error


def made(record: Any) -> Tokenizer:
    """The tokenizer of a record, which is known by its keys; one within another likewise."""
    if record.keys() == {"labels", "with_text", "text"}:
        return LabelledTokenizer(record["labels"], made(record["text"]), record["with_text"])
    if record.keys() == {"features", "separator", "text"}:
        return FeaturesTokenizer(record["features"], record["separator"], made(record["text"]))
    if record.keys() == {"factors", "separator"}:
        return FactoredTokenizer.from_json(record)
    if record.keys() in ({"words"}, {"words", "known"}):
        known = record.get("known")
        return SpelledTokenizer(made(record["words"]), known and made(known))
    if record.keys() == {"mean", "scale"}:
        return NumbersTokenizer.from_json(record)
    if record.keys() == {"signal", "mean", "scale"}:
        return SignalTokenizer.from_json(record)
    return TextTokenizer.from_json(record)
