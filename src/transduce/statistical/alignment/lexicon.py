"""Translation probabilities of words, t(target word | source word).

U pairs of a source and a target word that occur in the same sentence pair; B, T and I as in blocks.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from transduce.statistical.alignment.blocks import Block
from transduce.statistical.counted import empty

SEEN = 1e-7  # smallest translation probability: of words that never occur together, too
WIDTH = 2**31  # a pair of words has the key source * WIDTH + target


class Lexicon(nn.Module):
    """t(target word | source word) for the U pairs of words that occur together; ``SEEN`` for all others.

    So if a target word is unknown, all source words are equally probable translations of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.keys = empty(torch.long)  # [U], sorted
        self.probability = empty()  # [U]

    def forward(self, block: Block) -> Tensor:
        """[B, T, I]: the translation probability of each target word by each source word; 1 at padding."""
        key_BTI = word_pairs(block).to(self.keys.device)
        if not len(self.keys):
            return torch.ones(key_BTI.shape, dtype=self.probability.dtype, device=self.keys.device)
        place_BTI = torch.searchsorted(self.keys, key_BTI).clamp_(max=len(self.keys) - 1)
        known_BTI = self.keys[place_BTI] == key_BTI
        found_BTI = self.probability[place_BTI].masked_fill(~known_BTI, 0.0).clamp(min=SEEN)
        return found_BTI.masked_fill(~block.real_BT.to(known_BTI.device)[..., None], 1.0)

    def store(self, keys_U: Tensor, probability_U: Tensor) -> None:
        """Keeps the pairs of words that are more probable than ``SEEN``."""
        kept = probability_U > SEEN
        self.keys.data = keys_U[kept].to(self.keys)
        self.probability.data = probability_U[kept].to(self.probability)


def word_pairs(block: Block) -> Tensor:
    """[B, T, I]: the key of each pair of words."""
    return block.source_BI[:, None] * WIDTH + block.target_BT[..., None]


class LexicalCounts:
    """The expected counts of a lexicon over the ``blocks`` of a corpus.

    Each block's pairs of words have places in the list of all U pairs. Padding has place U, and probability 1.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        keys = [word_pairs(block).masked_fill_(~block.real_BT[..., None], -1).numpy() for block in blocks]
        flat = np.concatenate([key.reshape(-1) for key in keys]) if keys else np.zeros(0, np.int64)
        unique, number = np.unique(flat, return_inverse=True)
        padding = int(len(unique) > 0 and unique[0] < 0)
        self.keys_U = torch.from_numpy(unique[padding:])
        place = torch.from_numpy(number.astype(np.int32)) - padding
        place[place < 0] = len(self.keys_U)
        bounds = np.cumsum([key.size for key in keys])[:-1].tolist()
        self.places = [part.view(key.shape) for part, key in zip(place.tensor_split(bounds), keys, strict=True)]
        _, source_U = np.unique(unique[padding:] // WIDTH, return_inverse=True)
        self.source_U = torch.from_numpy(source_U.astype(np.int64))
        self.probability_U = torch.ones(len(self.keys_U) + 1, dtype=torch.float64)
        self.reset()

    def reset(self) -> None:
        self.count_U = torch.zeros_like(self.probability_U)

    def emission(self, number: int) -> Tensor:
        """[B, T, I]: the translation probabilities of block ``number``."""
        return self.probability_U[self.places[number]]

    def add(self, number: int, posterior_BTI: Tensor) -> None:
        self.count_U.index_add_(0, self.places[number].view(-1), posterior_BTI.reshape(-1))

    def maximise(self) -> None:
        """Sets each probability to its share of its source word's expected counts."""
        count_U = self.count_U[:-1]
        total = torch.zeros(int(self.source_U.max()) + 1, dtype=count_U.dtype).index_add_(0, self.source_U, count_U)
        self.probability_U[:-1] = count_U / total[self.source_U]
        self.reset()
