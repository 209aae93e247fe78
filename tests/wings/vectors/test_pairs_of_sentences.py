"""Pairs of sentences as a source, the siamese encoder that compares them, and the vectors of sentences."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import transduce
from transduce.core import config
from transduce.core.errors import RequestError, UserError
from transduce.core.protocols import Encoder
from transduce.core.types import EOS, UNK, Facts, Padded
from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.storage import load, save
from transduce.data.tokenizers.text import Words
from transduce.wings.labels.encoders.siamese import both
from transduce.wings.labels.linear_pairs import LinearPairClassifier
from transduce.wings.labels.pairs import Pair, PairTokenizer
from transduce.wings.labels.several import ParallelEnsemble
from transduce.wings.labels.tokenizer import Labels
from transduce.wings.vectors.representations.sentences import sentence_vectors, stacked, with_encoder
from transduce.wings.vectors.representations.tables import open_vectors, vectors_of

SMALL = Path(__file__).parent / "word_vectors" / "small.vec"
LINES = ["a man sings\ta man is singing", "no dog\ta dog runs"]


@pytest.fixture
def tokenizer() -> PairTokenizer:
    return Pair(Words()).learn(LINES)


def test_a_pair_is_two_sentences_that_end(tokenizer: PairTokenizer, tmp_path: Path) -> None:
    rows = tokenizer.encode(LINES)
    alone = tokenizer.sentence.encode(["a man sings", "a man is singing"])
    assert rows[0] == [*alone[0], *alone[1]]
    assert [tokenizer.decode(row) for row in rows] == LINES == [tokenizer.normalize(line) for line in LINES]
    assert tokenizer.decode(alone[0]) == "a man sings"
    assert tokenizer.length(rows[0]) == 7
    spans = [LINES[1][slice(*span)] for span in tokenizer.spans(LINES[1])]
    assert spans == [
        "no",
        " dog",
        "",
        "a",
        " dog",
        " runs",
        "",
    ]
    assert tokenizer.encode(["a\tb\tc"])[0].count(EOS) == 2
    save(tokenizer, tmp_path / "x.json")
    assert load(tmp_path / "x.json").encode(LINES) == rows
    longer = tokenizer.extended(Pair(Words()).learn(["cats\tcats"]))
    assert UNK in tokenizer.encode(["cats\tcats"])[0]
    assert UNK not in longer.encode(["cats\tcats"])[0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Pair(Words()).learn(["alone"]), LineError, "'alone' has one sentence, and a pair was expected"),
        (lambda: Pair(Labels()).learn(["a\tb"]), DataError, "a pair has two plain texts"),
        (lambda: Pair(Words()).learn(LINES).extended(Words().learn(["a"])), DataError, "use the same units"),
    ],
)
def test_what_is_no_pair_is_told(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def siamese(hidden: int = 0) -> Any:
    torch.manual_seed(1)
    inner = {"type": "recurrent", "cell": "lstm", "embedding_width": 6, "width": 5}
    table = {"type": "siamese", "encoder": inner, "hidden": hidden}
    return config.build(table, Encoder, Facts(20, 3), "encoder").eval()


def test_the_features_compare_the_vectors_of_both_sentences(tokenizer: PairTokenizer) -> None:
    """[u, v, |u - v|, u * v], where u and v are what each sentence alone has; padding and company change nothing."""
    encoder = siamese()
    memory = encoder(Padded.of(tokenizer.encode(LINES)))
    for number, line in enumerate(LINES):
        u, v = (encoder.sentences(Padded.of(tokenizer.sentence.encode([part])))[0] for part in line.split("\t"))
        assert_close(memory.summary[0][number], torch.cat([u, v, (u - v).abs(), u * v]))
        assert_close(memory.states.values[number], torch.stack([u, v]))
    assert memory.states.lengths.tolist() == [2, 2]
    assert siamese(hidden=3)(Padded.of(tokenizer.encode(LINES))).summary[0].shape == (2, 3)


def test_both_sentences_are_found(tokenizer: PairTokenizer) -> None:
    found = both(Padded.of(tokenizer.encode(LINES)))
    expected = tokenizer.sentence.encode([line.split("\t")[side] for side in (0, 1) for line in LINES])
    assert [row[:length].tolist() for row, length in zip(found.values, found.lengths, strict=True)] == expected
    assert bool((found.values[~found.mask] == 0).all())
    with pytest.raises(UserError, match="a source has one sentence, and this model compares two"):
        both(Padded.of([[5, 6, EOS]]))


# ------------------------------------------------------------- a run, and embed


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run that was trained on pairs of sentences: a network beside counts."""
    folder = tmp_path_factory.mktemp("pairs")
    words = [("a man sings", "a man is singing", "same"), ("no dog runs", "a dog runs", "other")] * 20
    (folder / "x.tsv").write_text("\n".join(f"{n}\t{a}\t{b}\t1\t{label}" for n, (a, b, label) in enumerate(words)))
    small = [f"model.model.encoder.encoder.{name}" for name in ("width=5", "embedding_width=6")]
    files = [f"data.{split}.path={folder / 'x.tsv'}" for split in ("train", "valid", "test")]
    transduce.train("entailment", folder / "run", ["training.steps=2", *small, *files], progress=False, device="cpu")
    return folder / "run"


def test_a_run_embeds_sentences(run: Path) -> None:
    """Vectors follow the order of the lines, and each equals the vector of its line alone. A run of pairs embeds
    single sentences."""
    transducer = transduce.load(run, device="cpu")
    texts = ["a man sings", "a dog runs and runs and runs", "no"]
    vectors = stacked(sentence_vectors(transducer, texts, batch_size=2))
    assert vectors.shape == (3, 10)
    assert vectors.dtype == np.float32
    for text, vector in zip(texts, vectors, strict=True):
        assert np.allclose(next(sentence_vectors(transducer, [text])), vector, atol=1e-6)
    assert transducer("a man sings\ta man is singing") in ("same", "other")
    with pytest.raises(RequestError, match="a siamese encoder has a pooling of its own"):
        next(sentence_vectors(transducer, texts, "mean"))
    with pytest.raises(UserError, match="pooling = 'sum'"):
        next(sentence_vectors(transducer, texts, "sum"))  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="input 1: 'alone' has one sentence"):
        transducer("alone")


def test_several_encoders_have_no_one_vector(run: Path) -> None:
    network = transduce.load(run, device="cpu").model.models[0]
    with pytest.raises(
        RequestError, match=r"this parallel-ensemble model has several encoders, .* give a run with one"
    ):
        with_encoder(ParallelEnsemble([network, network]))
    with pytest.raises(RequestError, match=r"has no encoder, .* give a run with one encoder"):
        with_encoder(LinearPairClassifier(20, 6, 9))


def test_a_run_has_word_vectors(run: Path) -> None:
    transducer = transduce.load(run, device="cpu")
    table = open_vectors(run)
    assert {"man", "dog", "singing"} <= set(table.words)
    ids = transducer.source_tokenizer.sentence.encode(["man"])[0]  # type: ignore[attr-defined]
    (network,) = transducer.model.members()
    weight = network.encoder.embedding.weight.detach().numpy()
    assert np.array_equal(table.matrix_VD[table.index["man"]], weight[ids[0]])
    assert open_vectors(run, words=["DOG"]).words == ("dog",)
    states = open_vectors(run, words=["man", "zebra"], table="states")
    assert states.words == ("man", "zebra")
    assert np.allclose(states.matrix_VD[0], next(sentence_vectors(transducer, ["man"])), atol=1e-6)
    for problem, match in (
        (lambda: vectors_of(transducer, "target"), "no embedding table of its target's tokens"),
        (lambda: open_vectors(run, words=["zebra"]), "none of the words that are wanted"),
        (lambda: open_vectors(SMALL, table="source"), "is a file of vectors, and has no tables"),
        (lambda: vectors_of(transducer, "both"), "table = 'both'"),  # type: ignore[arg-type]
    ):
        with pytest.raises(UserError, match=match):
            problem()


def test_embed_writes_a_file_of_numpy(run: Path, tmp_path: Path, capfdbinary: Any, monkeypatch: Any) -> None:
    from transduce.cli.app import main

    (tmp_path / "x.txt").write_text("king and queen\na cat\nThe dog\n")
    for arguments, width in (([str(run)], 10), ([str(SMALL)], 9), ([str(SMALL), "--weights", "sif"], 9)):
        monkeypatch.setattr("sys.argv", ["transduce", "embed", *arguments, str(tmp_path / "x.txt")])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        assert np.load(io.BytesIO(capfdbinary.readouterr().out)).shape == (3, width)
    monkeypatch.setattr("sys.argv", ["transduce", "embed", str(SMALL), str(tmp_path / "x.txt"), "--pooling", "mean"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert b"is a file of word vectors; set --weights" in capfdbinary.readouterr().err
