"""Shards, addresses and Parquet; corpora mixed by weight and temperature; tags before sources."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.core.errors import MissingPackageError
from transduce.core.types import Example, Prediction
from transduce.data.batching import Batches, Batching, Place, drawn_pairs
from transduce.data.corpora import DataError, Files
from transduce.data.pairs import Pairs, Ragged
from transduce.data.preparation import examples, prepare
from transduce.data.rows import check, read
from transduce.data.settings import Data, Lines, Units
from transduce.data.tokenizers.text import Symbols, Unigram
from transduce.evaluation.groups import by_corpus
from transduce.metrics.base import metric
from transduce.metrics.statistics import statistics

ROWS = [("a b", "x"), ("c", "y z"), ("d e f", "w")]
UNITS = Units(source=Symbols(), target=Symbols())


def pairs(files: Files) -> list[tuple[str | None, str | None]]:
    return [(row.source, row.target) for row in read(files)]


def tsv(rows: list[tuple[str, str]]) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in rows).encode()


# ------------------------------------------------------------- where files are


def test_a_pattern_is_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(tsv(ROWS[1:])))
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(tsv(ROWS[:1])))
    files = Files(path=str(tmp_path / "*.tsv.gz"))
    assert pairs(files) == ROWS
    assert check(files) == 3
    assert [(row.number, Path(row.files.path or "").name) for row in read(files) if row.files] == [
        (1, "a.tsv.gz"),
        (1, "b.tsv.gz"),
        (2, "b.tsv.gz"),
    ]
    assert len({row.line for row in read(files)}) == 3  # line 1 of two shards is two lines
    odd = tmp_path / "[a].tsv"
    odd.write_bytes(tsv(ROWS[:1]))
    assert pairs(Files(path=str(odd))) == ROWS[:1]  # a file with such a name is no pattern


def test_parallel_patterns_match_equally_many_files(tmp_path: Path) -> None:
    for number, (source, target) in enumerate(ROWS):
        (tmp_path / f"{number}.de").write_text(source + "\n")
        (tmp_path / f"{number}.en").write_text(target + "\n")
    files = Files(source=str(tmp_path / "*.de"), target=str(tmp_path / "*.en"))
    assert pairs(files) == ROWS
    (tmp_path / "2.en").unlink()
    with pytest.raises(DataError, match=r"matches 3 files, and .* matches 2"):
        read(files)
    with pytest.raises(DataError, match="no file matches"):
        read(Files(path=str(tmp_path / "*.tsv")))


def test_an_address_reads_like_the_file(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    try:
        memory.pipe("/mixing/1.jsonl.gz", gzip.compress(b'{"source": "a b", "target": "x"}\n'))
        memory.pipe("/mixing/2.jsonl.gz", gzip.compress(b'{"source": "c", "target": ["y z", "w"]}\n'))
        files = Files(path="memory://mixing/*.jsonl.gz")
        assert pairs(files) == [("a b", "x"), ("c", "y z"), ("c", "w")]
        assert [str(path) for path in files.paths] == ["memory:///mixing/1.jsonl.gz", "memory:///mixing/2.jsonl.gz"]
        data = Data(UNITS, train=files)
        first = prepare(data, tmp_path)
        assert len(first.train) == 3
        memory.pipe("/mixing/2.jsonl.gz", gzip.compress(b'{"source": "c", "target": ["y z"]}\n'))
        assert len(prepare(data, tmp_path).train) == 2  # a changed file is noticed
        with pytest.raises(DataError, match=r"no such file: memory://gone\.tsv"):
            prepare(Data(UNITS, train=Files(path="memory://gone.tsv")), tmp_path)
        (tmp_path / "local.tsv").write_bytes(tsv(ROWS))
        assert pairs(Files(path=f"file://{tmp_path / 'local.tsv'}")) == ROWS
    finally:
        memory.rm("/mixing", recursive=True)
    with pytest.raises(MissingPackageError, match="nowhere"):
        list(read(Files(path="nowhere://a.tsv")))


# --------------------------------------------------------------------- corpora


def two(folder: Path, **options: Any) -> Files:
    (folder / "one.tsv").write_bytes(tsv(ROWS))
    (folder / "two.tsv").write_bytes(tsv([("g", "v"), ("", "u")]))
    return Files(
        corpora=(
            Files(path=str(folder / "one.tsv"), tag="__x__"),
            Files(path=str(folder / "two.tsv"), name="second", **options),
        )
    )


def test_corpora_follow_each_other_with_their_tags(tmp_path: Path) -> None:
    files = two(tmp_path)
    assert pairs(files) == [*((f"__x__ {source}", target) for source, target in ROWS), ("g", "v"), ("", "u")]
    prepared = prepare(Data(UNITS, train=files, lines=Lines(empty="skip")), tmp_path)
    assert prepared.train.corpora == (3, 1)  # the empty line is left out
    assert prepared.weights == (1.0, 1.0)
    ids = prepared.train.source.ids[prepared.train.source.offsets[:-1]]
    assert [prepared.source_tokenizer.tokens([int(first)])[0] for first in ids] == ["__x__"] * 3 + ["g"]
    assert "two.tsv:2" in "\n".join(prepared.report.lines())  # the place in its own file
    retagged = Files(corpora=(Files(path=str(tmp_path / "one.tsv")), *(files.corpora or ())[1:]))
    assert len(prepare(Data(UNITS, train=retagged), tmp_path).source_tokenizer) == len(prepared.source_tokenizer) - 1


def test_a_weight_alone_prepares_nothing_anew(tmp_path: Path) -> None:
    files = two(tmp_path)
    prepare(Data(UNITS, train=files), tmp_path)
    heavier = Files(corpora=tuple(replace(each, weight=3.0) for each in files.parts))
    assert prepare(Data(UNITS, train=heavier), tmp_path).weights == (3.0, 3.0)
    assert len(list((tmp_path / "prepared").iterdir())) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"corpora": (), "path": None}, "names no corpus"),
        ({"corpora": (Files(path="a.tsv"),), "path": "b.tsv"}, "of its own"),
        ({"corpora": (Files(path="a.tsv"),), "weight": 2.0}, "of its own"),
        ({"corpora": (Files(corpora=(Files(path="a.tsv"),)),)}, "corpora inside corpora"),
        ({"path": "a.tsv", "weight": 0.0}, "weight = 0.0"),
        ({"path": "a.tsv", "tag": " "}, "tag = ' '"),
    ],
)
def test_corpora_that_make_no_sense_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        Files(**given)


def test_the_share_of_a_corpus_grows_with_its_size_to_the_power_of_one_over_t() -> None:
    assert drawn_pairs((900, 100), (1, 1), 1.0) == (900, 100)
    assert drawn_pairs((900, 100), (1, 1), 2.0) == (750, 250)  # 30 to 10
    assert drawn_pairs((900, 100), (1, 3), 2.0) == (500, 500)
    assert drawn_pairs((900, 100), (1, 1), 1e9) == (500, 500)
    assert sum(drawn_pairs((7, 11, 13), (1, 1, 1), 3.0)) == 31
    assert drawn_pairs((5, 0), (1, 9), 1.0) == (5, 0)
    with pytest.raises(DataError, match=r"temperature = 0\.5"):
        Batching(temperature=0.5)


def numbered(*sizes: int) -> Pairs:
    count = sum(sizes)
    side = Ragged(np.arange(2 * count, dtype=np.uint16), np.arange(0, 2 * count + 1, 2))
    return Pairs(side, side, sizes)


def test_an_epoch_draws_each_corpus_as_often_as_its_share_says() -> None:
    batches = Batches(numbered(90, 10), Batching(tokens=16, temperature=2.0), seed=3)
    drawn = np.concatenate(batches.epoch(0))
    assert len(drawn) == 100
    counts = Counter(drawn.tolist())
    assert sum(counts[pair] for pair in range(90)) == 75
    assert max(counts[pair] for pair in range(90)) == 1  # none twice before all are drawn
    assert sorted({counts[pair] for pair in range(90, 100)}) == [2, 3]
    assert [ids.tolist() for ids in batches.epoch(1)] != [ids.tolist() for ids in batches.epoch(0)]


def test_a_mixture_goes_on_where_it_stopped() -> None:
    batches = Batches(numbered(40, 10), Batching(tokens=16, temperature=5.0), seed=3, weights=(1.0, 2.0))
    whole = [batch.ids.tolist() for batch, _ in zip_first(batches, Place(), 30)]
    place = [place for _, place in zip_first(batches, Place(), 12)][-1]
    assert [batch.ids.tolist() for batch, _ in zip_first(batches, place, 18)] == whole[12:]


def zip_first(batches: Batches, place: Place, count: int) -> list[Any]:
    iterator = batches.iterate(place)
    return [next(iterator) for _ in range(count)]


def test_a_whole_word_is_one_token_of_unigram_pieces() -> None:
    texts = [f"__{tag}__ a dog and a cat {tag}" for tag in ("en", "fr") for _ in range(9)]
    tokenizer = Unigram(size=40, whole=("__en__", "__fr__")).learn(texts)
    assert len(tokenizer) <= 40
    for text in ("__fr__ a cat", "a __en__ dog"):
        ids = tokenizer.encode([text])[0]
        assert sum(token in ("▁__en__", "▁__fr__") for token in tokenizer.tokens(ids)) == 1
        assert tokenizer.decode(ids) == text
    with pytest.raises(DataError, match="'<2en>': expected letters"):
        Unigram(whole=("<2en>",))


# ------------------------------------------------------------------ evaluation


def test_each_corpus_has_its_own_score(tmp_path: Path) -> None:
    found = examples(Data(UNITS, test=two(tmp_path)), "test", tmp_path)
    assert [example.corpus for example in found] == ["one.tsv"] * 3 + ["second"] * 2
    outputs = [Prediction("x"), Prediction("y z"), Prediction("w"), Prediction("nothing"), Prediction("u")]
    (grouping,) = by_corpus(statistics([metric("exact")], outputs, found), found)
    assert grouping.labels == ("one.tsv", "second")
    assert [(each.examples, each.scores["exact"]) for each in grouping.bins] == [(3, 100.0), (2, 50.0)]
    assert by_corpus([], [Example("a"), Example("b")]) == []
