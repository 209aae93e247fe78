"""Generated text: from a prompt to texts that go on with it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from transduce.answers.text_model import UNFINISHED, TextModel
from transduce.core.errors import RequestError
from transduce.core.protocols import TextContext
from transduce.core.types import EOS
from transduce.wings.language.generation_search import Drawn, Generation


class Generated(NamedTuple):
    """A text, the prompt included, and the model's log-probability (natural logarithm) of what follows the prompt, the
    end of a line included. ``ids`` are its tokens; the last ones, which follow the prompt, have ``token_log_probs``.
    """

    text: str
    log_prob: float
    ids: tuple[int, ...]
    token_log_probs: tuple[float, ...]


class Writer:
    """Writes on from a prompt with a language model. ``context`` is how much of a long text the model reads; None for
    all that its state holds.

    Raises RequestError if the model has sources, if it does not write token by token, or if it writes numbers.
    """

    def __init__(self, text_model: TextModel, generation: Generation, context: TextContext | None = None) -> None:
        text_model.check_language_model()
        if text_model.target_tokenizer.numeric:
            raise RequestError("the model writes numbers: give a language model of text")
        self.text_model, self.generation, self.context = text_model, generation, context

    def __call__(self, prompt: str = "") -> list[Generated]:
        """The samples, in the order in which they are drawn. Raises RequestError for a prompt of several lines if the
        generation ends with its line.
        """
        ids = self._ids(prompt)
        with self.text_model.computing():
            steps = list(self._steps(ids))
        token_KT, log_prob_KT, active_KT = (torch.stack(column, 1) for column in zip(*steps, strict=True))
        return [
            self._generated(ids, token_T[active_T], log_prob_T[active_T])
            for token_T, log_prob_T, active_T in zip(token_KT, log_prob_KT, active_KT, strict=True)
        ]

    def _generated(self, prompt: list[int], token_T: Tensor, log_prob_T: Tensor) -> Generated:
        ids = [*prompt, *token_T.tolist()]
        return Generated(self._text(ids), float(log_prob_T.sum()), tuple(ids), tuple(log_prob_T.tolist()))

    def stream(self, prompt: str = "") -> Iterator[str]:
        """The text of the first sample in pieces, the prompt included, each as soon as its token is drawn.

        A line that its later tokens change is written when it has ended. The pieces joined are the text of the first
        sample. Raises RequestError as a call does.
        """
        ids = self._ids(prompt)
        begun = max((place + 1 for place, token in enumerate(ids) if token == EOS), default=0)
        if begun:
            yield self._text(ids[:begun])
        line, given = ids[begun:], ""
        for token in chain([None], self._tokens(ids)):  # None: nothing follows the prompt yet
            if token is not None and token != EOS:
                line.append(token)
            text = self._decoded(line)
            decided = text if token == EOS else text.rstrip(UNFINISHED)
            if decided.startswith(given):
                yield decided[len(given) :]
                given = decided
            if token == EOS and self.generation.lines:
                yield "\n"
                line, given = [], ""
        yield self._decoded(line)[len(given) :]

    def _tokens(self, ids: list[int]) -> Iterator[int]:
        """The tokens of the first sample, each as soon as it is drawn."""
        steps = self._steps(ids)
        while True:
            with self.text_model.computing():  # not while the caller has the token
                step = next(steps, None)
            if step is None or not bool(step.active_K[0]):
                return
            yield int(step.token_K[0])

    def _steps(self, ids: list[int]) -> Iterator[Drawn]:
        text_model = self.text_model
        (source,) = text_model.read([""])
        prompt_M: Tensor = torch.tensor(ids, dtype=torch.long, device=text_model.device)
        model = text_model.stepwise
        return self.generation(model, text_model.padded([source.row]), prompt_M, self.context)

    def _ids(self, prompt: str) -> list[int]:
        """The ids of the prompt. Each of its lines but the last ends with EOS."""
        *whole, last = prompt.split("\n")
        if whole and not self.generation.lines:
            raise RequestError(
                f"the prompt has {len(whole) + 1} lines, and the text ends with its line: give one line, or let the "
                "text go on over the ends of lines (--lines)"
            )
        rows = self.text_model.read_targets([*whole, last], what="prompt")
        return [token for row in rows for token in row][:-1]

    def _text(self, ids: list[int]) -> str:
        lines: list[list[int]] = [[]]
        for token in ids:
            if token == EOS:
                lines.append([])
            else:
                lines[-1].append(token)
        if not self.generation.lines and not lines[-1]:
            lines.pop()
        return "\n".join(self._decoded(line) for line in lines)

    def _decoded(self, ids: list[int]) -> str:
        return self.text_model.target_tokenizer.decode(ids)


def generate(
    model: TextModel,
    prompt: str,
    length: int,
    samples: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    lines: bool,
    context: TextContext | None,
) -> list[str]:
    """Texts that go on with the prompt, as ``Transducer.generate`` describes them."""
    how = Generation(length, samples, temperature, top_k, top_p, seed, lines)
    return [each.text for each in Writer(model, how, context)(prompt)]
