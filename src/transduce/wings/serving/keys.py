"""The keys of a server's clients, by name. A log may have a name, and never a key."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256

from transduce.core.errors import UserError

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
UNNAMED = "default"  # the name of a key that is alone in its file


class Keys:
    """The keys that clients may send, each with a name. A name may have several keys, to change one without a pause.

    Raises UserError for a wrong name, for a key that a header cannot have, and for a key with two names.
    """

    def __init__(self, named: Iterable[tuple[str, str]]) -> None:
        self._names: list[str] = []
        self._digests: list[bytes] = []
        for name, key in named:
            if not NAME.match(name):
                raise UserError(f"{name[:64]!r} is no name of a key: letters of ASCII, digits, . _ and - were expected")
            check_key(key)
            digest = _digest(key)
            if digest in self._digests:
                raise UserError(f"the key {name} is the same as another one: give each client a key of its own")
            self._names.append(name)
            self._digests.append(digest)
        if not self._names:
            raise UserError("there is no key: give at least one")

    @classmethod
    def of(cls, text: str, where: str) -> Keys:
        """The keys in a text: a key alone, or a line NAME KEY for each; lines with # are comments. Raises UserError,
        which names the place (``where``) and never a key.
        """
        lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1)]
        lines = [(number, words) for number, words in lines if words and not words[0].startswith("#")]
        if not lines:
            raise UserError(f"{where} is empty: a key was expected; leave it out to serve everybody")
        if len(lines) == 1 and len(lines[0][1]) == 1:
            lines = [(lines[0][0], [UNNAMED, *lines[0][1]])]
        for number, words in lines:
            if len(words) != 2:
                raise UserError(f"{where}: line {number} has {len(words)} words: NAME KEY was expected")
        try:
            return cls((name, key) for _, (name, key) in lines)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None

    def name_of(self, given: str | None) -> str | None:
        """The name of the key that a client has sent; None for a wrong one. The time of the comparison tells neither
        how much of a key is right, nor which one it is like.
        """
        digest, found = _digest(given or ""), None
        for name, key in zip(self._names, self._digests, strict=True):
            if hmac.compare_digest(digest, key):
                found = name
        return found


def check_key(key: str) -> None:
    """Raises UserError for a key that no client can send in a header."""
    if not (key.isascii() and key.isprintable() and key and " " not in key):
        raise UserError(
            "the key has letters that a header cannot have: use letters of ASCII, digits and signs, and no white space"
        )


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
