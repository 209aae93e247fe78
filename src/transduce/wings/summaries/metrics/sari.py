"""SARI, the metric of text simplification: the n-grams that an output adds to its source, keeps and deletes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from transduce.core.errors import UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.labels import f1
from transduce.metrics.statistics import references
from transduce.metrics.suitability import needs_spaces
from transduce.metrics.units import canonical

ORDERS: Final = 4  # n-grams of one to four words
OPERATIONS: Final = 3  # add, keep, delete
Ngrams = Counter[tuple[str, ...]]


class Sari:
    """``sari``: SARI in percent (Xu et al., TACL 2016). It is the mean F1 of the n-grams of 1 to 4 words that the
    output adds to the source, keeps from it, and deletes from it.

    The score equals ``corpus_sari`` of the package EASSE (Alva-Manchego et al. 2019) with its default settings. N-grams
    are counted over the whole corpus before the division. Deletions count by F1, where the paper takes precision. All
    texts are in lower case and divided into words by sacreBLEU's tokenizer 13a. Hugging Face's ``evaluate`` computes
    another score, a mean over sentences. If no n-gram of an operation and a length is right, its F1 is 0.

    A row of statistics has 36 numbers, three for each operation and length: right n-grams, n-grams of the output, and
    n-grams of the references. Nine numbers for words come first, in the order add, keep, delete; then pairs, and so on.
    An n-gram that is added counts once, however often it occurs. All others count as often as they occur, times the
    number of references. So an n-gram that half of the references keep has half of the weight.

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
        words: list[str] = self._tokenize(canonical(text.lower())).split()
        return words

    def misfit(self, references: Sequence[str]) -> str:
        return needs_spaces(references, "separate the words of sources and references by spaces, or measure chrf")

    def score(self, total: Sequence[float]) -> float:
        each = [f1(*total[place : place + 3]) for place in range(0, ORDERS * OPERATIONS * 3, 3)]
        return 100.0 * sum(each) / len(each)


def operations(
    source: Sequence[str], output: Sequence[str], texts: Sequence[Sequence[str]], n: int
) -> tuple[float, ...]:
    """Nine counts of n-grams of ``n`` words: three for n-grams that are added, three for those kept and three for those
    deleted. The three are: right, of the output, of the references (``texts``). ``Sari`` says how they are weighted.
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
