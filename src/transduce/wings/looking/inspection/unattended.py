"""Source tokens that no head of the attention to the source attends to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from transduce.answers.batches import windows
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.wings.looking.inspection.heads import attention_maps

LEAST = 0.1  # a token is not attended if its weight is smaller for all queries of all heads
SHOWN = 8  # tokens in a line


@dataclass(frozen=True)
class Unattended:
    """Counts of the source tokens that no head attends to. ``count`` is the number of all source tokens, without the
    ends of sentences. ``tokens`` counts the tokens without attention, and ``all_tokens`` counts all tokens.
    """

    count: int
    tokens: Counter[str]
    all_tokens: Counter[str]

    @property
    def share(self) -> float:
        return self.tokens.total() / self.count

    def most_frequent(self) -> list[tuple[str, int, int]]:
        """The tokens that are most often not attended, each with the number of these cases and of all occurrences."""
        return [(token, count, self.all_tokens[token]) for token, count in self.tokens.most_common(SHOWN)]

    def lines(self) -> list[str]:
        """Lines for the terminal."""
        told = ", ".join(f"{token} {count} of {every}" for token, count, every in self.most_frequent())
        share = f"{self.tokens.total():,} of {self.count:,} source tokens ({100 * self.share:.1f} %)"
        return [
            f"{share} get less than {LEAST:.0%} of every head's weight at every step" + (f": {told}" if told else "")
        ]


def unattended(transducer: Transducer, pairs: Sequence[tuple[str, str]], batch_size: int = 32) -> Unattended | None:
    """The source tokens of the ``pairs`` (source, target) that no head attends to, by teacher forcing. None for a model
    whose heads do not attend to a source. Raises UserError if there are no pairs, and like ``attention_maps``.
    """
    if not pairs:
        raise UserError("there are no pairs: give at least one source and its target")
    missed, every = Counter[str](), Counter[str]()
    for batch in windows(pairs, batch_size):
        maps = attention_maps(transducer, batch)
        across = [weights_BHTS for kind, weights_BHTS in maps.heads.values() if kind == "across"]
        if not across:
            return None
        for row in range(len(batch)):
            S, T = int(maps.source.lengths[row]) - 1, int(maps.target.lengths[row])
            ids = maps.source.values[row, :S].tolist()
            tokens = transducer.source_tokenizer.tokens(ids)
            most_S = torch.cat([each[row, :, :T, :S] for each in across]).amax((0, 1))
            every.update(tokens)
            missed.update(token for token, most in zip(tokens, most_S.tolist(), strict=True) if most < LEAST)
    return Unattended(every.total(), missed, every)
