"""What the wing lab adds to test_label_metrics.py."""

from __future__ import annotations

from collections.abc import Sequence

from test_label_metrics import PREDICTIONS, REFERENCES, corpus

from transduce.core.types import Prediction
from transduce.evaluation.system_results import SystemResults
from transduce.evaluation.systems import System
from transduce.metrics.base import metric
from transduce.metrics.confusions import label_breakdowns
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import statistics
from transduce.wings.lab.comparison import compare
from transduce.wings.lab.reports.evaluation import evaluation_page


def judged(names: Sequence[str]) -> SystemResults:
    metrics = [metric(name) for name in names]
    predictions, examples = corpus(REFERENCES, PREDICTIONS)
    system = System("mine", predictions, statistics(metrics, predictions, examples))
    labels = label_breakdowns(metrics, predictions, examples)
    return SystemResults(system, examples, "test", Resampling(20, 20), labels=labels)


def test_results_show_labels() -> None:
    results = judged(["accuracy", "macro_f1", "exact"])
    (found,) = results.labels
    lines = "\n".join(results.lines())
    assert "A                 66.67   50.00   57.14          4          3" in lines
    assert "reference ↓ predicted →  A  B  C\n  A                        2  1" in lines
    assert results.record()["labels"] == {"label": found.record()}
    page = evaluation_page(results)
    assert "which is taken for which" in page
    assert "57.14" in page
    assert "labels" not in judged(["exact"]).record()


def test_systems_are_compared_by_labels() -> None:
    macro = [metric("macro_f1")]
    examples = corpus(REFERENCES, REFERENCES)[1]
    texts = {"one": REFERENCES, "other": ["X Y Z", "A", "C A"]}
    systems = [
        System(name, (given := [*map(Prediction, found)]), statistics(macro, given, examples))
        for name, found in texts.items()
    ]
    (pair,) = compare(systems, examples, "test", Resampling(20, 20)).pairs
    assert pair.better == "one"
