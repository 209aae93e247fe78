"""Numbers from the notation of one language to the notation of another: 12.345,67 to 12,345.67."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from transduce.core.errors import UserError
from transduce.core.registry import alternatives

_NARROW = "\u202f"
NOTATIONS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(["en", "zh", "ja", "ko", "he", "th", "ga", "mt", "hi", "bn", "ta", "ur"], (".", ",")),
    **dict.fromkeys(
        [
            "de",
            "es",
            "it",
            "nl",
            "pt",
            "da",
            "id",
            "tr",
            "el",
            "ro",
            "hr",
            "sl",
            "sr",
            "is",
            "ca",
            "gl",
            "vi",
            "eu",
            "mk",
            "bs",
        ],
        (",", "."),
    ),
    **dict.fromkeys(
        [
            "fr",
            "ru",
            "uk",
            "pl",
            "cs",
            "sk",
            "sv",
            "nb",
            "no",
            "nn",
            "fi",
            "hu",
            "bg",
            "et",
            "lv",
            "lt",
            "be",
            "ka",
            "kk",
            "hy",
            "sq",
            "af",
        ],
        (",", _NARROW),
    ),
    "ch": (".", "’"),
    "plain": (".", ""),
}
"""The decimal sign of a language, and the sign between groups of three digits. "ch" is Switzerland."""
_SPACES, _QUOTES = " \u00a0\u202f\u2009", "'’"


@dataclass(frozen=True)
class Figures:
    """The signs before and after: decimal sign, sign between groups."""

    old: tuple[str, str]
    new: tuple[str, str]

    @classmethod
    def between(cls, languages: str) -> Figures:
        """The conversion "de-en". Raises UserError for anything else than two known languages."""
        both = languages.lower().split("-")
        if len(both) != 2:
            raise UserError(f"figures = {languages!r}: two languages were expected, such as de-en")
        for one in both:
            if one not in NOTATIONS:
                raise UserError(f"figures = {languages!r}: {one!r} is no known language{alternatives(one, NOTATIONS)}")
        return cls(NOTATIONS[both[0]], NOTATIONS[both[1]])

    def converted(self, text: str) -> str:
        """The text with its number in the new notation. Dates, times, versions and other figures that are no number of
        the old notation stay.
        """
        return self._number.sub(self._changed, text)

    @property
    def _number(self) -> re.Pattern[str]:
        decimal, group = map(_signs, self.old)
        grouped = rf"\d{{1,3}}(?:([{group}])\d{{3}})(?:\1\d{{3}})*" if group else r"(?!)()"
        sides = rf"[\d.,:/{_QUOTES}]"
        return re.compile(rf"(?<!{sides})(?:{grouped}|\d+)(?:[{decimal}](\d+))?(?!{sides}|[ \u00a0\u202f\u2009]\d)")

    def _changed(self, match: re.Match[str]) -> str:
        whole = match[0][: match.start(2) - match.start() - 1] if match[2] else match[0]
        if match[1]:
            parts = whole.split(match[1])
            if len(parts) == 4 and all(int(part) < 256 for part in parts):
                return match[0]  # an address of a network
            whole = self.new[1].join(parts)
        return whole + (self.new[0] + match[2] if match[2] else "")


def _signs(sign: str) -> str:
    """The signs that count as this one."""
    return next((kind for kind in (_SPACES, _QUOTES) if sign and sign in kind), re.escape(sign))
