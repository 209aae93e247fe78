"""Questions about passages: "who wrote it ?<TAB>Ann wrote it in 1990 ." has a question and the passage with the answer.

Words stand between white space. The first tab divides the two; later tabs are white space of the passage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from transduce.data.corpora import LineError
from transduce.wings.labels.spans import KEPT, LEFT_OUT

MARKS = ("question", "asked")
QUESTION, ASKED = range(len(MARKS))
_WORD = re.compile(r"\w")


def asked(text: str) -> list[int | None]:
    """The place in ``MARKS`` of each word's mark: "question" before the tab, and "asked" for a word of the passage that
    the question has, without regard to case. Other words have None, and so do punctuation marks of the passage. Raises
    LineError for a text without a tab.
    """
    question, passage = split(text)
    known = {word.lower() for word in question if _WORD.search(word)}
    return [*(QUESTION for _ in question), *(ASKED if word.lower() in known else None for word in passage)]


def answer_marks(text: str, answer: str) -> list[str]:
    """One mark for each word of the question and the passage: the words of the first place in the passage where the
    answer stands are kept. Empty if the passage does not have the answer. Raises LineError for a text without a tab.
    """
    question, passage = split(text)
    words = answer.split()
    for start in range(len(passage) - len(words) + 1) if words else ():
        if passage[start : start + len(words)] == words:
            after = len(passage) - start - len(words)
            return [*[LEFT_OUT] * (len(question) + start), *[KEPT] * len(words), *[LEFT_OUT] * after]
    return []


def split(text: str) -> tuple[Sequence[str], Sequence[str]]:
    """The words of the question and those of the passage. Raises LineError for a text without a tab."""
    question, tab, passage = text.partition("\t")
    if not tab:
        raise LineError(
            text,
            "has no tab between a question and its passage; for columns of a file set data.columns.labels to the "
            "question and data.columns.source to the passage",
        )
    return question.split(), passage.split()
