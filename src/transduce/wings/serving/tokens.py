"""The tokens of an output as pieces of its text, each with its log-probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transduce.answers.answer import Output
from transduce.core.types import EOS
from transduce.wings.serving.service import Service


@dataclass(frozen=True)
class Token:
    """A token as the text that it adds, the place where this begins in the output, and its log-probability."""

    text: str
    offset: int
    log_prob: float


def tokens_of(
    service: Service, text: str, ids: Sequence[int], log_probs: Sequence[float], begin: int = 0
) -> tuple[Token, ...]:
    """The tokens of a text from the place ``begin`` on, without its end. The last ``ids`` have ``log_probs``; those
    before them are the prompt. The texts of the tokens, joined, are the text from ``begin`` on.
    """
    decode: Any = service.transducer.tokenizers.target.decode
    first = len(ids) - len(log_probs)
    places = [place for place in range(first, len(ids)) if ids[place] != EOS]
    found, now = [], begin
    for place in places:
        end = len(text) if place == places[-1] else max(now, _common(decode(ids[: place + 1]), text))
        found.append(Token(text[now:end], now - begin, log_probs[place - first]))
        now = end
    return tuple(found)


def _common(one: str, other: str) -> int:
    """The number of characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def pieces(service: Service, output: Output) -> list[tuple[str, float]]:
    """The text of an output in pieces, each with the log-probability of its token. Empty if the tokens are no pieces of
    the text: the output of numbers or trees, or one with protected spans.
    """
    numeric = service.transducer.target_tokenizer.numeric
    if numeric or output.log_prob is None or not output.ids or len(output.ids) != len(output.token_log_probs):
        return []
    decode: Any = service.transducer.tokenizers.target.decode
    if decode([token for token in output.ids if token != EOS]) != output.text:
        return []
    return [(each.text, each.log_prob) for each in tokens_of(service, output.text, output.ids, output.token_log_probs)]
