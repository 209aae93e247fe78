"""Outputs that are parts of their source: its words or its sentences, and marks that say which of them are kept.

A mark is one character for each part of the source: ``KEPT`` or ``LEFT_OUT``. A sentence without some of its words is
compression by deletion (Knight and Marcu 2002). Some of the sentences of a document are its extractive summary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from rapidfuzz.distance import LCSseq

LEFT_OUT, KEPT = "0", "1"
MARKS = (LEFT_OUT, KEPT)

Kind = Literal["words", "sentences", "answer"]
Span = tuple[int, int]

_END = re.compile(
    r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bal\.)(?<!\bcf\.)(?<!\bvs\.)\s+(?=[\"'“‘(\[]?[^\W_a-z])"
    r"|(?<=[。！？])\s*(?=\S)"
)
_WORD = re.compile(r"\w+")


def word_spans(text: str) -> list[Span]:
    """The spans (start, end) of the words, which white space separates, in characters."""
    return [found.span() for found in re.finditer(r"\S+", text)]


def sentence_spans(text: str) -> list[Span]:
    """The spans (start, end) of the sentences of a text, in characters, without the white space around them. Empty for
    a text of white space alone.

    A sentence ends at ".", "!" or "?" before white space, if neither a small letter from a to z nor a mark other than
    an opening quote or bracket follows. It does not end after "e.g.", "i.e.", "et al.", "cf." and "vs.". It also ends
    at "。", "！" and "？". These rules read prose; they know no other abbreviations.
    """
    spans, start = [], len(text) - len(text.lstrip())
    for found in _END.finditer(text):
        spans.append((start, found.start()))
        start = found.end()
    end = len(text.rstrip())
    return [*spans, (start, end)] if start < end else spans


SPANS: dict[str, Callable[[str], list[Span]]] = {
    "words": word_spans,
    "sentences": sentence_spans,
    "answer": word_spans,
}


def parts(text: str, kind: Kind) -> list[str]:
    """The parts of a text: its sentences, or its words for the other kinds, in order."""
    return [text[start:end] for start, end in SPANS[kind](text)]


def kept(source: Sequence[str], marks: Sequence[str]) -> str:
    """The parts of a source whose mark is ``KEPT``, with one space between them. Parts without a mark are left out."""
    return " ".join(part for part, mark in zip(source, marks, strict=False) if mark == KEPT)


def word_marks(source: Sequence[str], target: Sequence[str]) -> list[str]:
    """One mark for each word of the source. The words of the longest common subsequence with the target are kept: all
    words of the target, if it is the source without some words.
    """
    marks = [LEFT_OUT] * len(source)
    for block in LCSseq.opcodes(source, target):
        if block.tag == "equal":
            marks[block.src_start : block.src_end] = [KEPT] * (block.src_end - block.src_start)
    return marks


def sentence_marks(source: Sequence[str], target: str, most: int) -> list[str]:
    """One mark for each sentence of the source. The kept sentences are the nearest to the target: one after the other
    is added, at most ``most``, as long as the F1 of words with the target grows (Nallapati et al. 2017, section 2.2).

    F1 counts equal words without regard to case and order. If the source has a sentence, at least one is kept.
    """
    wanted, counts = _count(target), [_count(sentence) for sentence in source]
    chosen: list[int] = []
    total, best = Counter[str](), -1.0
    while len(chosen) < min(most, len(source)):
        scores = {place: _f1(total + count, wanted) for place, count in enumerate(counts) if place not in chosen}
        place = max(scores, key=lambda each: scores[each])
        if scores[place] <= best:
            break
        best = scores[place]
        chosen.append(place)
        total += counts[place]
    return [KEPT if place in chosen else LEFT_OUT for place in range(len(source))]


def _count(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def _f1(found: Counter[str], wanted: Counter[str]) -> float:
    words = found.total() + wanted.total()
    return 2 * (found & wanted).total() / words if words else 0.0
