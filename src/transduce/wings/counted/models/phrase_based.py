"""Phrase-based translation: a phrase table, reordering probabilities and a language model, counted.

B sources, O options, N rows of any kind, P words of the longest phrase, F features.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.compute.cluster import AnyWorkers
from transduce.core.errors import UserError
from transduce.core.protocols import DERIVED
from transduce.core.types import EOS, PAD, UNK, Padded, PhraseOptions
from transduce.data.pairs import Pairs
from transduce.models.tables import check, check_ascending, check_offsets, check_range, check_rows, levels
from transduce.training.counted import OnePass, check_tokens, empty
from transduce.wings.alignment.links import Heuristic
from transduce.wings.counted.alignment.corpus import align_corpus
from transduce.wings.counted.kneser_ney import estimate as estimate_language
from transduce.wings.counted.ngram_counts import count, count_by
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.phrases.discounting import Discount
from transduce.wings.counted.phrases.extraction import Corpus
from transduce.wings.counted.phrases.reordering import Orientation
from transduce.wings.counted.phrases.table import SCORES, PhraseTable, estimate
from transduce.wings.counted.phrases.trie import Trie

Ids = NDArray[np.int64]

OWN = (*SCORES, "phrases", "words", "unknown")
ROWS = 1024  # lines per chunk of a measurement
WEIGHTS = (0.2, 0.2, 0.2, 0.2, 0.0, -0.5, -10.0, 0.3, *(0.2,) * 6, 0.5)
"""The weights before tuning, by feature. The last is the language model's."""


class PhraseBased(nn.Module):
    """Writes a translation phrase by phrase (Koehn, Och and Marcu 2003). A derivation's score is the weighted sum of
    its features: phrase probabilities and lexical weights in both directions, the numbers of phrases, words and unknown
    tokens, the distance and orientation of neighbouring phrases, and the log-probability of a language model.

    Counted: the training pairs are aligned in both directions and combined by ``symmetrisation``. Phrase pairs of at
    most ``longest`` tokens are extracted. Each source phrase keeps its ``limit`` best translations, with probabilities
    smoothed by ``discount``. ``orientation`` "phrase" looks for neighbouring phrase pairs, "word" for neighbouring
    links. The language model has n-grams of ``order`` tokens of the targets.

    A source token without a translation of its own is passed on: with ``copy``, as the same id, which needs joint
    units; otherwise as ``<unk>``.
    """

    feature_names = (*OWN, *DERIVED)

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        longest: int = 7,
        limit: int = 20,
        order: int = 5,
        discount: Discount = "kneser-ney",
        orientation: Orientation = "phrase",
        symmetrisation: Heuristic = "grow-diag-final-and",
        copy: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("longest", longest), ("limit", limit), ("order", order)):
            if value < 1:
                raise UserError(f"{name} = {value}: at least 1 was expected")
        if copy and source_vocabulary != target_vocabulary:
            raise UserError(
                "copy = true passes a source token on as the same target token, and the two vocabularies differ: set "
                "data.units.joint, or copy = false"
            )
        self.vocabularies = source_vocabulary, target_vocabulary
        self.longest, self.limit, self.order, self.copy = longest, limit, order, copy
        self.discount, self.orientation, self.symmetrisation = discount, orientation, symmetrisation
        self.source_keys, self.first = empty(torch.long), empty(torch.long)
        self.targets, self.lengths = empty(torch.int32, longest), empty(torch.int32)
        self.links = empty(torch.int8, longest)
        self.scores, self.orientations = empty(torch.float32, len(SCORES)), empty(torch.float32, 6)
        self.language = NgramLookup()
        self.weights = nn.Parameter(torch.tensor(WEIGHTS), requires_grad=False)

    def counts(self, pairs: Pairs) -> PhraseCounts:
        return PhraseCounts(self, pairs)

    def counts_in_parts(self, pairs: Pairs, workers: Callable[[], AnyWorkers]) -> PhraseCounts:
        return PhraseCounts(self, pairs, workers)

    def learn(self, table: PhraseTable) -> None:
        if not len(table.lengths):
            raise UserError(
                f"no phrase pair of at most model.longest = {self.longest} tokens fits the alignment: give more pairs, "
                "or set model.longest higher"
            )
        for parameter, values in (
            (self.source_keys, table.sources.keys),
            (self.first, table.first),
            (self.targets, table.targets),
            (self.lengths, table.lengths),
            (self.links, table.links),
            (self.scores, table.scores),
            (self.orientations, table.orientation),
        ):
            parameter.data = torch.from_numpy(np.ascontiguousarray(values)).to(parameter)

    def check_tables(self) -> None:
        sources, targets = self.vocabularies
        options = len(self.lengths)
        tables = {"targets": self.targets, "links": self.links, "scores": self.scores}
        check_rows(options, tables | {"orientations": self.orientations})
        if not len(self.first):
            check_rows(0, {"first": self.first, "source_keys": self.source_keys, "lengths": self.lengths})
            return
        check_offsets("first", self.first, len(self.source_keys), options)
        check_ascending("source_keys", self.source_keys)
        check_range("source_keys", self.source_keys, 0, sources * (1 + len(self.source_keys)) - 1)
        longest = len(levels("source_keys", self.source_keys // sources)) - 1
        check(longest <= self.longest, "source_keys", f"phrases of at most {self.longest} words")
        check_range("lengths", self.lengths, 1, self.longest)
        check_range("targets", self.targets, 0, targets - 1)
        words = targets - UNK
        check(not len(self.language) or self.language.end == words, "language.ends", f"the end {words}")

    # ----------------------------------------------------------- a derivation

    def options(self, source: Padded) -> PhraseOptions:
        if not len(self.first):
            raise UserError("this phrase-based model has not been counted: train it first")
        lengths_B = source.lengths.cpu().numpy() - 1
        begun_B = np.cumsum(lengths_B) - lengths_B
        real_BS = np.arange(source.values.shape[1]) < lengths_B[:, None]
        ids_P = source.values.cpu().numpy()[real_BS]
        row_P = np.repeat(np.arange(len(lengths_B)), lengths_B)
        start_P = np.arange(len(ids_P)) - begun_B[row_P]
        place_Q, length_Q, option_Q = self._found(ids_P, lengths_B[row_P] - start_P)
        order = np.lexsort((length_Q, place_Q))
        place_Q, length_Q, option_Q = place_Q[order], length_Q[order], option_Q[order]
        device = self.weights.device
        known = torch.from_numpy(option_Q >= 0).to(device)
        table_Q = torch.from_numpy(option_Q.clip(min=0)).to(device)
        passed_Q = torch.from_numpy(ids_P[place_Q] if self.copy else np.full(len(place_Q), UNK)).to(device)
        return PhraseOptions(
            row_O=torch.from_numpy(row_P[place_Q]).to(device),
            start_O=torch.from_numpy(start_P[place_Q]).to(device),
            end_O=torch.from_numpy(start_P[place_Q] + length_Q).to(device),
            tokens_OP=self._tokens(table_Q, known, passed_Q),
            length_O=torch.where(known, self.lengths[table_Q].long(), 1),
            links_OP=self.links[table_Q].long().masked_fill(~known[:, None], 0),
            features_OF=self._features(table_Q, known),
            orientation_O6=torch.where(known[:, None], self.orientations[table_Q], float(np.log(1 / 3))),
            lengths_B=torch.from_numpy(lengths_B).to(device),
        )

    def language_start(self, rows: int) -> Tensor:
        return self.language.ends[1:].repeat(rows)

    def language_step(self, state_N: Tensor, token_N: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self.language(
            state_N, torch.where(token_N == EOS, self.language.end, (token_N - UNK).clamp(min=0))
        )
        return found

    def language_estimate(self, tokens_OP: Tensor, length_O: Tensor) -> Tensor:
        state_O, total_O = torch.zeros_like(length_O), torch.zeros(len(length_O), device=length_O.device)
        for place in range(int(length_O.max()) if len(length_O) else 0):
            step_O, state_O = self.language_step(state_O, tokens_OP[:, place])
            total_O = total_O + torch.where(place < length_O, step_O, 0.0)
        return total_O

    def language_log_prob(self, target: Padded) -> Tensor:
        state_B = self.language_start(len(target.lengths))
        total_B = torch.zeros(len(target.lengths), dtype=torch.float64, device=state_B.device)
        for token_B, real_B in zip(target.values.unbind(1), target.mask.unbind(1), strict=True):
            log_prob_B, state_B = self.language_step(state_B, token_B)
            total_B = total_B + torch.where(real_B, log_prob_B, 0.0)
        return total_B

    def _found(self, ids_P: Ids, left_P: Ids) -> tuple[Ids, Ids, Ids]:
        """[Q] each: the index in ``ids_P`` where each option begins, its number of source tokens, and its index in the
        table, or -1 for a token that is passed on. Options that write <unk> are left out.
        """
        trie = Trie(self.source_keys.cpu().numpy(), self.vocabularies[0], self.longest)
        number_PL = trie.find(ids_P, left_P)
        first = self.first.cpu().numpy()
        place, length = np.nonzero(number_PL >= 0)
        number = number_PL[place, length]
        count = first[number + 1] - first[number]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        option_Q = np.repeat(first[number], count) + within
        known_Q = (self.targets.cpu().numpy()[option_Q] != UNK).all(1)  # no output has <unk> in the place of a word
        place_Q, length_Q = (np.repeat(each, count)[known_Q] for each in (place, length + 1))
        alone = np.ones(len(ids_P), bool)
        alone[place_Q[length_Q == 1]] = False
        passed = np.flatnonzero(alone)
        return (
            np.concatenate([place_Q, passed]),
            np.concatenate([length_Q, np.ones(len(passed), np.int64)]),
            np.concatenate([option_Q[known_Q], np.full(len(passed), -1)]),
        )

    def _tokens(self, table_Q: Tensor, known_Q: Tensor, passed_Q: Tensor) -> Tensor:
        if not len(self.targets):
            tokens_QP = torch.full((len(table_Q), self.longest), PAD, device=table_Q.device)
        else:
            tokens_QP = self.targets[table_Q].long().masked_fill(~known_Q[:, None], PAD)
        tokens_QP[:, 0] = torch.where(known_Q, tokens_QP[:, 0], passed_Q)
        return tokens_QP

    def _features(self, table_Q: Tensor, known_Q: Tensor) -> Tensor:
        scores_QF = self.scores[table_Q].masked_fill(~known_Q[:, None], 0.0)
        words_Q = torch.where(known_Q, self.lengths[table_Q], 1)
        others = torch.stack([torch.ones_like(words_Q), words_Q, ~known_Q], 1)
        return torch.cat([scores_QF, others.to(scores_QF)], 1)


class PhraseCounts(OnePass):
    """The counts of a phrase-based model. The log-probability is of the targets, by the language model alone: phrases
    have none. ``workers``, if given, makes the workers that extract and count phrase pairs and n-grams.
    """

    def __init__(self, model: PhraseBased, pairs: Pairs, workers: Callable[[], AnyWorkers] | None = None) -> None:
        check_tokens("a phrase-based model", pairs.source, pairs.target)
        tokens = int(pairs.target_lengths.sum())
        super().__init__(tokens, tokens, model.vocabularies[1] - EOS)
        self.model, self.pairs, self.workers = model, pairs, workers
        if workers is not None:
            self.report = ("words are aligned on this machine; the cluster counts phrase pairs and n-grams",)

    def count(self) -> None:
        model, sides = self.model, (self.pairs.source, self.pairs.target)
        links = align_corpus(*sides, agreement=True, heuristic=model.symmetrisation)
        if not len(links):
            raise UserError(
                "no word of a source was linked with a word of its target: give pairs with text on both sides"
            )
        source, target = (
            Corpus.of(side.unclosed(), words) for side, words in zip(sides, model.vocabularies, strict=True)
        )
        options = model.longest, model.limit, model.discount, model.orientation
        lines = [line - UNK for line in self.pairs.target.unclosed()]
        with nullcontext() if self.workers is None else closing(self.workers()) as workers:
            model.learn(estimate(source, target, links, *options, workers))
            counting = count if workers is None else partial(count_by, workers)
            language = estimate_language(lines, model.vocabularies[1] - UNK, model.order, counting=counting)
        model.language.learn(language)

    def log_prob(self) -> float:
        batches = self.pairs.in_turn(ROWS)
        device = self.model.weights.device
        return sum(float(self.model.language_log_prob(batch.target.to(device)).sum()) for batch in batches)
