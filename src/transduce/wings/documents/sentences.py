"""Sentences of a text, by the library sentencex of the Wikimedia Foundation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from transduce.core.errors import MissingPackageError, UserError

CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")


class Sentences:
    """Divides texts of a ``language``, a code such as "de" or "de-AT". The library divides languages that it does not
    know as it divides English or a relative. Raises UserError for anything else than a code, and MissingPackageError if
    the library is not installed.
    """

    def __init__(self, language: str) -> None:
        if not CODE.fullmatch(language):
            raise UserError(f"--sentences {language!r}: the code of a language was expected, such as de or en")
        try:
            import sentencex
        except ImportError as error:
            raise MissingPackageError(
                "to divide texts into sentences needs sentencex: pip install 'transduce[documents]'"
            ) from error
        self._segment: Callable[..., Sequence[str]] = sentencex.segment
        self._language = language.partition("-")[0]  # it knows no regions

    def __call__(self, text: str) -> list[str]:
        """The sentences, each with the white space after it."""
        found = list[str](self._segment(self._language, text))
        return found if "".join(found) == text else [text]
