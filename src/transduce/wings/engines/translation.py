"""CTranslate2's search over rows of ids. Nothing here imports PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.core.errors import MissingPackageError
from transduce.core.types import EOS, SPECIALS, UNK, Hypothesis, Padded

if TYPE_CHECKING:
    import ctranslate2

NAMES = dict(enumerate(SPECIALS))
IDS = {name: i for i, name in NAMES.items()}
LONGEST = 4096  # tokens of a source: the pipeline has cut it already
PENALTIES = {"average": 1.0, "none": 0.0}  # of a ranking: the power of the length that divides scores
Rows = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Options:
    """The options of a greedy search (``size`` 1) or a beam: how many outputs to return (``nbest``), the most tokens
    of an output with its end (``max_length``), the power of the length by which scores are divided (``penalty``), and
    whether outputs may have <unk> (``unknown``).
    """

    size: int = 1
    nbest: int = 1
    max_length: int = 200
    penalty: float = 0.0
    unknown: bool = False


@dataclass(frozen=True)
class Translator:
    """A CTranslate2 model that takes and gives ids."""

    engine: ctranslate2.Translator

    def search(self, rows: Rows, options: Options, prefixes: Rows | None = None) -> list[list[Hypothesis]]:
        """For each row of ids (with EOS), the hypotheses that CTranslate2 finds, best first. ``prefixes`` are the ids
        that the outputs begin with.

        A hypothesis has no log-probabilities of its tokens, unless it was scored again: if it reached the maximum
        length without an end, or if CTranslate2 would have written <unk> for its row. Then the row is searched without
        <unk>, which changes CTranslate2's scores.
        """
        if options.max_length == 1:  # CTranslate2 writes at least one token before the end
            return [[found] for found in self.force(rows, [[EOS]] * len(rows))]
        found = self._translated(rows, options, prefixes)
        again = [n for n, each in enumerate(found) if not options.unknown and any(UNK in h.tokens for h, _ in each)]
        if again:
            some = None if prefixes is None else [prefixes[n] for n in again]
            others = self._translated([rows[n] for n in again], options, some, disable_unk=True)
            for n, other in zip(again, others, strict=True):
                found[n] = [(h, False) for h, _ in other]
        hypotheses = [[h for h, _ in each] for each in found]
        unsure = [(n, k) for n, each in enumerate(found) for k, (_, scored) in enumerate(each) if not scored]
        if unsure:
            own = self.force([rows[n] for n, _ in unsure], [hypotheses[n][k].tokens for n, k in unsure])
            for (n, k), h in zip(unsure, own, strict=True):
                hypotheses[n][k] = replace(h, score=h.log_prob / len(h.tokens) ** options.penalty)
        return [sorted(each, key=lambda h: -h.score) for each in hypotheses]

    def _translated(
        self, rows: Rows, options: Options, prefixes: Rows | None, disable_unk: bool = False
    ) -> list[list[tuple[Hypothesis, bool]]]:
        """The hypotheses of each row, and whether the score of each is complete: one without an end lacks the end."""
        results = self.engine.translate_batch(
            _tokens(rows),
            target_prefix=None if prefixes is None else _tokens(prefixes),
            beam_size=options.size,
            num_hypotheses=options.nbest,
            length_penalty=options.penalty,
            max_decoding_length=options.max_length - 1,  # EOS does not count
            min_decoding_length=0,
            max_input_length=LONGEST,
            return_end_token=True,
            return_scores=True,
            disable_unk=disable_unk,
        )
        return [
            [
                (_hypothesis(tokens, score, options.penalty), tokens[-1:] == [SPECIALS[EOS]])
                for tokens, score in zip(each.hypotheses, each.scores, strict=True)
            ]
            for each in results
        ]

    def force(self, rows: Rows, targets: Rows) -> list[Hypothesis]:
        """The targets, ids with EOS, with the model's log-probabilities of their tokens."""
        outputs = [row[:-1] for row in _tokens(targets)]
        results = self.engine.score_batch(_tokens(rows), outputs, max_input_length=LONGEST)
        found = []
        for ids, each in zip(targets, results, strict=True):
            log_probs = tuple(each.log_probs)
            found.append(Hypothesis(tuple(ids), sum(log_probs), sum(log_probs), log_probs))
        return found


def rows(padded: Padded) -> list[list[int]]:
    """The rows of a padded batch, each with its real ids."""
    return [row[:length] for row, length in zip(padded.values.tolist(), padded.lengths.tolist(), strict=True)]


def _tokens(rows: Rows) -> list[list[str]]:
    return [[NAMES[i] if i in NAMES else str(i) for i in row] for row in rows]


def _hypothesis(tokens: list[str], score: float, penalty: float) -> Hypothesis:
    ids = tuple([IDS[token] if token in IDS else int(token) for token in tokens])
    ended = ids if ids[-1:] == (EOS,) else (*ids, EOS)
    return Hypothesis(ended, score * len(ended) ** penalty, score)


def open_translator(folder: Path, precision: str, threads: int) -> Translator:
    """The CTranslate2 model in ``folder``, for the CPU; 0 ``threads`` leave their number to CTranslate2. Raises
    MissingPackageError if CTranslate2 is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise MissingPackageError(
            "an export for ctranslate2 needs ctranslate2, which is not installed: pip install 'transduce[ctranslate2]'"
        ) from error
    options = {"device": "cpu", "compute_type": precision, "inter_threads": 1, "intra_threads": threads}
    return Translator(ctranslate2.Translator(str(folder), **options))
