"""n-gram language models, counted. B rows, T tokens, N positions, V vocabulary, C candidate columns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from functools import partial

import torch
from torch import Tensor, nn

from transduce.compute.cluster import AnyWorkers
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, UNK, Padded
from transduce.data.pairs import Pairs
from transduce.training.counted import OnePass, check_tokens
from transduce.wings.counted.kneser_ney import check_cutoffs, estimate
from transduce.wings.counted.ngram_counts import Sequences, count, count_by
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.pruning import check_threshold, prune

ROWS = 1024  # lines per chunk of a measurement


class Ngram(nn.Module):
    """p(y) = prod_t p(y_t | y_t-n+1 ... y_t-1) with n = ``order``, by interpolated modified Kneser-Ney.

    Chen and Goodman 1999. The end of a line is one more token. An n-gram of order n that occurs at most ``cutoffs[n -
    1]`` times is left out; the last of these numbers also holds for higher orders. Then ``prune``, a small number such
    as 1e-8, removes an n-gram of two or more words if the perplexity rises by a smaller share without it (Stolcke
    1998). It keeps the beginnings of all n-grams that stay. 0 removes none.

    The source only gives the number of rows. The state [B] is each row's history, the index of an n-gram, and the
    features [B, T] are these indices. The model's words are the token ids from UNK on, minus UNK, and the end.
    ``readout`` gives log-probabilities; PAD and BOS have minus infinity.
    """

    def __init__(
        self, target_vocabulary: int, order: int = 5, cutoffs: tuple[int, ...] = (), prune: float = 0.0
    ) -> None:
        super().__init__()
        if order < 1:
            raise UserError(f"order = {order}: at least 1 was expected")
        check_cutoffs(cutoffs, order)
        check_threshold(prune)
        self.order, self.vocabulary = order, target_vocabulary
        self.cutoffs, self.prune = cutoffs, prune
        self.ngrams = NgramLookup()

    def counts(self, pairs: Pairs) -> NgramCounts:
        return NgramCounts(self, pairs)

    def counts_in_parts(self, pairs: Pairs, workers: Callable[[], AnyWorkers]) -> NgramCounts:
        return NgramCounts(self, pairs, workers)

    def start(self, source: Padded) -> Tensor:
        if not len(self.ngrams) or self.ngrams.end != self.vocabulary - UNK:
            raise UserError(
                "this n-gram model has not been counted, or not with this vocabulary: train it by itself, then mix it "
                "with others"
            )
        return self.ngrams.ends[1:].repeat(tree.rows(source))

    def extend(self, tokens_BT: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        histories, first_B = [], self.ngrams.ends[1:].expand(len(tokens_BT))
        for token_B in tokens_BT.unbind(1):
            _, after_B = self.ngrams(state, _words(token_B))
            state = torch.where(token_B == BOS, first_B, after_B)  # a line begins
            histories.append(state)
        return torch.stack(histories, 1), state

    def step(self, state_N: Tensor, token_N: Tensor) -> tuple[Tensor, Tensor]:
        """log p(token | state) [N] and the next state [N], for any token ids but PAD and BOS: ``start``, then one token
        at a time.

        This is much faster than ``extend`` and ``readout`` if only some tokens' probabilities are needed.
        """
        found: tuple[Tensor, Tensor] = self.ngrams(
            state_N, torch.where(token_N == EOS, self.ngrams.end, _words(token_N))
        )
        return found

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        log_prob_NW = self.ngrams.every(output.flatten())
        never_N2 = log_prob_NW.new_full((len(log_prob_NW), 2), float("-inf"))  # PAD and BOS
        end_N1 = log_prob_NW[:, self.ngrams.end, None]
        log_prob_NV = torch.cat([never_N2, end_N1, log_prob_NW[:, : self.ngrams.end]], 1)
        wanted_NC = log_prob_NV if candidates is None else log_prob_NV[:, candidates]
        return wanted_NC.view(*output.shape, wanted_NC.shape[1])


def _words(ids: Tensor) -> Tensor:
    """The model's words: token ids minus UNK. PAD, BOS and EOS have no word and give 0, the word of UNK; callers
    replace or ignore it.
    """
    return (ids - UNK).clamp(min=0)


class NgramCounts(OnePass):
    """The counts of an n-gram model: the tokens of the targets. ``workers``, if given, makes the workers that count."""

    def __init__(self, model: Ngram, pairs: Pairs, workers: Callable[[], AnyWorkers] | None = None) -> None:
        check_tokens("an n-gram model", pairs.target)
        tokens = int(pairs.target_lengths.sum())
        super().__init__(tokens, tokens, model.vocabulary - EOS)
        self.model, self.pairs, self.workers = model, pairs, workers

    def count(self) -> None:
        model, target = self.model, self.pairs.target
        text, words = Sequences(target.ids, target.offsets, UNK), model.vocabulary - UNK
        with nullcontext() if self.workers is None else closing(self.workers()) as workers:
            counting = count if workers is None else partial(count_by, workers)
            found = estimate(text, words, model.order, model.cutoffs, counting)
        model.ngrams.learn(prune(found, model.prune))

    def log_prob(self) -> float:
        device = self.model.ngrams.ends.device
        return sum(self._log_prob(batch.target.to(device)) for batch in self.pairs.in_turn(ROWS))

    def _log_prob(self, target: Padded) -> float:
        ngrams, real_BT = self.model.ngrams, target.mask
        words_BT = torch.where(target.values == EOS, ngrams.end, _words(target.values))
        history_B, total = ngrams.ends[1:].repeat(len(words_BT)), 0.0
        for word_B, real_B in zip(words_BT.unbind(1), real_BT.unbind(1), strict=True):
            log_prob_B, history_B = ngrams(history_B, word_B)
            total += float(log_prob_B[real_B].double().sum())
        return total
