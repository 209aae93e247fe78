"""How a phrase-based model wrote an output: its phrases as text, and the words that they link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from transduce.core.types import SPECIALS, UNK, Derivation, Step
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.passing import touches

Span = tuple[int, int]


@dataclass(frozen=True)
class Phrase:
    """A phrase of an output: ``source`` and ``target`` as text, and as spans of tokens (start, exclusive end).

    ``score`` is what the phrase adds to the output's score: the sum of its ``features``, each times its weight, and of
    ``outside``, which a language model of the search adds.
    """

    source: str
    target: str
    source_tokens: Span
    target_tokens: Span
    score: float
    features: dict[str, float]
    outside: float = 0.0


@dataclass(frozen=True)
class Derived:
    """A derivation of an output for the text ``source``, by the ``tokenizers`` that the model reads and writes with.
    ``names`` and ``weights`` belong to the features, in their order.
    """

    tokenizers: Tokenizers
    names: Sequence[str]
    weights: Sequence[float]
    source: str
    derivation: Derivation

    @property
    def text(self) -> str:
        """The output. A token <unk> that stands for a source token is replaced by the text of that token."""
        if UNK in self.derivation.tokens:
            return "".join(self.target_texts)
        return self.tokenizers.target.decode(self.derivation.tokens)

    @property
    def features(self) -> dict[str, float]:
        """The features of the whole output, by name."""
        return self._by_name(self.derivation.features)

    @property
    def links(self) -> list[int]:
        """For each token of the output, EOS included, the index of the source token that it comes from; -1 if there is
        none.
        """
        return [link for step in self.derivation.steps for link in step.links]

    @cached_property
    def phrases(self) -> list[Phrase]:
        """The phrases in the order of the output. The last one has no text: it ends the sentence."""
        return [self._phrase(step) for step in self.derivation.steps]

    def _phrase(self, step: Step) -> Phrase:
        sides = ((self.source_texts, step.source), (self.target_texts, step.target))
        source, target = ("".join(texts[start:end]).strip() for texts, (start, end) in sides)
        score = sum(weight * value for weight, value in zip(self.weights, step.features, strict=True))
        features = self._by_name(step.features)
        return Phrase(source, target, step.source, step.target, score + step.outside, features, step.outside)

    def _by_name(self, values: Sequence[float]) -> dict[str, float]:
        return dict(zip(self.names, values, strict=True))

    @cached_property
    def source_texts(self) -> list[str]:
        """The text of each source token, in order; white space between two tokens belongs to the second."""
        ends = [end for _, end in self.tokenizers.source.spans(self.source)]
        return [self.source[start:end] for start, end in pairwise([0, *ends])]

    @cached_property
    def target_texts(self) -> list[str]:
        """The text that each token adds to the output."""
        tokens, decode = self.derivation.tokens, self.tokenizers.target.decode
        text, ends = decode(tokens), [len(decode(tokens[: place + 1])) for place in range(len(tokens))]
        texts = [text[start:end] for start, end in pairwise([0, *ends])]
        for step in self.derivation.steps:
            (start, _), (at, end) = step.source, step.target
            if tokens[at:end] == (UNK,):
                spelled = texts[at].replace(SPECIALS[UNK], self.source_texts[start].strip())
                texts[at] = spelled.lstrip() if at and self._joins(start, at, texts[at - 1]) else spelled
        return texts

    def _joins(self, source: int, target: int, before: str) -> bool:
        """True if the source token, which is passed on as the token ``target``, has no space before it in the output.

        An unknown token has lost whether a space is before it, and the target's decoder writes one. There is none if
        the source has none, and the text ``before`` stands for the source token before this one.
        """
        texts = self.source_texts
        follows = source > 0 and self.links[target - 1] == source - 1
        return follows and touches(texts[source - 1], texts[source], before)
