"""Odd outputs for unchanged sources: repeated words, copies of the source, a wrong length, words never attended to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.wings.alignment.alignments import EVERY
from transduce.wings.alignment.attention_weights import attention_weights, check_attends
from transduce.wings.looking.examination.findings import Case, Finding, found
from transduce.wings.looking.examination.said import Said, words

BLOCKS = range(1, 5)  # the lengths of repeated blocks, in words
SHARE = 0.2  # a token is neglected if it receives less than this part of an equal share of the attention
NEGLECTED = 0.25  # the share of neglected tokens that makes a case

Look = Callable[[Said], bool | None]


def repeats(text: str) -> bool:
    """True if a block of one to four words stands three times in a row, or one of two to four words twice in a row."""
    found_words = words(text)
    for size in BLOCKS:
        times = 3 if size == 1 else 2
        for start in range(len(found_words) - times * size + 1):
            block = found_words[start : start + size]
            if all(found_words[start + k * size : start + (k + 1) * size] == block for k in range(1, times)):
                return True
    return False


def _is_empty(said: Said) -> bool:
    return not said.text.strip()


def _repeats(said: Said) -> bool:
    return repeats(said.text)


def _is_copy(said: Said) -> bool:
    return said.text.strip() == said.source.strip() and said.text not in said.references


def _is_short(said: Said) -> bool | None:
    return None if said.expected is None else len(words(said.text)) < said.expected / 2


def _is_long(said: Said) -> bool | None:
    return None if said.expected is None else len(words(said.text)) > 2 * said.expected


LOOKS: tuple[tuple[str, str, Look], ...] = (
    ("empty", "the output is empty", _is_empty),
    ("repetition", "a word three times in a row, or 2 to 4 words twice in a row", _repeats),
    ("copy", "the output is the source, and no reference is", _is_copy),
    ("too short", "less than half of the expected words", _is_short),
    ("too long", "more than twice the expected words", _is_long),
)


def output_findings(said: Sequence[Said]) -> list[Finding]:
    """A finding for each kind of odd output. References that repeat words are counted beside the outputs that do."""
    made = []
    for name, meaning, look in LOOKS:
        judged = [(Case(each.number, each.source, each.text), look(each)) for each in said]
        beside = sum(any(map(repeats, each.references)) for each in said) if look is _repeats else None
        made.append(found(name, meaning, judged, beside if any(each.references for each in said) else None))
    return made


def neglect(transducer: Transducer, said: Sequence[Said], batch_size: int) -> Finding:
    """Counts sources with neglected tokens: those that receive less than a fifth of an equal share of the attention
    while the output is written. A source is a case if at least a quarter of its tokens are neglected.

    The attention is the mean over all layers and heads. The end of the source and the end of the output do not count.
    Raises UserError if the model has no attention to its source.
    """
    check_attends(transducer.model)
    if transducer.source_tokenizer.signal:
        raise UserError("its sources are signals, which have no tokens")
    read = [each for each in said if len(each.output.ids) > 1]
    meaning = "a quarter of the source tokens get less than a fifth of an equal share of attention"
    judged: list[tuple[Case, bool | None]] = []
    for batch in _batches(read, batch_size):
        sources = [source.row for source in transducer.read([each.source for each in batch])]
        weights = attention_weights(transducer, sources, [list(each.output.ids) for each in batch])
        mean_BTS = weights.chosen(EVERY)
        for row_TS, each, columns in zip(mean_BTS, batch, weights.columns, strict=True):
            written, across = len(each.output.ids) - 1, len(columns) - 1
            received_S = row_TS[:written, :across].sum(0)
            share = float((received_S < SHARE * written / max(1, across)).float().mean()) if across else 0.0
            judged.append((Case(each.number, each.source, each.text), share >= NEGLECTED))
    return found("neglect", meaning, judged)


def _batches(said: Sequence[Said], size: int) -> Iterator[list[Said]]:
    rest = iter(said)
    while batch := list(islice(rest, size)):
        yield batch
