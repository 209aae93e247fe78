"""Words in pieces: the unit, and the models that answer once a word."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from families import build
from test_laws import sources_alone
from transduce.data.corpora import DataError
from transduce.data.saved import load
from transduce.data.spelled import Spelled
from transduce.data.tokenizers import Bpe, Bytes, Characters, Tokenizer
from transduce.modules.spelling import pieces, words
from transduce.types import BOS, EOS, PAD, Padded

LINE = "the dog  barks the"


@pytest.fixture(scope="module")
def characters() -> Tokenizer:
    return Spelled(Characters()).learn([LINE])


def test_words_open_with_their_mark(characters: Tokenizer) -> None:
    (ids,) = characters.encode([LINE])
    shown = ["<s>" if piece == "§" else piece for piece in "§the§dog§barks§the"]
    assert characters.tokens(ids) == [*shown, "</s>"]
    assert characters.length(ids) == 4
    assert characters.decode(ids) == characters.normalize(LINE) == "the dog barks the"
    assert characters.encode([""]) == [[EOS]]
    assert len(characters) == 4 + len(set(LINE) - {" "})
    spans = characters.spans(LINE)
    assert len(spans) == len(ids)
    assert [LINE[start:end] for start, end in spans] == ["" if piece == "<s>" else piece for piece in shown] + [""]


@pytest.mark.parametrize("unit", [Characters(minimum_count=2), Bpe(size=40), Bytes()])
def test_words_of_any_pieces(unit: Any, tmp_path: Any) -> None:
    tokenizer = Spelled(unit).learn(["a rose is a rose", "is it"])
    (ids,) = tokenizer.encode(["rose it is a rosy"])
    assert tokenizer.length(ids) == ids.count(BOS) == 5
    assert tokenizer.decode(tokenizer.encode(["a rose is"])[0]) == "a rose is"
    tokenizer.save(tmp_path / "source.json")
    assert load(tmp_path / "source.json").fingerprint == tokenizer.fingerprint
    assert load(tmp_path / "source.json").encode(["rosy it"]) == tokenizer.encode(["rosy it"])


def test_a_vocabulary_grows(characters: Tokenizer) -> None:
    other = Spelled(Characters()).learn(["cat"])
    grown = characters.extended(other)
    assert set(grown.entries) == set(characters.entries) | set("cat")
    assert grown.encode([LINE]) == characters.encode([LINE])
    with pytest.raises(DataError, match="extended by their like alone"):
        characters.extended(Characters().learn(["a"]))


def test_pieces_are_of_text() -> None:
    from transduce.data.numbers import Numbers

    with pytest.raises(DataError, match="set pieces of the unit to characters"):
        Spelled(Numbers()).learn(["1 2"])


# --------------------------------------------------------------------- words

ROWS = [[BOS, 4, 5, 6, BOS, 7, EOS], [EOS], [BOS, 8, BOS, 4, 5, 6, EOS]]


def padded(rows: list[list[int]], width: int = 7, junk: int = PAD) -> Padded:
    values = torch.tensor([row + [junk] * (width - len(row)) for row in rows])
    return Padded(values, torch.tensor([len(row) for row in rows]))


def test_words_and_pieces_of_rows() -> None:
    for source in (padded(ROWS), padded(ROWS, 9, junk=BOS)):
        found = words(source)
        assert found.lengths.tolist() == [3, 1, 3]
        closed = [4, 5, 6, EOS]
        nothing, end = [PAD] * 4, [EOS, PAD, PAD, PAD]
        assert found.values.tolist() == [
            [closed, [7, EOS, PAD, PAD], end],
            [end, nothing, nothing],
            [[8, EOS, PAD, PAD], closed, end],
        ]
        unmarked, begins = pieces(source)
        assert unmarked.lengths.tolist() == [5, 1, 5]
        assert unmarked.values.tolist() == [[4, 5, 6, 7, EOS], [EOS, *[PAD] * 4], [8, 4, 5, 6, EOS]]
        assert [row[:n] for row, n in zip(begins.values.tolist(), begins.lengths.tolist(), strict=True)] == [
            [0, 3, 4],
            [0],
            [0, 1, 4],
        ]


@pytest.mark.parametrize("find", [words, pieces])
def test_a_source_without_marks_is_told(find: Any) -> None:
    with pytest.raises(ValueError, match=r'where its words begin: set data\.units\.source to "spelled"'):
        find(padded([[4, 5, EOS]]))


RECURRENT = {"type": "recurrent", "cell": "gru", "embedding_width": 8, "width": 5}
CHARACTERS = {"type": "spelled", "encoder": RECURRENT | {"embedding_width": 6, "width": 3}}
STACK = {"type": "transformer", "positions": "sinusoidal", "width": 8, "layers": 1, "heads": 2, "feedforward": 16}
ENCODERS = {
    "characters into words, gru": RECURRENT | {"embedding": CHARACTERS},
    "characters into words, transformer": STACK
    | {"embedding": {"type": "spelled", "encoder": {"type": "multi-kernel", "width": 6}, "pooling": "max"}},
    "characters into words, bag": {"type": "bag", "width": 8, "embedding": CHARACTERS},
    "characters into words, kernels": {"type": "multi-kernel", "width": 8, "embedding": CHARACTERS},
    "first piece": {"type": "first-piece", "encoder": RECURRENT},
}


@pytest.fixture(params=ENCODERS)
def model(request: pytest.FixtureRequest) -> Any:
    return build({"type": "tagger", "encoder": ENCODERS[request.param]})


def test_a_label_a_word(model: Any) -> None:
    """Laws of row and padding: each row alone is as in company, whatever stands in the padding."""
    source = padded(ROWS, 9, junk=BOS)
    emission = model.emit(model.start(source), torch.tensor([2, 0, 2]))
    logits = model.readout(emission.output)
    for row, count in ((0, 2), (1, 0), (2, 2)):
        alone = model.emit(model.start(sources_alone(source, row)))
        assert alone.lengths.tolist() == [count]
        assert_close(model.readout(alone.output)[0, :count], logits[row, :count])


def test_a_word_is_read_by_itself() -> None:
    """Its vector is the projection of the last states of a reader of its characters, wherever it stands."""
    embedding = build({"type": "tagger", "encoder": ENCODERS["characters into words, gru"]}).encoder.embedding
    vectors = embedding(words(padded(ROWS)).values)
    for row, place, word in ((0, 0, [4, 5, 6]), (0, 1, [7]), (2, 0, [8]), (2, 1, [4, 5, 6]), (1, 0, [])):
        memory = embedding.encoder(padded([[*word, EOS]], len(word) + 1))
        last = torch.cat([leaf[0] for layer in memory.summary for leaf in layer])
        assert_close(vectors[row, place], embedding.projection.weight @ last + embedding.projection.bias)


def test_the_first_piece_answers_for_its_word() -> None:
    model = build({"type": "tagger", "encoder": ENCODERS["first piece"]})
    memory = model.encoder(padded(ROWS[:1]))
    inner = model.encoder.encoder(padded([[4, 5, 6, 7, EOS]], 5))
    assert_close(memory.states.values[0], inner.states.values[0, [0, 3, 4]])
    assert model.encoder.embedding is model.encoder.encoder.embedding
