"""Origins of pictures: drawn lines, scenes and clips with known labels, MNIST, and archives."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence

from transduce.data.corpora import DataError, Files, Splits, present
from transduce.wings.recipes.origins import mnist
from transduce.wings.recipes.origins.album import Entry, album
from transduce.wings.recipes.origins.archives import PictureArchive
from transduce.wings.recipes.origins.clips import WAYS, Clips
from transduce.wings.recipes.origins.digit_strings import DigitStrings
from transduce.wings.recipes.origins.fonts import fonts, lacking
from transduce.wings.recipes.origins.mnist import Mnist
from transduce.wings.recipes.origins.scenes import KINDS, SEEN, UNSEEN, Scenes
from transduce.wings.recipes.origins.shapes import COLOURS, GROUND, SHAPES
from transduce.wings.recipes.origins.text_lines import TextLines

OWN = "Ein kleiner Text in dem alle Wörter vorkommen die hier gebraucht werden und noch einige mehr dazu sagte er\n"


def records(files: Files | None) -> list[dict[str, Any]]:
    assert files is not None
    assert files.path is not None
    return [json.loads(line) for line in Path(files.path).read_text(encoding="utf-8").splitlines()]


def frames(files: Files | None, record: dict[str, Any]) -> list[np.ndarray]:
    """The pixels of each frame. A picture has one frame, a clip several."""
    assert files is not None
    assert files.path is not None
    with Image.open(Path(files.path).parent / record["source"]) as found:
        return [np.asarray(each.copy()) for each in ImageSequence.Iterator(found)]


def pixels(files: Files | None, record: dict[str, Any]) -> np.ndarray:
    return frames(files, record)[0]


@pytest.fixture(autouse=True, scope="module")
def few():
    """Reduces the held-out examples of text lines and clips to a dozen."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("text_lines", "clips"):
            patch.setattr(f"transduce.wings.recipes.origins.{name}.held_out", lambda pairs: 12)
        yield


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --------------------------------------------------------------------- album


def test_an_album_is_whole_or_not_there_and_written_once(tmp_path):
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)

    def broken():
        yield Entry(grey, "a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        album(tmp_path / "train", broken)
    assert list(tmp_path.iterdir()) == []
    files = album(tmp_path / "train", lambda: [Entry(grey, ["ä", "b"], {"more": 1})])
    assert records(files) == [{"source": "000000.png", "target": ["ä", "b"], "more": 1}]
    assert (pixels(files, records(files)[0]) == grey).all()
    assert album(tmp_path / "train", broken) == files


@pytest.mark.parametrize("origin", [Scenes(pairs=3, held_out=3, size=24), Clips(pairs=2, size=16)])
def test_what_is_drawn_is_the_same_again_and_the_first_ones_among_more(origin, tmp_path):
    first, again = origin.prepare(tmp_path / "a"), origin.prepare(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    more = replace(origin, pairs=4).prepare(tmp_path / "c")
    assert records(more.train)[: origin.pairs] == records(first.train) == records(again.train)
    other = replace(origin, seed=2).prepare(tmp_path / "d")
    assert records(other.train) != records(first.train)


# --------------------------------------------------------------------- lines


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> tuple[TextLines, Splits]:
    origin = TextLines(pairs=30, height=24)
    return origin, origin.prepare(tmp_path_factory.mktemp("lines"))


def test_lines_are_of_the_height_with_ink_and_no_line_is_in_two_splits(lines):
    _, splits = lines
    sizes = {name: len(records(files)) for name, files in present(splits).items()}
    assert sizes == {"train": 30, "valid": 12, "test": 12}
    texts = [record["target"] for files in present(splits).values() for record in records(files)]
    assert len(set(texts)) == len(texts)
    assert {len(text.split()) for text in texts} == {1, 2, 3}
    for record in records(splits.train):
        values = pixels(splits.train, record).astype(float)
        assert values.shape[0] == 24
        assert values.shape[1] > 4 * len(record["target"])
        assert np.median(values) > 150  # paper
        assert values.min() < np.median(values) - 60  # ink


def test_what_is_not_asked_for_is_not_there(tmp_path):
    plain = TextLines(pairs=3, tilt=0, blur=0, noise=0).prepare(tmp_path)
    for record in records(plain.train):
        edges = pixels(plain.train, record)[:, [0, -1]]
        assert len(np.unique(edges)) == 1  # paper without a grain


def test_lines_of_a_text_of_ones_own_are_passages_of_it(tmp_path):
    (tmp_path / "text.txt").write_text(OWN * 2, encoding="utf-8")
    origin = TextLines(pairs=4, words=1, text=str(tmp_path / "text.txt"))
    with pytest.raises(DataError, match=r"28 different lines of at most 1 words were wanted, and \d+ found: ask"):
        origin.prepare(tmp_path / "few")
    words = [f"Wort{number}" for number in range(300)]
    (tmp_path / "text.txt").write_text("\n".join(words), encoding="utf-8")
    origin = TextLines(pairs=4, words=6, text=str(tmp_path / "text.txt"))
    found = records(origin.prepare(tmp_path / "o").test)
    assert all(record["target"] in " ".join(words) for record in found)
    (tmp_path / "text.txt").write_text("\n".join(reversed(words)), encoding="utf-8")
    assert records(origin.prepare(tmp_path / "o").test) != found  # the file is another, so the corpus is


def test_a_font_that_lacks_a_character_is_not_used_for_it(tmp_path):
    stix = next(path for path in fonts() if path.stem == "STIXGeneral")
    sans = next(path for path in fonts() if path.stem == "DejaVuSans")
    assert len(fonts()) >= 14
    assert lacking(stix, "aä \u05d0") == {"\u05d0"}
    assert lacking(sans, "aä \u05d0") == set()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "one.TTF").write_bytes(stix.read_bytes())
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"\u05d0{number}" for number in range(300)), encoding="utf-8")
    with pytest.raises(DataError, match=r"no font has all characters of '\u05d0.*name a folder of fonts that do"):
        TextLines(pairs=1, text=str(text), fonts=str(tmp_path / "own")).prepare(tmp_path / "o")
    TextLines(pairs=1, text=str(text)).prepare(tmp_path / "p")


def test_fonts_that_are_none_are_told(tmp_path):
    with pytest.raises(DataError, match=r"there is no \.ttf and no \.otf file in this folder"):
        TextLines(pairs=1, fonts=str(tmp_path)).prepare(tmp_path / "o")
    (tmp_path / "no.ttf").write_text("no font")
    with pytest.raises(DataError, match=r"no\.ttf is not a font that can be read"):
        TextLines(pairs=1, fonts=str(tmp_path)).prepare(tmp_path / "o")


# -------------------------------------------------------------------- scenes


@pytest.fixture(scope="module")
def scenes(tmp_path_factory) -> tuple[Path, Splits]:
    folder = tmp_path_factory.mktemp("scenes")
    return folder, Scenes(pairs=150, held_out=12, most=3, size=24).prepare(folder)


def kinds(record: dict[str, Any]) -> set[tuple[str, str]]:
    return {tuple(each["words"].split()[1:]) for each in record["objects"]}  # type: ignore[misc]


def test_what_is_unseen_is_never_met_in_training(scenes):
    folder, splits = scenes
    unseen = {split: set(UNSEEN[split]) for split in ("valid", "test")}
    assert not unseen["valid"] & unseen["test"]
    assert {shape for _, shape in SEEN} == set(SHAPES)
    assert {colour for colour, _ in SEEN} == set(COLOURS)
    assert set().union(*map(kinds, records(splits.train))) == set(SEEN)
    assert all(
        kinds(record) & unseen["valid"] and not kinds(record) & unseen["test"] for record in records(splits.valid)
    )
    assert all(
        kinds(record) & unseen["test"] and not kinds(record) & unseen["valid"] for record in records(splits.test)
    )
    seen = records(Files(path=str(folder / "seen" / "pairs.jsonl")))
    assert all(kinds(record) <= set(SEEN) for record in seen)
    assert not {str(record) for record in seen} & {str(record) for record in records(splits.train)}


def test_with_all_kinds_in_training_there_is_nothing_unseen(tmp_path):
    splits = Scenes(pairs=300, held_out=2, size=24, unseen=False).prepare(tmp_path)
    assert set().union(*map(kinds, records(splits.train))) == set(KINDS)
    assert not (tmp_path / "seen").exists()


def test_the_words_of_a_box_are_what_is_drawn_in_it(scenes):
    _, splits = scenes
    for record in records(splits.test)[:40]:
        values = pixels(splits.test, record).astype(int)
        for each in record["objects"]:
            left, top, right, bottom = each["box"]
            assert 0 <= left < right <= 24
            assert 0 <= top < bottom <= 24
            middle = values[int((top + bottom) / 2), int((left + right) / 2)]
            size, colour, _ = each["words"].split()
            assert abs(middle - COLOURS[colour]).max() < 12
            assert (right - left > 6) == (size == "large")
            inside = slice(int(top - 0.3), int(bottom + 0.3) + 1), slice(int(left - 0.3), int(right + 0.3) + 1)
            values[inside] = GROUND
        assert (values == GROUND).all()  # and nothing else


def test_every_caption_is_true_and_every_clear_one_is_there(scenes):
    _, splits = scenes
    for record in records(splits.test):
        middles = {
            each["words"]: ((each["box"][0] + each["box"][2]) / 2, (each["box"][1] + each["box"][3]) / 2)
            for each in record["objects"]
        }
        assert len(middles) == len(record["objects"]) in (2, 3)
        assert len(set(record["target"])) == len(record["target"]) >= 2
        for caption in record["target"]:
            names, told = parsed(caption)
            assert set(names) == set(middles)
            for name, relation, other in told:
                (x, y), (u, v) = middles[name], middles[other]
                assert {"left of": x < u, "right of": x > u, "above": y < v, "below": y > v}[relation]
        named = {tuple(parsed(caption)[0]) for caption in record["target"]}
        assert named == set(itertools.permutations(middles))


def parsed(caption: str) -> tuple[list[str], list[tuple[str, str, str]]]:
    """The objects of a caption in order, and its relations: a grammar written a second time."""
    assert caption.startswith("a ")
    first, *links = caption.removeprefix("a ").replace(" which is ", " is ").split(" is ")
    names, told = [first], []
    for link in links:
        relation, other = link.split(" a ")
        told.append((names[-1], relation, other))
        names.append(other)
    return names, told


def test_training_has_one_of_the_captions(scenes):
    _, splits = scenes
    assert all(isinstance(record["target"], str) for record in records(splits.train))
    assert {parsed(record["target"])[1][0][1] for record in records(splits.train)} == {
        "left of",
        "right of",
        "above",
        "below",
    }


# --------------------------------------------------------------------- clips


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Splits:
    return Clips(pairs=40, most=3, shortest=8, longest=14, size=24).prepare(tmp_path_factory.mktemp("clips"))


def test_a_clip_moves_as_its_labels_say_and_its_caption_sums_up(clips):
    for record in records(clips.train):
        values = [each.astype(int)[..., :3] for each in frames(clips.train, record)]
        labels = record["labels"].split()
        assert 8 <= len(values) == len(labels) <= 14
        assert labels[-1] == labels[-2]
        lit = [abs(frame - GROUND).max(2) > 40 for frame in values]
        middles = [np.argwhere(each).mean(0)[::-1] for each in lit]
        for way, (before, after) in zip(labels, itertools.pairwise(middles), strict=False):
            moved = after - before
            axis = int(np.abs(moved).argmax())
            assert np.abs(moved).max() > 0.3
            assert np.sign(moved[axis]) == WAYS[way][axis]
        runs = [(way, len(list(group))) for way, group in itertools.groupby(labels[:-1])]
        assert all(length >= 2 for _, length in runs)
        head, ways = record["caption"].split(" moves ")
        assert ways.split(", then ") == [way for way, _ in runs]
        assert record["target"] == record["caption"]
        assert head.split()[1] in COLOURS


def test_clips_of_up_to_so_many_ways(clips):
    assert {record["caption"].count("then") for record in records(clips.train)} == {0, 1, 2}


def test_the_target_of_a_clip_can_be_its_labels(tmp_path):
    splits = Clips("labels", pairs=1, size=16).prepare(tmp_path)
    (record,) = records(splits.train)
    assert record["target"] == record["labels"]


# --------------------------------------------------------------------- MNIST


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


@pytest.fixture
def digits(monkeypatch) -> dict[str, bytes]:
    """The published files of an MNIST of 7 and 3 pictures, gzipped, by name."""
    chance, made = np.random.default_rng(1), {}
    for name, count in (("train", 7), ("t10k", 3)):
        images = chance.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        made[f"{name}-images-idx3-ubyte"] = gzip.compress(idx(images))
        made[f"{name}-labels-idx1-ubyte"] = gzip.compress(idx(np.arange(count, dtype=np.uint8)))
    monkeypatch.setattr(mnist, "SUMS", {name: hashlib.sha256(data).hexdigest() for name, data in made.items()})
    monkeypatch.setattr(mnist, "VALID", 2)
    return made


def test_mnist_is_fetched_checked_and_split(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "download", lambda url: digits[url.removeprefix(f"{mnist.MNIST}/").removesuffix(".gz")])
    splits = Mnist().prepare(tmp_path / "o")
    labels = [[record["target"] for record in records(files)] for files in present(splits).values()]
    assert labels == [["0", "1", "2", "3", "4"], ["5", "6"], ["0", "1", "2"]]
    images = np.frombuffer(gzip.decompress(digits["t10k-images-idx3-ubyte"]), np.uint8, offset=16).reshape(3, 28, 28)
    for record, expected in zip(records(splits.test), images, strict=True):
        assert (pixels(splits.test, record) == expected).all()
    digits["t10k-labels-idx1-ubyte"] = gzip.compress(b"something else")
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz is not the file expected: its SHA-256 is"):
        Mnist().prepare(tmp_path / "p")


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_reads_a_copy(digits, tmp_path, packed):
    for name, data in digits.items():
        (tmp_path / (f"{name}.gz" if packed else name)).write_bytes(data if packed else gzip.decompress(data))
    assert len(records(Mnist(str(tmp_path)).prepare(tmp_path / "o").train)) == 5
    assert len(records(Mnist(str(tmp_path), first=2).prepare(tmp_path / "p").train)) == 2
    with pytest.raises(DataError, match=r"has neither train\.npz nor train-images-idx3-ubyte\.gz: give a folder"):
        Mnist(str(tmp_path / "o")).prepare(tmp_path / "q")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PNG", "is no file of IDX with bytes"),
        (idx(np.zeros((2, 3), np.uint8))[:8], "ends inside its head: it is not whole"),
        (idx(np.zeros((2, 3), np.uint8))[:-1], r"has 5 numbers where its head says \(2, 3\): it is not whole"),
        (idx(np.zeros((2, 3), np.uint8)), r"uint8 images .*expected bytes \[n, 28, 28\]"),
    ],
)
def test_a_copy_that_is_something_else_is_told(digits, tmp_path, data, message):
    for name, whole in digits.items():
        (tmp_path / name).write_bytes(data if "images" in name else gzip.decompress(whole))
    with pytest.raises(DataError, match=message):
        Mnist(str(tmp_path)).prepare(tmp_path / "o")


def test_mnist_as_arrays(tmp_path):
    for split in ("train", "valid", "test"):
        np.savez(tmp_path / f"{split}.npz", images=np.ones((2, 28, 28), np.uint8), labels=np.array([3, 4], np.uint8))
    splits = Mnist(str(tmp_path)).prepare(tmp_path / "o")
    assert [record["target"] for record in records(splits.valid)] == ["3", "4"]
    assert Mnist(str(tmp_path)).prepare(tmp_path / "o") == splits
    np.savez(tmp_path / "valid.npz", images=np.ones((1, 28, 28), np.uint8), labels=np.array([7], np.uint8))
    changed = Mnist(str(tmp_path)).prepare(tmp_path / "o")
    assert [record["target"] for record in records(changed.valid)] == ["7"]


# ------------------------------------------------------------------ archives


def archive(folder: Path, **arrays: Any) -> str:
    folder.mkdir()
    for split in ("train", "valid", "test"):
        np.savez(folder / f"{split}.npz", **arrays)
    return str(folder)


def test_an_archive_of_pictures_with_labels(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    folder = archive(tmp_path / "a", images=images, labels=np.array([[1, 2], [0, 7]], np.uint8))
    splits = PictureArchive(folder).prepare(tmp_path / "o")
    assert [record["target"] for record in records(splits.train)] == ["12", "07"]
    assert (pixels(splits.train, records(splits.train)[1]) == images[1]).all()
    apart = PictureArchive(folder, between=" ").prepare(tmp_path / "p")
    assert records(apart.test)[0]["target"] == "1 2"


def test_an_archive_of_pictures_of_any_width_with_texts_beside_it(tmp_path):
    first, second = np.full((2, 3), 1, np.uint8), np.arange(8, dtype=np.uint8).reshape(2, 4)
    row = np.concatenate([first.ravel(), second.ravel()])
    folder = archive(tmp_path / "a", pixels=row, widths=np.array([3, 4], np.int32))
    for split in ("train", "valid", "test"):
        (tmp_path / "a" / f"{split}.tsv").write_text("x\tone\ny\ttwo\n")
    splits = PictureArchive(folder, text=1).prepare(tmp_path / "o")
    assert [record["target"] for record in records(splits.train)] == ["one", "two"]
    assert (pixels(splits.train, records(splits.train)[1]) == second).all()


def test_an_archive_or_its_texts_changed_are_another_corpus(tmp_path):
    folder = archive(tmp_path / "a", images=np.zeros((1, 2, 2), np.uint8), labels=np.array([1]))
    for split in ("train", "valid", "test"):
        (tmp_path / "a" / f"{split}.tsv").write_text("one\n")
    by_label, by_text = PictureArchive(folder), PictureArchive(folder, text=0)
    first = by_label.prepare(tmp_path / "o")
    assert by_label.prepare(tmp_path / "o") == first
    assert records(by_text.prepare(tmp_path / "p").train)[0]["target"] == "one"
    (tmp_path / "a" / "train.tsv").write_text("seven\n")
    assert by_label.prepare(tmp_path / "o") == first  # whose texts are not read
    assert records(by_text.prepare(tmp_path / "p").train)[0]["target"] == "seven"
    np.savez(tmp_path / "a" / "train.npz", images=np.full((1, 2, 2), 9, np.uint8), labels=np.array([77]))
    second = by_label.prepare(tmp_path / "o")
    assert records(second.train)[0]["target"] == "77"
    assert (pixels(second.train, records(second.train)[0]) == 9).all()


def test_an_archive_of_which_some_are_wanted(tmp_path):
    folder = archive(tmp_path / "a", images=np.arange(36, dtype=np.uint8).reshape(3, 2, 2, 3))
    told = [{"says": "a", "label": "true"}, {"says": "b", "label": "false"}, {"says": "c", "label": "true"}]
    for split in ("train", "valid", "test"):
        packed = gzip.compress("".join(json.dumps(each) + "\n" for each in told).encode())
        (tmp_path / "a" / f"{split}.jsonl.gz").write_bytes(packed)
    splits = PictureArchive(folder, "says", ("label", "true")).prepare(tmp_path / "o")
    assert [record["target"] for record in records(splits.train)] == ["a", "c"]
    assert pixels(splits.train, records(splits.train)[1]).ravel().tolist() == list(range(24, 36))


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"pictures": np.zeros(1)}, {}, r"has no 'images': its arrays are pictures"),
        ({"images": np.zeros((1, 2, 2), np.uint8)}, {}, "has no 'labels': its arrays are images"),
        ({"images": np.zeros((1, 2, 2))}, {}, r"float64 \(1, 2, 2\) are no pictures: bytes \[n, height, width"),
        ({"images": np.zeros((1, 2, 2, 4), np.uint8)}, {}, r"uint8 \(1, 2, 2, 4\) are no pictures"),
        ({"images": np.zeros((2, 2, 2), np.uint8), "labels": np.zeros(1)}, {}, "2 pictures, and 1 texts of them"),
        ({"images": np.zeros((2, 2, 2), np.uint8)}, {"text": 0}, "has no texts beside it"),
        (
            {"pixels": np.zeros(7, np.uint8), "widths": np.array([2]), "labels": np.zeros(1)},
            {},
            "7 pixels are no whole number of rows",
        ),
        ({"images": np.zeros((1, 0, 2), np.uint8)}, {}, r"uint8 \(1, 0, 2\) are no pictures"),
        ({"images": np.zeros((1, 2, 2), np.uint8), "labels": np.array(3)}, {}, r"labels \(\) are not one for each"),
        *(
            ({"pixels": np.zeros(16, np.uint8), "widths": np.array(widths)}, {}, "are no widths: whole numbers")
            for widths in ([-4, 12], [0, 8], [4.5, 3.5], ["a", "b"], [[4, 4]])
        ),
        ({"images": np.array([None])}, {}, r"is not an \.npz file that can be read: Object arrays"),
    ],
)
def test_an_archive_that_is_something_else_is_told(tmp_path, arrays, options, message):
    folder = archive(tmp_path / "a", **arrays)
    with pytest.raises(DataError, match=message):
        PictureArchive(folder, **options).prepare(tmp_path / "o")


def test_an_archive_that_cannot_be_read_is_told(tmp_path):
    folder = archive(tmp_path / "a")
    single, packed = io.BytesIO(), io.BytesIO()
    np.save(single, np.zeros((2, 2, 2), np.uint8))
    np.savez_compressed(packed, images=np.arange(200, dtype=np.uint8).reshape(2, 10, 10))
    damaged = bytearray(packed.getvalue())
    damaged[60:90] = bytes(30)
    for number, content in enumerate((b"nothing", single.getvalue(), damaged)):
        (tmp_path / "a" / "train.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"train\.npz is not an \.npz file that can be read: \w"):
            PictureArchive(folder).prepare(tmp_path / f"o{number}")


def test_an_archive_is_named(tmp_path):
    with pytest.raises(DataError, match=r"set data\.origin\.folder to that of train\.npz"):
        PictureArchive().prepare(tmp_path)


# ------------------------------------------------------------------- options


@pytest.fixture
def blocks(tmp_path) -> Path:
    """An MNIST of two digits a split, each a block of its own brightness. No label occurs in two splits."""
    for number, split in enumerate(("train", "valid", "test")):
        images = np.zeros((2, 28, 28), np.uint8)
        for digit, width in enumerate((5, 9)):
            images[digit, 4:24, 8 : 8 + width] = 100 * number + 20 + digit
        labels = np.array([2 * number, 2 * number + 1], np.uint8)
        np.savez(tmp_path / f"{split}.npz", images=images, labels=labels)
    return tmp_path


@pytest.mark.parametrize("gap", [3, -2])
def test_digits_stand_side_by_side_or_overlap(blocks, tmp_path, gap):
    origin = DigitStrings(40, shortest=2, longest=3, gap=(gap, gap), shift=1, folder=str(blocks))
    splits = origin.prepare(tmp_path / "o")
    lengths, heights = set(), set()
    for number, files in enumerate(present(splits).values()):
        for record in records(files):
            text, picture = record["target"], pixels(files, record)
            assert set(text) <= {str(2 * number), str(2 * number + 1)}  # digits of the same split
            inked = np.flatnonzero(picture.any(0))
            row = picture[15, inked[0] : inked[-1] + 1]
            expected = np.zeros(0, int)
            for character in text:
                width, value = (5, 9)[int(character) % 2], 100 * number + 20 + int(character) % 2
                start = max(0, len(expected) + gap) if len(expected) else 0
                longer = np.zeros(start + width, int)
                longer[: len(expected)] = expected
                longer[start:] = np.maximum(longer[start:], value)
                expected = longer
            assert row.tolist() == expected.tolist()
            assert picture.shape[0] == 30
            lengths.add(len(text))
            heights.update(np.flatnonzero(picture[:, inked[0]])[:1].tolist())
    assert (lengths, heights) == ({2, 3}, {4, 5, 6})


def test_strings_of_digits_are_the_same_for_any_number_and_follow_the_files(blocks, tmp_path):
    def targets(files) -> list[str]:
        return [record["target"] for record in records(files)]

    few, more = (DigitStrings(count, folder=str(blocks)).prepare(tmp_path / str(count)) for count in (5, 9))
    assert targets(more.train)[:5] == targets(few.train)
    other = DigitStrings(9, seed=2, folder=str(blocks)).prepare(tmp_path / "seed")
    assert targets(other.train) != targets(more.train)
    np.savez(blocks / "test.npz", images=np.ones((1, 28, 28), np.uint8), labels=np.array([9], np.uint8))
    changed = DigitStrings(5, folder=str(blocks)).prepare(tmp_path / "5")
    assert set("".join(targets(changed.test))) == {"9"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DigitStrings(0), "at least one is needed"),
        (lambda: DigitStrings(shortest=4, longest=3), "a string has a digit at least"),
        (lambda: DigitStrings(gap=(2, 1)), "the least and the most"),
        (lambda: DigitStrings(shift=-1), "shift = -1: expected 0 pixels or more"),
        (lambda: TextLines(pairs=0), "at least one line"),
        (lambda: TextLines(height=7), "letters cannot be told"),
        (lambda: TextLines(noise=-1), "noise = -1: expected 0, for none, or more"),
        (lambda: Scenes(pairs=0), "at least one is needed"),
        (lambda: Scenes(most=4), "most = 4: a scene has two objects, or up to three"),  # type: ignore[arg-type]
        (lambda: Scenes(size=8), "small shapes cannot be told"),
        (lambda: Clips("frames"), 'of a clip there is a "caption", and there are "labels"'),  # type: ignore[arg-type]
        (lambda: Clips(shortest=4), "take at least 5 frames"),
        (lambda: Clips(pairs=0), "at least one clip"),
        (lambda: Clips(size=8), "digits cannot be told"),
        (lambda: Mnist(first=0), "at least one of each split"),
        (lambda: PictureArchive("x", where=("a", "b")), "say which column is written, in text"),
    ],
)
def test_options_that_make_no_sense_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()
