"""Conversations on a topic that one person wrote for two, from a public repository or a local copy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.core.files import write_lines
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import ColumnNames, DataError, Files, Splits
from transduce.data.rows import read
from transduce.wings.language.dialogue import history

SUMS = {
    "train": "5462fbc4c72e24970b63d9704acf1e2924b0fa1d34024ebfc85e663d76abe068",
    "valid": "df2d4bad13aac24f3f7a20bce055ca4bda7449300196922a62bec3dbbe7e9155",
    "test": "964bae8d3018b5633ce6577df28e5fa93ff0bb989de4bffecd92e02eec95345d",
}
"""SHA-256 of each split's lines: topic, dialogue, utterance and reply, with tabs between them."""

COLUMNS = ColumnNames(labels=(0, 1), source=3, target=4)
REPOSITORY = "https://github.com/jfainberg/self_dialogue_corpus"


@dataclass(frozen=True)
class SelfDialogues:
    """Replies in conversations about films, music and sport, in which one person wrote both sides (Fainberg et al.
    2018).

    A line has the topic, the history and the reply. The history is the last ``turns`` turns before the reply
    (``dialogue.history``). ``folder`` has the files train.tsv, valid.tsv and test.tsv, plain or gzipped. Their columns
    are topic, dialogue, number of the turn, utterance, and the reply to it; the turns of a dialogue follow each other.
    A dialogue is in one split. The published corpus has another form, so there is no download. The checksums belong to
    one conversion: 40 % of the dialogues, without blocked workers and without dialogues of fewer than 4 turns.
    ``checked`` = False reads other files of this form. Raises DataError if ``folder`` is None, if ``turns`` is below 1,
    for a line that cannot be read, and for another checksum.
    """

    turns: int = 3
    folder: str | None = None
    checked: bool = True

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise DataError(f"turns = {self.turns}: a reply needs at least 1 turn to answer")

    def prepare(self, folder: Path) -> Splits:
        paths = {split: folder / f"{split}.jsonl" for split in SPLITS}
        if not all(path.exists() for path in paths.values()):
            rows = {split: self._rows(split) for split in SPLITS}
            for split, path in paths.items():
                write_lines(path, _lines(rows[split], self.turns))
        return Splits(*(Files(path=str(path)) for path in paths.values()))

    def _rows(self, split: Split) -> list[tuple[str, str, str, str]]:
        """The topic, dialogue, utterance and reply of each line of a split."""
        if self.folder is None:
            raise DataError(
                f"there are no dialogues to read: set data.origin.folder to the folder of train.tsv, from {REPOSITORY}"
            )
        path = Path(self.folder).expanduser() / f"{split}.tsv.gz"
        path = path if path.exists() else path.with_suffix("")
        found = []
        digest = hashlib.sha256()
        for row in read(Files(path=str(path)), COLUMNS):
            if row.problem is not None:
                raise DataError(f"{row.problem.place}: {row.problem.detail}; mend the line")
            topic, dialogue, utterance = (row.source or "").split("\t", 2)
            found.append((topic, dialogue, utterance, row.target or ""))
            digest.update(f"{row.source}\t{row.target}\n".encode())
        if self.checked and digest.hexdigest() != SUMS[split]:
            raise DataError(
                f"{path} is not the file expected: its lines have SHA-256 {digest.hexdigest()}, not {SUMS[split]}; for "
                "your own dialogues set data.origin.checked=false"
            )
        return found


def _lines(rows: Sequence[tuple[str, str, str, str]], turns: int) -> Iterator[str]:
    said: list[str] = []
    dialogue = ""
    for topic, of, utterance, reply in rows:
        said = [*said, utterance] if of == dialogue else [utterance]
        dialogue = of
        yield json.dumps({"topic": topic, "source": history(said, turns), "target": reply}, ensure_ascii=False)
