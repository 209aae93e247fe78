"""A linear tagger of sparse features, estimated in seconds. N words, K features of a word, F features, V labels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.chain import check_lengths
from transduce.core.errors import UserError
from transduce.core.types import UNK, Batch, Emission, Padded
from transduce.data.pairs import Pairs
from transduce.models.tables import check_ascending, check_rows
from transduce.training.counted import OnePass, check_tokens, empty
from transduce.wings.labels.linear import LARGEST, NEVER
from transduce.wings.labels.tagger import label_each
from transduce.wings.labels.word_features import divided, features

SENTENCES, WORDS = 256, 512  # of a batch that is read, and of an update
EPOCHS, RATE, FORGOTTEN = 8, 0.3, 0.2
SEED = 1


class LinearTagger(nn.Module):
    """p(y_t | x) = softmax(W f(x, t)): f are the features of a word and its neighbours, each 0 or 1.

    The source's unit is "spelled". The features are the word, its first and last one to five pieces, the two words on
    either side, the endings and the shapes beside it, and pairs of these. A word that the unit knows counts alike in
    all its spellings, such as "The" and "the". With ``shapes`` of the unit, the first piece is the shape of a word. In
    a source without marks of words each token is a word.

    Features that occur less than ``minimum_count`` times in training are left out. W is a multinomial logistic
    regression: eight passes over the words with AdaGrad (Duchi et al. 2011), in which a fifth of the features of each
    word are left out at random, always by the same seed. Raises UserError for a smaller ``minimum_count`` than 1.
    """

    def __init__(
        self, source_vocabulary: int, target_vocabulary: int, source_words: int, minimum_count: int = 2
    ) -> None:
        super().__init__()
        if minimum_count < 1:
            raise UserError(f"minimum_count = {minimum_count}: at least 1 was expected")
        self.alphabet, self.labels, self.minimum_count = source_vocabulary, target_vocabulary, minimum_count
        self.wholes = source_words  # their marks are the ids from ``alphabet`` on
        self.keys = empty(torch.int64)  # ascending
        self.weight = empty(torch.float32, target_vocabulary)  # its last row has no feature: it is the bias

    def counts(self, pairs: Pairs) -> LinearTaggerCounts:
        return LinearTaggerCounts(self, pairs)

    def check_tables(self) -> None:
        check_ascending("keys", self.keys)
        check_rows(len(self.keys) + 1 if len(self.weight) else 0, {"weight": self.weight})

    def start(self, source: Padded) -> Padded:
        """The logits [B, T, V] of the words. Raises UserError before training."""
        if not len(self.weight):
            raise UserError("this linear tagger has not been counted: train it first")
        words = divided(source, self.alphabet)
        feature_NK = self.known(features(source, words))
        bag_NV = nn.functional.embedding_bag(feature_NK, self.weight, mode="sum", padding_idx=len(self.keys))
        longest = int(words.count_B.max())
        logits_BTV = bag_NV.new_zeros(len(words.count_B), max(1, longest), self.labels)
        logits_BTV[words.row_N, words.place_N] = bag_NV + self.weight[-1]
        return Padded(logits_BTV, words.count_B)

    def known(self, key_NK: Tensor) -> Tensor:
        """The numbers of the features; those that training lacks have the number F."""
        if not len(self.keys):
            return torch.zeros_like(key_NK)
        place_NK = torch.searchsorted(self.keys, key_NK).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[place_NK] == key_NK, place_NK, len(self.keys))

    def emit(self, state: Padded, lengths: Tensor | None = None) -> Emission:
        return label_each(state, lengths)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)


class LinearTaggerCounts(OnePass):
    """The features of the training words, and their regression."""

    def __init__(self, model: LinearTagger, pairs: Pairs) -> None:
        check_tokens("a linear tagger", pairs.source, pairs.target)
        places = int(pairs.target_lengths.sum()) - len(pairs)
        super().__init__(places + len(pairs), places, model.labels - UNK - 1)
        self.model, self.pairs = model, pairs

    @torch.no_grad()
    def count(self) -> None:
        model, where = self.model, self.model.weight.device
        model.cpu()
        key_NK, label_N = self._words()
        if not len(label_N):
            raise UserError("the training targets name no label")
        keys, count = torch.unique(key_NK, return_counts=True)
        kept = keys[count >= model.minimum_count]
        if len(kept) * model.labels > LARGEST:
            raise UserError(
                f"{len(kept):,} features for each of {model.labels:,} labels are too many weights: set "
                f"model.minimum_count = {model.minimum_count + 1} or more"
            )
        model.keys.data = kept
        model.weight.data = fitted(model.known(key_NK), label_N, len(kept), model.labels)
        self.report = (f"{len(kept):,} features of {len(label_N):,} words",)
        model.to(where)

    def _words(self) -> tuple[Tensor, Tensor]:
        """The features [N, K] and the labels [N] of all training words whose label is known."""
        keys, labels = [], []
        for batch in self.pairs.in_turn(SENTENCES):
            words = divided(batch.source, self.model.alphabet)
            label_N = _labels(batch, words.count_B)
            keys.append(features(batch.source, words)[label_N > UNK])
            labels.append(label_N[label_N > UNK])
        return torch.cat(keys), torch.cat(labels)

    def log_prob(self) -> float:
        total = 0.0
        for batch in self.pairs.in_turn(SENTENCES):
            batch = batch.to(self.model.weight.device)
            logits = self.model.start(batch.source)
            log_p_NV = logits.values[logits.mask].log_softmax(-1)
            label_N = _labels(batch, logits.lengths)
            total += float(log_p_NV.gather(1, label_N[:, None])[label_N > UNK].double().sum())
        return total


def _labels(batch: Batch, count_B: Tensor) -> Tensor:
    """The labels of all words of a batch, one after the other. Raises UserError if a row has more or fewer."""
    check_lengths(count_B, batch.target.lengths - 1)
    labels = Padded(batch.target.values, count_B)
    return labels.values[labels.mask]


def fitted(feature_NK: Tensor, label_N: Tensor, features: int, labels: int) -> Tensor:
    """The weights [F + 1, V] of a logistic regression; the last row is the bias. A feature with the number F is none.

    The rate of a feature falls with the squared gradients that it has had, and all rates fall to 0.
    """
    N, K = feature_NK.shape
    bias, missing = features, features + 1
    weight, squares = torch.zeros(features + 2, labels), torch.full((features + 2,), 1e-6)
    weight[bias] = NEVER
    weight[bias, label_N] = 0.0
    draw = torch.Generator().manual_seed(SEED)
    of_N = torch.cat([feature_NK.masked_fill(feature_NK == bias, missing), label_N.new_full((N, 1), bias)], 1)
    parts = [part for _ in range(EPOCHS) for part in torch.split(torch.randperm(N, generator=draw), WORDS)]
    for update, part in enumerate(parts):
        feature_PK = of_N[part]
        feature_PK[:, :K].masked_fill_(torch.rand(len(part), K, generator=draw) < FORGOTTEN, missing)
        wrong_PV = nn.functional.embedding_bag(feature_PK, weight, mode="sum", padding_idx=missing).softmax(-1)
        wrong_PV[torch.arange(len(part)), label_N[part]] -= 1
        flat = feature_PK.flatten()
        squares.index_add_(0, flat, wrong_PV.square().sum(1).repeat_interleave(K + 1))
        rate = -RATE * (1 - update / len(parts)) / squares[flat].sqrt()
        weight.index_add_(0, flat, wrong_PV.repeat_interleave(K + 1, 0) * rate[:, None])
    return weight[:missing].clone()
