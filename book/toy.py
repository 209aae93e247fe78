"""Models that are tables, for chapters about searches: every answer can be worked out on paper."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from transduce.core.types import BOS, EOS, Hypothesis

END = "</s>"


class Story:
    """A distribution over sentences from a table of next words after each beginning, such as {"": {"he": 1.0}, "he":
    {"hit": 0.6, END: 0.4}}. A beginning without an entry ends.
    """

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        words = {word for row in table.values() for word in row if word != END}
        self.words = ("<pad>", "<s>", END, "<unk>", *sorted(words))
        number = {word: place for place, word in enumerate(self.words)}
        beginnings = sorted({*table, *(f"{begin} {word}".strip() for begin, row in table.items() for word in row)})
        node = {begin: place for place, begin in enumerate(beginnings)}
        self.next = torch.zeros(len(node), len(self.words), dtype=torch.long)
        self.log_probs = torch.full((len(node), len(self.words)), float("-inf"), dtype=torch.float64)
        for begin, place in node.items():
            for word, p in table.get(begin, {END: 1.0}).items():
                self.log_probs[place, number[word]] = math.log(p)
                self.next[place, number[word]] = node.get(f"{begin} {word}".strip(), 0)
        self.first = node[""]

    def start(self, source: Tensor) -> Tensor:
        return torch.full_like(source, self.first)

    def extend(self, tokens_BT: Tensor, state_B: Tensor) -> tuple[Tensor, Tensor]:
        outputs = []
        for token_B in tokens_BT.unbind(1):
            state_B = torch.where(token_B == BOS, state_B, self.next[state_B, token_B])
            outputs.append(self.log_probs[state_B])
        return torch.stack(outputs, 1), state_B

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output[..., candidates]

    def text(self, hypothesis: Hypothesis) -> str:
        return " ".join(self.words[token] for token in hypothesis.tokens if token != EOS)


class Random:
    """Random distributions over sequences of ``vocabulary`` - 4 words, one for each of ``sources`` sources. ``end`` is
    added to the logits of the end.
    """

    CODES = 997

    def __init__(self, sources: int, vocabulary: int = 10, end: float = 0.0, seed: int = 1) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (sources, self.CODES, vocabulary)
        logits = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
        logits[..., EOS] += end
        logits[..., [0, 1, 3]] = float("-inf")
        self.log_probs = logits.log_softmax(-1)
        self.sources = torch.arange(sources)

    def start(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return source, torch.zeros_like(source)

    def extend(self, tokens_BT: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        source_B, code_B = state
        outputs = []
        for token_B in tokens_BT.unbind(1):
            code_B = (31 * code_B + token_B + 7) % self.CODES
            outputs.append(self.log_probs[source_B, code_B])
        return torch.stack(outputs, 1), (source_B, code_B)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output[..., candidates]

    def following(self, source: int, tokens: tuple[int, ...]) -> list[float]:
        """log p(next token | tokens), without any search."""
        code = 0
        for token in (BOS, *tokens):
            code = (31 * code + token + 7) % self.CODES
        found: list[float] = self.log_probs[source, code].tolist()
        return found
