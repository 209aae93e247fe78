"""Spoken digits: a small data set of the same form, copied, fetched and made into strings."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from transduce.data.corpora import DataError, Files, present
from transduce.data.rows import read
from transduce.wings.recipes.origins import recordings
from transduce.wings.recipes.origins.recordings import RATE, Recording, wav
from transduce.wings.recipes.origins.spoken import SpokenDigits, SpokenStrings
from transduce.wings.signals.tokenizers.sound import Sound, samples


def tone(digit: int, speaker: str, index: int) -> np.ndarray:
    hertz = 200 * (digit + 1) + 10 * index + len(speaker)
    return (0.4 * np.sin(2 * np.pi * hertz * np.arange(800 + 80 * index) / RATE)).astype(np.float32)


FILES = {
    f"{digit}_{speaker}_{index}.wav": wav(tone(digit, speaker, index))
    for digit in (0, 3, 7)
    for speaker in ("ann", "bo")
    for index in (0, 4, 5, 7, 8, 11)
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Replaces the data set's checksum with a checksum of ``FILES``."""
    digest = hashlib.sha256()
    for name, content in sorted(FILES.items()):
        digest.update(f"{name}\n".encode() + content)
    monkeypatch.setattr(recordings, "SUM", digest.hexdigest())


def archive(prefix: str, extra: dict[str, bytes] | None = None) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in {**{prefix + name: content for name, content in FILES.items()}, **(extra or {})}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(prefix + "9_eve_0.wav")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return file.getvalue()


@pytest.fixture
def copy(tmp_path) -> str:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "wav.tar.gz").write_bytes(archive("wav/"))
    return str(tmp_path / "copy")


def pairs(files: Files | None) -> list[tuple[str, str]]:
    assert files is not None
    return [(row.source or "", row.target or "") for row in read(files)]


def test_the_official_split(copy, tmp_path):
    splits = SpokenDigits(copy).prepare(tmp_path / "out")
    found = {split: sorted(pairs(files)) for split, files in present(splits).items()}
    assert {split: len(each) for split, each in found.items()} == {"train": 12, "valid": 12, "test": 12}
    assert ("0_ann_4.wav", "zero") in found["test"]
    assert ("3_bo_7.wav", "three") in found["valid"]
    assert ("7_bo_8.wav", "seven") in found["train"]
    assert (tmp_path / "out" / "train" / "7_bo_8.wav").read_bytes() == FILES["7_bo_8.wav"]
    assert splits.test is not None
    assert Sound(RATE).read(splits.test.located("0_ann_4.wav")).shape[1] == 40


def test_a_speaker_left_out(copy, tmp_path):
    splits = SpokenDigits(copy, leave_out="bo").prepare(tmp_path / "out")
    speakers = {split: {name.split("_")[1] for name, _ in pairs(files)} for split, files in present(splits).items()}
    assert speakers == {"train": {"ann"}, "valid": {"ann"}, "test": {"bo"}}
    assert len(pairs(splits.test)) == 18
    with pytest.raises(DataError, match="leave_out = 'eve': no such speaker; there are ann, bo"):
        SpokenDigits(copy, leave_out="eve").prepare(tmp_path / "other")


def test_from_a_checkout_or_the_network(tmp_path, monkeypatch):
    folder = tmp_path / "checkout" / "recordings"
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    splits = SpokenDigits(str(folder.parent)).prepare(tmp_path / "one")
    asked = []
    monkeypatch.setattr(recordings, "download", lambda url, largest: asked.append(url) or archive("x-1/recordings/"))
    fetched = SpokenDigits().prepare(tmp_path / "two")
    assert asked == [recordings.ARCHIVE]
    assert pairs(fetched.train) == pairs(splits.train)
    SpokenDigits().prepare(tmp_path / "two")
    assert len(asked) == 1


def test_nothing_leaves_the_archive(tmp_path):
    """Neither by a name that climbs, nor by a link; a recording under a climbing name is that recording."""
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "wav.tar.gz").write_bytes(archive("../../../", {"../evil.txt": b"x", "/tmp/evil.wav": b"x"}))
    SpokenDigits(str(tmp_path / "copy")).prepare(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "out"]
    assert not any("evil" in path.name or "eve" in path.name for path in tmp_path.rglob("*"))


def test_what_is_not_the_data_set(tmp_path, monkeypatch):
    (tmp_path / "wav.tar.gz").write_bytes(archive("wav/", {"wav/9_eve_1.wav": b"more"}))
    with pytest.raises(DataError, match=r"the 37 there have SHA-256 .*, not "):
        SpokenDigits(str(tmp_path)).prepare(tmp_path / "out")
    (tmp_path / "wav.tar.gz").write_bytes(archive("wav/")[:3000])
    with pytest.raises(DataError, match=r"wav\.tar\.gz is not a whole \.tar\.gz archive"):
        SpokenDigits(str(tmp_path)).prepare(tmp_path / "out")
    monkeypatch.setattr(recordings, "LARGEST", 1000)
    (tmp_path / "wav.tar.gz").write_bytes(archive("wav/"))
    with pytest.raises(DataError, match="unpacks to more than 1000 bytes"):
        SpokenDigits(str(tmp_path)).prepare(tmp_path / "out")
    with pytest.raises(DataError, match=r"has neither recordings/ nor wav\.tar\.gz"):
        SpokenDigits(str(tmp_path / "nowhere")).prepare(tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


# --------------------------------------------------------------------- strings


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*")) if path.is_file()}


def test_strings_are_the_same_for_a_seed(copy, tmp_path):
    for name, origin in {
        "a": SpokenStrings(6, folder=copy),
        "b": SpokenStrings(6, folder=copy),
        "c": SpokenStrings(6, seed=2, folder=copy),
        "d": SpokenStrings(6, speed=0.1, folder=copy),
        "e": SpokenStrings(3, folder=copy),
    }.items():
        origin.prepare(tmp_path / name)
    a, b, c, d, e = (contents(tmp_path / name) for name in "abcde")
    assert a == b
    assert a["train/pairs.tsv"] != c["train/pairs.tsv"]
    assert a["train/pairs.tsv"] == d["train/pairs.tsv"]
    assert a["train/000000.wav"] != d["train/000000.wav"]
    assert a["test/000000.wav"] == d["test/000000.wav"]  # speed is for training alone
    assert a["train/000002.wav"] == e["train/000002.wav"]  # however many there are


def test_strings_are_digits_with_pauses_under_noise(copy, tmp_path):
    origin = SpokenStrings(40, shortest=2, longest=3, pause=(0.1, 0.1), noise=(20.0, 20.0), folder=copy)
    splits = origin.prepare(tmp_path / "out")
    assert [len(pairs(files)) for files in present(splits).values()] == [40, 100, 100]
    assert splits.valid is not None
    for name, target in pairs(splits.valid)[:20]:
        words = target.split()
        assert 2 <= len(words) <= 3
        assert set(words) <= {"zero", "three", "seven"}
        x_N, _ = samples(splits.valid.located(name), 60)
        # valid recordings have index 5 or 7, which tones tell by their length
        rest = len(x_N) - 800 * (len(words) + 1)
        assert rest in {sum(800 + 80 * each for each in some) for some in _products((5, 7), len(words))}
        silence = x_N[:800]
        assert 10 * np.log10(np.mean(x_N**2) / np.mean(silence**2)) == pytest.approx(20, abs=1)


def _products(choices: tuple[int, ...], times: int) -> list[tuple[int, ...]]:
    return [()] if times == 0 else [(each, *rest) for each in choices for rest in _products(choices, times - 1)]


def test_strings_of_one_speaker_and_split(copy, tmp_path, monkeypatch):
    drawn: list[list[Recording]] = []
    plain = Recording.samples.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Recording, "samples", property(lambda self: drawn[-1].append(self) or plain(self)))
    monkeypatch.setattr(SpokenStrings, "_joined", lambda self, digits, ratio, chance: drawn.append([]) or digits[0])
    drawn.append([])
    SpokenStrings(30, folder=copy).prepare(tmp_path / "out")
    strings = [each for each in drawn if each]
    assert len(strings) == 230
    for number, string in enumerate(strings):
        assert len({each.speaker for each in string}) == 1
        kept = {8, 11} if number < 30 else {5, 7} if number < 130 else {0, 4}
        assert {each.index for each in string} <= kept


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"strings": 0}, "strings = 0"),
        ({"shortest": 5, "longest": 4}, "shortest = 5"),
        ({"pause": (0.3, 0.1)}, "pause"),
        ({"noise": (30, 10)}, "noise"),
        ({"speed": 1.0}, r"speed = 1\.0"),
    ],
)
def test_options_that_make_no_sense(options, problem):
    with pytest.raises(DataError, match=problem):
        SpokenStrings(**options)


@pytest.mark.slow
def test_the_real_recordings(tmp_path, monkeypatch):
    import os

    root = os.environ.get("TRANSDUCE_DATA")
    if not root or not (Path(root) / "fsdd").is_dir():
        pytest.skip("no fsdd data: set TRANSDUCE_DATA to the folder that holds fsdd/")
    monkeypatch.undo()
    splits = SpokenDigits(str(Path(root) / "fsdd")).prepare(tmp_path / "out")
    assert [len(pairs(files)) for files in present(splits).values()] == [2520, 180, 300]
    assert splits.test is not None
    test = splits.test
    lengths = [len(Sound(RATE).read(test.located(name))) for name, _ in pairs(test)]
    assert 10 < min(lengths) < max(lengths) < 250
