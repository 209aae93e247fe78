"""Labels before a text: the units, their vocabularies, and their preparation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.core.types import EOS, SPECIALS, UNK
from transduce.data.corpora import ColumnNames, DataError, Files, LineError
from transduce.data.preparation import Tokenizers, examples, prepare
from transduce.data.settings import Data, Units
from transduce.data.tokenizers.storage import load
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Words
from transduce.wings.labels.tokenizer import Labelled, Labels
from transduce.wings.syntax.tokenizers.features import Features

LINES = ["4\tnoir\tgreat film", "4\tfarce\tfilm", "1\tnoir\t</s> <4>", "4\t4\t"]


@pytest.fixture(params=[Characters(), Words(), Bpe(size=60), Bytes()], ids=lambda unit: type(unit).__name__)
def unit(request):
    return Labelled(request.param, labels=2)


def test_a_label_is_a_symbol_and_the_text_is_as_it_was(unit):
    tokenizer, text = unit.learn(iter(LINES)), unit.text.learn(line.split("\t")[2] for line in LINES)
    assert len(tokenizer) == len(text) + 2 + 3  # 4, 1; noir, 4, farce
    assert (tokenizer.columns, text.columns) == (3, 1)
    for line, ids in zip(LINES, tokenizer.encode(LINES), strict=True):
        assert ids[2:] == text.encode([line.split("\t")[2]])[0]
        assert min(ids[:2]) >= len(text)
        assert tokenizer.decode(ids) == line == tokenizer.normalize(line)
    assert tuple(tokenizer.tokens(range(4))) == SPECIALS
    first = tokenizer.encode(LINES)[0]
    assert tokenizer.tokens(first)[:2] == ["<4>", "<noir>"]
    assert tokenizer.tokens(first)[-1] == SPECIALS[EOS]


def test_units_within_units_are_saved_and_extended(tmp_path):
    """The unit has two labels, features, another label and letters. A saved tokenizer can be loaded and extended."""
    unit = Labelled(Features(Labelled(Characters())), labels=2)
    tokenizer = unit.learn(["en\tnoir\tV;PST\tA\tsang"])
    tokenizer.save(tmp_path / "nested.json")
    loaded = load(tmp_path / "nested.json")
    line = "de\tnoir\tN;PL\tA\tb"
    assert loaded.fingerprint == tokenizer.fingerprint
    grown = loaded.extended(unit.learn([line]))
    assert grown.decode(grown.encode([line])[0]) == line


def test_columns_and_text_have_vocabularies_of_their_own():
    tokenizer = Labelled(Words(), labels=2).learn(["4\t4\t4 4", "4\t4\t4"])
    (ids,) = tokenizer.encode(["4\t4\t4"])
    assert len(set(ids)) == 4
    assert tokenizer.tokens(ids) == ["<4>", "<4>", "▁4", "</s>"]


@given(st.lists(st.tuples(st.text("ab <>/é"), st.text("ab \té"))))
def test_round_trip(pairs):
    lines = [f"{label}\t{text}" for label, text in pairs]
    tokenizer = Labelled(Characters()).learn(lines)
    assert [tokenizer.decode(ids) for ids in tokenizer.encode(lines)] == lines


def test_a_label_never_met_or_too_rare_is_unknown():
    tokenizer = Labelled(Characters(), minimum_count=2).learn(["a\tx", "a\ty", "b\tx"])
    known, rare, new = tokenizer.encode(["a\tx", "b\tx", "c\tx"])
    assert known[0] != UNK == rare[0] == new[0]
    assert rare == new
    assert tokenizer.decode(new) == "<unk>\tx"


def test_labels_are_compared_composed():
    tokenizer = Labels().learn(["e\u0301te\u0301"])
    assert tokenizer.encode(["été"])[0][0] != UNK
    assert tokenizer.normalize("e\u0301") == "é"


def test_labels_alone():
    tokenizer = Labels(2).learn(["sport\tvery good", "arts\tbad"])
    ids = tokenizer.encode(["arts\tvery good"])[0]
    assert (len(ids), tokenizer.columns) == (3, 2)
    assert ids[-1] == EOS
    assert tokenizer.decode(ids) == "arts\tvery good" == tokenizer.normalize("arts\tvery good")
    assert tokenizer.tokens(ids)[1] == "<very▁good>"
    assert len(tokenizer) == 4 + 2 + 2


@pytest.mark.parametrize(
    ("unit", "line", "message"),
    [
        (Labelled(Characters()), "great film", "'great film' has 1 tab-separated field, expected 1 label and the text"),
        (Labelled(Characters(), 2), "4\tfilm", "2 tab-separated fields, expected 2 labels and the text"),
        (Labels(2), "sport", "has 1 tab-separated field, expected 2 labels alone"),
        (Labels(1), "sport\tgood", "has 2 tab-separated fields, expected 1 label alone"),
    ],
)
def test_too_few_fields_quote_the_line(unit, line, message):
    good = "\t".join("abc"[: unit.labels + isinstance(unit, Labelled)])
    for fails in (lambda: unit.learn([good, line]), lambda: unit.learn([good]).encode([good, line])):
        with pytest.raises(LineError, match=message):
            fails()


@pytest.mark.parametrize("unit", [Labelled(Characters(), 2), Labels(3)], ids=["labelled", "labels"])
def test_saved_and_loaded_it_is_the_same(unit, tmp_path):
    tokenizer = unit.learn(LINES)
    tokenizer.save(tmp_path / "t.json")
    loaded = load(tmp_path / "t.json")
    assert loaded.fingerprint == tokenizer.fingerprint != unit.learn(LINES[:2]).fingerprint
    assert len(loaded) == len(tokenizer)
    assert loaded.encode(LINES) == tokenizer.encode(LINES)
    assert loaded.decode(loaded.encode(LINES)[0]) == LINES[0]


def test_text_without_labels_is_loaded_too_and_other_files_are_not(tmp_path):
    text = Characters().learn(["abc"])
    text.save(tmp_path / "t.json")
    assert load(tmp_path / "t.json").fingerprint == text.fingerprint
    for other in ("[", "[]", '{"labels": [["a"]]}'):
        (tmp_path / "t.json").write_text(other)
        with pytest.raises(DataError, match=r"t\.json is not a tokenizer"):
            load(tmp_path / "t.json")
    with pytest.raises(DataError, match=r"nowhere\.json"):
        load(tmp_path / "nowhere.json")


def test_ids_of_another_vocabulary_are_refused():
    tokenizer = Labels().learn(["a"])
    for read in (tokenizer.decode, tokenizer.tokens):
        with pytest.raises(DataError, match="id 5 is not in a vocabulary of 5"):
            read([5])


@pytest.mark.parametrize("make", [lambda: Labels(0), lambda: Labelled(Characters(), 0)])
def test_units_of_labels_have_some(make):
    with pytest.raises(DataError, match="labels = 0: at least one column"):
        make()


# --------------------------------------------------------------- preparation


def data_of(folder: Path, lines: list[str]) -> Data:
    path = folder / "train.tsv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    units = Units(source=Labelled(Characters()), target=Characters())
    return Data(units, train=Files(path=str(path)), columns=ColumnNames(1, 2, labels=(0,)))


def test_labels_go_through_preparation(tmp_path):
    data = data_of(tmp_path, ["good\tab\tx", "bad\tab\ty", "good\t\tz"])
    prepared = prepare(data, tmp_path / "cache")
    rows = prepared.train.batch([0, 1, 2]).source
    read = [prepared.source_tokenizer.decode(row.tolist()) for row in rows.values]
    assert read == ["good\tab", "bad\tab", "good\t"]  # the text may be empty, but the source has its label
    assert prepared.facts.source_vocabulary == 4 + 2 + 2
    prepared.tokenizers.save(tmp_path)
    assert Tokenizers.load(tmp_path).source.fingerprint == prepared.source_tokenizer.fingerprint
    given = [example.source for example in examples(replace(data, test=data.train), "test", tmp_path / "cache")]
    assert given == read


def test_a_line_without_its_labels_is_told_by_file_and_line(tmp_path):
    (tmp_path / "s").write_text("a\tx\nb\ty\nz\n")
    (tmp_path / "t").write_text("x\ny\nz\n")
    data = replace(
        data_of(tmp_path, []), train=Files(source=str(tmp_path / "s"), target=str(tmp_path / "t")), columns=None
    )
    with pytest.raises(DataError, match=r"s:3: 'z' has 1 tab-separated field.*data\.columns\.labels"):
        prepare(data, tmp_path / "cache")
    (tmp_path / "s").write_text("a\tx\nb\ty\nc\tz\n")
    with pytest.raises(DataError, match=r"t:1: 'x' has 1 tab-separated field"):
        prepare(replace(data, units=Units(joint=Labelled(Characters()))), tmp_path / "cache")


def test_an_extended_vocabulary_knows_the_labels_and_the_text_of_both():
    old = Labelled(Characters(), labels=2).learn(["x\ty\tab", "y\ty\ta"])
    extended = old.extended(Labelled(Characters(), labels=2).learn(["y\tz\tac"]))
    columns = [(0, "x"), (0, "y"), (1, "y"), (1, "z")]
    assert extended.entries == (*SPECIALS, "a", "b", "c", *columns)
    assert len(set(extended.entries)) == len(extended)
    for line in ("x\ty\tab", "y\tz\tac"):
        assert extended.decode(extended.encode([line])[0]) == line
    alone = Labels(labels=2).learn(["x\ty"]).extended(Labels(labels=2).learn(["x\tz"]))
    assert alone.entries == (*SPECIALS, (0, "x"), (1, "y"), (1, "z"))


def test_labels_are_extended_by_as_many_labels_alone():
    old = Labelled(Characters(), labels=2).learn(["x\ty\tab"])
    for other in (Labelled(Characters()).learn(["x\ta"]), Labels(2).learn(["x\ty"]), Characters().learn(["a"])):
        with pytest.raises(DataError, match=r"2 columns of labels.*the same units"):
            old.extended(other)
