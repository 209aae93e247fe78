"""How much more probable the words of a pair are, given each other, than alone: by word aligners of other pairs.

The score of a pair is the mean over words of log(0.9 p(word | other side) / p(word) + 0.1), summed over both
directions. p(word | other side) is IBM model 1's (Brown et al. 1993). The aligner of a pair has learned from other
pairs: otherwise it would find what it has learned probable, right or wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.core.types import Padded
from transduce.data.pairs import Ragged
from transduce.data.tokenizers.base import Tokenizer
from transduce.wings.counted.alignment.blocks import Block, Sentences, blocks
from transduce.wings.counted.alignment.lexicon import word_pairs
from transduce.wings.counted.alignment.training import RECIPES, count_pairs
from transduce.wings.counted.alignment.two_ways import TwoWays

Words = Sequence[Sequence[str]]
Scores = NDArray[np.float64]

PASSES = 5
FEWEST = 3  # occurrences of a word that is a word of its own; all others are one word
RARE = "\ue000"
TRUSTED = 0.9  # the weight of the aligner beside the words' own frequencies
LONGEST = 150  # words of a side that are read
TOGETHER = 4096  # pairs that are scored at a time


@dataclass(frozen=True)
class Side:
    """The words that the aligner knows of one side, and their log-probabilities."""

    tokenizer: Tokenizer
    known: frozenset[str]
    log_prob_V: Tensor

    @classmethod
    def of(cls, tokenizer: Tokenizer, known: frozenset[str], texts: Words) -> Side:
        counts = np.ones(len(tokenizer))
        for ids in tokenizer.encode([_line(text, known) for text in texts]):
            np.add.at(counts, np.asarray(ids[:-1], np.int64), 1)
        return cls(tokenizer, known, torch.from_numpy(np.log(counts / counts.sum())))

    def read(self, texts: Words) -> Sentences:
        rows = self.tokenizer.encode([_line(text, self.known) for text in texts])
        offsets = np.cumsum([0, *map(len, rows)])
        return Sentences.of_ragged(Ragged(np.array([id for row in rows for id in row], np.int64), offsets))


@dataclass(frozen=True)
class Judge:
    """Scores pairs by what other pairs have taught."""

    ways: TwoWays
    source: Side
    target: Side

    @classmethod
    def of(cls, sources: Words, targets: Words) -> Judge:
        """A judge that has learned from these pairs."""
        known = [_frequent(side) for side in (sources, targets)]
        pairs = [(_line(a, known[0]), _line(b, known[1])) for a, b in zip(sources, targets, strict=True)]
        tokenizers, aligner, _ = count_pairs(pairs, replace(RECIPES["ibm1"], passes=PASSES))
        source, target = tokenizers.both
        return cls(aligner.ways, Side.of(source, known[0], sources), Side.of(target, known[1], targets))

    def scores(self, sources: Words, targets: Words) -> Scores:
        """The score of each pair; 0 for a pair with an empty side."""
        found = np.zeros(len(sources))
        for block in blocks(self.source.read(sources), self.target.read(targets)):
            found[block.rows_B] = self._block(block).numpy()
        return found

    def _block(self, block: Block) -> Tensor:
        keys = self.ways.keys
        key_BTS = word_pairs(block)
        place_BTS = torch.searchsorted(keys, key_BTS).clamp_(max=len(keys) - 1)
        place_BTS = place_BTS.masked_fill_(keys[place_BTS] != key_BTS, len(keys))
        forth = self.ways.forth.expect(place_BTS, block).log_prob_BT
        back = self.ways.back.expect(place_BTS.transpose(1, 2), block.turned()).log_prob_BT
        return _gain(forth, block.target, self.target) + _gain(back, block.source, self.source)


def _gain(log_prob_BT: Tensor, words: Padded, side: Side) -> Tensor:
    ratio_BT = (log_prob_BT - side.log_prob_V[words.values]).exp()
    gain_BT = (TRUSTED * ratio_BT + 1 - TRUSTED).log().masked_fill(~words.mask, 0.0)
    return gain_BT.sum(1) / words.lengths


def of_strangers(judge: Judge, sources: Words, targets: Words) -> Scores:
    """The scores of random pairs: each source with the target of another pair, far away in the list."""
    turn = len(targets) // 2
    return judge.scores(sources, [*targets[turn:], *targets[:turn]])


def apart(judges: Sequence[Judge], sources: Words, targets: Words) -> Scores:
    """The scores of pairs, of which the judges score every second one in turn."""
    scores = np.zeros(len(sources))
    for place, judge in enumerate(judges):
        step = slice(place, None, len(judges))
        scores[step] = judge.scores(sources[step], targets[step])
    return scores


def chunks(texts: Iterator[tuple[Sequence[str], Sequence[str]]]) -> Iterator[tuple[Words, Words]]:
    """Sources and targets, ``TOGETHER`` pairs at a time."""
    sources, targets = list[Sequence[str]](), list[Sequence[str]]()
    for source, target in texts:
        sources.append(source)
        targets.append(target)
        if len(sources) == TOGETHER:
            yield sources, targets
            sources, targets = [], []
    if sources:
        yield sources, targets


def _frequent(texts: Words) -> frozenset[str]:
    counts = Counter(word for text in texts for word in text)
    return frozenset(word for word, count in counts.items() if count >= FEWEST)


def _line(text: Sequence[str], known: frozenset[str]) -> str:
    return " ".join(word if word in known else RARE for word in text[:LONGEST])
