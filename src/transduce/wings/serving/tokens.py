"""The tokens of an output as pieces of its text, each with its log-probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.answers.answer import Output
from transduce.core.types import EOS
from transduce.wings.serving.service import Service


@dataclass(frozen=True)
class Token:
    """A token as the text that it adds, the place where this begins in the output, and its log-probability. ``best``
    has the most probable tokens at its position with their log-probabilities, best first, if they are asked for.
    """

    text: str
    offset: int
    log_prob: float
    best: tuple[tuple[str, float], ...] = ()


def tokens_of(
    service: Service,
    source: str,
    text: str,
    ids: Sequence[int],
    log_probs: Sequence[float],
    begin: int = 0,
    best: int = 0,
) -> tuple[Token, ...]:
    """The tokens of the output ``text`` for a source from the place ``begin`` on, without its end. The last ``ids``
    have ``log_probs``; those before them are the prompt. The texts of the tokens, joined, are the text from ``begin``
    on. Each has the ``best`` most probable tokens at its position: raises RequestError for a model that does not show
    them.
    """
    decode = service.answerer.target_tokenizer.decode
    first = len(ids) - len(log_probs)
    places = [place for place in range(first, len(ids)) if ids[place] != EOS]
    others = service.answerer.likely(source, ids, best) if best else [[]] * len(ids)
    found, now = [], begin
    for place in places:
        end = len(text) if place == places[-1] else max(now, _common(decode(ids[: place + 1]), text))
        named = tuple((_added(service, ids[:place], token, text[:now]), log_prob) for token, log_prob in others[place])
        found.append(Token(text[now:end], now - begin, log_probs[place - first], named))
        now = end
    return tuple(found)


def _added(service: Service, ids: Sequence[int], token: int, before: str) -> str:
    """The text that a token would add after ``before``, the text of ``ids``. The token's name if it adds none."""
    tokenizer = service.answerer.target_tokenizer
    text = "" if token == EOS else tokenizer.decode([*ids, token])
    added = text[len(before) :] if text.startswith(before) else ""
    return added or str(tokenizer.tokens([token])[0])


def _common(one: str, other: str) -> int:
    """The number of characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def pieces(service: Service, output: Output) -> list[tuple[str, float]]:
    """The text of an output in pieces, each with the log-probability of its token. Empty if the tokens are no pieces of
    the text: the output of numbers or trees, or one with protected spans.
    """
    if (
        service.answerer.target_tokenizer.numeric
        or output.log_prob is None
        or not output.ids
        or len(output.ids) != len(output.token_log_probs)
    ):
        return []
    decode = service.answerer.target_tokenizer.decode
    if decode([token for token in output.ids if token != EOS]) != output.text:
        return []
    return [
        (each.text, each.log_prob) for each in tokens_of(service, "", output.text, output.ids, output.token_log_probs)
    ]
