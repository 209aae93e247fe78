"""How text is normalised before it is cut: the options that all units of text share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from tokenizers import normalizers

from transduce.data.corpora import DataError

Form = Literal["none", "NFC", "NFD", "NFKC"]
_STEPS: Final[dict[Form, list[object]]] = {
    "none": [],
    "NFC": [normalizers.NFC()],
    "NFD": [normalizers.NFD()],
    "NFKC": [normalizers.NFKC()],
}


@dataclass(frozen=True, kw_only=True)
class Normalised:
    """The options of a text unit's normalisation.

    ``normalisation`` is a Unicode form. "NFC" composes letters with their accents. "NFD" decomposes them (Hangul
    syllables into letters). "NFKC" composes too, and replaces compatibility characters ("ﬁ", "①"). "none" keeps the
    text. ``lowercase`` makes letters lower case. Outputs are written in this form. Metrics compare outputs and
    references in NFC, but keep case: training and `evaluate` tell how many references the options change. Raises
    DataError for another form.
    """

    normalisation: Form = "NFC"
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.normalisation not in get_args(Form):
            raise DataError(f"normalisation = {self.normalisation!r}: expected one of {', '.join(get_args(Form))}")

    def normalizers(self) -> list[object]:
        """The library's normalizers in the order of their use. The list is empty for "none" without ``lowercase``. The
        tokenizer's file records them.
        """
        form = _STEPS[self.normalisation]
        # The form once more, because lower case can leave a letter and its accent apart.
        return [*form, normalizers.Lowercase(), *form] if self.lowercase else form
