"""Warnings before a metric's scores: it cannot measure these texts, or the model cannot write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

from transduce.core.errors import UserError
from transduce.core.protocols import Metric
from transduce.core.types import Example
from transduce.metrics.units import canonical

CHECKED: Final = 2000  # most examples that are read, evenly spaced
WITHOUT_SPACES: Final = (
    (0x0E00, 0x0EFF), (0x0F00, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x20000, 0x3FFFF),
)  # scripts without spaces: Thai, Lao, Tibetan, Burmese, Khmer, Japanese, Chinese  # fmt: skip
KANA: Final = ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F))
HAN: Final = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
LONGEST_WORD: Final = 8  # letters of a word on average; sentences without spaces have more, separated words fewer


@runtime_checkable
class Selective(Protocol):
    """The contract of metrics that suit only some texts. ``misfit`` says why the metric cannot measure outputs against
    these references, and which metric can. It is empty if the metric suits them.
    """

    def misfit(self, references: Sequence[str]) -> str: ...


def concerns(
    metrics: Sequence[Metric], examples: Sequence[Example], normalize: Callable[[str], str] | None = None
) -> list[str]:
    """Lines for people: the metrics that do not suit the references, and the references that the model cannot write.

    ``normalize`` is the ``normalize`` of the tokenizer of the outputs; None if it is not known.
    """
    chosen = examples[:: -(-len(examples) // CHECKED) or 1]
    references = [example.references for example in chosen if example.references]
    if not references:
        return []
    first = [each[0] for each in references]
    told = [
        f"{metric.name} does not suit these references: {why}"
        for metric in metrics
        if isinstance(metric, Selective) and (why := metric.misfit(first))
    ]
    return [*told, *(unwritable(references, normalize) if normalize is not None else ())]


def unwritable(references: Sequence[Sequence[str]], normalize: Callable[[str], str]) -> list[str]:
    """A line if ``normalize`` changes all references of some examples, so that no output equals one of them. Composed
    and decomposed letters are equal, because metrics compare texts in NFC.

    If some references are not in NFC, a line says so.
    """
    kinds: Counter[str] = Counter()
    shown = ""
    for own in references:
        try:
            pairs = [(canonical(text), canonical(normalize(text))) for text in own]
        except UserError:  # the data report names lines that cannot be read
            continue
        if all(one != other for one, other in pairs):
            kinds[_kind(*pairs[0])] += 1
            shown = shown or f"{pairs[0][0][:60]!r} becomes {pairs[0][1][:60]!r}"
    told = []
    if kinds:
        each = ", ".join(f"{count:,} by {kind}" for kind, count in kinds.most_common())
        told.append(
            f"{_share(kinds.total(), len(references))} references cannot be written: the target's units change them "
            f"({each}), such as {shown}. Scores that count this are errors of the units: change the references in the "
            "same way, or train with other data.units.target (normalisation, lowercase)"
        )
    composed = sum(any(text != canonical(text) for text in own) for own in references)
    if composed:
        told.append(
            f"{_share(composed, len(references))} references are not in Unicode's form NFC: metrics compare outputs "
            "and references in NFC"
        )
    return told


def _kind(one: str, other: str) -> str:
    """The kind of difference between two texts."""
    if one.split() == other.split():
        return "white space"
    if canonical(one.lower()).split() == canonical(other.lower()).split():
        return "case"
    return "other characters"


def _share(count: int, of: int) -> str:
    return f"{count:,} of {of:,} ({100 * count / of:.0f} %)"


# ---------------------------------------------------------------- properties of texts


def unsegmented(texts: Sequence[str]) -> bool:
    """True if most letters are of scripts without spaces, such as Chinese or Thai, and white space does not separate
    their words.
    """
    letters = sum(each.isalpha() for text in texts for each in text)
    runs = [count for text in texts for word in text.split() if (count := letters_in(WITHOUT_SPACES, word))]
    return bool(runs) and 2 * sum(runs) > letters and sum(runs) > LONGEST_WORD * len(runs)


def letters_in(ranges: Sequence[tuple[int, int]], text: str) -> int:
    """The number of characters of a text whose code points are in ``ranges``, both ends included."""
    return 0 if text.isascii() else sum(any(low <= ord(each) <= high for low, high in ranges) for each in text)


def one_word(texts: Sequence[str], longer_than: int) -> bool:
    """True if nine of ten texts have one word at most, and these words have more than ``longer_than`` characters on
    average.
    """
    words = [text.strip() for text in texts if len(text.split()) <= 1]
    return 10 * len(words) >= 9 * len(texts) and sum(map(len, words)) > longer_than * len(words)


def needs_spaces(texts: Sequence[str], instead: str) -> str:
    """The ``misfit`` of metrics of words between white space. ``instead`` names what to do."""
    return f"spaces do not separate their words; {instead}" if unsegmented(texts) else ""
