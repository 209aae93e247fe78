"""The warnings about many answers together, in one line for each kind. Nothing here imports PyTorch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from transduce.answers.cuts import Cuts
from transduce.core.errors import UserError
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.unknown import Unknown, share_text

MANY = 0.1  # share of empty outputs from which on it is told

log = logging.getLogger("transduce")


@dataclass
class Shares:
    """Sums over answers: the unknown tokens of their sources (``input``), of the targets that were scored, of the
    prefixes, and of references that outputs are compared with. ``Answer.add_to`` adds an answer. ``asked`` counts the
    answers, and ``unanswered`` those without outputs, because their request could not be answered. ``outputs`` counts
    the best outputs that the search cut.
    """

    input: Unknown = field(default_factory=Unknown)
    targets: Unknown = field(default_factory=Unknown)
    prefixes: Unknown = field(default_factory=Unknown)
    references: Unknown = field(default_factory=Unknown)
    asked: int = 0
    unanswered: int = 0
    compared: int = 0  # outputs whose references have text
    empty: int = 0  # compared outputs that are empty
    outputs: Cuts = field(default_factory=Cuts)

    def compare_with(self, tokenizer: Tokenizer, references: Sequence[str], source: str) -> None:
        """Counts the unknown tokens of the references of one source. A text that ``tokenizer`` cannot read is left out:
        the metrics compare texts.
        """
        for reference in references:
            try:
                self.references.encode(tokenizer, reference, source)
            except UserError:
                continue

    def compare_output(self, output: str, references: Sequence[str]) -> None:
        """Counts an output, and whether it is empty, if one of its references has text."""
        if any(reference.strip() for reference in references):
            self.compared += 1
            self.empty += not output.strip()

    def lines(self) -> Iterator[str]:
        """Yields one line for each kind that has something to tell."""
        if self.unanswered:
            yield f"input: {self.unanswered:,} of {self.asked:,} could not be answered, each for the reason above"
        for name in ("input", "targets", "prefixes", "references"):
            unknown: Unknown = getattr(self, name)
            if unknown:
                yield f"{name}: {unknown}{'; no output of its tokens equals them' if name == 'references' else ''}"
        if self.empty > MANY * self.compared:
            yield f"outputs: {share_text(self.empty, self.compared)} are empty, and their references are not"
        if self.outputs.cut:
            yield str(self.outputs)

    def tell(self, whose: str = "") -> None:
        """Logs the lines as warnings. ``whose`` begins each line, such as the name of a run."""
        for line in self.lines():
            log.warning("%s%s", whose, line)


@contextmanager
def telling() -> Iterator[Shares]:
    """A context that logs the lines of its ``Shares`` at its end, also after an error or an interruption."""
    shares = Shares()
    try:
        yield shares
    finally:
        shares.tell()
