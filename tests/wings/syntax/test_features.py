"""Features before a text: the unit, its vocabulary, and its preparation."""

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
from transduce.wings.syntax.tokenizers.features import Features

LINES = ["V;PST;3\tsing on", "V;PRS\tV", "\tsing", "N\t"]


@pytest.fixture(params=[Characters(), Words(), Bpe(size=60), Bytes()], ids=lambda unit: type(unit).__name__)
def unit(request):
    return Features(request.param)


def test_a_feature_is_a_symbol_and_the_text_is_as_it_was(unit):
    tokenizer, text = unit.learn(iter(LINES)), unit.text.learn(line.split("\t")[1] for line in LINES)
    assert len(tokenizer) == len(text) + 5  # V, 3, N, PRS, PST
    assert (tokenizer.labels, tokenizer.columns, text.columns) == (0, 2, 1)
    for line, ids, count in zip(LINES, tokenizer.encode(LINES), (3, 2, 0, 1), strict=True):
        assert ids[count:] == text.encode([line.split("\t")[1]])[0]
        assert all(i >= len(text) for i in ids[:count])
        assert tokenizer.decode(ids) == line == tokenizer.normalize(line)
    assert tuple(tokenizer.tokens(range(4))) == SPECIALS
    first = tokenizer.encode(LINES)[0]
    assert tokenizer.tokens(first)[:3] == ["<V>", "<PST>", "<3>"]
    assert tokenizer.tokens(first)[-1] == SPECIALS[EOS]


def test_a_letter_spelled_like_a_feature_is_a_letter():
    tokenizer = Features(Characters()).learn(["V;V\tV"])
    (ids,) = tokenizer.encode(["V;V\tV"])
    assert ids[0] == ids[1] != ids[2]
    assert tokenizer.tokens(ids) == ["<V>", "<V>", "V", "</s>"]


@given(st.lists(st.tuples(st.lists(st.text("ab <>é", min_size=1)), st.text("ab \té;"))))
def test_round_trip(pairs):
    lines = [f"{';'.join(features)}\t{text}" for features, text in pairs]
    tokenizer = Features(Characters()).learn(lines)
    assert [tokenizer.decode(ids) for ids in tokenizer.encode(lines)] == lines


def test_the_separator_is_a_choice():
    tokenizer = Features(Characters(), separator=" + ").learn(["V + PST\ta"])
    assert tokenizer.tokens(tokenizer.encode(["PST + V\ta"])[0]) == ["<PST>", "<V>", "a", "</s>"]
    for separator in ("", "\t"):
        with pytest.raises(DataError, match=r"separator = .*something other than a tab"):
            Features(Characters(), separator=separator)


def test_a_feature_never_met_or_too_rare_is_unknown():
    tokenizer = Features(Characters(), minimum_count=2).learn(["V;PST\tx", "V;PRS\tx"])
    (ids,) = tokenizer.encode(["DU;V;PST\tx"])
    assert [i == UNK for i in ids] == [True, False, True, False, False]
    assert tokenizer.decode(ids[:2]) == "<unk>;V\t"


def test_features_are_compared_composed():
    tokenizer = Features(Characters()).learn(["e\u0301;B\tx"])
    assert UNK not in tokenizer.encode(["\u00e9\tx"])[0]
    assert tokenizer.normalize("e\u0301\tx") == "\u00e9\tx"


def test_a_line_without_features_is_quoted():
    unit = Features(Characters())
    for fails in (lambda: unit.learn(["V\tx", "sing"]), lambda: unit.learn(["V\tx"]).encode(["V\tx", "sing"])):
        with pytest.raises(LineError, match=r"'sing' has no tab: expected features, a tab and the text; .*columns"):
            fails()


def test_saved_and_loaded_it_is_the_same(tmp_path):
    tokenizer = Features(Characters(), separator="|").learn(["V|PST\tab", "N\tb"])
    tokenizer.save(tmp_path / "t.json")
    loaded = load(tmp_path / "t.json")
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.fingerprint != Features(Characters()).learn(["V\tab", "N\tb"]).fingerprint
    assert loaded.encode(["N|V\tba"]) == tokenizer.encode(["N|V\tba"])


def test_an_extended_vocabulary_knows_the_features_and_the_text_of_both():
    old = Features(Characters()).learn(["V;PST\tab"])
    extended = old.extended(Features(Characters()).learn(["N;V\tac"]))
    features = [("feature", name) for name in ("PST", "V", "N")]
    assert extended.entries == (*SPECIALS, "a", "b", "c", *features)
    for line in ("V;PST\tab", "N;V\tac"):
        assert extended.decode(extended.encode([line])[0]) == line
    for other in (Features(Characters(), separator=",").learn(["V\ta"]), Characters().learn(["a"])):
        with pytest.raises(DataError, match="separated by ';' and a text can be extended by their like alone"):
            old.extended(other)


def test_ids_of_another_vocabulary_are_refused():
    tokenizer = Features(Characters()).learn(["V\ta"])
    for read in (tokenizer.decode, tokenizer.tokens):
        with pytest.raises(DataError, match="id 6 is not in a vocabulary of 6"):
            read([6])


def data_of(folder: Path, text: str) -> Data:
    """Data with the columns lemma, features and form, like the shared tasks on inflection."""
    (folder / "train.tsv").write_text(text, encoding="utf-8")
    units = Units(source=Features(Characters()), target=Characters())
    return Data(units, train=Files(path=str(folder / "train.tsv")), columns=ColumnNames(0, 2, labels=(1,)))


def test_features_go_through_preparation(tmp_path):
    data = data_of(tmp_path, "sing\tV;PST\tsang\nox\tN;PL\toxen\n")
    prepared = prepare(data, tmp_path / "cache")
    rows = prepared.train.batch([0, 1]).source
    read = [prepared.source_tokenizer.decode(row.tolist()) for row in rows.values]
    assert read == ["V;PST\tsing", "N;PL\tox"]
    assert prepared.facts.source_vocabulary == 4 + 6 + 4  # specials, letters, features
    prepared.tokenizers.save(tmp_path)
    assert Tokenizers.load(tmp_path).source.fingerprint == prepared.source_tokenizer.fingerprint
    given = examples(replace(data, test=data.train), "test", tmp_path / "cache")
    assert [(example.source, example.references) for example in given] == [(read[0], ("sang",)), (read[1], ("oxen",))]


def test_a_line_without_features_is_told_by_file_and_line(tmp_path):
    (tmp_path / "s").write_text("V\tx\nz\n")
    (tmp_path / "t").write_text("x\nz\n")
    train = Files(source=str(tmp_path / "s"), target=str(tmp_path / "t"))
    data = replace(data_of(tmp_path, ""), train=train, columns=None)
    with pytest.raises(DataError, match=r"s:2: 'z' has no tab"):
        prepare(data, tmp_path / "cache")
