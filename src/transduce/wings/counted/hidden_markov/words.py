"""Emissions of words: which words a label generates.

B rows, T words, C pieces of a word, L labels, U different words, F different forms of known words, R rows of the table
of known words, N words in total.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.core.chain import check_lengths
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, PAD, Padded, real_mask
from transduce.models.tables import check, check_ascending, check_rows
from transduce.training.counted import empty
from transduce.wings.counted.affixes import Affixes
from transduce.wings.counted.hidden_markov.base import Weighted
from transduce.wings.labels.spelling import words

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]
SPELLED = (
    "the source is spelled, and prefix and suffix are 0: set model.emission.prefix or model.emission.suffix to how "
    'many pieces of a word are to be looked at, or data.units.source to "symbols"'
)


@dataclass(frozen=True)
class Words:
    """The words of B rows. ``row`` [B, T] is their row in the table of known words (0: unknown), ``shape`` [B, T] their
    shape, and ``pieces`` [B, T, C] their pieces. ``lengths`` [B] counts words, without EOS.

    If tokens are words, they have no pieces: C is 0.
    """

    row: Tensor
    shape: Tensor
    pieces: Tensor
    lengths: Tensor

    @property
    def first(self) -> Tensor:
        """[B, T]: 1 for the first word of each row, otherwise 0."""
        first_BT = torch.zeros_like(self.row)
        first_BT[:, 0] = 1
        return first_BT


class WordEmissions(nn.Module):
    """The emission probability of words x by label y: p(x | y) = p(y | x) p(x) / p(y). Counts and spelling give p(y |
    x). p(x) is left out, because it is the same for all labels.

    If the source is spelled, the first ``prefix`` and the last ``suffix`` pieces of a word predict its label (after
    Brants 2000, section 2.3). First pieces are counted apart at the beginning of a line, and last pieces apart for each
    shape, if the unit ``spelled`` has shapes. Affixes are learned from words that occur at most ``rare`` times. A
    longer affix must occur ``abstraction`` times to weigh as much as the shorter ones. The spelling alone decides for
    unknown words. For known words it counts like ``strength`` more occurrences. An unknown form at the beginning of a
    line also uses the counts of words that differ from it only in shape. If ``prefix`` and ``suffix`` are 0, each token
    of the source is a word.
    """

    def __init__(
        self,
        labels: int,
        source_vocabulary: int,
        source_words: int,
        source_factors: int,
        source_shapes: int,
        prefix: int = 0,
        suffix: int = 0,
        rare: int = 10,
        strength: float = 1.0,
        abstraction: float = 4.0,
    ) -> None:
        super().__init__()
        if source_factors > 1:
            raise UserError(
                f"a hidden Markov model of words reads one id a token, and each step of the source has "
                f"{source_factors}: set data.units.source to units of text without factors, such as symbols or "
                'spelled, or model.emission to "gaussian" for numbers'
            )
        for name, value, least in (("prefix", prefix, 0), ("suffix", suffix, 0), ("rare", rare, 1)):
            if value < least:
                raise UserError(f"{name} = {value}: at least {least} was expected")
        for name, number in (("strength", strength), ("abstraction", abstraction)):
            if not 0 < number < math.inf:
                raise UserError(f"{name} = {number}: a number of more than 0 was expected")
        if source_words and not prefix + suffix:
            raise UserError(SPELLED)
        self.prefix, self.suffix, self.rare = prefix, suffix, rare
        self.strength, self.abstraction = strength, abstraction
        self.alphabet = source_vocabulary if prefix + suffix else 0
        self.shapes, self.labels, self.table = source_shapes, labels, source_words + 1
        self.beginnings, self.endings = Affixes(labels), Affixes(labels)
        self.prior = empty()  # log p(y), [L]
        self.forms = empty(torch.long)  # row and shape of known words, ascending, [F]
        self.known = empty(torch.float32, labels)  # log p(x | y) - log p(x) of these, [F, L]
        self.rows = empty(torch.float32, labels)  # how often known words have each label, in any shape, [R, L]

    def check_tables(self) -> None:
        counted = len(self.forms) > 0
        check_rows(len(self.forms), {"known": self.known})
        check_ascending("forms", self.forms)
        check_rows(self.labels if counted else 0, {"prior": self.prior})
        check(len(self.rows) in (0, self.table), "rows", f"{self.table} rows, or none,")
        spelled = counted and self.alphabet > 0
        for name, affixes in (("beginnings", self.beginnings), ("endings", self.endings)):
            check(len(affixes.log_prob) > 0 or not spelled, name, "one affix or more")

    def forward(self, source: Padded) -> Padded:
        if not len(self.forms):
            raise UserError("this hidden Markov model has not been counted, or not with these words: train it first")
        read = self.read(source)
        place_BT, known_BT = self.place(read)
        unary_BTL = self.known[place_BT]
        unknown_BT = ~known_BT & real_mask(read.lengths, read.row.shape[1])
        each = (part[unknown_BT] for part in (read.first, read.row, read.shape, read.pieces))
        unary_BTL[unknown_BT] = self.guess(*each).log() - self.prior
        return Padded(unary_BTL, read.lengths)

    def lengths(self, source: Padded) -> Tensor:
        return self.read(source).lengths

    def estimation(self, batches: Iterable[Weighted], free: Tensor) -> WordEstimation:
        return self.estimation_from([self.count(batches)], free)

    def count(self, batches: Iterable[Weighted]) -> WordCounts:
        return added(_counted(self.read(source), weights) for source, weights in batches)

    def estimation_from(self, parts: Iterable[WordCounts], free: Tensor) -> WordEstimation:
        return WordEstimation(self, added(parts), free)

    def read(self, source: Padded) -> Words:
        """The words of a source. Raises UserError for numbers, for a spelled source if ``prefix`` and ``suffix`` are 0,
        and for a source that is not spelled if one of them is not 0.
        """
        if source.values.is_floating_point():
            raise UserError(
                "a hidden Markov model of words counts tokens, and the data has numbers: set data.units.source to "
                'text\'s, or model.emission to "gaussian"'
            )
        if not self.alphabet:
            if bool((source.values == BOS).any()):
                raise UserError(SPELLED)
            lengths_B = source.lengths - 1
            row_BT = 1 + source.values[:, : max(1, int(lengths_B.max()))]
            return Words(row_BT, torch.zeros_like(row_BT), row_BT.new_empty(*row_BT.shape, 0), lengths_B)
        spelled = words(source, self.alphabet)
        lengths_B = spelled.lengths - 1
        ids_BTC = spelled.values[:, : max(1, int(lengths_B.max()))]
        row_BT = (ids_BTC[..., 0] - self.alphabet + 1).clamp(min=0)
        if not self.shapes:
            return Words(row_BT, torch.zeros_like(row_BT), ids_BTC[..., 1:], lengths_B)
        shape_BT = (ids_BTC[..., 1] - (self.alphabet - self.shapes)).clamp(min=0)
        return Words(row_BT, shape_BT, ids_BTC[..., 2:], lengths_B)

    def place(self, read: Words) -> tuple[Tensor, Tensor]:
        """The index in ``forms`` of each word's form [B, T], and whether the form is known [B, T]. An index of an
        unknown form has no meaning.
        """
        form_BT = self.form(read.row, read.shape)
        place_BT = torch.searchsorted(self.forms, form_BT).clamp(max=len(self.forms) - 1)
        return place_BT, (self.forms[place_BT] == form_BT) & (read.row > 0)

    def form(self, row: Tensor, shape: Tensor) -> Tensor:
        return row * max(1, self.shapes) + shape

    def guess(self, first_N: Tensor, row_N: Tensor, shape_N: Tensor, pieces_NC: Tensor) -> Tensor:
        """[N, L]: p(y | x) of words whose form is not known, from their spelling. For the first word of a line
        (``first_N`` is 1), the counts of words that differ only in shape are used too.
        """
        guess_NL = self.spelled(first_N, shape_N, pieces_NC).exp()
        if not len(self.rows):
            return guess_NL
        same_NL = self.rows[row_N] * ((first_N > 0) & (row_N > 0))[:, None]
        return (same_NL + self.strength * guess_NL) / (same_NL.sum(1, keepdim=True) + self.strength)

    def spelled(self, first_N: Tensor, shape_N: Tensor, pieces_NC: Tensor) -> Tensor:
        """[N, L]: log p(y | spelling). First and last pieces are independent given y."""
        begun_NL = self.beginnings(self.first_pieces(first_N, pieces_NC))
        ended_NL = self.endings(self.last_pieces(shape_N, pieces_NC))
        both_NL: Tensor = begun_NL + ended_NL - self.endings.log_prob[0]
        return both_NL.log_softmax(-1)

    def first_pieces(self, first_N: Tensor, pieces_NC: Tensor) -> Tensor:
        return _after(first_N, pieces_NC[:, : self.prefix]) if self.prefix else pieces_NC[:, :0]

    def last_pieces(self, shape_N: Tensor, pieces_NC: Tensor) -> Tensor:
        return _after(shape_N, backward(pieces_NC)[:, : self.suffix]) if self.suffix else pieces_NC[:, :0]


def _after(class_N: Tensor, pieces_NC: Tensor) -> Tensor:
    """The pieces, after one more piece that stands for a class of words (1 + ``class_N``)."""
    return torch.cat([1 + class_N[:, None], pieces_NC], 1)  # 0 is padding


def backward(pieces_NC: Tensor) -> Tensor:
    """[N, C]: the words with their pieces in reverse order, each still closed with EOS and padded at the end."""
    length_N1 = (pieces_NC != PAD).sum(1, keepdim=True) - 1
    place_NC = length_N1 - 1 - torch.arange(pieces_NC.shape[1], device=pieces_NC.device)
    turned_NC = pieces_NC.gather(1, place_NC.clamp(min=0)).masked_fill(place_NC < 0, PAD)
    return turned_NC.masked_fill(place_NC == -1, EOS)


@dataclass(frozen=True)
class WordCounts:
    """Each different word once: its row for ``_columns`` [U, 3 + C], its total weight for each label [U, L], and its
    number of occurrences [U].
    """

    columns_UC: Ids
    weights_UL: Numbers
    seen_U: Ids | Numbers


def added(parts: Iterable[WordCounts]) -> WordCounts:
    """The sums of the counts. The words have a fixed order, which does not depend on the parts."""
    found = list(parts)
    longest = max(part.columns_UC.shape[1] for part in found)
    wide = [
        np.pad(part.columns_UC, ((0, 0), (0, longest - part.columns_UC.shape[1])), constant_values=PAD)
        for part in found
    ]
    distinct_UC, number_M, _ = _distinct(np.concatenate(wide))
    weights_UL = _sums(number_M, np.concatenate([part.weights_UL for part in found]), len(distinct_UC))
    seen_U = _sums(number_M, np.concatenate([part.seen_U[:, None] for part in found]), len(distinct_UC))[:, 0]
    return WordCounts(distinct_UC, weights_UL, seen_U)


def _counted(read: Words, weights: Padded) -> WordCounts:
    check_lengths(read.lengths, weights.lengths)
    columns_BTC = torch.cat([torch.stack([read.first, read.row, read.shape], -1), read.pieces], -1)
    real_BT = real_mask(read.lengths, read.row.shape[1])
    distinct_UC, number_N, seen_U = _distinct(columns_BTC[real_BT].to(torch.int32).cpu().numpy())
    return WordCounts(distinct_UC, _sums(number_N, weights.values[real_BT].cpu().numpy(), len(distinct_UC)), seen_U)


class WordEstimation:
    """``Estimation`` of words. Affixes are learned once, from known labels. They give a Dirichlet prior: a form x
    counts as if it occurred ``strength`` times more, with label y in the share p(y | spelling of x).
    """

    def __init__(self, model: WordEmissions, counted: WordCounts, free: Tensor) -> None:
        self.model = model
        columns_UC, counts_UL, seen_U = counted.columns_UC, counted.weights_UL, counted.seen_U
        first_U, row_U, shape_U, pieces_UC = _columns(columns_UC)
        labelled = counts_UL.sum()
        prior_L = (counts_UL.sum(0) + 1) / (labelled + model.labels)
        _set(model.prior, np.log(prior_L))
        self._learn_affixes(columns_UC, counts_UL, prior_L)
        if model.shapes:
            _set(model.rows, _sums(row_U.numpy(), counts_UL, model.table))
        known_U = row_U.numpy() > 0
        forms_F, place_K = np.unique(model.form(row_U, shape_U).numpy()[known_U], return_inverse=True)
        _set(model.forms, forms_F)
        place = model.forms.device
        guess_UL = model.guess(*(each.to(place) for each in (first_U, row_U, shape_U, pieces_UC)))
        seen_K1 = seen_U[known_U][:, None]
        guess_FL, counts_FL, seen_F1 = (
            _sums(place_K, each, len(forms_F))
            for each in (seen_K1 * guess_UL.double().cpu().numpy()[known_U], counts_UL[known_U], seen_K1)
        )
        self.pseudo_FL = model.strength * guess_FL / seen_F1
        self.share_F1 = (seen_F1 + model.strength) / (seen_F1.sum() + model.strength * len(seen_F1))
        if not labelled:
            counts_FL = seen_F1 * _random_shares(len(forms_F), free)
        self._store(counts_FL)

    def reestimate(self, batches: Iterable[Weighted]) -> None:
        model = self.model
        counts_FL = torch.zeros(self.pseudo_FL.shape, dtype=torch.float64, device=model.forms.device)
        for source, weights in batches:
            place_BT, known_BT = model.place(model.read(source))
            known_BT = known_BT & weights.mask
            counts_FL.index_add_(0, place_BT[known_BT], weights.values[known_BT].double())
        self._store(counts_FL.cpu().numpy())

    def log_prior(self) -> float:
        return float((self.pseudo_FL * (self.model.known.double().cpu().numpy() + np.log(self.share_F1))).sum())

    def _store(self, counts_FL: Numbers) -> None:
        """Sets ``known`` of the model, log p(x | y) - log p(x), from the number of times that each form has each
        label.
        """
        both_FL = counts_FL + self.pseudo_FL
        _set(self.model.known, np.log(both_FL / both_FL.sum(0)) - np.log(self.share_F1))

    def _learn_affixes(self, columns_UC: Ids, counts_UL: Numbers, prior_L: Numbers) -> None:
        model = self.model
        first_U, _, shape_U, pieces_UC = _columns(columns_UC)
        word_U = _distinct(columns_UC[:, 1:])[1]
        rare_U = np.bincount(word_U, counts_UL.sum(1))[word_U] <= model.rare
        ways = (
            (model.beginnings, model.first_pieces(first_U, pieces_UC)),
            (model.endings, model.last_pieces(shape_U, pieces_UC)),
        )
        for affixes, way_UC in ways:
            affixes.learn(way_UC[rare_U].numpy(), counts_UL[rare_U], prior_L, model.abstraction)


def _columns(columns_UC: Ids) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Whether each word is the first of its line [U], its row, its shape and its pieces [U, C]."""
    ids_UC = torch.from_numpy(columns_UC).long()
    return ids_UC[:, 0], ids_UC[:, 1], ids_UC[:, 2], ids_UC[:, 3:]


def _sums(number_N: Ids, rows_NL: Ids | Numbers, size: int) -> Numbers:
    """[size, L]: the sum of the rows with each number."""
    sums_ML = torch.zeros(size, rows_NL.shape[1], dtype=torch.float64)
    sums_ML.index_add_(0, torch.from_numpy(number_N), torch.from_numpy(np.ascontiguousarray(rows_NL, np.float64)))
    return sums_ML.numpy()


def _random_shares(rows: int, free_L: Tensor) -> Numbers:
    """[rows, L]: random shares that sum to 1 in each row; 0 where ``free_L`` is False."""
    draws_NL = torch.empty(rows, len(free_L), dtype=torch.float64).exponential_() * free_L.cpu()
    return (draws_NL / draws_NL.sum(1, keepdim=True)).numpy()


def _distinct(rows_NC: Ids) -> tuple[Ids, Ids, Ids]:
    """Like ``np.unique(axis=0)``: the distinct rows [U, C], each row's index into them [N], and their counts [U].

    It compares rows as bytes, which is dozens of times faster. So the distinct rows are not in numerical order.
    """
    rows_NC = np.ascontiguousarray(rows_NC)
    whole_N = rows_NC.view(f"V{rows_NC.shape[1] * rows_NC.itemsize}")[:, 0]
    _, first_U, number_N, count_U = np.unique(whole_N, return_index=True, return_inverse=True, return_counts=True)
    return rows_NC[first_U], number_N, count_U


def _set(parameter: nn.Parameter, value: object) -> None:
    parameter.data = torch.as_tensor(value).to(parameter)
