"""Metrics of a model's outputs for examples, and the time that the search took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from transduce.answers.answer import Answer, Output
from transduce.answers.batches import windows
from transduce.answers.pipeline import Pipeline
from transduce.answers.request import Request
from transduce.answers.shares import Shares
from transduce.core.protocols import AnySearch, Metric
from transduce.core.types import Example, Prediction
from transduce.metrics.statistics import Statistics, references, statistics


@dataclass(frozen=True)
class Evaluation:
    """The predictions for some examples, in order, and each metric's statistics of them.

    ``seconds`` is the time from source texts to the outputs that were found; it is 0 if nothing was searched for, and
    scoring references does not count. ``lengths`` are the numbers of the sources' ids (EOS included) or steps, before
    any cut. ``forced`` has the first reference of each example with the model's log-probabilities; it is empty if
    references were not scored. The caller tells people the ``shares``, unless they know them.
    """

    statistics: list[Statistics]
    predictions: list[Prediction]
    seconds: float
    lengths: list[int]
    forced: list[Output]
    shares: Shares

    @property
    def scores(self) -> dict[str, float]:
        """Each metric's score, by its name."""
        return {each.name: each.score for each in self.statistics}

    @property
    def cut(self) -> float:
        """The share of the outputs that the search ended at its limit, before the model did; 0 without examples."""
        return sum(each.cut for each in self.predictions) / max(1, len(self.predictions))


def evaluate(
    pipeline: Pipeline,
    examples: Sequence[Example],
    metrics: Sequence[Metric],
    clock: Callable[[], float],
    search: AnySearch | None = None,
    batch_size: int = 64,
    forcing: bool = False,
) -> Evaluation:
    """Measures the best output for each example. ``clock`` returns the time in seconds.

    References are scored if a metric needs them, or with ``forcing``. If every metric needs only scored references,
    nothing is searched for. Each source is read once for both. ``search`` replaces the pipeline's own. If the pipeline
    has a ``context``, the references of all examples, in order, are the lines of one text.
    """
    searching = not all(metric.needs_forcing for metric in metrics)
    forcing = forcing or any(metric.needs_forcing for metric in metrics)
    found: list[Answer] = []
    scored: list[Answer] = []
    shares = Shares()
    lengths: list[int] = []
    seconds = 0.0
    for window in windows(examples, pipeline.window_size(batch_size)):
        first = len(lengths) + 1
        began = clock()
        sources = pipeline.read([example.source for example in window], first)
        if searching:
            requests = [Request(example.source) for example in window]
            found += pipeline.answer_read(requests, sources, first, search, batch_size)
            seconds += clock() - began
        if forcing and pipeline.context is None:
            requests = [Request(example.source, target=references(example)[0]) for example in window]
            scored += pipeline.answer_read(requests, sources, first, None, batch_size)
        lengths += (source.length for source in sources)
    for number, answer in enumerate(found or scored, 1):
        answer.log(number)
        shares.input.add(answer.unknown)
        shares.outputs.add(answer.best.cut_at)
    for example in examples:
        shares.compare_with(pipeline.target_tokenizer, example.references, example.source)
    for answer, example in zip(found, examples, strict=False):  # nothing was found if metrics score references alone
        if example.source.strip():  # an empty one has an empty output
            shares.compare_output(answer.best.text, example.references)
    forced = [answer.best for answer in scored]
    if forcing and pipeline.context is not None:
        forced = pipeline.score_text([references(example)[0] for example in examples], pipeline.context)
    context = "" if pipeline.context is None else pipeline.context.signature
    best = [answer.best for answer in found]
    predictions = [prediction(*both, context) for both in zip_longest(best, forced)]
    return Evaluation(statistics(metrics, predictions, examples), predictions, seconds, lengths, forced, shares)


def prediction(output: Output | None, scored: Output | None, context: str = "") -> Prediction:
    """The prediction for the metrics, from an output that was found and a reference that was scored. Either may be
    None; without an output the text is empty. ``context`` is the signature of the text before the reference that the
    model read; empty for none.
    """
    found = Prediction("")
    if output is not None:
        found = Prediction(output.text, output.log_prob, deviations=output.deviations, cut=output.cut_at is not None)
    if scored is None:
        return found
    return replace(
        found,
        forced_log_prob=scored.log_prob,
        forced_length=len(scored.right),
        forced_right=sum(scored.right),
        forced_context=context,
        forced_end=len(scored.right) == len(scored.ids),  # else the model does not choose EOS, which ids always have
    )
