"""Empty sources have empty outputs. Nothing here imports PyTorch."""

from __future__ import annotations

from transduce.data.tokenizers.base import Tokenizer


def is_empty(source: str, tokenizer: Tokenizer) -> bool:
    """True if a source has nothing to read: an empty text, or white space alone.

    A model has never learned what such a text means, because training leaves it out; so its output is empty. Numbers
    and signals are never empty, and neither is a line of several columns, such as a label before a text.
    """
    return not (tokenizer.numeric or tokenizer.columns > 1 or source.strip())
