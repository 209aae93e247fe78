"""BLEU and the other metrics of sacreBLEU, as sums of its own statistics.

Scores and signatures are sacreBLEU's: Post, "A Call for Clarity in Reporting BLEU Scores", WMT 2018.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Final

from sacrebleu.metrics.base import Metric as SacreBleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from transduce.core.errors import MissingPackageError, UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.statistics import references
from transduce.metrics.suitability import HAN, KANA, letters_in, needs_spaces, unsegmented
from transduce.metrics.units import canonical

TOKENIZERS: Final = (
    "13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200", "spBLEU-1K",
)  # of sacreBLEU's BLEU, the default first  # fmt: skip
CODE: Final = "code"  # the tokenizer of ``bleu:code``, which is a metric of its own
LONGEST: Final = 4  # words of an n-gram
_PACKAGES: Final = {"ja-mecab": "'sacrebleu[ja]'", "ko-mecab": "'sacrebleu[ko]'"}


class SacreBleu:
    """One of sacreBLEU's metrics. The score of summed statistics equals sacreBLEU's ``corpus_score``.

    sacreBLEU's public functions need the whole corpus at once, with the same number of references for each sentence. So
    this class calls the two methods that sacreBLEU's own bootstrap calls.
    """

    name: str
    higher_is_better = True
    needs_forcing = False

    def __init__(self, scorer: SacreBleuMetric) -> None:
        self.scorer = scorer
        self.reference_counts: set[int] = set()  # numbers of references, for the signature
        self._normalised = False  # whether NFC has changed a text

    @property
    def signature(self) -> str:
        """sacreBLEU's signature, with the number of references so far ("var" if it varies); empty before the first.

        It ends with "norm:nfc" if a text was not in NFC: sacreBLEU itself gives the same score for texts in NFC.
        """
        if not self.reference_counts:
            return ""
        self.scorer.num_refs = min(self.reference_counts) if len(self.reference_counts) == 1 else -1
        return f"{self.scorer.get_signature()}{'|norm:nfc' if self._normalised else ''}"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        given, written = references(example), canonical(prediction.text)
        self.reference_counts.add(len(given))
        same = [*map(canonical, given)]
        self._normalised |= written != prediction.text or same != list(given)
        corpus_of_one = self.scorer._extract_corpus_statistics([written], [[text] for text in same])
        row: list[float] = corpus_of_one[0]
        return row

    def score(self, total: Sequence[float]) -> float:
        return float(self.scorer._compute_score_from_stats(list(total)).score)


class Bleu(SacreBleu):
    """BLEU in percent on sacreBLEU's 13a tokens, cased (Papineni et al., ACL 2002). ``bleu:zh`` and the like choose
    another of sacreBLEU's tokenizers: ``none`` (white space), ``intl``, ``char``, ``zh``, ``ja-mecab``, ``ko-mecab``,
    ``flores101``, ``flores200``, ``spBLEU-1K``. ``bleu:code`` counts tokens of source code (``code_tokens.cut``).

    ``lowercase`` makes it uncased. Raises UserError for an unknown tokenizer, and as ``_scorer`` does.
    """

    name = "bleu"

    def __init__(self, tokenize: str = TOKENIZERS[0], lowercase: bool = False) -> None:
        if tokenize not in TOKENIZERS:
            raise UserError(f"no tokenizer {tokenize!r} for bleu; choose one of {', '.join((*TOKENIZERS, CODE))}")
        super().__init__(_scorer(tokenize, lowercase))
        self._of_sentences = _scorer(tokenize, lowercase, effective_order=True)
        if tokenize != TOKENIZERS[0]:
            self.name = f"{Bleu.name}:{tokenize}"

    def misfit(self, references: Sequence[str]) -> str:
        tokens = [self.scorer.tokenizer(text) for text in references]  # type: ignore[attr-defined]
        if unsegmented(tokens):
            return f"its tokenizer finds no words without spaces; measure {tokenizer_for(references)} or chrf"
        if 10 * sum(len(each.split()) >= LONGEST for each in tokens) < len(tokens):
            mean = sum(len(each.split()) for each in tokens) / len(tokens)
            return f"they have {mean:.1f} tokens on average, for n-grams of up to {LONGEST}; measure chrf, cer or exact"
        return ""

    def sentence_score(self, row: Sequence[float]) -> float:
        """The score of sacreBLEU's ``sentence_bleu`` for one sentence's statistics: n-grams longer than the sentence do
        not count.

        As a corpus of its own, a sentence of fewer than 4 tokens would get 0.
        """
        return float(self._of_sentences._compute_score_from_stats(list(row)).score)


def tokenizer_for(texts: Sequence[str]) -> str:
    """The name of BLEU with a tokenizer that finds words in texts of a script without spaces."""
    every = "".join(texts)
    kana, han = letters_in(KANA, every), letters_in(HAN, every)
    if kana and importlib.util.find_spec("MeCab") and importlib.util.find_spec("ipadic"):
        return "bleu:ja-mecab"
    return "bleu:zh" if han and not kana else "bleu:char"


def _scorer(tokenize: str, lowercase: bool, effective_order: bool = False) -> SacreBleuMetric:
    """sacreBLEU's BLEU. Raises MissingPackageError if the tokenizer needs a package that is not installed, and
    UserError if its model cannot be downloaded.
    """
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=effective_order)
    except (ImportError, RuntimeError) as error:  # RuntimeError for MeCab
        raise MissingPackageError(
            f"bleu:{tokenize} needs a package that is not installed: "
            f"pip install {_PACKAGES.get(tokenize, 'sentencepiece')}"
        ) from error
    except OSError as error:
        raise UserError(
            f"bleu:{tokenize} could not get the model of its tokenizer, which sacreBLEU downloads once into "
            f"~/.sacrebleu: {error}"
        ) from error


class Chrf(SacreBleu):
    """``chrf``: chrF2 in percent, the F-score of character n-grams, in which recall weighs twice as much as precision
    (Popović, WMT 2015).
    """

    name = "chrf"

    def __init__(self) -> None:
        super().__init__(CHRF())


class ChrfPlusPlus(SacreBleu):
    """``chrf++``: chrF2++ in percent, chrF2 with words and pairs of words (Popović, WMT 2017)."""

    name = "chrf++"

    def __init__(self) -> None:
        super().__init__(CHRF(word_order=2))

    def misfit(self, references: Sequence[str]) -> str:
        return needs_spaces(references, "measure chrf")


class Ter(SacreBleu):
    """Translation edit rate in percent: edits of words and shifts of phrases, over the mean reference length (Snover et
    al., AMTA 2006).

    Cased, as metrics here are by default; sacreBLEU itself folds case for TER unless told otherwise.
    """

    name = "ter"
    higher_is_better = False

    def __init__(self) -> None:
        super().__init__(TER(case_sensitive=True))

    def misfit(self, references: Sequence[str]) -> str:
        return needs_spaces(references, "measure chrf or cer")
