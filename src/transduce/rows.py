"""Texts in rows and columns, which is how commands write them and read them again."""

from __future__ import annotations


def one_line(text: str) -> str:
    """As it is written in a row of its own, or in a column: what would break it made a space."""
    return text.replace("\t", " ").replace("\r", " ").replace("\n", " ")
