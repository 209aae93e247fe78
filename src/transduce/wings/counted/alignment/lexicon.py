"""Translation probabilities of words, t(target word | source word).

U pairs of a source and a target word that occur in the same sentence pair. B, S, T and I as in blocks.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from transduce.training.counted import empty
from transduce.wings.counted.alignment.blocks import Block

RARE = 1e-7  # smallest translation probability, and the probability of words that never occur together
WIDTH = 2**31  # a pair of words has the key source * WIDTH + target


def word_pairs(block: Block) -> Tensor:
    """[B, T, S]: the key of each pair of words, source * ``WIDTH`` + target; -1 at padding."""
    keys_BTS = block.source.values[:, None] * WIDTH + block.target.values[..., None]
    return keys_BTS.masked_fill_(~block.real_BTS, -1)


def number_pairs(parts: Sequence[Block]) -> tuple[Tensor, list[Tensor]]:
    """The U different keys of all blocks, sorted [U]; and for each block the index of each of its keys in them [B, T,
    S] (int32). Padding has the index U.
    """
    found = [np.unique(word_pairs(block).numpy(), return_inverse=True) for block in parts]
    unique = np.unique(np.concatenate([np.full(1, -1), *(keys for keys, _ in found)]))
    places = []
    for block, (keys, number) in zip(parts, found, strict=True):
        place = np.searchsorted(unique, keys) - 1
        place[place < 0] = len(unique) - 1
        places.append(torch.from_numpy(place.astype(np.int32)[number.reshape(-1)]).view(block.real_BTS.shape))
    return torch.from_numpy(unique[1:]), places


class Lexicon(nn.Module):
    """Translation probabilities t(target word | source word).

    ``probability`` [U] is for the pairs of words that occur in the same sentence pair, in the order of their keys.
    ``null`` [V] is for V target ids, given the null word. Pairs that do not occur together and unknown target words
    have the probability ``RARE``, which is also the least of all others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.probability, self.null = empty(), empty()

    def forward(self, place_BTS: Tensor, block: Block) -> Tensor:
        """[B, T, I]: the probability of each target word given the null word (first) and given each source word.

        ``place_BTS`` are the indices of the pairs of words in ``probability``; U means an unknown pair. Padding of the
        target has probability 1, and padding of the source 0.
        """
        pair_BTS = _with_rare(self.probability)[place_BTS]
        null_BT = _with_rare(self.null)[block.target.values.clamp(max=len(self.null))]
        emission_BTI = torch.cat([null_BT[..., None], pair_BTS], -1).masked_fill_(~block.target.mask[..., None], 1.0)
        emission_BTI[..., 1:].masked_fill_(~block.source.mask[:, None], 0.0)
        return emission_BTI


def _with_rare(probability_U: Tensor) -> Tensor:
    """[U + 1]: the probabilities, each at least ``RARE``, with ``RARE`` as one more entry at the end."""
    return torch.cat([probability_U, probability_U.new_zeros(1)]).clamp(min=RARE)


class LexicalCounts:
    """Expected counts of a ``lexicon``, of which ``maximise`` makes probabilities. ``source_U`` is the source word of
    each of the U pairs of words; all target ids are below ``targets``.

    ``prior`` is the concentration of a symmetric Dirichlet prior over the target words of each source word: then
    ``maximise`` is a step of variational Bayes (Johnson 2007). 0 gives maximum likelihood. The constructor sets all
    probabilities of ``lexicon`` to 1 / ``targets``.
    """

    def __init__(self, lexicon: Lexicon, source_U: Tensor, targets: int, prior: float) -> None:
        self.lexicon, self.prior, self.targets = lexicon, prior, targets
        words, self.word_U = torch.unique(source_U, return_inverse=True)
        self.words = len(words)
        lexicon.probability.data = torch.full((len(source_U),), 1 / targets, dtype=torch.float64)
        lexicon.null.data = torch.full((targets,), 1 / targets, dtype=torch.float64)
        self._reset()

    def _reset(self) -> None:
        self.count_U = torch.zeros(len(self.word_U) + 1, dtype=torch.float64)  # the last one counts padding
        self.null_V = torch.zeros(self.targets, dtype=torch.float64)

    def add(self, place_BTS: Tensor, block: Block, posterior_BTI: Tensor) -> None:
        self.count_U.index_add_(0, place_BTS.reshape(-1), posterior_BTI[..., 1:].reshape(-1))
        self.null_V.index_add_(0, block.target.values.reshape(-1), posterior_BTI[..., 0].reshape(-1))

    def maximise(self) -> None:
        """Sets the lexicon's probabilities, in place, from the expected counts since the last call. The counts then
        start at 0 again.
        """
        count_U = self.count_U[:-1]
        total_W = torch.zeros(self.words, dtype=torch.float64).index_add_(0, self.word_U, count_U)
        self.lexicon.probability.data = self._share(count_U, total_W[self.word_U])
        self.lexicon.null.data = self._share(self.null_V, self.null_V.sum())
        self._reset()

    def _share(self, count: Tensor, total: Tensor) -> Tensor:
        if self.prior:
            return ((count + self.prior).digamma() - (total + self.prior * self.targets).digamma()).exp()
        return count / total.clamp(min=torch.finfo(total.dtype).tiny)
