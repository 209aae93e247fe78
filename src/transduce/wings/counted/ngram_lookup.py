"""A counted n-gram model as tensors, for many queries at once. E queries, N histories, W words, M n-grams."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.models.tables import check, check_ascending, check_range, check_rows, levels
from transduce.training.counted import empty
from transduce.wings.counted.ngrams import NGrams


class NgramLookup(nn.Module):
    """A call returns log p(w | h) (natural logarithm) and the next history, both [E], for histories h and words w [E].

    If h w was counted, p is its own probability; otherwise it is the back-off weight of h times p(w | suffix of h).
    Histories are indices of n-grams (ngrams.py). ``begun`` is the history at the beginning of a sequence, and ``end``
    is the word that ends it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.suffix, self.after = (empty(torch.long) for _ in range(3))
        self.log_prob, self.back_off = empty(), empty()
        self.ends = empty(torch.long)  # the end's number, and what to remember of a sequence that has just begun

    def learn(self, ngrams: NGrams) -> None:
        values: dict[str, object] = {
            "keys": ngrams.keys,
            "suffix": ngrams.suffix,
            "after": ngrams.after,
            "log_prob": torch.from_numpy(ngrams.probability).log(),
            "back_off": torch.from_numpy(ngrams.back_off).log(),
            "ends": [ngrams.end, ngrams.begun],
        }
        for name, value in values.items():
            parameter = getattr(self, name)
            parameter.data = torch.as_tensor(value).to(parameter)

    def check_tables(self) -> None:
        if not len(self.ends):
            tables = {"keys": self.keys, "suffix": self.suffix, "after": self.after, "log_prob": self.log_prob}
            check_rows(0, tables | {"back_off": self.back_off})
            return
        check_rows(2, {"ends": self.ends})
        words, count = self.end + 2, len(self.log_prob)
        check(self.end >= 0 and count > words, "ends", f"an end below {count - 2}")
        check_range("ends", self.ends[1:], 0, count - 1)
        check_rows(count, {"suffix": self.suffix, "after": self.after, "back_off": self.back_off})
        check_rows(count - 1, {"keys": self.keys})
        check_ascending("keys", self.keys)
        check(int(self.keys[0]) == 0 and int(self.keys[words - 1]) == words - 1, "keys", "all words first")
        starts = torch.tensor(levels("keys", self.keys // words), device=self.keys.device)
        number_M = torch.arange(count, device=self.keys.device)
        order_M = torch.searchsorted(starts, number_M - 1, right=True).masked_fill(number_M == 0, 0)
        for name, table in (("suffix", self.suffix), ("after", self.after)):
            check_range(name, table, 0, count - 1)
        shorter = order_M[self.suffix] < order_M
        check(int(self.suffix[0]) == 0 and bool(shorter[1:].all()), "suffix", "shorter n-grams")
        check(bool((order_M[self.after] <= order_M).all()), "after", "n-grams that are not longer")
        largest = max(float(self.log_prob.max()), float(self.back_off.max()))
        check(largest < float("inf"), "log_prob, back_off", "no infinite number")

    def ngrams(self) -> NGrams:
        """The n-grams as arrays, the inverse of ``learn``."""
        keys, suffix, after = (part.detach().cpu().numpy() for part in (self.keys, self.suffix, self.after))
        probability, back_off = (part.detach().cpu().double().exp().numpy() for part in (self.log_prob, self.back_off))
        return NGrams(self.end + 2, keys, suffix, probability, back_off, after)

    @property
    def end(self) -> int:
        return int(self.ends[0])

    @property
    def begun(self) -> int:
        return int(self.ends[1])

    def __len__(self) -> int:
        """The number of n-grams, including the empty one."""
        return len(self.log_prob)

    def every(self, history_N: Tensor) -> Tensor:
        """[N, W]: the log-probability of each word after each history. The last two words are the end and the begin."""
        W, left_N = self.end + 2, torch.zeros_like(history_N, dtype=self.log_prob.dtype)
        chain: list[tuple[Tensor, Tensor]] = []  # each history and its suffixes, and what longer ones have left of all
        while bool(history_N.any()):
            chain.append((history_N, left_N))
            left_N = left_N + torch.where(history_N > 0, self.back_off[history_N], 0.0)
            history_N = self.suffix[history_N]
        log_prob_NW = self.log_prob[1 : W + 1] + left_N[:, None]
        for at_N, left_N in reversed(chain):  # the shortest history first; longer ones overwrite its values
            first_N, last_N = (torch.searchsorted(self.keys, (at_N + more) * W) for more in (0, 1))
            seen_N = (last_N - first_N) * (at_N > 0)
            row_M = torch.arange(len(at_N), device=at_N.device).repeat_interleave(seen_N)
            place_M = torch.arange(len(row_M), device=at_N.device) + (first_N - seen_N.cumsum(0) + seen_N)[row_M]
            log_prob_NW[row_M, self.keys[place_M] % W] = self.log_prob[place_M + 1] + left_N[row_M]
        return log_prob_NW

    def forward(self, history_E: Tensor, word_E: Tensor) -> tuple[Tensor, Tensor]:
        words = self.end + 2
        log_prob_E, after_E = torch.zeros_like(history_E, dtype=self.log_prob.dtype), torch.zeros_like(history_E)
        open_O, history_O = torch.arange(len(history_E), device=history_E.device), history_E
        while len(open_O):
            key_O = history_O * words + word_E[open_O]
            place_O = torch.searchsorted(self.keys, key_O).clamp(max=len(self.keys) - 1)
            seen_O = self.keys[place_O] == key_O
            known_O, ngram_O = open_O[seen_O], place_O[seen_O] + 1
            log_prob_E[known_O] += self.log_prob[ngram_O]
            after_E[known_O] = self.after[ngram_O]
            open_O, history_O = open_O[~seen_O], history_O[~seen_O]
            log_prob_E[open_O] += self.back_off[history_O]
            history_O = self.suffix[history_O]
        return log_prob_E, after_E
