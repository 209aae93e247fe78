"""Metrics by name, and their scores on a corpus."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence

from transduce.errors import UserError
from transduce.metrics.alignment_error import AlignmentErrorRate, LinkF1, LinkPrecision, LinkRecall
from transduce.metrics.bleu import Bleu, Chrf, ChrfPlusPlus, Ter
from transduce.metrics.brackets import BracketExact, BracketF1, BracketPrecision, BracketRecall
from transduce.metrics.code import CodeExact, Parses
from transduce.metrics.compression import KeptF1
from transduce.metrics.diversity import Distinct1, Distinct2, MeanLength
from transduce.metrics.error_rates import CharacterErrorRate, PhonemeErrorRate, WordErrorRate
from transduce.metrics.exact import ExactMatch, ItemError, TokenAccuracy
from transduce.metrics.forecast import (
    Coverage,
    DailyScaledError,
    HalfCoverage,
    LogScore,
    MeanAbsoluteError,
    MeanAbsoluteScaledError,
    QuarterlyScaledError,
    RankedProbabilityScore,
    RootMeanSquaredError,
    WeeklyScaledError,
    YearlyScaledError,
)
from transduce.metrics.labels import Accuracy, EntityF1, MacroF1
from transduce.metrics.music import KeptMelody, NatsPerStep
from transduce.metrics.perplexity import BitsPerCharacter, Perplexity, PerplexityByte, PerplexityWord
from transduce.metrics.rouge import Rouge1, Rouge2, RougeL
from transduce.metrics.sari import Sari
from transduce.metrics.statistics import statistics
from transduce.protocols import Metric
from transduce.types import Example, Prediction

METRICS: dict[str, Callable[[], Metric]] = {
    "bleu": Bleu,
    "chrf": Chrf,
    "chrf++": ChrfPlusPlus,
    "ter": Ter,
    "rouge1": Rouge1,
    "rouge2": Rouge2,
    "rougeL": RougeL,
    "sari": Sari,
    "kept_f1": KeptF1,
    "cer": CharacterErrorRate,
    "wer": WordErrorRate,
    "per": PhonemeErrorRate,
    "item_error": ItemError,
    "exact": ExactMatch,
    "perplexity": Perplexity,
    "perplexity_word": PerplexityWord,
    "perplexity_byte": PerplexityByte,
    "bits_per_character": BitsPerCharacter,
    "nats_per_step": NatsPerStep,
    "kept_melody": KeptMelody,
    "token_accuracy": TokenAccuracy,
    "accuracy": Accuracy,
    "macro_f1": MacroF1,
    "entity_f1": EntityF1,
    "bracket_f1": BracketF1,
    "bracket_precision": BracketPrecision,
    "bracket_recall": BracketRecall,
    "bracket_exact": BracketExact,
    "code_exact": CodeExact,
    "parses": Parses,
    "distinct1": Distinct1,
    "distinct2": Distinct2,
    "mean_length": MeanLength,
    "aer": AlignmentErrorRate,
    "link_precision": LinkPrecision,
    "link_recall": LinkRecall,
    "link_f1": LinkF1,
    "mae": MeanAbsoluteError,
    "rmse": RootMeanSquaredError,
    "mase": MeanAbsoluteScaledError,
    "mase-4": QuarterlyScaledError,
    "mase-7": WeeklyScaledError,
    "mase-12": YearlyScaledError,
    "mase-24": DailyScaledError,
    "crps": RankedProbabilityScore,
    "coverage": Coverage,
    "coverage-50": HalfCoverage,
    "log_score": LogScore,
}
"""Makes a metric by its name. Each use makes a new object: a metric remembers what its signature must say."""


def metric(name: str) -> Metric:
    """A new metric by its name, such as "bleu", or "bleu:zh" with a tokenizer for BLEU.

    Raises UserError if there is no such metric; the message has a similar name if there is one. Raises it too for an
    unknown tokenizer or one whose model is missing, and MissingPackageError, which is a UserError, if the metric or its
    tokenizer needs a package that is not installed.
    """
    own, colon, tokenizer = name.partition(":")
    if own not in METRICS:
        close = difflib.get_close_matches(own.lower(), METRICS, n=1, cutoff=0.5)
        nearest = f'did you mean "{close[0]}"? ' if close else ""
        raise UserError(f"no metric {name!r}: {nearest}Known: {', '.join(METRICS)}")
    if colon and own != Bleu.name:
        raise UserError(f"no metric {name!r}: only bleu has a choice of tokenizers (bleu:zh); write {own!r}")
    return Bleu(tokenizer) if colon else METRICS[own]()


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
