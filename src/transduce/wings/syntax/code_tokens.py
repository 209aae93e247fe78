"""Tokens of source code, and of descriptions that quote it.

A token is a string literal, a number, a word (an identifier), an operator of Python, or any other single character.
The same rules cut code and its description, so that an identifier or a string has the same token on both sides.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from typing import Final, Literal

Kind = Literal["name", "string", "number", "other"]
KINDS: Final[tuple[Kind, ...]] = ("name", "string", "number", "other")

_STRING = "|".join(
    rf"{quote}(?:[^{quote[0]}\\\n]|\\.{more})*{quote}"
    for quote, more in (('"""', '|"(?!"")'), ("'''", "|'(?!'')"), ('"', ""), ("'", ""))
)
_PREFIX = r"[rR][bB]|[bB][rR]|[rRbBuU]"
# Quotes inside words ("don't") begin no string, and a string ends before something that is no word.
_TOKEN: Final = re.compile(
    rf"(?P<prefix>(?<!\w)(?:{_PREFIX})(?=(?:{_STRING})(?!\w)))"
    rf"|(?P<string>(?:(?<!\w)|(?<=(?<!\w)[rRbBuU])|(?<=(?<!\w)[rRbB][rRbB]))(?:{_STRING})(?!\w))"
    r"|(?P<number>\d+\.\d+|\d+(?!\w))"
    r"|(?P<name>\w+)"
    r"|(?P<mark><(?:name|string|number|other) \d+>)"
    r"|(?P<other>\*\*=|//=|>>=|<<=|\.\.\.|[=!<>+\-*/%&|^@]=|->|:=|\*\*|//|<<|>>|<>|\S)"
)


def spans(text: str) -> list[tuple[int, int]]:
    """The start and end of each token of a text, in characters. White space between tokens belongs to none."""
    return [found.span() for found in _TOKEN.finditer(text)]


def cut(text: str) -> list[str]:
    """The tokens of a text. White space between them is left out, and white space inside a string stays."""
    return [found[0] for found in _TOKEN.finditer(text)]


def joined(tokens: Sequence[str]) -> str:
    """The tokens with one space between them, but none between the prefix of a string literal (``r``, ``b``, ``u``)
    and the string.
    """
    parts = []
    for token, following in zip(tokens, [*tokens[1:], ""], strict=False):
        attached = following[:1] in ("'", '"') and re.fullmatch(_PREFIX, token)
        parts.append(token if attached else f"{token} ")
    return "".join(parts).removesuffix(" ")


def kind(token: str) -> Kind:
    """What a token is to Python: a name or keyword, a string or a number. "other" are operators, and what is no token
    of Python ("3rd", "?").
    """
    if token.isidentifier():
        return "name"
    if token[:1] in ("'", '"') and len(token) > 1:
        return "string" if is_token(token) else "other"
    return "number" if token[:1].isdigit() and is_token(token) else "other"


def is_token(text: str) -> bool:
    """True if Python's tokenizer reads the text as exactly one name, number, string or operator, such as a bracket."""
    return text in (*PAIRS, *PAIRS.values()) or [token.string for token in tokens(text) or ()] == [text]


def tokens(text: str) -> list[tokenize.TokenInfo] | None:
    """The tokens that the standard library's ``tokenize`` reads in a text, without line ends and comments. None if it
    refuses the text, if the text has a character that is no token, or if its brackets do not match.
    """
    try:
        found = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    kept = [token for token in found if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP)]
    if any(token.type == tokenize.ERRORTOKEN for token in found) or not matched([token.string for token in kept]):
        return None
    return kept


PAIRS: Final = {")": "(", "]": "[", "}": "{"}


def matched(tokens: Sequence[str]) -> bool:
    """True if each bracket among the tokens closes the last one that is open, and none stays open."""
    stack: list[str] = []
    for token in tokens:
        if token in PAIRS.values():
            stack.append(token)
        elif token in PAIRS and (not stack or stack.pop() != PAIRS[token]):
            return False
    return not stack
