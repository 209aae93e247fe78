from __future__ import annotations

import os
import pickle
import shutil
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from stat import S_IMODE

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transduce.core.types import EOS, PAD, UNK, Facts
from transduce.data import encoding, preparation, settings
from transduce.data.corpora import ColumnNames, DataError, Files, LineError
from transduce.data.fingerprints import Fingerprint, RowFingerprints
from transduce.data.pairs import Pairs, PairsWriter, RowType, flattened
from transduce.data.preparation import Tokenizers, examples, prepare
from transduce.data.rows import CorpusRow, read
from transduce.data.settings import Data, Lines, Units
from transduce.data.strings import Reverse
from transduce.data.tokenizers.text import Bpe, Characters, Symbols

TRAIN = ["ab\tA B", "abc\tA B C", "c\tC"]


def tsv(path: Path, lines: list[str], errors: str = "strict") -> Files:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", errors))
    return Files(path=str(path))


@pytest.fixture
def data(tmp_path) -> Data:
    train, valid = tsv(tmp_path / "train.tsv", TRAIN), tsv(tmp_path / "valid.tsv", ["ba\tB A", "xa\tX A"])
    return Data(Units(Characters(), Symbols()), train=train, valid=valid)


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


def texts(prepared: preparation.Prepared, pairs: Pairs) -> list[tuple[str, str]]:
    batch = pairs.batch(np.arange(len(pairs)))
    return [
        (prepared.source_tokenizer.decode(source.tolist()), prepared.target_tokenizer.decode(target.tolist()))
        for source, target in zip(batch.source.values, batch.target.values, strict=True)
    ]


def refuse(*_: object) -> None:
    raise AssertionError("the text is read again")


# ------------------------------------------------------------------- encoding


def test_what_is_prepared_is_what_was_written(data, cache):
    prepared = prepare(data, cache)
    assert texts(prepared, prepared.train) == [tuple(line.split("\t")) for line in TRAIN]
    assert prepared.facts.sizes == Facts(source_vocabulary=4 + 3, target_vocabulary=4 + 3).sizes
    assert prepared.valid is not None
    assert texts(prepared, prepared.valid)[1] == ("<unk>a", "<unk> A")  # vocabularies are the training set's
    assert prepared.report.lines()[:2] == ["train: 3 pairs", "valid: 2 pairs"]


def test_a_test_split_that_is_not_there_is_told_before_training(data, cache, tmp_path):
    """Prepared or not: it is read much later."""
    prepare(data, cache)
    with pytest.raises(DataError, match=r"no such file: .*gone\.tsv"):
        prepare(replace(data, test=Files(path=str(tmp_path / "gone.tsv"))), cache)


def test_what_can_be_read_only_once_is_no_training_data(data, cache, tmp_path):
    os.mkfifo(tmp_path / "pipe.tsv")
    with pytest.raises(DataError, match=r"pipe\.tsv can be read only once"):
        prepare(replace(data, train=Files(path=str(tmp_path / "pipe.tsv"))), cache)


def test_pipes_of_unequal_length_are_told():
    """Which is known at the end, where nothing can be counted any more."""
    ends = [os.pipe(), os.pipe()]
    for (_, there), text in zip(ends, (b"a\nb\n", b"a\n"), strict=True):
        os.write(there, text)
        os.close(there)
    files = Files(source=f"/dev/fd/{ends[0][0]}", target=f"/dev/fd/{ends[1][0]}")
    with pytest.raises(DataError, match="are of unequal length, and cannot be read again to say how"):
        list(read(files))
    for here, _ in ends:
        os.close(here)


def test_a_batch_is_padded_closed_and_in_the_order_asked_for(data, cache):
    pairs = prepare(data, cache).train
    batch = pairs.batch(np.array([2, 1]))
    assert batch.ids.tolist() == [2, 1]
    assert batch.source.lengths.tolist() == [2, 4] == pairs.source_lengths[[2, 1]].tolist()
    assert batch.source.values.dtype == batch.target.lengths.dtype == torch.int64
    assert batch.source.values[0, 1:].tolist() == [EOS, PAD, PAD]
    assert batch.target.values[1, 3] == EOS
    assert (batch.source.values != PAD).equal(batch.source.mask)


ids = st.lists(st.integers(UNK, 70_000), max_size=6).map(lambda row: [*row, EOS])


@given(
    chunks=st.lists(st.lists(st.tuples(ids, ids), max_size=4), max_size=4), vocabulary=st.sampled_from([2**16, 70_001])
)
def test_ids_survive_the_disk_in_any_chunks(tmp_path_factory, chunks, vocabulary):
    folder = tmp_path_factory.mktemp("pairs") / "train"
    chunks = [[([i % vocabulary for i in s], t) for s, t in chunk] for chunk in chunks]
    types = RowType.of_ids(vocabulary), RowType.of_ids(70_001)
    with PairsWriter(folder, types) as writer:
        for chunk in chunks:
            sides = [[pair[side] for pair in chunk] for side in (0, 1)]
            writer.append((flattened(sides[0], types[0]), flattened(sides[1], types[1])))
    pairs, rows = Pairs.load(folder), [row for chunk in chunks for row in chunk]
    assert len(pairs) == len(rows)
    assert pairs.source.ids.dtype == (np.uint16 if vocabulary == 2**16 else np.int32)
    batch = pairs.batch(np.arange(len(rows)))
    for side, padded in enumerate((batch.source, batch.target)):
        read = [row[:length].tolist() for row, length in zip(padded.values, padded.lengths, strict=True)]
        assert read == [list(row[side]) for row in rows]


def test_more_lines_than_a_chunk(data, cache, monkeypatch):
    monkeypatch.setattr(encoding, "LINES", 2)
    prepared = prepare(data, cache)
    assert texts(prepared, prepared.train) == [tuple(line.split("\t")) for line in TRAIN]


class Elsewhere:
    """Stands for worker processes: everything goes there and back as a pickle."""

    def __init__(self, folder: Path, count: int) -> None:
        self.tokenizers, self.count, self.jobs = Tokenizers.load(folder).both, count, 0

    def __call__(self, work, jobs):
        for job in jobs:
            self.jobs += 1
            yield pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))(self.tokenizers, job)))

    def close(self) -> None: ...


BROKEN = ["\tempty", "ab", "ab\tA B\tC", "q\tQ", f"{'a' * 40}\tA", "c\tC"]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def prepared_alone_and_by(processes: int, data: Data, folder: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of both, with lines that the policies leave out, and unknown tokens in the validation set."""
    tsv(Path(data.train.path), [*TRAIN, *BROKEN, *TRAIN])
    limited = replace(data, lines=Lines(max_source_length=20))
    for name, count in (("one", 1), ("several", processes)):
        prepare(replace(limited, processes=count), folder / name)
    one, several = (files_of(folder / name) for name in ("one", "several"))
    assert len(one) > 8
    return one, several


def test_other_processes_encode_the_same(data, cache, monkeypatch):
    monkeypatch.setattr(encoding, "LINES", 2)
    found = []
    monkeypatch.setattr(preparation, "encoders", lambda *given: found.append(Elsewhere(*given[:2])) or found[-1])
    one, several = prepared_alone_and_by(3, data, cache)
    assert one == several
    assert [each.count for each in found] == [3, 3]  # of the training and the validation set
    assert found[0].jobs > 3
    with pytest.raises(DataError, match=r"data\.processes = 0"):
        replace(data, processes=0)
    with pytest.raises(DataError, match=r"train\.tsv:8"):  # an error of a process, with its place
        prepare(replace(data, processes=2, lines=Lines(max_source_length=20, overlong="error")), cache)


@pytest.mark.slow
def test_real_processes_encode_the_same(data, cache):
    one, several = prepared_alone_and_by(2, data, cache)
    assert one == several


def test_an_error_of_a_line_survives_the_way_back():
    error = pickle.loads(pickle.dumps(LineError("a line", "is odd")))
    assert (error.line, str(error)) == ("a line", "'a line' is odd")


def test_a_joint_vocabulary_is_one(data, cache, tmp_path):
    prepared = prepare(replace(data, units=Units(joint=Characters())), cache)
    assert prepared.source_tokenizer.fingerprint == prepared.target_tokenizer.fingerprint
    assert len(prepared.source_tokenizer) == 4 + len("abcABC ")


def test_vocabularies_are_learned_on_a_spread_sample(data, cache, tmp_path):
    train = tsv(tmp_path / "sorted.tsv", [f"{letter}\tX" for letter in "abcdefgh"])
    prepared = prepare(replace(data, train=train, units=Units(Characters(), Symbols(), sample=4)), cache)
    assert prepared.source_tokenizer.tokens(range(4, 8)) == ["a", "c", "e", "g"]


def test_a_sample_has_all_targets_of_its_lines(data, cache, tmp_path):
    rows = tmp_path / "train.jsonl"
    rows.write_text("".join(f'{{"source": "{n}", "target": ["A{n}", "B{n}"]}}\n' for n in range(4)))
    sampled = replace(data, train=Files(path=str(rows)), valid=None, units=Units(Characters(), Symbols(), sample=2))
    prepared = prepare(sampled, cache)
    assert prepared.source_tokenizer.entries[4:] == ("0", "2")
    assert prepared.target_tokenizer.entries[4:] == ("A0", "A2", "B0", "B2")


def test_given_tokenizers_are_used_as_they_are(data, cache, tmp_path):
    prepared = prepare(data, cache)
    prepared.tokenizers.save(tmp_path)
    other = replace(data, train=tsv(tmp_path / "other.tsv", ["zz\tZ Z"]))
    again = prepare(other, cache, Tokenizers.load(tmp_path))
    assert again.facts == prepared.facts
    assert texts(again, again.train) == [("<unk><unk>", "<unk> <unk>")]
    assert prepare(other, cache).facts != prepared.facts


# ---------------------------------------------------------------------- cache


def test_a_second_run_reads_no_text(data, cache, monkeypatch):
    first = prepare(data, cache)
    monkeypatch.setattr(settings, "read", refuse)
    monkeypatch.setattr(preparation, "check", refuse)
    second = prepare(data, cache)
    assert texts(second, second.train) == texts(first, first.train)
    assert second.report == first.report
    assert second.source_tokenizer.fingerprint == first.source_tokenizer.fingerprint


def test_changed_data_or_settings_are_encoded_anew(data, cache, monkeypatch, tmp_path):
    prepare(data, cache)
    monkeypatch.setattr(preparation, "check", refuse)
    train = Path(str(data.train and data.train.path))
    changes = [
        replace(data, units=Units(Characters(lowercase=True), Symbols())),
        replace(data, lines=Lines(max_source_length=3)),
        replace(data, columns=ColumnNames(source=1, target=0)),
        replace(data, valid=None),
        replace(data, valid=data.train),
    ]
    for changed in changes:
        with pytest.raises(AssertionError, match="read again"):
            prepare(changed, cache)
    # These two settings do not change the encoding.
    prepare(replace(data, group_references=False, cache="elsewhere"), cache)
    stat = train.stat()
    os.utime(train, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    with pytest.raises(AssertionError, match="read again"):
        prepare(data, cache)


def test_a_file_that_gives_another_side_is_encoded_anew(cache, tmp_path):
    """``columns`` apply to a file given as ``path``. A ``target`` file is plain text, even if it ends in .tsv."""
    file = tsv(tmp_path / "lm.tsv", TRAIN)
    asked = Data(Units(target=Symbols()), train=file, columns=ColumnNames(target=1))
    assert prepare(asked, cache).target_tokenizer.entries[4:] == ("A", "B", "C")
    text = prepare(replace(asked, train=Files(target=file.path)), cache)
    assert text.target_tokenizer.entries[4:] == ("A", "B", "C", "ab", "abc", "c")


def test_fingerprints_are_of_what_is_read_and_of_recordings_the_sizes(tmp_path):
    """A line with several targets is one line. The folder of a recording does not count, and its size does."""
    rows = [CorpusRow(1, "a", "b"), CorpusRow(1, "a", "c"), CorpusRow(2, "x.wav", "d")]
    watched = RowFingerprints()
    assert list(watched(rows)) == rows
    assert [found.lines for found in watched.found] == [2]

    def of_signals(folder: str, size: int) -> Fingerprint:
        path = tmp_path / folder / "x.wav"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"0" * size)
        watched = RowFingerprints(signals=True)
        list(watched([CorpusRow(1, str(path), "d")]))
        return watched.found[0]

    assert of_signals("one", 3) == of_signals("other", 3) != of_signals("one", 4)


def test_each_shard_and_format_has_its_fingerprint(data, cache, tmp_path):
    lines = ["a\tb", "c\td"]
    for name in ("1.tsv", "2.tsv"):
        tsv(tmp_path / name, lines)
    shards = prepare(replace(data, train=Files(path=str(tmp_path / "[12].tsv"))), cache).fingerprints["train"]
    assert [(each.files, each.lines) for each in shards] == [(("1.tsv",), 2), (("2.tsv",), 2)]
    assert shards[0].sha256 == shards[1].sha256
    (tmp_path / "rows.jsonl").write_text('{"source": "a", "target": "b"}\n{"source": "c", "target": "d"}\n')
    (json_lines,) = prepare(replace(data, train=Files(path=str(tmp_path / "rows.jsonl"))), cache).fingerprints["train"]
    assert json_lines.sha256 == shards[0].sha256


def test_a_preparation_that_breaks_off_leaves_nothing(data, cache, monkeypatch):
    def break_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(preparation, "_encode", break_off)
        with pytest.raises(KeyboardInterrupt):
            prepare(data, cache)
    assert list((cache / "prepared").iterdir()) == []
    assert len(prepare(data, cache).train) == 3


def test_what_a_killed_preparation_left_is_removed_after_a_day(data, cache):
    prepare(data, cache)
    (folder,) = (cache / "prepared").iterdir()
    shutil.rmtree(folder)
    old, new = (folder.with_name(f".{folder.name}-{name}") for name in ("01dabcde", "0e3abcde"))
    other = folder.with_name(".other-01dabcde")
    for left in (old, new, other):
        (left / "train").mkdir(parents=True)
    for left in (old, other):
        os.utime(left, (time.time() - 25 * 60 * 60,) * 2)
    prepare(data, cache)
    assert sorted((cache / "prepared").iterdir()) == sorted([folder, new, other])


@pytest.mark.skipif(os.name != "posix", reason="there are no such permissions")
def test_what_is_prepared_may_be_read_by_whom_the_umask_allows(data, cache):
    before = os.umask(0o027)
    try:
        prepare(replace(data, valid=None, origin=Reverse(pairs=5)), cache)
    finally:
        os.umask(before)
    for path in cache.rglob("*"):
        assert S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path


def test_of_two_preparations_at_once_either_may_win(data, cache, monkeypatch):
    write = preparation._write

    def overtaken(folder: Path, *rest: object) -> None:
        write(folder, *rest)
        finished = folder.parent / folder.name.strip(".").split("-")[0]
        shutil.copytree(folder, finished)  # the other process

    monkeypatch.setattr(preparation, "_write", overtaken)
    assert len(prepare(data, cache).train) == 3
    assert len(list((cache / "prepared").iterdir())) == 1


def test_memory_does_not_grow_with_the_text(data, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "LINES", 50)
    peaks = []
    for count in (200, 2_000):
        train = tsv(tmp_path / f"{count}.tsv", [f"{'ab ' * 60}{n}\t{'A ' * 60}{n % 10}" for n in range(count)])
        tracemalloc.start()
        prepare(replace(data, train=train), cache)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < (tmp_path / "2000.tsv").stat().st_size / 4


# ------------------------------------------------------------------- cleaning


@pytest.fixture
def dirty(data, tmp_path) -> Data:
    lines = [*TRAIN, "\tA", "a\t ", "b\udcff\tB", "no columns", "abcabc\tA B", "a\tA B C A B C"]
    train = tsv(tmp_path / "dirty.tsv", lines, errors="surrogateescape")
    return replace(data, train=train, lines=Lines(max_source_length=5, max_target_length=5))


def test_bad_lines_are_skipped_counted_and_placed(dirty, cache):
    report = prepare(dirty, cache).report
    path = dirty.train.path
    assert report.lines()[:5] == [
        "train: 3 pairs",
        f"  2 empty (skip): {path}:4, {path}:5",
        f"  1 undecodable (skip): {path}:6 (byte 0xff at 1 is not UTF-8; as WINDOWS-1252 the text is 'bÿ')",
        f"  1 malformed (skip): {path}:7 (1 tab-separated column found, at least 2 expected for columns 0, 1)",
        f"  2 overlong (skip): {path}:8, {path}:9",
    ]


def test_bad_lines_are_kept_by_policy(dirty, cache):
    policies = replace(dirty.lines, overlong="truncate", empty="keep", undecodable="replace")
    prepared = prepare(replace(dirty, lines=policies), cache)
    assert texts(prepared, prepared.train)[3:] == [
        ("", "A"),
        ("a", ""),
        ("b\ufffd", "B"),
        ("abca", "A B"),
        ("a", "A B C A"),
    ]
    assert prepared.train.source_lengths.max() == prepared.train.target_lengths.max() == 5
    assert prepared.report.splits["train"].findings["overlong"].count == 2


@pytest.mark.parametrize(
    ("kind", "line", "message"),
    [
        ("empty", 4, "the source is empty"),
        ("undecodable", 6, "0xff"),
        ("malformed", 7, "1 tab-separated column found, at least 2 expected for columns 0, 1"),
        ("overlong", 8, "the source has 7 tokens, more than max_source_length = 5"),
    ],
)
def test_bad_lines_are_errors_by_policy(dirty, cache, kind, line, message):
    with pytest.raises(DataError, match=rf"dirty\.tsv:{line}: .*{message}.*data\.lines\.{kind}"):
        prepare(replace(dirty, lines=replace(dirty.lines, **{kind: "error"})), cache)


def test_many_places_are_abridged(data, cache, tmp_path):
    train = tsv(tmp_path / "holes.tsv", ["a\tA", *["\tA"] * 1200])
    assert prepare(replace(data, train=train), cache).report.lines()[1].startswith("  1,200 empty (skip): ")
    assert prepare(replace(data, train=train), cache).report.lines()[1].endswith("holes.tsv:6, …")


@pytest.mark.parametrize("split", ["train", "valid"])
def test_nothing_left_is_an_error_with_the_account(data, cache, tmp_path, split):
    with pytest.raises(
        DataError, match=rf"no pair of the {split} split .* 2 lines: 2 empty \(data\.lines\.empty = skip"
    ):
        prepare(replace(data, **{split: tsv(tmp_path / "holes.tsv", ["\tA", "a\t"])}), cache)


def test_lines_that_limits_leave_out_are_told_with_the_limits(data, cache):
    told = r"cleaning 2 lines: 2 overlong \(data\.lines\.max_source_length = 2, .*target_length = 2\): .*:1, .*:2$"
    with pytest.raises(DataError, match=told):
        prepare(replace(data, lines=Lines(max_source_length=2, max_target_length=2)), cache)


def test_errors_come_before_anything_is_learned(data, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "_learn", refuse)
    (tmp_path / "s").write_text("a\nb\n")
    (tmp_path / "t").write_text("A\n")
    uneven = Files(source=str(tmp_path / "s"), target=str(tmp_path / "t"))
    for split in ("train", "valid", "test"):
        with pytest.raises(DataError, match=r"2 lines, .* has 1"):
            prepare(replace(data, **{split: uneven}), cache)
        with pytest.raises(DataError, match="no such file"):
            prepare(replace(data, **{split: Files(path=str(tmp_path / "no.tsv"))}), cache)
    with pytest.raises(DataError, match=r"nothing to train on: set data\.train\.source"):
        prepare(Data(data.units), cache)


def test_training_needs_targets(data, cache, tmp_path):
    (tmp_path / "s").write_text("a\nb\n")
    with pytest.raises(DataError, match="sources only"):
        prepare(replace(data, train=Files(source=str(tmp_path / "s"))), cache)


def test_settings_that_cannot_be_are_refused():
    for units in ({}, {"source": Bpe()}, {"source": Bpe(), "joint": Bpe()}):
        with pytest.raises(DataError, match="one or the other"):
            Units(**units)
    with pytest.raises(DataError, match="sample = 0"):
        Units(joint=Bpe(), sample=0)
    with pytest.raises(DataError, match="max_target_length = 1"):
        Lines(max_target_length=1)


# ----------------------------------------------------------------- evaluation


def test_rows_of_one_source_are_its_references(data, cache, tmp_path):
    lines = ["b\tB", f"{'a' * 999}\tA", "b\tP", "b\tB", "\tE", "c\t"]
    asked = replace(data, test=tsv(tmp_path / "test.tsv", lines))
    grouped = [(example.source, example.references) for example in examples(asked, "test", cache)]
    assert grouped == [("b", ("B", "P")), ("a" * 999, ("A",)), ("", ("E",)), ("c", ("",))]
    apart = examples(replace(asked, group_references=False), "test", cache)
    assert [(example.source, *example.references) for example in apart] == [tuple(line.split("\t")) for line in lines]


def test_targets_of_one_line_are_references_whatever_the_grouping(data, cache, tmp_path):
    for name, content in {"s": "a\nb\na\n", "t0": "A\nB\nC\n", "t1": "P\n\nC\n"}.items():
        (tmp_path / name).write_text(content)
    several = Files(source=str(tmp_path / "s"), target=(str(tmp_path / "t0"), str(tmp_path / "t1")))
    asked = replace(data, test=several)
    apart = examples(replace(asked, group_references=False), "test", cache)
    assert [example.references for example in apart] == [("A", "P"), ("B",), ("C", "C")]
    assert [example.references for example in examples(asked, "test", cache)] == [("A", "P", "C"), ("B",)]


def test_every_target_of_a_line_is_trained_on(data, cache, tmp_path):
    rows = tmp_path / "train.jsonl"
    rows.write_text('{"source": "ab", "target": ["b", "a"]}\n{"source": "b", "target": "ab"}\n')
    prepared = prepare(replace(data, train=Files(path=str(rows)), valid=None), cache)
    assert texts(prepared, prepared.train) == [("ab", "b"), ("ab", "a"), ("b", "ab")]


def test_examples_may_have_no_references_but_need_a_split(data, cache, tmp_path):
    (tmp_path / "s").write_text("a\nb\n")
    asked = replace(data, test=Files(source=str(tmp_path / "s")))
    assert [example.references for example in examples(asked, "test", cache)] == [(), ()]
    with pytest.raises(DataError, match=r"no test split: name .* train with data\.test\.path"):
        examples(data, "test", cache)


def test_a_split_given_wins_over_the_origins(data, cache):
    origin = Reverse(pairs=5)
    prepared = prepare(Data(Units(joint=Characters()), origin=origin), cache)
    assert len(prepared.train) == 5
    assert all(target == source[::-1] for source, target in texts(prepared, prepared.train))
    mixed = prepare(replace(data, valid=None, origin=origin), cache)
    assert (len(mixed.train), mixed.valid and len(mixed.valid)) == (3, 100)
