"""What the chapters of the book share: ``from book import begin, check, picture, source, touch``.

A chapter is a notebook in MyST Markdown. ``bash scripts/book --short`` runs all of them and makes their pages.
"""

from __future__ import annotations

from book import touch
from book.chapter import begin
from book.exercise import check
from book.picture import picture
from book.source import source

__all__ = ["begin", "check", "picture", "source", "touch"]
