"""BLEU and the other metrics of sacreBLEU, as sums of its own statistics.

Scores and signatures are sacreBLEU's: Post, "A Call for Clarity in Reporting BLEU Scores", WMT 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics.base import Metric as SacreBleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from transduce.metrics.references import references
from transduce.types import Example, Prediction


class SacreBleu:
    """One of sacreBLEU's metrics; the corpus score of the summed statistics is that of its ``corpus_score``.

    Its public functions want the whole corpus at once and as many references for every sentence. The two methods
    called below are those that its own bootstrap is built on.
    """

    name: str
    higher_is_better = True
    needs_forcing = False

    def __init__(self, scorer: SacreBleuMetric) -> None:
        self.scorer = scorer
        self.reference_counts: set[int] = set()  # for the signature, which says how many there were

    @property
    def signature(self) -> str:
        """sacreBLEU's signature, with the number of references met so far ("var": it varies); empty before any."""
        if not self.reference_counts:
            return ""
        self.scorer.num_refs = min(self.reference_counts) if len(self.reference_counts) == 1 else -1
        return str(self.scorer.get_signature())

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        given = references(example)
        self.reference_counts.add(len(given))
        corpus_of_one = self.scorer._extract_corpus_statistics([prediction.text], [[text] for text in given])
        row: list[float] = corpus_of_one[0]
        return row

    def score(self, total: Sequence[float]) -> float:
        return float(self.scorer._compute_score_from_stats(list(total)).score)


class Bleu(SacreBleu):
    """BLEU in percent, by default on sacreBLEU's 13a tokens, cased (Papineni et al., ACL 2002)."""

    name = "bleu"

    def __init__(self, tokenize: str = "13a", lowercase: bool = False) -> None:
        super().__init__(BLEU(tokenize=tokenize, lowercase=lowercase))
        self._of_sentences: SacreBleuMetric = BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)

    def sentence_score(self, row: Sequence[float]) -> float:
        """That of sacreBLEU's ``sentence_bleu``: n-grams longer than the sentence do not count, where in a corpus of
        it alone they would make 0 of it."""
        return float(self._of_sentences._compute_score_from_stats(list(row)).score)


class Chrf(SacreBleu):
    """chrF2 in percent: F-score of character n-grams, recall counted twice (Popović, WMT 2015)."""

    name = "chrf"

    def __init__(self) -> None:
        super().__init__(CHRF())


class ChrfPlusPlus(SacreBleu):
    """chrF2++ in percent: chrF2 with words and pairs of words (Popović, WMT 2017)."""

    name = "chrf++"

    def __init__(self) -> None:
        super().__init__(CHRF(word_order=2))


class Ter(SacreBleu):
    """Translation edit rate in percent: edits and shifts of a word, over the mean reference (Snover et al., AMTA 2006).

    Cased, as all metrics here are; sacreBLEU itself folds case for TER unless told otherwise.
    """

    name = "ter"
    higher_is_better = False

    def __init__(self) -> None:
        super().__init__(TER(case_sensitive=True))
