"""Bach's chorales as text, from a public repository or a local copy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transduce.core.config import Table
from transduce.core.files import write_lines
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError, Files, Splits
from transduce.wings.recipes.origins.published import download, unpacked
from transduce.wings.signals.music.chords import Chord, text

CHORALES = "https://raw.githubusercontent.com/czhuang/JSB-Chorales-dataset/9a7f733ddb4ed91f48da64ac7f0f621c34aadd4d"
SETS, VOICES = "jsb-chorales-quarter.json", "Jsb16thSeparated.json"
SUMS = {
    SETS: "51bead3955dd3f4c7339d076a2306b0b604e807161772f8a146db0bbe440b13e",
    VOICES: "2816fe573cb7265ae46f48263f7d5863724e508bbddf2b0890fc9082ce4780bd",
}
"""SHA-256 of each file's pieces as lines of chords (``chords.text``), in the order train, valid, test."""

QUARTER = 4  # sixteenths
SILENT = -1  # in the file of voices
Piece = list[Chord]


@dataclass(frozen=True)
class Chorales:
    """The 382 chorales by Bach in the split of Boulanger-Lewandowski et al. (2012): 229 for training, 76 for
    validation, 77 for the test. A line is a piece with one chord for each quarter note (``chords.text``).

    ``form`` "sets" has the set of pitches that sound, the lowest first. "voices" has the pitches of soprano, alto,
    tenor and bass in this order, and "-" for a silent voice. "harmony" has pairs: the soprano of ``window`` quarter
    notes as source, and the four voices of the same notes as target. Training also has each piece transposed by up to
    ``transpose`` semitones down and up. ``folder`` holds a local copy that replaces the download:
    jsb-chorales-quarter.json for sets, Jsb16thSeparated.json for voices, plain or gzipped. The checksum of the pieces
    is checked; those of the original files are not known. Raises DataError if ``transpose`` is not between 0 and 11, or
    ``window`` is below 1.
    """

    form: Literal["sets", "voices", "harmony"] = "sets"
    transpose: int = 5
    window: int = 16
    folder: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.transpose <= 11 or self.window < 1:
            raise DataError(
                f"transpose = {self.transpose}, window = {self.window}: expected 0 to 11 semitones, and a window of at "
                "least 1 quarter note"
            )

    def prepare(self, folder: Path) -> Splits:
        suffix = "tsv" if self.form == "harmony" else "txt"
        paths = {split: folder / f"{split}.{suffix}" for split in SPLITS}
        if not all(path.exists() for path in paths.values()):
            pieces = _pieces(SETS if self.form == "sets" else VOICES, self.folder)
            for split, path in paths.items():
                write_lines(path, self._lines(pieces[split], self.transpose if split == "train" else 0))
        return Splits(*(Files(path=str(path)) for path in paths.values()))

    def _lines(self, pieces: Sequence[Piece], semitones: int) -> Iterator[str]:
        """The lines of pieces, each in all keys up to ``semitones`` away."""
        for piece in pieces:
            for shift in range(-semitones, semitones + 1):
                chords = [tuple(None if pitch is None else pitch + shift for pitch in chord) for chord in piece]
                if self.form != "harmony":
                    yield text(chords)
                    continue
                for start in range(0, len(chords), self.window):
                    part = chords[start : start + self.window]
                    yield f"{' '.join(_soprano(chord) for chord in part)}\t{text(part)}"


def _soprano(chord: Chord) -> str:
    return "-" if chord[0] is None else str(chord[0])


def _pieces(name: str, folder: str | None) -> dict[Split, list[Piece]]:
    """The pieces of a file by split. Raises DataError if it cannot be found or fetched, or if the checksum differs."""
    records, where = _read(name, folder)
    read = _voices if name == VOICES else _sets
    pieces: dict[Split, list[Piece]] = {split: [read(piece) for piece in records[split]] for split in SPLITS}
    lines = [text(piece) for split in SPLITS for piece in pieces[split]]
    found = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    if found != SUMS[name]:
        raise DataError(f"{where} is not the file {name}: its pieces have SHA-256 {found}, not {SUMS[name]}")
    return pieces


def _read(name: str, folder: str | None) -> tuple[Table, str]:
    if folder is None:
        where = f"{CHORALES}/{name}"
        return json.loads(download(where)), where
    for path in (Path(folder).expanduser() / f"{name}.gz", Path(folder).expanduser() / name):
        if path.exists():
            return json.loads(unpacked(path.read_bytes(), str(path))), str(path)
    raise DataError(f"{folder} has no {name}: give a folder with this file, or none to fetch it")


def _sets(piece: Iterable[Sequence[float]]) -> Piece:
    return [tuple(sorted({int(pitch) for pitch in chord})) for chord in piece]


def _voices(piece: Sequence[Sequence[float]]) -> Piece:
    """Every fourth step of a piece in sixteenths, with None for silence."""
    return [tuple(None if pitch == SILENT else int(pitch) for pitch in chord) for chord in piece[::QUARTER]]
