"""Words in pieces: the unit, and the models that answer once a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from families import FACTS, KNOWN, build
from test_laws import sources_alone
from transduce.core import config
from transduce.core.protocols import Encoder, Model
from transduce.core.types import BOS, EOS, PAD, Facts, Padded
from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.storage import load
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Symbols
from transduce.models.compatibility import check_words
from transduce.wings.labels.phrase_lists import PhraseLists
from transduce.wings.labels.spelled import Spelled
from transduce.wings.labels.spelling import KnownWords, pieces, words
from transduce.wings.syntax.tokenizers.features import Features

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


def test_shapes_follow_the_marks(tmp_path: Path) -> None:
    """<s> <Xx> D o g: a shape is no text, and no whole word."""
    unit = Spelled(Characters(), Symbols(lowercase=True), shapes=True)
    tokenizer = unit.learn(["Dog dog USA A 4x x-1", "Éa"])
    (ids,) = tokenizer.encode(["Dog USA A 4x Éa cat"])
    shown = tokenizer.tokens(ids)
    assert shown[:5] == ["<dog>", "<Xx>", "D", "o", "g"]
    assert [shape for shape in shown if shape in ("<x>", "<Xx>", "<XX>", "<9>")] == [
        *("<Xx>", "<XX>", "<Xx>", "<9>", "<Xx>", "<x>")
    ]
    assert tokenizer.decode(ids) == "Dog USA A 4x Éa <unk>a<unk>"
    assert (tokenizer.shapes, tokenizer.words, tokenizer.length(ids)) == (4, 6, 6)
    assert len(set(tokenizer.entries)) == len(tokenizer) == len(tokenizer.pieces)
    assert len(tokenizer.spans("Dog USA")) == len(tokenizer.encode(["Dog USA"])[0])
    tokenizer.save(tmp_path / "source.json")
    again = load(tmp_path / "source.json")
    assert (again.fingerprint, again.encode(["A b"])) == (tokenizer.fingerprint, tokenizer.encode(["A b"]))
    grown = tokenizer.extended(unit.learn(["Owl"]))
    assert grown.tokens(grown.encode(["Dog owl"])[0])[-5:-1] == ["<x>", "o", "w", "l"]
    with pytest.raises(DataError, match="words in pieces can be extended by their like alone"):
        tokenizer.extended(Spelled(Characters(), Symbols(lowercase=True)).learn(["owl"]))


def test_lists_of_phrases_follow_the_shapes(tmp_path: Path) -> None:
    """<s> <Xx> <city> <+city> Y o r k: the lists see the words around, and are no text."""
    for name, phrases in (("city", "New York\nYork\n\nParis"), ("name", "paris hilton\n")):
        (tmp_path / f"{name}.txt").write_text(phrases, encoding="utf-8")
    unit = Spelled(
        Characters(), Symbols(), shapes=True, lists={name: str(tmp_path / f"{name}.txt") for name in ("city", "name")}
    )
    tokenizer = unit.learn(["new York Paris Hilton in"])
    line = "in #New York Paris hilton Hilton"
    shown = tokenizer.tokens(tokenizer.encode([line])[0])
    named = {"<city>", "<+city>", "<name>", "<+name>"}
    listed, opening = list[set[str]](), {"<s>", *(f"<{word}>" for word in ("new", "York", "Paris", "Hilton", "in"))}
    for piece in shown:
        if piece in opening:
            listed.append(set())
        elif piece in named:
            listed[-1].add(piece)
    assert listed == [set(), {"<city>"}, {"<city>"}, {"<city>", "<name>"}, {"<+name>"}, set()]
    assert shown[shown.index("<York>") : shown.index("<Paris>")] == ["<York>", "<Xx>", "<city>", *"York"]
    (ids,) = tokenizer.encode([line])
    assert tokenizer.decode(ids) == "in <unk><unk>ew York Paris <unk>ilton Hilton"
    assert len(tokenizer.spans(line)) == len(ids)
    assert [line[start:end] for start, end in tokenizer.spans(line) if end > start] == [*line.replace(" ", "")]
    assert (tokenizer.length(ids), tokenizer.shapes, tokenizer.words) == (6, 4, 5)
    assert len(set(tokenizer.entries)) == len(tokenizer) == len(tokenizer.pieces)
    tokenizer.save(tmp_path / "source.json")
    for name in ("city", "name"):
        (tmp_path / f"{name}.txt").unlink()  # the run keeps the lists
    again = load(tmp_path / "source.json")
    assert (again.fingerprint, again.encode([line])) == (tokenizer.fingerprint, [ids])
    grown = tokenizer.extended(again)
    assert grown.encode([line]) == [ids]
    with pytest.raises(DataError, match="words in pieces can be extended by their like alone"):
        tokenizer.extended(Spelled(Characters(), Symbols(), shapes=True).learn([line]))


def test_words_of_a_question_are_marked_and_found_in_its_passage(tmp_path: Path) -> None:
    """<Who> <Xx> <question> W h o: a tab divides the two, and case and punctuation marks do not count."""
    (tmp_path / "name.txt").write_text("ann", encoding="utf-8")
    unit = Spelled(
        Characters(), Symbols(), shapes=True, lists={"name": str(tmp_path / "name.txt")}, about_passages=True
    )
    line = "Who wrote it ?\tAnn wrote this .\tIt ? is old"
    tokenizer = unit.learn([line])
    (ids,) = tokenizer.encode([line])
    shown, marks = tokenizer.tokens(ids), {"<question>", "<asked>", "<name>"}
    words: list[list[str]] = [[]]
    for piece in shown[:-1]:
        words += [[]] if piece.strip("<>") in line.split() and piece[0] == "<" else []
        words[-1] += [piece] if piece in marks else []
    assert words[1:] == [*[["<question>"]] * 4, ["<name>"], ["<asked>"], [], [], ["<asked>"], [], [], []]
    assert tokenizer.decode(ids) == tokenizer.normalize(line) == "Who wrote it ?\tAnn wrote this . It ? is old"
    assert len(tokenizer.spans(line)) == len(ids)
    assert len(set(tokenizer.entries)) == len(tokenizer) == len(tokenizer.pieces)
    tokenizer.save(tmp_path / "source.json")
    again = load(tmp_path / "source.json")
    assert (again.fingerprint, again.encode([line])) == (tokenizer.fingerprint, [ids])
    assert tokenizer.extended(again).encode([line]) == [ids]
    with pytest.raises(LineError, match="has no tab between a question and its passage"):
        tokenizer.encode(["Who ?"])
    with pytest.raises(DataError, match="words in pieces can be extended by their like alone"):
        tokenizer.extended(Spelled(Characters(), Symbols(), shapes=True).learn([line]))


def test_a_word_of_two_places_of_a_phrase_begins_it() -> None:
    assert PhraseLists({"x": ["a b", "b c"]}).found(["a", "b", "c"]) == [[0], [0], [1]]
    assert PhraseLists({"x": ["a"], "y": ["@A"]}).found(["a", "c"]) == [[0, 2], []]


def test_a_list_is_a_file_with_phrases(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n#\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"lists.city = .*empty.txt': there is no phrase in it"):
        Spelled(Characters(), lists={"city": str(tmp_path / "empty.txt")}).learn(["a"])
    with pytest.raises(DataError, match="no such file"):
        Spelled(Characters(), lists={"city": str(tmp_path / "none.txt")}).learn(["a"])


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
    from transduce.wings.signals.tokenizers.numbers import Numbers

    with pytest.raises(DataError, match="set pieces of the unit to characters"):
        Spelled(Numbers()).learn(["1 2"])


# --------------------------------------------------------------- known words


@pytest.fixture(scope="module")
def known() -> Tokenizer:
    """Only "the" occurs often enough to be a known word. "The" counts as the same word."""
    return Spelled(Characters(), Symbols(minimum_count=3, lowercase=True)).learn([LINE, "The cat"])


def test_a_known_word_has_a_mark_of_its_own(known: Tokenizer, tmp_path: Path) -> None:
    (ids,) = known.encode(["the dog The"])
    first = len(known) - 1
    assert known.words == 1
    assert [i for i in ids if i in (BOS, first)] == [first, BOS, first]
    assert known.tokens(ids) == ["<the>", *"the", "<s>", *"dog", "<the>", *"The", "</s>"]
    assert known.length(ids) == 3
    assert known.decode(ids) == "the dog The"
    assert [known.entries[first], known.pieces[first]] == [("word", "the"), ""]
    assert len(set(known.entries)) == len(known)
    assert len(known.spans("the dog")) == len(known.encode(["the dog"])[0])
    known.save(tmp_path / "source.json")
    again = load(tmp_path / "source.json")
    assert (again.fingerprint, again.words, again.encode([LINE])) == (known.fingerprint, 1, known.encode([LINE]))


def test_a_word_like_a_special_is_no_special() -> None:
    """Symbols are cut after the "<" of one, and half a word is no word."""
    tokenizer = Spelled(Characters(), Symbols()).learn(["a <unk> </s> a"])
    (ids,) = tokenizer.encode(["a <unk> </s>"])
    assert [token for token in tokenizer.tokens(ids) if len(token) > 1] == ["<a>", "<s>", "<s>", "</s>"]


def test_known_words_grow(known: Tokenizer, characters: Tokenizer) -> None:
    grown = known.extended(Spelled(Characters(), Symbols(lowercase=True)).learn(["a xylophone"]))
    assert set(grown.entries) > {*known.entries, ("word", "xylophone"), "x", "y"}
    assert grown.words == 3
    assert grown.tokens(grown.encode(["the xylophone"])[0])[:5] == ["<the>", *"the", "<xylophone>"]
    for one, other in ((known, characters), (characters, known)):
        with pytest.raises(DataError, match="extended by their like alone"):
            one.extended(other)


def test_known_words_are_symbols() -> None:
    inner = Spelled(Characters(), Symbols())
    with pytest.raises(DataError, match="known as wholes too, to symbols"):
        Spelled(Characters(), inner).learn(["a b"])
    with pytest.raises(DataError, match="leave words out of the unit"):
        Features(inner).learn(["PL\ta b"])


# --------------------------------------------------------------------- words

ROWS = [[BOS, 4, 5, 6, BOS, 7, EOS], [EOS], [BOS, 8, BOS, 4, 5, 6, EOS]]


def padded(rows: list[list[int]], width: int = 7, junk: int = PAD) -> Padded:
    values = torch.tensor([row + [junk] * (width - len(row)) for row in rows])
    return Padded(values, torch.tensor([len(row) for row in rows]))


MARKED = [[9, 4, 5, 6, BOS, 7, EOS], [EOS], [10, 8, 9, 4, 5, 6, EOS]]
"""The same, of which two words are known."""


def test_marks_of_known_words() -> None:
    source, known = padded(ROWS), padded(MARKED)
    found = words(known, 9)
    assert found.values[..., 0].tolist() == [[9, BOS, EOS], [EOS, PAD, PAD], [10, 9, EOS]]
    assert torch.equal(found.values[..., 1:], words(source, 9).values[..., 1:])
    for ours, theirs in zip(pieces(known, 9), pieces(source, 9), strict=True):
        assert torch.equal(ours.values, theirs.values)


def test_words_and_pieces_of_rows() -> None:
    for source in (padded(ROWS), padded(ROWS, 9, junk=BOS), padded(ROWS, 8, junk=9)):
        found = words(source, 9)
        assert found.lengths.tolist() == [3, 1, 3]
        closed = [BOS, 4, 5, 6, EOS]
        nothing, end = [PAD] * 5, [EOS, EOS, PAD, PAD, PAD]
        assert found.values.tolist() == [
            [closed, [BOS, 7, EOS, PAD, PAD], end],
            [end, nothing, nothing],
            [[BOS, 8, EOS, PAD, PAD], closed, end],
        ]
        unmarked, begins = pieces(source, 9)
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
        find(padded([[4, 5, EOS]]), 9)


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
    """Laws of row and padding: a row has the same output alone and in a batch, even if its padding contains junk."""
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
    vectors = embedding(words(padded(ROWS), 9).values)
    for row, place, word in ((0, 0, [4, 5, 6]), (0, 1, [7]), (2, 0, [8]), (2, 1, [4, 5, 6]), (1, 0, [])):
        memory = embedding.encoder(padded([[*word, EOS]], len(word) + 1))
        last = torch.cat([leaf[0] for layer in memory.summary for leaf in layer])
        assert_close(vectors[row, place], embedding.projection.weight @ last + embedding.projection.bias)


def embedding(facts: Facts, **options: Any) -> Any:
    """One of words, of 6 numbers each."""
    table = {"type": "bag", "width": 6, "embedding": CHARACTERS | options}
    bag: Any = config.build(table, Encoder, facts, "encoder")
    return bag.embedding.eval()


def test_a_known_word_is_beside_its_characters() -> None:
    """A known word's vector joins its own embedding and the vector of its characters. All unknown words share one
    embedding in the first part."""
    ours = embedding(Facts(source_vocabulary=9, target_vocabulary=11, source_words=2), word_width=2)
    found = ours.embed(padded(MARKED))
    assert found.lengths.tolist() == [3, 1, 3]
    own, spelled = found.values.split([2, 4], -1)
    for row, place, word in ((0, 0, 1), (0, 1, 0), (0, 2, 0), (1, 0, 0), (2, 0, 2), (2, 1, 1)):
        assert_close(own[row, place], ours.known.weight[word])
    ours.known = None
    assert_close(spelled, ours.embed(padded(MARKED)).values)
    assert_close(spelled, ours.embed(padded(ROWS)).values)


def test_words_are_dropped_in_training_alone() -> None:
    """A dropped word is an unknown one."""
    words = KnownWords(2, 9, 3, dropout=0.5)
    torch.manual_seed(1)
    marks = torch.tensor([9, 10, EOS, BOS]).repeat(200, 1)
    dropped = (words(marks) == words.weight[0]).all(-1).double().mean(0)
    assert dropped.tolist() == pytest.approx([0.5, 0.5, 1, 1], abs=0.1)
    assert not torch.equal(words(marks), words(marks))
    assert torch.equal(words.eval()(marks), words.weight[[1, 2, 0, 0]].repeat(200, 1, 1))


@pytest.mark.parametrize(
    ("facts", "options", "message"),
    [
        (FACTS, {"word_width": 3}, r'3, of 6, for a source that knows 0 .* data\.units\.source\.words to "symbols"'),
        (KNOWN, {}, "word_width = 0, of 6, for a source that knows 5 whole words"),
        (KNOWN, {"word_width": 6}, "word_width to less than the whole"),
        (KNOWN, {"word_width": 3, "word_dropout": 1.0}, r"word_dropout = 1\.0: a probability"),
    ],
)
def test_what_does_not_go_together_is_told(facts: Facts, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        embedding(facts, **options)


def test_a_model_without_vectors_for_known_words_is_told() -> None:
    plain: Any = {"type": "tagger", "encoder": RECURRENT}
    check_words(config.resolve(plain, Model, FACTS), FACTS)
    with pytest.raises(ValueError, match=r"data\.units\.source\.words: .* 5 words known as wholes, and nothing"):
        check_words(config.resolve(plain, Model, KNOWN), KNOWN)
    known = plain | {"encoder": RECURRENT | {"embedding": CHARACTERS | {"word_width": 3}}}
    check_words(config.resolve(known, Model, KNOWN), KNOWN)


def test_the_first_piece_answers_for_its_word() -> None:
    model = build({"type": "tagger", "encoder": ENCODERS["first piece"]})
    memory = model.encoder(padded(ROWS[:1]))
    inner = model.encoder.encoder(padded([[4, 5, 6, 7, EOS]], 5))
    assert_close(memory.states.values[0], inner.states.values[0, [0, 3, 4]])
    assert model.encoder.embedding is model.encoder.encoder.embedding
