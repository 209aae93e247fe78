"""The derivation of an output by a phrase-based model: its phrases, and their parts of the score."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from transduce.answers.answer import Output
from transduce.answers.derivations import Derived, Phrase
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.files import write_text
from transduce.core.protocols import Deriving, can
from transduce.core.registry import model_name
from transduce.metrics.units import columns, padded
from transduce.wings.looking.inspection.tree import SearchTree

END = "</s>"


@dataclass(frozen=True)
class PhraseReading:
    """An output of a phrase-based model and its derivation."""

    output: Output
    derived: Derived

    def lines(self) -> list[str]:
        """A table as lines of text. Its columns are the source, the target, the score, and the features whose sum over
        the phrases is not 0.

        The first row names the columns. A row for each phrase in the order of the output follows, then a row with the
        sums, and a row with the weights of the features.
        """
        derived = self.derived
        names = [name for name, value in derived.features.items() if value]
        sums = ["", "", f"{self.output.score:.2f}", *(f"{derived.features[name]:.2f}" for name in names)]
        weights = dict(zip(derived.names, derived.weights, strict=True))
        rows = [
            ["source", "target", "score", *names],
            *(_row(phrase, names) for phrase in derived.phrases),
            ["sum", *sums[1:]],
            ["weight", "", "", *(f"{weights[name]:.2f}" for name in names)],
        ]
        widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
        return ["  ".join(map(padded, row, widths)).rstrip() for row in rows]

    def write(self, path: Path, tree: SearchTree) -> None:
        """Writes a JSON file with the source, the output, its score and features, the weights, and the phrases with
        their features. ``hypotheses`` in the file has all hypotheses of the search's ``tree``.
        """
        derived = self.derived
        record = {
            "source": derived.source,
            "text": self.output.text,
            "score": self.output.score,
            "weights": dict(zip(derived.names, derived.weights, strict=True)),
            "features": derived.features,
            "phrases": [asdict(phrase) for phrase in derived.phrases],
            "hypotheses": tree.rows(),
        }
        write_text(path, json.dumps(record, ensure_ascii=False, indent=1) + "\n")


def phrases(transducer: Transducer, source: str) -> PhraseReading:
    """The best output for the text ``source`` with the phrases that wrote it. Raises UserError for a model that does
    not write phrase by phrase.
    """
    (output, *_) = next(transducer.predict([source]))
    if not can(type(transducer.model), Deriving) or output.derived is None:
        raise UserError(
            f"this {model_name(type(transducer.model))} model does not write phrase by phrase; a model that does has "
            'model.type = "phrase-based"'
        )
    return PhraseReading(output, output.derived)


def _row(phrase: Phrase, names: list[str]) -> list[str]:
    shown = phrase.target or ("" if phrase.source else END)
    return [phrase.source, shown, f"{phrase.score:.2f}", *(f"{phrase.features[name]:.2f}" for name in names)]
