"""Linear classifiers of sparse features, estimated in seconds. B rows, K features of a row, F features, V labels."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import UNK, Emission, Padded
from transduce.data.pairs import Pairs
from transduce.models.tables import check_ascending, check_rows
from transduce.training.counted import OnePass, check_tokens, empty
from transduce.wings.labels.classifier import check_one, one_label
from transduce.wings.labels.logistic import Examples, Regression, chosen_strength
from transduce.wings.labels.ngram_features import Bag, bags

BATCH = 256
LARGEST = 2**30  # weights
NEVER = -30.0  # the logit of special tokens and of labels without examples


class LinearLabels(nn.Module):
    """The base of linear classifiers: p(y | x) = softmax(W f(x) + b), where f(x) are the ``bags`` of a source.

    ``LinearClassifier`` tells how features get their values and weights; each bag has a norm of its own. Raises
    UserError if ``minimum_count`` is below 1.
    """

    what: ClassVar[str]  # the name for errors

    def __init__(
        self, source_vocabulary: int, target_vocabulary: int, source_words: int, minimum_count: int, unknown: bool
    ) -> None:
        super().__init__()
        check_least("minimum_count", minimum_count, 1)
        self.alphabet, self.labels = source_vocabulary, target_vocabulary
        self.wholes = source_words  # their marks are the ids from ``alphabet`` on
        self.minimum_count, self.unknown = minimum_count, unknown
        self.keys = empty(torch.int64)  # ascending, of all bags
        self.rarity = empty()  # 1 + ln((1 + N) / (1 + d))
        self.weight = empty(torch.float32, target_vocabulary)
        self.bias = empty()
        self.strength = empty()  # of the regularisation, [1]

    def bags(self, source: Padded) -> tuple[Bag, ...]:
        raise NotImplementedError

    def counts(self, pairs: Pairs) -> LinearCounts:
        return LinearCounts(self, pairs)

    def check_tables(self) -> None:
        check_ascending("keys", self.keys)
        check_rows(len(self.keys), {"rarity": self.rarity, "weight": self.weight})
        check_rows(self.labels if len(self.bias) else 0, {"bias": self.bias})
        check_rows(1 if len(self.bias) else 0, {"strength": self.strength})

    def start(self, source: Padded) -> Tensor:
        """The logits [B, V]. Raises UserError before training."""
        if not len(self.bias):
            raise UserError(f"this {self.what} has not been counted: train it first")
        logits_BV = self.bias.expand(len(source.lengths), -1).clone()
        for bag in self.bags(source):
            row_K, feature_K, value_K = self.known(bag, len(logits_BV))
            logits_BV.index_add_(0, row_K, value_K[:, None] * self.weight[feature_K])
        return logits_BV

    def known(self, bag: Bag, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """The row, the number of the feature and its value, of the keys of a bag that are features."""
        if not len(self.keys):
            none = bag.row_K[:0]
            return none, none, none.to(self.rarity)
        place_K = torch.searchsorted(self.keys, bag.key_K).clamp(max=len(self.keys) - 1)
        is_K = self.keys[place_K] == bag.key_K
        row_K, feature_K = bag.row_K[is_K], place_K[is_K]
        rarest = self.rarity.max() if self.unknown else self.rarity.new_zeros(())
        rarity_K = torch.where(is_K, self.rarity[place_K], rarest)
        value_K = (1 + bag.count_K.to(self.rarity).log()) * rarity_K
        square_B = value_K.new_zeros(rows).index_add_(0, bag.row_K, value_K.square())
        return row_K, feature_K, value_K[is_K] / square_B.sqrt()[row_K]

    def emit(self, state: Tensor, lengths: Tensor | None = None) -> Emission:
        return one_label(state, lengths)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)


class LinearClassifier(LinearLabels):
    """p(y | x) = softmax(W f(x) + b), where f(x) are the n-grams of words (``words``: the shortest and the longest n)
    and the n-grams of pieces within words (``pieces``). With ``apart``, the pairs of words that stand 1 to ``apart``
    places apart come to the n-grams of words; the beginning and the end of a source are words in them.

    The source's unit is "spelled"; its whole words count as spelled, too. A source without marks of words is read as
    one word. An n-gram that occurs c times in a source and in d of N training sources has the value (1 + ln c)(1 + ln
    ((1 + N) / (1 + d))) (TF-IDF). The n-grams of words and those of pieces are each divided by their Euclidean norm.
    N-grams in fewer than ``minimum_count`` training sources have no weight. With ``unknown`` they count in the norm, as
    rare as the rarest known one, so a source with few known n-grams is labelled with less certainty.

    W and b are a multinomial logistic regression. Its regularisation lets an n-gram have a larger weight for a label
    the more often, or the more rarely, it occurs with that label than with others (after Wang and Manning 2012). The
    strength of the regularisation is chosen on a fifth of the training pairs. Then all pairs are used. Raises UserError
    for other ranges.
    """

    what = "linear classifier"

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        source_words: int,
        words: tuple[int, int] = (1, 2),
        pieces: tuple[int, int] = (2, 5),
        minimum_count: int = 1,
        apart: int = 0,
        unknown: bool = False,
    ) -> None:
        for name, (least, most) in (("words", words), ("pieces", pieces)):
            if not 1 <= least <= most:
                raise UserError(f"{name} = {[least, most]}: the shortest and the longest n-gram were expected, from 1")
        check_least("apart", apart, 0)
        super().__init__(source_vocabulary, target_vocabulary, source_words, minimum_count, unknown)
        self.words, self.pieces, self.apart = words, pieces, apart

    def bags(self, source: Padded) -> tuple[Bag, ...]:
        return bags(source, self.alphabet, self.words, self.pieces, self.apart)


def check_least(name: str, value: int, lowest: int) -> None:
    """Raises UserError if the ``value`` of the setting ``name`` is smaller than ``lowest``."""
    if value < lowest:
        raise UserError(f"{name} = {value}: at least {lowest} was expected")


class LinearCounts(OnePass):
    """The features of the training sources, and their regression."""

    def __init__(self, model: LinearLabels, pairs: Pairs) -> None:
        check_tokens(f"a {model.what}", pairs.source, pairs.target)
        check_one(torch.as_tensor(pairs.target_lengths) - 1)
        super().__init__(2 * len(pairs), len(pairs), model.labels - UNK - 1)
        self.model, self.pairs = model, pairs

    def count(self) -> None:
        model, where = self.model, self.model.bias.device
        model.cpu()
        keys = self._learn_keys()
        if keys * model.labels > LARGEST:
            raise UserError(
                f"{keys:,} features for each of {model.labels:,} labels are too many weights: set "
                f"model.minimum_count = {model.minimum_count + 1} or more, or take fewer features"
            )
        examples, kinds = self._examples()
        strength = chosen_strength(examples, keys, len(kinds))
        regression = Regression(examples, keys, len(kinds))
        regression.fit(strength)
        model.weight.data = torch.zeros(keys, model.labels).index_copy_(1, kinds, regression.weights[:-1])
        model.bias.data = torch.full((model.labels,), NEVER).index_copy_(0, kinds, regression.weights[-1])
        model.strength.data = torch.tensor([strength])
        self.report = (f"{keys:,} features, regularised with a strength of {strength:g}",)
        model.to(where)

    def _learn_keys(self) -> int:
        """Gives the model its features and their rarity. Returns their number."""
        found = [bag.key_K for batch in self.pairs.in_turn(BATCH) for bag in self.model.bags(batch.source)]
        keys, count = torch.unique(torch.cat(found), return_counts=True)
        kept = count >= self.model.minimum_count
        self.model.keys.data = keys[kept]
        self.model.rarity.data = 1 + math.log(1 + len(self.pairs)) - (1 + count[kept]).float().log()
        return int(kept.sum())

    def _examples(self) -> tuple[Examples, Tensor]:
        """The examples, and the label ids that their labels stand for. Sources with an unknown label are left out."""
        parts, first = [], 0
        for batch in self.pairs.in_turn(BATCH):
            rows = len(batch.source.lengths)
            both = [torch.cat(each) for each in zip(*self._known(batch.source, rows), strict=True)]
            order = both[0].argsort(stable=True)
            parts.append((both[0][order] + first, both[1][order], both[2][order], batch.target.values[:, 0]))
            first += rows
        row_K, feature_K, value_K, label_N = (torch.cat(each) for each in zip(*parts, strict=True))
        told_N = label_N > UNK
        if not told_N.any():
            raise UserError("the training targets name no label")
        kinds, own_N = torch.unique(label_N[told_N], return_inverse=True)
        dense_N = torch.zeros_like(label_N).masked_scatter_(told_N, own_N)
        return Examples(row_K, feature_K, value_K, dense_N).select(told_N), kinds

    def _known(self, source: Padded, rows: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        return [self.model.known(bag, rows) for bag in self.model.bags(source)]

    def log_prob(self) -> float:
        total = 0.0
        for batch in self.pairs.in_turn(BATCH):
            batch = batch.to(self.model.bias.device)
            log_p_BV = self.model.start(batch.source).log_softmax(-1)
            total += float(log_p_BV.gather(1, batch.target.values[:, :1]).double().sum())
        return total
