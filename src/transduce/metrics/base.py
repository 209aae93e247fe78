"""Metrics by name, and their scores on a corpus."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Sequence

from transduce.core import registry
from transduce.core.errors import UserError
from transduce.core.protocols import Metric
from transduce.core.types import Example, Prediction
from transduce.metrics.bleu import Bleu
from transduce.metrics.statistics import statistics


def metric(name: str) -> Metric:
    """A new metric by its name, such as "bleu", or "bleu:zh" with a tokenizer for BLEU. Each call makes a new object: a
    metric remembers what its signature must say.

    Raises UserError if there is no such metric; the message has a similar name if there is one. Raises it too for an
    unknown tokenizer or one whose model is missing, and MissingPackageError, which is a UserError, if the metric or its
    tokenizer needs a package that is not installed.
    """
    own, colon, tokenizer = name.partition(":")
    known = registry.NAMES["Metric"]
    if name in known:
        found: Metric = registry.find("Metric", name)()
        return found
    if own not in known:
        close = difflib.get_close_matches(own.lower(), known, n=1, cutoff=0.5)
        nearest = f'did you mean "{close[0]}"? ' if close else ""
        raise UserError(f"no metric {name!r}: {nearest}Known: {', '.join(known)}")
    if colon and own != Bleu.name:
        raise UserError(f"no metric {name!r}: only bleu has a choice of tokenizers (bleu:zh); write {own!r}")
    return Bleu(tokenizer)


def meaning(metric: Metric) -> str:
    """Describes a metric in a few sentences: the first paragraph of its docstring without its name, and which way is
    better.
    """
    first, _, _ = (inspect.getdoc(type(metric)) or "").partition("\n\n")
    told = " ".join(first.removeprefix(f"``{metric.name}``: ").replace("``", "").split())
    return f"{told} {'More' if metric.higher_is_better else 'Less'} is better.".lstrip()


def evaluate(
    metrics: Sequence[Metric], predictions: Sequence[Prediction], examples: Sequence[Example]
) -> dict[str, float]:
    """The score of each metric, by its name, on predictions in the order of the examples.

    Raises UserError where ``statistics`` does.
    """
    return {each.name: each.score for each in statistics(metrics, predictions, examples)}
