from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import unicodedata
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK
from transduce.data.corpora import DataError
from transduce.data.tokenizers.panics import panics_as_errors
from transduce.data.tokenizers.storage import load
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Symbols, Unigram, Words

ALPHABET = "abcdeAÉéß .,-!'()<>/▁日本\u0301\u2028"
WORDS = ["the", "The", "cat", "sat", "Straße", "日本", "e\u0301te\u0301", "don't", "a-b", "(", "."]
CORPUS = [*ALPHABET, ALPHABET, *WORDS, *(f"the cat sat {word} on, the  mat." for word in WORDS), "</s> <pad> <s><unk>"]
UNITS = [Characters(), Words(), Symbols(), Bpe(size=90, minimum_count=1), Unigram(size=90), Bytes()]
NORMALISED = [
    unit(normalisation=form, **options)  # type: ignore[operator]
    for form in ("none", "NFD", "NFKC")
    for unit, options in [(Characters, {}), (Words, {}), (Symbols, {}), (Bytes, {}), (Unigram, {"size": 120})]
] + [Bpe(120, normalisation="NFD", minimum_count=1)]
LOWER = [Characters(lowercase=True), Words(lowercase=True), Bpe(size=90, lowercase=True), Unigram(80, lowercase=True)]


def name(unit: object) -> str:
    return type(unit).__name__


@pytest.fixture(scope="module", params=UNITS, ids=name)
def unit(request):
    return request.param


@pytest.fixture(scope="module")
def tokenizer(unit):
    return unit.learn(iter(CORPUS))


def test_specials_have_the_same_ids_everywhere(tokenizer):
    assert tuple(tokenizer.tokens(range(4))) == SPECIALS
    assert tokenizer.encode(["the cat", ""])[1] == [EOS]
    assert all(ids[-1] == EOS and ids.count(EOS) == 1 for ids in tokenizer.encode(CORPUS))


def text_for(unit: object, draw: st.DataObject) -> str:
    """Any text over characters, pieces or symbols the tokenizer has met."""
    if isinstance(unit, Bytes):
        return draw.draw(st.text(st.characters(exclude_categories=["Cs"])))
    if isinstance(unit, Symbols):
        return draw.draw(st.lists(st.sampled_from([*WORDS, " ", "\t"])).map(" ".join))
    if isinstance(unit, Words):
        return draw.draw(
            st.lists(st.sampled_from([f" {w}" for w in ("the", "cat", "sat", "(")] + list(".,"))).map("".join)
        )
    return draw.draw(st.text(st.sampled_from(unicodedata.normalize("NFC", ALPHABET))))


@settings(max_examples=60, deadline=None)
@given(draw=st.data())
def test_a_round_trip_returns_the_normalized_text(unit, tokenizer, draw):
    text = text_for(unit, draw)
    ids = tokenizer.encode([text])[0]
    if UNK not in ids:  # a mark may have been composed with a letter into one never met
        assert tokenizer.decode(ids) == tokenizer.normalize(text)
        assert set(ids[:-1]).isdisjoint({PAD, BOS, EOS})


def test_normalization_is_what_is_declared(unit, tokenizer):
    text = " e\u0301  the▁cat\t"
    kept = unicodedata.normalize("NFC", text)
    expected = {
        Characters: kept,
        Words: kept.replace("▁", " "),
        Bpe: kept.replace("▁", " "),
        Unigram: kept.replace("▁", " "),
        Symbols: "é the▁cat",
        Bytes: text,
    }
    assert tokenizer.normalize(text) == expected[type(unit)]
    assert tokenizer.normalize("") == tokenizer.decode([]) == ""


@pytest.mark.parametrize("text", ["", " ", "  the", "the ", " the  cat ", "the cat sat .", ".", " ."])
def test_spaces_survive(unit, tokenizer, text):
    expected = " ".join(text.split()) if isinstance(unit, Symbols) else text
    decoded = tokenizer.decode(tokenizer.encode([text])[0])
    if isinstance(unit, Words):  # where a space alone was never met, it is unknown
        decoded = decoded.replace(" <unk>", " ")
    assert decoded == expected


@pytest.mark.parametrize("unit", LOWER, ids=name)
def test_lower_case(unit):
    tokenizer = unit.learn(CORPUS)
    assert tokenizer.decode(tokenizer.encode(["The CAT"])[0]) == "the cat" == tokenizer.normalize("The CAT")


@pytest.mark.parametrize("text", ["</s>", "<pad>", "a<s>b", "x </s>", "<unk>", "<</s>>", "</s></s>", "▁</s>"])
def test_text_never_becomes_a_special(unit, text):
    tokenizer = unit.learn([*CORPUS, *[text] * 50])
    ids = tokenizer.encode([text])[0]
    assert set(ids[:-1]).isdisjoint({PAD, BOS, EOS, UNK})
    if not isinstance(unit, Symbols):  # which cut it after the "<", as they say
        assert tokenizer.decode(ids) == tokenizer.normalize(text)


def test_decoding_drops_specials_wherever_they_stand_but_shows_unknowns(unit, tokenizer):
    ids = tokenizer.encode(["the cat"])[0]
    assert tokenizer.decode([BOS, EOS, *ids, PAD, EOS]) == "the cat"
    assert "<unk>" in tokenizer.decode([*ids, UNK])


def test_unknown_words_keep_their_spaces():
    tokenizer = Words().learn(["the cat sat"])
    assert tokenizer.decode(tokenizer.encode(["the dog sat"])[0]) == "the <unk> sat"


def test_ids_of_another_vocabulary_are_refused(tokenizer):
    with pytest.raises(DataError, match=rf"id {len(tokenizer)} is not in a vocabulary of {len(tokenizer)}"):
        tokenizer.decode([len(tokenizer)])
    with pytest.raises(DataError, match="id -1"):
        tokenizer.tokens([-1])


def test_saved_and_loaded_it_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "t.json")
    loaded = load(tmp_path / "t.json")
    assert loaded.fingerprint == tokenizer.fingerprint
    assert len(loaded) == len(tokenizer)
    assert loaded.encode(CORPUS) == tokenizer.encode(CORPUS)  # "</s>" in the text stays text


def test_fingerprints_tell_vocabularies_apart():
    assert Characters().learn(["ab"]).fingerprint != Characters().learn(["abc"]).fingerprint


def test_files_that_are_no_tokenizer_are_refused(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        load(tmp_path / "nowhere.json")
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(DataError, match=r"t\.json is not a tokenizer"):
        load(tmp_path / "t.json")
    tokenizer = Characters().learn(["abc"])
    tokenizer.save(tmp_path / "t.json")
    (tmp_path / "t.json").write_text((tmp_path / "t.json").read_text().replace("<pad>", "[PAD]"))
    with pytest.raises(DataError, match="ids 0 to 3"):
        load(tmp_path / "t.json")


def test_limits_keep_the_most_frequent():
    texts = ["a a a b b c"]
    assert Symbols(size=5).learn(texts).tokens([4]) == ["a"]
    assert len(Symbols(minimum_count=2).learn(texts)) == 4 + 2
    assert len(Characters(size=6).learn(texts)) == 6
    assert len(Words(minimum_count=3).learn(texts)) == 4 + 1
    assert len(Bytes().learn(iter(()))) == 4 + 256
    assert len(Bpe(size=30).learn(["ab ab ab"])) == 4 + len("▁ab") + len(["ab", "▁ab"])


def test_impossible_sizes_are_refused_with_the_way_out():
    for unit in (Bpe(size=10), Unigram(size=10), Words(size=4)):
        with pytest.raises(DataError, match=r"of size \d+ cannot hold this text.*make size larger"):
            unit.learn(CORPUS)
    assert len(Bpe(size=16, alphabet=8).learn(CORPUS)) <= 16


@pytest.mark.parametrize("count", [-1, 2**70])
def test_what_is_no_count_is_refused(count):
    for unit in (Characters, Words, Symbols, Bpe, Unigram):
        for name in {field.name for field in fields(unit)} & {"size", "minimum_count", "alphabet"}:
            with pytest.raises(DataError, match=f"{name} = {count}: expected 0 to"):
                unit(**{name: count})


@pytest.mark.parametrize("endless", ["ab", ".,"])
def test_a_word_without_end_is_learned_in_parts_and_read_as_a_whole(endless):
    whole = Bpe(size=90).learn([*CORPUS, "abab", ".,.,"])
    tokenizer = Bpe(size=90).learn([*CORPUS, "abab", ".,.,", endless * 2_000])
    assert max(map(len, tokenizer.entries)) <= 1_000 + len("▁")
    assert tokenizer.as_json()["pre_tokenizer"] == whole.as_json()["pre_tokenizer"]
    assert tokenizer.decode(tokenizer.encode([endless * 2_000])[0]) == endless * 2_000


LEARN = """
from transduce.data.tokenizers.text import *
words = ["".join(chr(97 + (n * k) % 26) for k in range(1, 2 + n % 7)) for n in range(400)]
texts = [" ".join(words[n : n + 6]) + chr(192 + n % 60) for n in range(390)]
for unit in (Characters(), Words(), Symbols(), Bpe(size=300), Unigram(size=300)):
    print(unit.learn(iter(texts)).fingerprint)
"""


@pytest.mark.slow
def test_learning_is_the_same_in_every_process(monkeypatch):
    """In this process, whose hashes of strings are random, and in another."""
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(LEARN, {})
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    there = subprocess.run([sys.executable, "-c", LEARN], capture_output=True, text=True, check=True)
    assert there.stderr == ""  # no progress bars
    assert there.stdout == here.getvalue()


# ----------------------------------------------------------------- vocabularies


def test_no_two_ids_stand_for_the_same(tokenizer):
    assert len(set(tokenizer.entries)) == len(tokenizer.entries) == len(tokenizer)
    assert tokenizer.entries[:4] == SPECIALS


@pytest.mark.parametrize("unit", [Characters(), Words(), Symbols(), Bytes()], ids=name)
def test_an_extended_vocabulary_reads_both_texts_and_keeps_its_ids(unit):
    old, more = unit.learn(["a b", "b c"]), ["b d", "ü a"]
    extended = old.extended(unit.learn(more))
    assert extended.entries[: len(old)] == old.entries
    assert set(extended.entries) == {*old.entries, *unit.learn(more).entries}
    assert extended.encode(["a b", "b c"]) == old.encode(["a b", "b c"])
    assert [extended.decode(ids) for ids in extended.encode(more)] == more
    assert old.extended(old).fingerprint == old.fingerprint


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (Bpe(size=90), "cut text in different ways.*the same units"),
        (Words(), "cut text in different ways.*the same units"),
        (Characters(lowercase=True), "cut text in different ways"),
    ],
    ids=["bpe", "words", "lowercase"],
)
def test_a_vocabulary_that_cannot_be_extended_says_why(unit, message):
    with pytest.raises(DataError, match=message):
        unit.learn(CORPUS).extended(Characters().learn(CORPUS))


@pytest.mark.parametrize("unit", [Characters(), Words(), Symbols(), Bpe(40)])
def test_half_a_character_is_refused(unit):
    with pytest.raises(DataError, match=r"'a\\ud83d': '\\ud83d' is half of a surrogate pair"):
        unit.learn(["abc abd"]).encode(["b", "a\ud83d"])


# ---------------------------------------------------------------- normalisation

SCRIPTS = "한국어 각 Ünïcödé e\u0301te\u0301 ﬁn ① Å ß"


@pytest.mark.parametrize("unit", NORMALISED, ids=lambda unit: f"{name(unit)}-{unit.normalisation}")
def test_a_round_trip_returns_the_declared_form(unit, tmp_path):
    """Korean and Latin accents, composed and decomposed; also when the tokenizer was saved and loaded."""
    texts = [form(SCRIPTS) for form in (str, lambda text: unicodedata.normalize("NFD", text))]
    tokenizer = unit.learn([*texts, *CORPUS])
    tokenizer.save(tmp_path / "t.json")
    loaded = load(tmp_path / "t.json")
    for text in texts:
        expected = text if unit.normalisation == "none" else unicodedata.normalize(unit.normalisation, text)
        assert tokenizer.normalize(text) == loaded.normalize(text) == expected
        ids = tokenizer.encode([text])
        assert loaded.encode([text]) == ids
        assert UNK not in ids[0]
        assert tokenizer.decode(ids[0]) == expected


def test_korean_letters_are_tokens_of_their_own():
    syllables, letters = (Characters(normalisation=form).learn(["각하"]) for form in ("NFC", "NFD"))
    assert syllables.tokens(syllables.encode(["각하"])[0])[:-1] == ["각", "하"]
    assert letters.tokens(letters.encode(["각하"])[0])[:-1] == [*unicodedata.normalize("NFD", "각하")]
    assert letters.spans("각하") == [(0, 1), (0, 1), (0, 1), (1, 2), (1, 2), (2, 2)]
    assert UNK not in letters.encode(["학"])[0]  # a syllable that was not in training, of known letters
    assert UNK in syllables.encode(["학"])[0]


def test_lower_case_is_folded_in_any_form():
    for form in ("none", "NFC", "NFD", "NFKC"):
        tokenizer = Bytes(normalisation=form, lowercase=True).learn([])
        assert unicodedata.normalize("NFC", tokenizer.normalize("ÉİA")) == unicodedata.normalize("NFC", "ÉİA".lower())


def test_lower_case_is_composed_again():
    """J with a caron has no code point of its own, and stays two; j with a caron has one."""
    tokenizers = (Bytes(normalisation=form, lowercase=True).learn([]) for form in ("none", "NFC", "NFD"))
    assert [tokenizer.normalize("J\u030c") for tokenizer in tokenizers] == ["j\u030c", "\u01f0", "j\u030c"]


def test_forms_that_unicode_does_not_have_are_refused():
    with pytest.raises(DataError, match="normalisation = 'NFX': expected one of none, NFC, NFD, NFKC"):
        Characters(normalisation="NFX")


def test_an_expensive_regular_expression_ends_in_a_line(tmp_path, capfd):
    tokenizer = Characters().learn(["ab"])
    tokenizer.save(tmp_path / "t.json")
    record = json.loads((tmp_path / "t.json").read_text())
    record["pre_tokenizer"]["pattern"] = {"Regex": "(a+)+b|(a|a)*c$"}
    (tmp_path / "t.json").write_text(json.dumps(record))
    expensive = load(tmp_path / "t.json")
    for read in (lambda text: expensive.encode([text]), expensive.spans):
        with pytest.raises(DataError, match="regular expression that needs too many steps, so learn the vocabulary"):
            read("a" * 40_000 + "d")
    assert capfd.readouterr().err == ""  # the library prints a backtrace of its own
    with panics_as_errors(silent=True):
        os.write(2, b"of another thread")
    assert capfd.readouterr().err == "of another thread"
    (tmp_path / "t.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="nested too deep"):
        load(tmp_path / "t.json")


def test_the_words_of_a_file_are_always_there(tmp_path):
    file = tmp_path / "words.vec"
    file.write_bytes("Été 0.5 -1\n\nb\n_ 1 2\n".encode())
    tokenizer = Symbols(missing="_", minimum_count=2, lowercase=True, always_in=file).learn(["a a c"])
    assert set(tokenizer.entries[len(SPECIALS) :]) == {"a", "été", "b"}
    file.write_bytes(b"\xff 1\n")
    with pytest.raises(DataError, match=r"words.vec:1: byte 0xff at 0 is not UTF-8"):
        Symbols(always_in=file).learn(["a"])
    with pytest.raises(DataError, match="absent"):
        Symbols(always_in=tmp_path / "absent").learn(["a"])


def test_a_symbol_for_what_is_missing_and_symbols_that_are_always_there():
    tokenizer = Symbols(missing="_", always=("X", "a"), minimum_count=2).learn(["a _ b _", "b"])
    assert sorted(tokenizer.entries[4:]) == ["X", "a", "b"]
    assert tokenizer.encode(["_ b"]) == [[UNK, tokenizer.encode(["b"])[0][0], EOS]]
    for options, expected in (
        ({"missing": "a b"}, "missing has 'a b': one symbol without white space"),
        ({"always": ("",)}, "always has '': one symbol"),
        ({"missing": "_", "always": ("_",)}, "always has '_', which is missing"),
    ):
        with pytest.raises(DataError, match=expected):
            Symbols(**options)
