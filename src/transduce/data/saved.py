"""Tokenizers of any kind from the files they were saved in."""

from __future__ import annotations

import json
from pathlib import Path

from transduce.data.corpora import DataError
from transduce.data.factors import FactoredTokenizer
from transduce.data.features import FeaturesTokenizer
from transduce.data.labels import LabelledTokenizer
from transduce.data.tokenizers import TextTokenizer, Tokenizer


def load(path: str | Path) -> Tokenizer:
    """The tokenizer of a saved file, which is known by its keys; raises DataError where it is missing or none."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        if record.keys() == {"labels", "with_text", "text"}:
            return LabelledTokenizer.from_json(record)
        if record.keys() == {"features", "separator", "text"}:
            return FeaturesTokenizer.from_json(record)
        if record.keys() == {"factors", "separator"}:
            return FactoredTokenizer.from_json(record)
        return TextTokenizer.load(path)
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(f"{path} is not a tokenizer's JSON file: {error}") from error
