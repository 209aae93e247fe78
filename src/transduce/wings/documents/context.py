"""The sentences before a sentence of a document, which the model reads with it.

A sentence is translated twice. The first time it stands alone. The second time the model reads the sentences before it
too, and its output begins with their first translations. What it writes after them is the translation (concatenation:
Tiedemann and Scherrer 2017). Both times many sentences share a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transduce.answers.answer import Answer, Output
from transduce.answers.request import Request
from transduce.core.errors import UserError

MOST = 8  # sentences before a sentence


@dataclass(frozen=True)
class Context:
    """Asks again for the answers of a document, each with up to ``count`` sentences before it. Raises UserError for a
    count that is not from 0 to ``MOST``.
    """

    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.count <= MOST:
            raise UserError(f"--previous {self.count}: 0 to {MOST} sentences before a sentence were expected")

    def asked(self, answers: Sequence[Answer]) -> dict[int, Request]:
        """The requests with sentences before them, by the index of their first answer. A sentence has none if it has
        no translation itself, or a prefix of its own.
        """
        found = dict[int, Request]()
        for number, answer in enumerate(answers):
            before = [each for each in answers[max(0, number - self.count) : number] if not each.problem]
            if before and not answer.problem and not answer.request.prefix:
                source = " ".join([*(each.request.text for each in before), answer.request.source])
                prefix = " ".join(_words(each.best) for each in before)
                found[number] = replace(answer.request, source=source, prefix=prefix)
        return found

    def merged(self, answers: Sequence[Answer], again: dict[int, Answer]) -> list[Answer]:
        """The answers, with the texts of those that were asked ``again``, where they are whole."""
        return [
            answer if (text := _after(answer, again.get(number))) is None else replaced(answer, text)
            for number, answer in enumerate(answers)
        ]


def replaced(answer: Answer, text: str) -> Answer:
    """The answer with another text as its best one."""
    return replace(answer, outputs=[replace(answer.best, text=text), *answer.outputs[1:]])


def _words(output: Output) -> str:
    """The text of an output without its protected spans."""
    text = output.text
    places = sorted((span.place for span in output.spans or () if span.place is not None), reverse=True)
    for start, end in places:
        text = text[:start] + text[end:]
    return " ".join(text.split())


def _after(first: Answer, second: Answer | None) -> str | None:
    """What the second answer writes after its prefix; None if the first answer is the better one: the second was cut,
    lost a span or a required phrase, put a span into the prefix, or wrote nothing after it.
    """
    if second is None or second.problem or second.truncated is not None or second.unsatisfied is not None:
        return None
    best, prefix = second.best, second.request.prefix
    if len(best.lost) > len(first.best.lost) or best.cut_at is not None or not best.text.startswith(prefix):
        return None
    return best.text[len(prefix) :].strip() or None
