"""Metrics of source code in Python: exact tokens, and the share of outputs that parse."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace

from transduce.core.types import Example, Prediction
from transduce.metrics.bleu import CODE, Bleu
from transduce.metrics.statistics import references
from transduce.metrics.units import canonical
from transduce.wings.syntax import code_tokens


class CodeBleu(Bleu):
    """BLEU in percent on tokens of source code (``code_tokens.cut``), cased."""

    def __init__(self) -> None:
        super().__init__("none")
        self.name = f"{Bleu.name}:{CODE}"

    @property
    def signature(self) -> str:
        """sacreBLEU's signature, where "tok" names our tokenizer."""
        return super().signature.replace("tok:none", f"tok:{CODE}")

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        cut = replace(prediction, text=_cut(prediction.text))
        return super().statistics(cut, replace(example, references=tuple(map(_cut, references(example)))))

    def misfit(self, references: Sequence[str]) -> str:
        return no_python(references)


class CodeExact:
    """``code_exact``: the percentage of outputs that have the same tokens as one of their references.

    Indentation and white space between tokens do not count. White space inside a string counts.
    """

    name = "code_exact"
    higher_is_better = True
    needs_forcing = False
    signature = "unit:output|compared:python-tokens|indentation:ignored|refs:any"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        written = code_tokens.cut(canonical(prediction.text))
        return float(any(code_tokens.cut(canonical(text)) == written for text in references(example))), 1.0

    def misfit(self, references: Sequence[str]) -> str:
        return no_python(references)

    def score(self, total: Sequence[float]) -> float:
        counted, outputs = total
        return 100.0 * counted / outputs


class Parses:
    """``parses``: the percentage of outputs that Python parses. References are not read.

    A single line of a longer statement is completed first. ``pass`` follows a line that ends in ":", an ``if`` stands
    before ``elif`` and ``else``, a ``try`` before ``except`` and ``finally``, a ``finally`` follows ``try:``, and a
    function follows a decorator. An empty output does not parse.
    """

    name = "parses"
    higher_is_better = True
    needs_forcing = False
    signature = "unit:output|parser:ast|lines:completed"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        return float(parses(prediction.text)), 1.0

    def misfit(self, references: Sequence[str]) -> str:
        return no_python(references)

    def score(self, total: Sequence[float]) -> float:
        counted, outputs = total
        return 100.0 * counted / outputs


BEFORE = {"elif": "if x: pass\n", "else": "if x: pass\n", "except": "try: pass\n", "finally": "try: pass\n"}
AFTER = {"try": "\nfinally: pass", "@": "\ndef f(): pass"}


def parses(line: str) -> bool:
    """True if Python parses the line, after it is completed as in ``Parses``."""
    text = line.strip()
    first = re.match(r"\w+|@|", text)
    word = first[0] if first else ""
    completed = f"{BEFORE.get(word, '')}{text}{' pass' if text.endswith(':') else ''}{AFTER.get(word, '')}"
    try:
        with warnings.catch_warnings():  # "\d" in a string is a warning
            warnings.simplefilter("ignore")
            ast.parse(completed)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested too deep
        return False
    return bool(text)


def _cut(code: str) -> str:
    return " ".join(code_tokens.cut(code))


def no_python(references: Sequence[str]) -> str:
    """The ``misfit`` of metrics of Python, if fewer than half of the references parse."""
    parsed = sum(map(parses, references))
    if 2 * parsed >= len(references):
        return ""
    return f"Python parses {parsed:,} of {len(references):,} of them; measure exact or chrf"
