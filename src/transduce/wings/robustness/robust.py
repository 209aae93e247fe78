"""What ``training.robust`` stands for: a little of each change that people's texts have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

from transduce.core import config
from transduce.training.augmentation import check_share
from transduce.wings.robustness.base import OneByOne, TextPair
from transduce.wings.robustness.casing import Casing
from transduce.wings.robustness.punctuation import NoFinalPunctuation, SpeechLike
from transduce.wings.robustness.typing_errors import TypingErrors

SPELLED = ("characters", "words", "bpe", "unigram", "bytes")  # units of text whose letters have a case


@dataclass(frozen=True)
class Robust(OneByOne):
    """Changes a ``share`` of the pairs a little, as people's texts differ from a corpus: typing errors, no final
    punctuation, capitals, lower case, speech-like text. Several changes can come together. A source of one word gets
    another case alone, because an error can make it another word. Raises UserError for a share that is not from 0 to 1.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        check_share("robust.share", self.share)

    def varied(self, pair: TextPair, chance: Generator) -> TextPair:
        kinds = PARTS if len(pair.source.split()) > 1 else PARTS[-1:]
        for kind in kinds:
            (pair,) = kind([pair], [chance])
        return pair


PARTS: tuple[OneByOne, ...] = (
    TypingErrors(share=0.5, rate=0.3),
    NoFinalPunctuation(share=0.3),
    SpeechLike(share=0.1),
    Casing(share=0.3),
)


def lowercased(units: config.Table) -> config.Table:
    """The table ``data.units`` of a robust run: a source of text with a vocabulary of its own is read in lower case, so
    no case can confuse it. Its own setting ``lowercase`` wins. A vocabulary of both sides stays, because the target
    has its case.
    """
    source: Any = units.get("source")
    table = {"type": source} if isinstance(source, str) else source
    if not isinstance(table, dict) or table.get("type") not in SPELLED:
        return units
    return {**units, "source": {"lowercase": True, **table}}
