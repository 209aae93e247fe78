"""Hidden Markov models of labels, counted.

B rows, T tokens, N tokens in total, C pieces of a word, L labels (I to the left of J), U different words, P different
pairs of word and label, R rows of the table of known words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.chain import Trellis, check_lengths
from transduce.data.pairs import Pairs
from transduce.errors import UserError
from transduce.modules.spelling import words
from transduce.statistical.affixes import Affixes
from transduce.statistical.back_off import BackOff
from transduce.statistical.counted import OnePass, check_tokens, empty
from transduce.statistical.kneser_ney import estimate
from transduce.types import BOS, EOS, PAD, UNK, Batch, Padded, real_mask

Ids = NDArray[Any]
ROWS, CELLS = 1024, 2**24  # pairs per chunk, and the most pairs of labels in it
SPELLED = (
    "the source is spelled, and prefix and suffix are 0: set model.prefix or model.suffix to how many pieces of a word "
    'are to be looked at, or data.units.source to "symbols"'
)


class HiddenMarkov(nn.Module):
    """p(x, y) = prod_t p(y_t | y_t-1) p(x_t | y_t): each label follows a label and emits a word. Counted from labelled
    words.

    p(y_t | y_t-1) is smoothed like n-grams (kneser_ney.py). p(x_t | y_t) is p(y_t | x_t) p(x_t) / p(y_t); p(x_t) is the
    same for all labels and is left out.

    If the source is spelled, the first ``prefix`` and the last ``suffix`` pieces of a word predict its label. They
    alone decide for unknown words (after Brants 2000, section 2.3). For known words they count like ``strength`` more
    occurrences. They are learned from words that occur at most ``rare`` times. With neither, each token of the source
    is a word.
    """

    def __init__(
        self,
        source_vocabulary: int,
        source_words: int,
        source_factors: int,
        target_vocabulary: int,
        prefix: int = 0,
        suffix: int = 0,
        rare: int = 10,
        strength: float = 1.0,
    ) -> None:
        super().__init__()
        if source_factors > 1:
            raise UserError(
                f"a hidden Markov model reads one id a token, and each step of the source has {source_factors}: set "
                "data.units.source to units of text without factors, such as symbols or spelled"
            )
        for name, value, least in (("prefix", prefix, 0), ("suffix", suffix, 0), ("rare", rare, 1)):
            if value < least:
                raise UserError(f"{name} = {value}: at least {least} was expected")
        if not 0 < strength < math.inf:
            raise UserError(f"strength = {strength}: a number of more than 0 was expected")
        if source_words and not prefix + suffix:
            raise UserError(SPELLED)
        self.prefix, self.suffix, self.rare, self.strength = prefix, suffix, rare, strength
        self.alphabet = source_vocabulary if prefix + suffix else 0
        self.rows = source_words + 1 if prefix + suffix else source_vocabulary + 1
        self.labels = target_vocabulary
        self.beginnings, self.endings = Affixes(target_vocabulary), Affixes(target_vocabulary)
        self.known = empty(torch.float32, target_vocabulary)  # log p(y | x) - log p(y), [R, L]; row 0 is zero
        self.prior = empty()  # log p(y), [L]
        self.transition = empty(torch.float32, target_vocabulary + 1)  # [1 + I, J + 1]: from the begin, and to the end

    def counts(self, pairs: Pairs) -> LabelCounts:
        return LabelCounts(self, pairs)

    def trellis(self, source: Padded) -> Trellis:
        if len(self.known) != self.rows:
            raise UserError("this hidden Markov model has not been counted, or not with these words: train it first")
        row_BT, pieces_BTC, lengths_B = self.read(source)
        unary_BTL, unknown_BT = self.known[row_BT], row_BT == 0
        unary_BTL[unknown_BT] = self.spelled(pieces_BTC[unknown_BT]) - self.prior
        return Trellis(unary_BTL, lengths_B, self.transition[1:, :-1], self.transition[0, :-1], self.transition[1:, -1])

    def read(self, source: Padded) -> tuple[Tensor, Tensor, Tensor]:
        """Each word's row in the table of known words [B, T], its pieces [B, T, C], and the number of words [B],
        without EOS.

        Row 0 means unknown. If tokens are words, there are no pieces: C is 0. Raises UserError if the source is spelled
        and the model has neither prefix nor suffix.
        """
        if not self.alphabet:
            if bool((source.values == BOS).any()):
                raise UserError(SPELLED)
            lengths_B = source.lengths - 1
            row_BT = 1 + source.values[:, : max(1, int(lengths_B.max()))]
            return row_BT, row_BT.new_empty(*row_BT.shape, 0), lengths_B
        spelled = words(source, self.alphabet)
        lengths_B = spelled.lengths - 1
        ids_BTC = spelled.values[:, : max(1, int(lengths_B.max()))]
        return (ids_BTC[..., 0] - self.alphabet + 1).clamp(min=0), ids_BTC[..., 1:], lengths_B

    def spelled(self, pieces_NC: Tensor) -> Tensor:
        """[N, L]: log p(y | spelling) for the pieces of ``read``. First and last pieces are independent given y."""
        begun_NL = self.beginnings(pieces_NC[:, : self.prefix])
        ended_NL = self.endings(backward(pieces_NC)[:, : self.suffix])
        both_NL: Tensor = begun_NL + ended_NL - self.endings.log_prob[0]
        return both_NL.log_softmax(-1)


def backward(pieces_NC: Tensor) -> Tensor:
    """[N, C]: the words with their pieces in reverse order, each still closed with EOS and padded at the end."""
    length_N1 = (pieces_NC != PAD).sum(1, keepdim=True) - 1
    place_NC = length_N1 - 1 - torch.arange(pieces_NC.shape[1], device=pieces_NC.device)
    turned_NC = pieces_NC.gather(1, place_NC.clamp(min=0)).masked_fill(place_NC < 0, PAD)
    return turned_NC.masked_fill(place_NC == -1, EOS)


class LabelCounts(OnePass):
    """The counts of a hidden Markov model: labelled words."""

    def __init__(self, model: HiddenMarkov, pairs: Pairs) -> None:
        check_tokens("a hidden Markov model", pairs.source, pairs.target)
        tokens = int(pairs.target_lengths.sum())
        super().__init__(tokens, tokens - len(pairs), model.labels - UNK)
        self.model, self.pairs = model, pairs

    def count(self) -> None:
        model, V = self.model, self.model.labels
        labelled_PC, count_P = self._words()
        words_UC, number_P, _ = _distinct(labelled_PC[:, 1:])
        row_U, pieces_UC = words_UC[:, 0], torch.from_numpy(words_UC[:, 1:]).long()
        counts_UL = np.zeros((len(row_U), V))
        counts_UL[number_P, labelled_PC[:, 0]] = count_P
        prior_L = (counts_UL.sum(0) + 1) / (count_P.sum() + V)
        rare_U = counts_UL.sum(1) <= model.rare
        ways = ((model.beginnings, pieces_UC, model.prefix), (model.endings, backward(pieces_UC), model.suffix))
        for affixes, way_UC, longest in ways:
            affixes.learn(way_UC[rare_U, :longest].numpy(), counts_UL[rare_U], prior_L, model.strength)
        spelled_UL = model.spelled(pieces_UC.to(model.endings.keys)).double().exp().cpu().numpy()
        counts_RL, spelled_RL = np.zeros((2, model.rows, V))
        np.add.at(counts_RL, row_U, counts_UL)
        np.add.at(spelled_RL, row_U, spelled_UL * counts_UL.sum(1, keepdims=True))
        seen_R1 = counts_RL.sum(1, keepdims=True)
        rare_L = model.endings.log_prob[0].double().exp().cpu().numpy()
        guess_RL = np.where(seen_R1 > 0, spelled_RL / np.maximum(seen_R1, 1), rare_L)
        known_RL = (counts_RL + model.strength * guess_RL) / (seen_R1 + model.strength)
        model.prior.data = torch.from_numpy(np.log(prior_L)).to(model.prior)
        model.known.data = torch.from_numpy(np.log(known_RL / prior_L)).to(model.known)
        model.transition.data = self._transitions().to(model.transition)

    def log_prob(self) -> float:
        return sum(map(self._log_prob, self._batches()))

    def _log_prob(self, batch: Batch) -> float:
        batch = batch.to(self.model.prior.device)
        trellis = self.model.trellis(batch.source)
        score_B = trellis.score(trellis.own(batch.target.values, batch.target.lengths - 1))
        return float((score_B - trellis.log_normaliser).double().sum())

    def _batches(self) -> Iterator[Batch]:
        return self.pairs.in_turn(max(1, min(ROWS, CELLS // self.model.labels**2)))

    def _words(self) -> tuple[Ids, Ids]:
        """Each different labelled word once: label, row and pieces [P, 2 + C]; and its count [P]."""
        found = []
        for batch in self._batches():
            row_BT, pieces_BTC, lengths_B = self.model.read(batch.source)
            check_lengths(lengths_B, batch.target.lengths - 1)
            label_BT = batch.target.values[:, : row_BT.shape[1]]
            columns = torch.cat([label_BT[..., None], row_BT[..., None], pieces_BTC], -1)
            labelled_NC = columns[real_mask(lengths_B, row_BT.shape[1])].to(torch.int32).numpy()
            distinct_PC, _, count_P = _distinct(labelled_NC)
            found.append((distinct_PC, count_P))
        longest = max(each.shape[1] for each, _ in found)
        wide = [np.pad(each, ((0, 0), (0, longest - each.shape[1])), constant_values=PAD) for each, _ in found]
        distinct_PC, number_M, _ = _distinct(np.concatenate(wide))
        return distinct_PC, np.bincount(number_M, np.concatenate([count for _, count in found]), len(distinct_PC))

    def _transitions(self) -> Tensor:
        """log p(label or end | begin or label), [1 + V, V + 1]."""
        V, bigrams = self.model.labels, BackOff()
        bigrams.learn(estimate(self.pairs.target.unclosed(), V, order=2))
        history = torch.cat([bigrams.ends[1:], bigrams.after[1 : V + 1]])
        log_prob_E: Tensor = bigrams(history.repeat_interleave(V + 1), torch.arange(V + 1).repeat(V + 1))[0]
        return log_prob_E.view(V + 1, V + 1)


def _distinct(rows_NC: Ids) -> tuple[Ids, Ids, Ids]:
    """Like ``np.unique(axis=0)``: the distinct rows [U, C], each row's index into them [N], and their counts [U].

    It compares rows as bytes, which is dozens of times faster. So the distinct rows are not in numerical order.
    """
    rows_NC = np.ascontiguousarray(rows_NC)
    whole_N = rows_NC.view(f"V{rows_NC.shape[1] * rows_NC.itemsize}")[:, 0]
    _, first_U, number_N, count_U = np.unique(whole_N, return_index=True, return_inverse=True, return_counts=True)
    return rows_NC[first_U], number_N, count_U
