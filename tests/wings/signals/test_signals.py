"""Signals as sources: rows of steps from files to batches and back to use, and files that cannot be read."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from transduce.data.corpora import ColumnNames, DataError, Files
from transduce.data.encoding import SIGNALS
from transduce.data.pairs import Pairs, PairsWriter, RowType, flattened
from transduce.data.preparation import examples, prepare
from transduce.data.settings import Data, Lines, Units
from transduce.data.tokenizers.base import cut
from transduce.data.tokenizers.storage import load
from transduce.data.tokenizers.text import Characters, Words
from transduce.wings.labels.tokenizer import Labelled
from transduce.wings.looking.survey import survey
from transduce.wings.signals.tokenizers.clip import Clip
from transduce.wings.signals.tokenizers.picture import Picture
from transduce.wings.signals.tokenizers.sound import Sound

HEIGHT = 4


def paint(path: Path, width: int, seed: int = 0) -> np.ndarray:
    """A picture of noise, [HEIGHT, width] of 0 to 255."""
    pixels_HW = np.random.default_rng(seed).integers(0, 256, (HEIGHT, width), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels_HW).save(path)
    return pixels_HW


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A folder with manifests of six pictures of 3 to 8 columns, in a folder of their own."""
    for split, count in (("train", 6), ("valid", 2)):
        lines = []
        for number in range(count):
            paint(tmp_path / "corpus" / "png" / f"{split}{number}.png", 3 + number, number)
            lines.append(f"png/{split}{number}.png\t{'ab'[number % 2]} c\n")
        (tmp_path / "corpus" / f"{split}.tsv").write_text("".join(lines))
    return tmp_path / "corpus"


def data(corpus: Path, unit=None, **lines) -> Data:
    splits = {split: Files(path=str(corpus / f"{split}.tsv")) for split in ("train", "valid")}
    return Data(Units(unit or Picture(HEIGHT), Words()), lines=Lines(**lines), **splits)


# ------------------------------------------------------------- rows of steps


def test_rows_of_steps_are_stored_and_padded(tmp_path):
    random = np.random.default_rng(0)
    rows = [random.normal(size=(length, 3)).astype(np.float16).astype(np.float32) for length in (2, 5, 1)]
    types = RowType(np.dtype(np.float16), (3,)), RowType.of_ids(10)
    with PairsWriter(tmp_path / "pairs", types) as writer:
        for sources, targets in ((rows[:2], [[7, 2], [7, 2]]), ([], []), (rows[2:], [[2]])):
            writer.append((flattened(sources, types[0]), flattened(targets, types[1])))
    pairs = Pairs.load(tmp_path / "pairs")
    assert pairs.source.ids.dtype == np.float16
    assert isinstance(pairs.source.ids, np.memmap)
    assert pairs.source_lengths.tolist() == [2, 5, 1]
    batch = pairs.batch(np.array([2, 1, 0]))
    assert batch.source.values.dtype == torch.float32
    assert batch.source.values.shape == (3, 5, 3)
    for row, length, values in zip((2, 1, 0), (1, 5, 2), batch.source.values, strict=True):
        assert torch.equal(values[:length], torch.from_numpy(rows[row]))
        assert not values[length:].any()
    assert batch.target.values.tolist() == [[2, 0], [7, 2], [7, 2]]


def test_a_signal_is_prepared_as_it_is_read(corpus, tmp_path):
    """Relative to the manifest, in the same numbers as at use, to the bit."""
    prepared = prepare(data(corpus, Picture(HEIGHT, normalisation="corpus")), tmp_path / "cache")
    assert prepared.facts.source_vocabulary == prepared.facts.source_factors == HEIGHT
    assert prepared.train.source_lengths.tolist() == [3, 4, 5, 6, 7, 8]
    paths = [str(corpus / "png" / f"train{number}.png") for number in range(6)]
    batch = prepared.train.batch(np.arange(6))
    again = load_saved(prepared.source_tokenizer, tmp_path)
    for tokenizer in (prepared.source_tokenizer, again):
        for number, row_SD in enumerate(tokenizer.encode(paths)):
            assert row_SD.dtype == np.float32
            assert torch.equal(batch.source.values[number, : len(row_SD)], torch.from_numpy(row_SD))
    assert again.fingerprint == prepared.source_tokenizer.fingerprint


def load_saved(tokenizer, folder: Path):
    tokenizer.save(folder / "source.json")
    return load(folder / "source.json")


@pytest.mark.parametrize("unit", [Sound(8000, mels=7), Picture(9, 5, channels=3), Clip(2, 3, every=4)])
def test_a_unit_is_saved_with_its_options(unit, tmp_path):
    tokenizer = unit.learn([])
    again = load_saved(tokenizer, tmp_path)
    assert again.as_json() == tokenizer.as_json()
    assert (again.numeric, again.signal, again.labels, len(again)) == (True, True, 0, again.factors)
    assert again.extended(tokenizer) is again
    with pytest.raises(DataError, match="is not extended by one of 4"):
        again.extended(Picture(4).learn([]))


def test_what_a_signal_cannot_be(tmp_path):
    with pytest.raises(DataError, match=r"units\.target is a signal"):
        Units(Characters(), Sound())
    with pytest.raises(DataError, match=r"units\.joint is a signal"):
        Units(joint=Picture())
    with pytest.raises(DataError, match="labels stand before a text"):
        Data(Units(Sound(), Characters()), columns=ColumnNames(source=1, target=2, labels=(0,)))
    with pytest.raises(DataError, match="told by ids"):
        Labelled(Picture()).learn(["label\tpath"])
    with pytest.raises(DataError, match="read and not written"):
        Picture().learn([]).decode([])


def test_normalisation_of_the_corpus_and_of_a_file(corpus, tmp_path):
    paths = [str(corpus / "png" / f"train{number}.png") for number in range(6)]
    raw = [row for path in paths for row in Picture(HEIGHT).learn([]).encode([path])]
    own = Picture(HEIGHT, normalisation="picture").learn([]).encode(paths)
    for row_SD, plain_SD in zip(own, raw, strict=True):
        np.testing.assert_allclose(row_SD, (plain_SD - plain_SD.mean()) / plain_SD.std(), atol=4e-3)
    every = np.concatenate(raw)
    corpus_rows = Picture(HEIGHT, normalisation="corpus").learn([*paths, "nowhere.png"]).encode(paths)
    np.testing.assert_allclose(np.concatenate(corpus_rows), (every - every.mean()) / every.std(), atol=4e-3)
    with pytest.raises(DataError, match=r"no file to learn a mean from, as nowhere\.png is missing"):
        Picture(HEIGHT, normalisation="corpus").learn(["nowhere.png"])


# ------------------------------------------------------------------ bad files


def test_unreadable_files_are_left_out_and_told_of(corpus, tmp_path):
    (corpus / "png" / "train1.png").unlink()
    (corpus / "png" / "train2.png").write_bytes(b"no picture")
    (corpus / "png" / "valid1.png").write_bytes(b"")
    prepared = prepare(data(corpus), tmp_path / "cache")
    assert prepared.train.source_lengths.tolist() == [3, 6, 7, 8]
    found = prepared.report.splits["train"].findings["unreadable"]
    assert (found.count, found.policy) == (2, "skip")
    missing, broken = found.places
    assert missing == f"{corpus / 'train.tsv'}:2 ({corpus / 'png' / 'train1.png'} is missing: there is no such file)"
    assert broken.startswith(f"{corpus / 'train.tsv'}:3 ({corpus / 'png' / 'train2.png'} is not a picture")
    with pytest.raises(DataError, match=r"train\.tsv:2: .*train1\.png is missing.*unreadable = 'skip'"):
        prepare(data(corpus, unreadable="error"), tmp_path / "cache")


def test_evaluation_leaves_out_what_cannot_be_read_where_training_does(corpus, tmp_path, caplog):
    (corpus / "png" / "valid1.png").write_bytes(b"")
    (left,) = examples(data(corpus), "valid", tmp_path / "cache")
    assert left.source == str(corpus / "png" / "valid0.png")
    assert "1 unreadable (skip)" in caplog.text
    assert f"{corpus / 'valid.tsv'}:2" in caplog.text
    with pytest.raises(DataError, match=r"valid\.tsv:2: .*valid1\.png is empty"):
        examples(data(corpus, unreadable="error"), "valid", tmp_path / "cache")


def test_overlong_signals(corpus, tmp_path):
    skipped = prepare(data(corpus, max_source_length=5), tmp_path / "cache")
    assert skipped.train.source_lengths.tolist() == [3, 4, 5]
    shortened = prepare(data(corpus, max_source_length=5, overlong="truncate"), tmp_path / "cache")
    assert shortened.train.source_lengths.tolist() == [3, 4, 5, 5, 5, 5]
    with pytest.raises(DataError, match="the source has 6 steps, more than max_source_length = 5"):
        prepare(data(corpus, max_source_length=5, overlong="error"), tmp_path / "cache")
    row_SD = np.zeros((4, 2))
    assert len(cut(row_SD, 3, shortened.source_tokenizer)) == 3
    assert cut([7, 8, 9, 2], 3, shortened.target_tokenizer) == [7, 8, 2]


def test_a_changed_file_is_noticed(corpus, tmp_path):
    prepare(data(corpus), tmp_path / "cache")
    before = prepare(data(corpus), tmp_path / "cache").train.batch(np.array([0])).source.values
    paint(corpus / "png" / "train0.png", 9, seed=99)
    after = prepare(data(corpus), tmp_path / "cache").train.batch(np.array([0])).source.values
    assert before.shape != after.shape


def test_a_changed_picture_of_a_clip_is_noticed(corpus, tmp_path):
    frame = corpus / "clips" / "one" / "0.png"
    paint(frame, 4)
    (corpus / "clips.tsv").write_text("clips/one\ta\n")
    asked = Data(Units(Clip(HEIGHT, 4), Words()), train=Files(path=str(corpus / "clips.tsv")))
    before = prepare(asked, tmp_path / "cache").train.batch(np.array([0])).source.values
    paint(frame, 4, seed=99)
    after = prepare(asked, tmp_path / "cache").train.batch(np.array([0])).source.values
    assert not torch.equal(before, after)


def test_absolute_paths_and_parallel_files(corpus, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    paths = [str(corpus / "png" / "train0.png"), os.path.relpath(corpus / "png" / "train1.png", tmp_path / "elsewhere")]
    (tmp_path / "elsewhere" / "paths.txt").write_text("".join(f"{path}\n" for path in paths))
    (tmp_path / "elsewhere" / "words.txt").write_text("a\nb\n")
    monkeypatch.chdir(tmp_path)
    files = Files(source="elsewhere/paths.txt", target="elsewhere/words.txt")
    prepared = prepare(Data(Units(Picture(HEIGHT), Words()), train=files), tmp_path / "cache")
    assert prepared.train.source_lengths.tolist() == [3, 4]


# --------------------------------------------------------------------- survey


def test_survey_of_signals(corpus, tmp_path):
    seen = survey(data(corpus), tmp_path / "cache")
    assert seen.splits["train"].source.tokens.longest == 8
    text = "\n".join(seen.lines())
    assert "a signal of 4 numbers a step" in text
    assert "source steps: mean 5.5, median 5" in text
    assert "source characters" not in text
    assert "train0.png (3 steps, the last at column 2)" in text


def test_few_signals_are_in_memory_at_a_time(tmp_path):
    """The peak memory of a preparation depends on the chunk size, not on the number of files."""
    peaks = []
    for count in (2 * SIGNALS, 6 * SIGNALS):
        lines = []
        for number in range(count):
            Image.fromarray(np.full((HEIGHT, 20_000), number, np.uint8)).save(tmp_path / f"{number}.png")
            lines.append(f"{number}.png\ta\n")
        (tmp_path / "wide.tsv").write_text("".join(lines))
        files = Files(path=str(tmp_path / "wide.tsv"))
        wide = Data(Units(Picture(HEIGHT), Words()), train=files, lines=Lines(max_source_length=20_000))
        tracemalloc.start()
        prepare(wide, tmp_path / "cache")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
