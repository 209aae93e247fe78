"""The data that all toolkits get: Multi30k as ready pieces, one vocabulary, and the batches and weights of our own run.

Pieces are written as in our export for CTranslate2: the name of a special token, or the id as a number. So no toolkit
needs a tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from training_speed import Setting, batches

from transduce.core.types import EOS, PAD, SPECIALS
from transduce.data.pairs import Ragged
from transduce.runs.run import Run

BATCHES = 1500  # more than a block of training needs
FEW = 100  # validation pairs, for toolkits that cannot train without a validation set


@dataclass(frozen=True)
class Data:
    """Files in ``folder``:

    - train.src and train.tgt: the training pairs in pieces, one sentence a line.
    - valid.src and valid.tgt: the first lines of the training pairs.
    - vocabulary.txt: one piece a line, in the order of ids.
    - batches.json: the ids of each batch.
    - test.json and test.pieces.json: the ids and the pieces of the test sources.

    ``setting`` is the same data for our own training. ``run`` is the trained run whose weights predict; None if nothing
    predicts. ``exports`` is the folder of its exports.
    """

    folder: Path
    setting: Setting
    run: Path | None = None

    @property
    def exports(self) -> Path:
        return self.folder / "exports"

    @property
    def vocabulary(self) -> int:
        return len(self.pieces.read_text(encoding="utf-8").split())

    @property
    def pieces(self) -> Path:
        return self.folder / "vocabulary.txt"

    @property
    def batches(self) -> Path:
        return self.folder / "batches.json"

    @property
    def test(self) -> Path:
        return self.folder / "test.json"

    @property
    def test_pieces(self) -> Path:
        return self.folder / "test.pieces.json"


def piece(identity: int) -> str:
    return SPECIALS[identity] if identity < len(SPECIALS) else str(identity)


def write(data: Data) -> None:
    """Writes all files. Rows of ids end with EOS. Lines of pieces do not, because each toolkit adds its own end."""
    data.folder.mkdir(parents=True, exist_ok=True)
    prepared = data.setting.prepared()
    for side, rows in (("src", prepared.train.source), ("tgt", prepared.train.target)):
        lines = _lines(rows)
        (data.folder / f"train.{side}").write_text("".join(lines), encoding="utf-8")
        (data.folder / f"valid.{side}").write_text("".join(lines[:FEW]), encoding="utf-8")
    data.pieces.write_text("\n".join(map(piece, range(prepared.facts.target_vocabulary))) + "\n", encoding="utf-8")
    found = [
        [_unpadded(batch.source.values.tolist()), _unpadded(batch.target.values.tolist())]
        for batch in islice(batches(prepared, data.setting.seed), BATCHES)
    ]
    data.batches.write_text(json.dumps(found), encoding="utf-8")
    if data.run is not None:
        tokenizer = Run.open(data.run).tokenizers.source
        ids = [[int(i) for i in row] for row in tokenizer.encode(test_sources(data.run))]
        data.test.write_text(json.dumps(ids), encoding="utf-8")
        data.test_pieces.write_text(json.dumps([[piece(i) for i in row] for row in ids]), encoding="utf-8")


def test_sources(run: Path) -> list[str]:
    """The sources of the run's test split, as text."""
    return [each.source for each in Run.open(run).examples("test")]


def _lines(rows: Ragged) -> list[str]:
    ids = rows.ids.tolist()
    found = []
    for first, length in zip(rows.offsets.tolist(), rows.lengths.tolist(), strict=False):
        row = ids[first : first + length]
        found.append(" ".join(piece(i) for i in row if i != EOS) + "\n")
    return found


def _unpadded(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    return [[identity for identity in row if identity != PAD] for row in rows]
