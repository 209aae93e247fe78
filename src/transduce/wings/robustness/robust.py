"""The changes that ``training.robust`` stands for: a little of each change that people's texts have."""

from __future__ import annotations

from dataclasses import dataclass

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
    TypingErrors(share=0.6, rate=0.5),
    NoFinalPunctuation(share=0.3),
    SpeechLike(share=0.1),
    Casing(share=0.3),
)


def lowercased(units: config.Table) -> config.Table:
    """The table ``data.units`` of a robust run: a source of text is read in lower case, so no case can confuse it, also
    if both sides share one vocabulary. A setting of the user (``lowercase``, ``source_lowercase``) wins.
    """
    if _spelled(units.get("joint")):
        return {"source_lowercase": True, **units}
    if table := _spelled(units.get("source")):
        return {**units, "source": {"lowercase": True, **table}}
    return units


def _spelled(unit: object) -> config.Table | None:
    """The table of a unit whose letters have a case; None for another one."""
    table = {"type": unit} if isinstance(unit, str) else unit
    return table if isinstance(table, dict) and table.get("type") in SPELLED else None
