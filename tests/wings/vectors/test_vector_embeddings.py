"""Models that begin with the word vectors of a file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import transduce
from transduce.core.config import ConfigError
from transduce.core.errors import UserError
from transduce.data.tokenizers.text import Words
from transduce.wings.vectors.corpus import Corpus
from transduce.wings.vectors.embedding import VectorEmbedding
from transduce.wings.vectors.files import load
from transduce.wings.vectors.run import fill_tables
from transduce.wings.vectors.training import VectorTraining, train

SMALL = Path(__file__).parent / "word_vectors" / "small.vec"
LINES = ["The king and the queen, a zebra", "paris!queen"]


def test_tokens_get_the_vectors_of_the_file() -> None:
    """Also a token after punctuation, and one in another case; the embedding is the file's vector, scaled or not."""
    tokenizer, vectors = Words().learn(LINES), load(SMALL)
    ids = torch.tensor(tokenizer.encode(["king", "!queen", "paris", "zebra"])[0][:1] + tokenizer.encode(LINES)[1][:-1])
    assert [tokenizer.tokens([int(i)])[0] for i in ids] == ["▁king", "▁paris", "!", "queen"]
    expected = torch.from_numpy(vectors.known(["king", "Paris", "king", "queen"]).copy())
    for scaled in (False, True):
        for frozen in (False, True):
            model = torch.nn.ModuleList([VectorEmbedding(len(tokenizer), 9, scaled, str(SMALL), frozen)])
            before = model[0](ids)
            (line,) = fill_tables(model, tokenizer)
            assert line.endswith(f"small.vec: 4 of {len(tokenizer)} tokens")
            after = model[0](ids)
            known = torch.tensor([True, True, False, True])
            assert_close(after[known], expected[known])
            assert_close(after[~known], before[~known])
            after.sum().backward()
            gradient = model[0].weight.grad[ids].abs().sum(-1) > 0
            assert gradient.tolist() == ([False, False, True, False] if frozen else [True] * 4)


def test_a_run_has_its_vectors_without_the_file(tmp_path: Path) -> None:
    """Frozen vectors are the file's after training, and others are trained; the run needs no file."""
    shutil.copy(SMALL, tmp_path / "x.vec")
    (tmp_path / "x.tsv").write_text("\n".join(["royal\tthe king and queen", "other\ta cat, a dog"] * 20))
    settings = [
        "data.units.source={type='words'}",
        "objective={type='parallel-cross-entropy'}",
        "model={type='classifier', encoder={type='recurrent', cell='lstm', embedding_width=9, width=5}}",
        f'model.encoder.embedding={{type="vectors", file="{tmp_path / "x.vec"}", frozen=true}}',
        "training.steps=3",
        *(f"data.{split}.path={tmp_path / 'x.tsv'}" for split in ("train", "valid", "test")),
    ]
    transduce.train("classification", tmp_path / "run", settings, progress=False, device="cpu")
    (tmp_path / "x.vec").unlink()
    transducer = transduce.load(tmp_path / "run", device="cpu")
    (ids,) = transducer.source_tokenizer.encode(["the king and queen"])
    embedded = transducer.model.encoder.embedding(torch.tensor(ids)).detach().numpy()
    assert np.array_equal(embedded[[1, 3]], load(SMALL).known(["king", "queen"]))
    assert transducer(["a cat, a dog"])[0] in ("royal", "other")
    transduce.train("classification", tmp_path / "run", ["training.steps=4"], resume=True, progress=False, device="cpu")


def test_whole_words_of_a_tagger_get_vectors(tmp_path: Path) -> None:
    """The recipe for tagging: vectors for the table of whole words, beside the characters."""
    rows = "\n".join(f"{n}\t{word}\t_\tX\t_\t_\t_\t_\t_\t_" for n, word in enumerate(["the", "king", "cat"], 1))
    (tmp_path / "x.conllu").write_text(f"{rows}\n\n" * 4)
    settings = [
        "model.encoder.embedding.word_width=9",
        f"model.encoder.embedding.word_vectors={SMALL}",
        "model.encoder.embedding_width=14",
        "training.steps=1",
        "training.freeze=['encoder.embedding.known']",
        *(f"data.{split}.path={tmp_path / 'x.conllu'}" for split in ("train", "valid", "test")),
    ]
    transduce.train("tagging-network", tmp_path / "run", settings, progress=False, device="cpu")
    transducer = transduce.load(tmp_path / "run", device="cpu")
    table = transducer.model.encoder.embedding.known
    tokenizer: Any = transducer.source_tokenizer
    mark = torch.tensor([tokenizer.entries.index(("word", "king"))])
    assert np.array_equal(table(mark)[0].detach().numpy(), load(SMALL).known(["king"])[0])
    assert transducer("the king") == "X X"


def test_other_words_get_vectors_from_subwords(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    (tmp_path / "text.txt").write_text("the king and the queen\n" * 20)
    trained = train(Corpus([tmp_path / "text.txt"]), VectorTraining(subwords=True, width=9, epochs=1))
    trained.write(tmp_path / "x.bin")
    tokenizer = Words().learn(["king kingdom"])
    model = torch.nn.ModuleList([VectorEmbedding(len(tokenizer), 9, False, str(tmp_path / "x.bin"))])
    (line,) = fill_tables(model, tokenizer)
    assert line.endswith(f"2 of {len(tokenizer)} tokens, 1 of them from subwords")
    expected = trained.vectors.vector("kingdom")
    assert expected is not None
    row = model[0](torch.tensor(tokenizer.encode(["kingdom"])[0][:1]))[0]
    assert np.allclose(row.detach().numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("width", "text", "error", "message"),
    [
        (8, "king", ConfigError, "has vectors of 9 numbers, and the embedding has 8: make the width"),
        (9, "zebra", UserError, "has none of the words that are wanted"),
    ],
)
def test_vectors_that_do_not_fit_are_told(width: int, text: str, error: type[Exception], message: str) -> None:
    tokenizer = Words().learn([text])
    model = torch.nn.ModuleList([VectorEmbedding(len(tokenizer), width, False, str(SMALL))])
    with pytest.raises(error, match=message):
        fill_tables(model, tokenizer)
