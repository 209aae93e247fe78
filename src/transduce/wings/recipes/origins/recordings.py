"""The recordings of the Free Spoken Digit Dataset, and folders of recordings with a manifest."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import wave
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from transduce.core.files import make_folder, write_lines
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError, Files, Splits
from transduce.wings.recipes.origins.published import download
from transduce.wings.signals.tokenizers.sound import Samples

COMMIT = "26eb9aaf76e81b692f806f9140c2d2777410d7a1"
ARCHIVE = f"https://codeload.github.com/Jakobovski/free-spoken-digit-dataset/tar.gz/{COMMIT}"
SUM = "aacc6435ec019f03383d4aa575de70fa6775a5c68b50d87c766d1c14bb2b79ac"
"""SHA-256 over all recordings in the order of their names: name, line break, bytes."""

RATE = 8000  # samples a second
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LARGEST = 2**28  # most unpacked bytes of an archive
LARGEST_FILE = 2**20
_NAME = re.compile(r"([0-9])_([a-z]+)_([0-9]{1,4})\.wav")


@dataclass(frozen=True)
class Recording:
    """One digit, 0 to 9, by one speaker, as the bytes of a 16-bit WAV file. ``index`` numbers a speaker's recordings of
    a digit, from 0.
    """

    digit: int
    speaker: str
    index: int
    wav: bytes

    @property
    def name(self) -> str:
        return f"{self.digit}_{self.speaker}_{self.index}"

    @property
    def word(self) -> str:
        return WORDS[self.digit]

    @property
    def samples(self) -> Samples:
        """The samples [N], from -1 to 1."""
        with wave.open(io.BytesIO(self.wav)) as file:
            levels_N = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return levels_N.astype(np.float32) / np.float32(2**15)


def recordings(folder: str | None, leave_out: str | None = None) -> dict[Split, list[Recording]]:
    """The recordings of each split, sorted by file name: index 0 to 4 for test, as the authors recommend, 5 to 7 for
    valid, the rest for training.

    ``leave_out`` names a speaker whose recordings are all for test; then index 0 to 4 of the others is in no split. The
    recordings come from a ``folder`` with a copy or, if that is None, are downloaded. Raises DataError if they cannot
    be fetched or are not the expected ones, or if there is no such speaker.
    """
    found = checked(_fetched() if folder is None else _copied(Path(folder).expanduser()), folder or ARCHIVE)
    speakers = sorted({each.speaker for each in found})
    if leave_out is not None and leave_out not in speakers:
        raise DataError(f"leave_out = {leave_out!r}: no such speaker; there are {', '.join(speakers)}")
    splits: dict[Split, list[Recording]] = {split: [] for split in SPLITS}
    for each in found:
        split: Split = "test" if each.index < 5 else "valid" if each.index < 8 else "train"
        if each.speaker == leave_out:
            splits["test"].append(each)
        elif split != "test" or leave_out is None:
            splits[split].append(each)
    return splits


def checked(files: dict[str, bytes], where: str) -> list[Recording]:
    """The recordings, sorted by file name, of ``files`` (bytes by name). The names must have the dataset's form. Raises
    DataError if their checksum differs.

    ``where`` stands for their place in that message.
    """
    digest = hashlib.sha256()
    found = []
    for name, wav in sorted(files.items()):
        digest.update(f"{name}\n".encode() + wav)
        match = _NAME.fullmatch(name)
        assert match is not None
        found.append(Recording(int(match[1]), match[2], int(match[3]), wav))
    if digest.hexdigest() != SUM:
        raise DataError(
            f"{where} does not have the recordings of commit {COMMIT[:7]} of the Free Spoken Digit Dataset: the "
            f"{len(files)} there have SHA-256 {digest.hexdigest()}, not {SUM}"
        )
    return found


@dataclass(frozen=True)
class Spoken:
    """A recording to write: its file's ``name`` without suffix, the bytes of a WAV file, and the words spoken in it."""

    name: str
    wav: bytes
    target: str


def spoken_splits(folder: Path, entries: Callable[[Split], Iterable[Spoken]]) -> Splits:
    """Returns the manifest pairs.tsv of each split's folder in ``folder``. A line of it has a WAV file's name and the
    words spoken in it.

    A split's folder that does not exist is written as a whole from ``entries(split)``. An existing one is not changed.
    """

    def fill(split: Split, scratch: Path) -> None:
        write_lines(scratch / "pairs.tsv", _lines(scratch, entries(split)))

    for split in SPLITS:
        make_folder(folder / split, partial(fill, split))
    return Splits(*(Files(path=str(folder / split / "pairs.tsv")) for split in SPLITS))


def wav(x_N: Samples) -> bytes:
    """Samples [N] from -1 to 1 as a 16-bit WAV file with one channel, 8,000 samples a second. Larger values are
    clipped.
    """
    levels_N = np.clip(np.rint(x_N * 2**15), -(2**15), 2**15 - 1).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(RATE)
        written.writeframes(levels_N.tobytes())
    return file.getvalue()


def _lines(folder: Path, entries: Iterable[Spoken]) -> Iterator[str]:
    for entry in entries:
        (folder / f"{entry.name}.wav").write_bytes(entry.wav)
        yield f"{entry.name}.wav\t{entry.target}"


# --------------------------------------------------------------------- files


def _fetched() -> dict[str, bytes]:
    return _unpacked(io.BytesIO(download(ARCHIVE, LARGEST)), ARCHIVE)


def _copied(folder: Path) -> dict[str, bytes]:
    """The recordings of a copy, by file name: from wav.tar.gz, else recordings/ (a checkout), else wav/, else the
    folder itself. Raises DataError if there is no archive and no recording, or if the archive is damaged.
    """
    archive = folder / "wav.tar.gz"
    if archive.exists():
        with archive.open("rb") as file:
            return _unpacked(file, str(archive))
    for place in (folder / "recordings", folder / "wav", folder):
        found = {path.name: path for path in place.glob("*.wav") if _NAME.fullmatch(path.name)}
        if found:
            return {name: path.read_bytes() for name, path in found.items()}
    raise DataError(f"{folder} has neither recordings/ nor wav.tar.gz: give a folder with a copy of the recordings")


def _unpacked(file: io.BufferedIOBase | io.BufferedReader, where: str) -> dict[str, bytes]:
    """The recordings in an archive, in any folder of it, by file name without folders. A recording is a file whose name
    has the dataset's form, such as 7_george_12.wav; all else is ignored. Writes nothing.

    A file of more than ``LARGEST_FILE`` bytes is cut there. Raises DataError if the archive is damaged, or if it
    unpacks to more than ``LARGEST`` bytes. ``where`` names it in messages.
    """
    found, size = {}, 0
    try:
        with tarfile.open(fileobj=file, mode="r|gz") as archive:
            for member in archive:
                size += member.size
                if size > LARGEST:
                    raise DataError(f"{where} unpacks to more than {LARGEST} bytes: not the archive expected")
                name = PurePosixPath(member.name).name
                content = archive.extractfile(member) if member.isreg() and _NAME.fullmatch(name) else None
                if content is not None:
                    found[name] = content.read(LARGEST_FILE)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{where} is not a whole .tar.gz archive: {error}") from error
    return found
