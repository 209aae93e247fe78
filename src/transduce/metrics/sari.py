"""SARI, the metric of text simplification: the n-grams that an output adds to its source, keeps and deletes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from transduce.errors import UserError
from transduce.metrics.labels import f1
from transduce.metrics.statistics import references
from transduce.types import Example, Prediction

ORDERS: Final = 4  # n-grams of one to four words
OPERATIONS: Final = 3  # add, keep, delete
Ngrams = Counter[tuple[str, ...]]


class Sari:
    """``sari``: SARI in percent (Xu et al., TACL 2016), the mean F1 of the n-grams that the output adds to the source,
    keeps from it and deletes from it, over n from 1 to 4.

    The score equals ``corpus_sari`` of the package EASSE (Alva-Manchego et al. 2019) with its default settings. So it
    counts n-grams over the whole corpus before it divides, deletions count by F1 and not by precision, and all texts
    are lowercase tokens of sacreBLEU's 13a. It is not the mean of the SARI of sentences, which Hugging Face's
    ``evaluate`` computes. An operation without right n-grams of an order has the F1 0 for this order.

    A row of statistics has 36 numbers. For each n there are three for additions, three for n-grams that are kept and
    three for deletions: how many are right, how many the output has, and how many the references have. An addition
    counts once for each different n-gram. The others count as often as they occur, times the number of references.
    Then an n-gram that only some references keep has part of the weight.

    Raises UserError for an example without a reference, or with an empty source.
    """

    name = "sari"
    higher_is_better = True
    needs_forcing = False

    def __init__(self) -> None:
        self._tokenize = Tokenizer13a()  # type: ignore[no-untyped-call]

    @property
    def signature(self) -> str:
        return "case:lc|tok:13a|orders:4|delete:f1|average:corpus|like:easse"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        given = references(example)
        if not example.source.strip():
            raise UserError(
                f"no source for the reference {given[0]!r}: sari compares each output with its source; give "
                "--source, or measure bleu or rouge1"
            )
        source, output, *wanted = (self._words(text) for text in (example.source, prediction.text, *given))
        return [count for n in range(1, ORDERS + 1) for count in operations(source, output, wanted, n)]

    def _words(self, text: str) -> list[str]:
        words: list[str] = self._tokenize(text.lower()).split()
        return words

    def score(self, total: Sequence[float]) -> float:
        each = [f1(*total[place : place + 3]) for place in range(0, ORDERS * OPERATIONS * 3, 3)]
        return 100.0 * sum(each) / len(each)


def operations(
    source: Sequence[str], output: Sequence[str], texts: Sequence[Sequence[str]], n: int
) -> tuple[float, ...]:
    """Nine counts of n-grams: right, of the output, and of the references, for additions, n-grams kept and deletions.

    ``texts`` are the references. All texts are words. ``Sari`` says how the counts are weighted.
    """
    weight = len(texts)
    before, after = ngrams(source, n, weight), ngrams(output, n, weight)
    wanted = sum((ngrams(each, n) for each in texts), Ngrams())
    added, to_add = after.keys() - before.keys(), wanted.keys() - before.keys()
    kept, to_keep = before & after, before & wanted
    deleted, to_delete = before - after, before - wanted
    return (
        *(float(len(each)) for each in (added & to_add, added, to_add)),
        *(float(each.total()) for each in (kept & to_keep, kept, to_keep)),
        *(float(each.total()) for each in (deleted & to_delete, deleted, to_delete)),
    )


def ngrams(words: Sequence[str], n: int, weight: int = 1) -> Ngrams:
    """How often each sequence of ``n`` words occurs, times ``weight``."""
    counts = Counter(zip(*(words[start:] for start in range(n)), strict=False))
    return Counter({ngram: weight * count for ngram, count in counts.items()})
