"""The scores of a corpus's word alignment against gold links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from transduce.answers.transducer import Transducer
from transduce.core.types import Example
from transduce.evaluation.system_results import aligned, interval_text
from transduce.metrics.significance import Interval, Resampling
from transduce.metrics.statistics import Statistics
from transduce.wings.alignment.alignments import alignments_by_head
from transduce.wings.alignment.attention_weights import AttentionChoice
from transduce.wings.alignment.corpus import CorpusAlignment
from transduce.wings.alignment.links import Gold, Links
from transduce.wings.alignment.metrics import link_statistics
from transduce.wings.alignment.token_alignment import TokenAlignment, links_of
from transduce.wings.records.making import new_record
from transduce.wings.records.provenance import fingerprint_of_examples, without_folders
from transduce.wings.records.record import Figure, MeasuredSystem, PrintedTable, Record, TrainedModel


def check_gold(gold: Gold, found: CorpusAlignment) -> None:
    """Raises UserError unless the gold links have as many pairs as were aligned, and lie inside their sentences."""
    gold.possible.check(*found.lengths)


@dataclass(frozen=True)
class AlignmentScores:
    """The scores of one alignment against gold links, with 95 % bootstrap intervals over sentence pairs. ``intervals``
    are by the metric's name.
    """

    name: str
    statistics: Sequence[Statistics]
    intervals: dict[str, Interval]
    resampling: Resampling

    @classmethod
    def of(cls, name: str, found: Links, gold: Gold, resampling: Resampling) -> AlignmentScores:
        """Scores the links ``found``, which must have as many pairs as ``gold``. ``name`` stands for them in tables."""
        statistics = link_statistics(found, gold)
        return cls(name, statistics, {each.name: resampling.interval(each) for each in statistics}, resampling)

    @property
    def scores(self) -> dict[str, float]:
        return {each.name: each.score for each in self.statistics}

    def lines(self) -> list[str]:
        """The scores as lines for the terminal."""
        pairs = len(self.statistics[0].rows_NK)
        rows = [[name, f"{score:.2f}", interval_text(self.intervals[name])] for name, score in self.scores.items()]
        head = f"{self.name}: {pairs:,} pairs"
        return [head, *aligned(rows, "><<", indent=2), f"  95 % intervals: {self.resampling.signature}"]


@dataclass(frozen=True)
class HeadScores:
    """The alignment error rate of single heads, of the mean of each attention's heads, and of the mean of all, before
    and after the target word is read.

    ``rates`` has the rate in percent for each ``AttentionChoice``.
    """

    rates: dict[AttentionChoice, float]

    def rows(self) -> list[list[str]]:
        """A table: a heading, then a row for each attention and head with the rates before and after the word is read.
        A star marks the lowest rate of each column.
        """
        best = [min(rate for each, rate in self.rates.items() if each.after == after) for after in (False, True)]
        rows = [["attention", "head", "before", "after"]]
        for each in self.rates:
            if not each.after:
                both = [self.rates[each], self.rates[AttentionChoice(each.name, each.head, True)]]
                head = "mean" if each.head is None else str(each.head)
                marks = [f"{rate:.2f}{'*' if rate == low else ' '}" for rate, low in zip(both, best, strict=True)]
                rows.append([each.name or "mean of all", head, *marks])
        return rows

    def lines(self) -> list[str]:
        """The table as lines for the terminal."""
        return ["alignment error rate, before and after the target word is read", *aligned(self.rows(), "<>", indent=2)]


def scores_by_head(model: Transducer, pairs: Sequence[tuple[str, str]], gold: Gold, batch_size: int = 64) -> HeadScores:
    """The alignment error rates of a model's attentions, before and after each target word is read.

    Raises UserError if there are no pairs, if the model has no attention to its source, or if the gold links do not fit
    the pairs.
    """
    every = alignments_by_head(model, pairs, batch_size)
    check_gold(gold, CorpusAlignment(Links.read([""] * len(pairs)), next(iter(every.values()))))
    return HeadScores({choice: _error_rate(found, gold) for choice, found in every.items()})


def _error_rate(found: Sequence[TokenAlignment], gold: Gold) -> float:
    return {each.name: each.score for each in link_statistics(links_of(found), gold)}["aer"]


def record_scores(
    command: str,
    corpus: str,
    scores: AlignmentScores,
    pairs: Sequence[tuple[str, str]],
    how: Mapping[str, object],
    models: Sequence[TrainedModel] = (),
) -> Record:
    """A record of one alignment's scores on the ``pairs`` of ``corpus``. ``how`` has the settings of the alignment."""
    figures = {
        each.name: Figure(each.score, *scores.intervals[each.name], each.metric.signature) for each in scores.statistics
    }
    examples = [Example(source, (target,)) for source, target in pairs]
    system = MeasuredSystem(
        scores.name, figures, fingerprint_of_examples(examples), without_folders(dict(how)), tuple(models)
    )
    return new_record(command, corpus, [system])


def record_heads(command: str, corpus: str, found: HeadScores, models: Sequence[TrainedModel]) -> Record:
    """A record of the error rates of all attentions, with the runs behind them."""
    columns, *rows = found.rows()
    heading = "Alignment error rate by attention and head, before and after the word is read"
    table = PrintedTable(heading, tuple(columns), tuple(map(tuple, rows)))
    return replace(new_record(command, corpus, tables=[table]), models=tuple(models))
