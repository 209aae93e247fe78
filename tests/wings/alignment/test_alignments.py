"""Alignments of outputs with their sources: batches against single sources, words of several tokens against a second
computation, unknown words by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from families import FAMILIES, PARALLEL, build
from transduce.answers.answer import Answer, Output
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.types import UNK
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.base import Tokenizer, Unit
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Symbols, Words
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.wings.alignment.attention_weights import AttentionChoice, attention_weights
from transduce.wings.alignment.readings import Reading, check_unknowns, readings
from transduce.wings.alignment.sides import Side, words_of
from transduce.wings.alignment.token_alignment import TokenAlignment
from transduce.wings.labels.tokenizer import LabelledTokenizer
from transduce.wings.looking.inspection.attention import attention
from transduce.wings.syntax.tokenizers.factors import FactoredTokenizer
from transduce.wings.syntax.tokenizers.features import FeaturesTokenizer

SOURCES = ["a", "abcde", "ab", "dcbae", ""]


def transducer(family: str, unit: Unit | None = None, apart: str = "") -> Transducer:
    """A random model of letters, or of words of one letter."""
    unit = unit or Characters()
    sides = [unit.learn([apart.join(letters)]) for letters in ("abcde", "tuvwxyz")]
    return Transducer(build(FAMILIES[family]), Greedy(7), Tokenizers(*sides))


# ------------------------------------------------------------------ batches


@pytest.mark.parametrize("family", ["luong, coverage, fed", "transformer, pre-norm", "convs2s", "ensemble"])
def test_a_batch_is_as_each_alone(family: str) -> None:
    model = transducer(family)
    targets = ["vw", "", "vwxyzvwxyz", "x", "yy"]
    ids = model.source_tokenizer.encode(SOURCES), model.target_tokenizer.encode(targets)
    found = attention_weights(model, *ids)
    for row, (source, target) in enumerate(zip(SOURCES, targets, strict=True)):
        alone = attention(model, source, target)
        assert [*alone.weights] == [*found.weights()]
        assert len(found.columns[row]) == len(source) + 1
        for name, weights_TS in alone.weights.items():
            weights_BTS = found.weights()[name].float()
            torch.testing.assert_close(weights_BTS[row, : len(target) + 1, : len(source) + 1], weights_TS)
            assert not weights_BTS[row, : len(target) + 1, len(source) + 1 :].any()


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_every_hypothesis_in_order(batch_size: int) -> None:
    model = transducer("bahdanau, additive")
    answers = [*model.answer(map(Request, SOURCES), Beam(3, nbest=2, max_length=6))]
    found = readings(model, answers, batch_size=batch_size)
    assert [[each.output for each in read] for read in found] == [answer.outputs for answer in answers]
    for source, answer, read in zip(SOURCES, answers, found, strict=True):
        for output, reading in zip(answer.outputs, read, strict=True):
            weights_TS = attention(model, source, output.text).mean()[:-1, :-1]
            expected = [] if not source else [(int(s), t) for t, s in enumerate(weights_TS.argmax(1))]
            assert list(reading.alignment) == expected
            assert reading.tokens.source.text == source


def test_one_attention_of_several() -> None:
    model = transducer("transformer, pre-norm")
    answers = [*model.answer([Request("abcde", target="vwxyz")])]
    names = [*attention(model, "abcde", "vwxyz").weights]
    every = [readings(model, answers, choice=AttentionChoice(name))[0][0].tokens.weights_TS for name in names]
    torch.testing.assert_close(torch.stack(every).mean(0), readings(model, answers)[0][0].tokens.weights_TS)
    assert not torch.allclose(*every)
    with pytest.raises(ValueError, match=f"no attention 'decoder' to the source: there is {', '.join(names)}"):
        readings(model, answers, choice=AttentionChoice("decoder"))


def test_a_source_that_was_cut() -> None:
    model = replace(transducer("luong, dot"), max_source_length=4)  # three letters and the end
    ((reading,),) = readings(model, [*model.answer([Request("abcde")])])
    assert reading.tokens.source.words == [0, 1, 2, None]


def test_labels_are_no_words() -> None:
    plain = transducer("luong, dot")
    features = FeaturesTokenizer(["PL"], ";", Characters().learn(["abcd"]))
    model = replace(plain, tokenizers=Tokenizers(features, plain.target_tokenizer))
    ((reading,),) = readings(model, [*model.answer([Request("PL\tdab")])])
    assert reading.tokens.source.words == [None, 0, 1, 2, None]
    assert [reading.tokens.source.spelling(place) for place in reading.tokens.source.places] == ["d", "a", "b"]


# ------------------------------------------------------------------ words


def reading_of(source: str, target: str, weights: Sequence[Sequence[float]], pieces: Sequence[str]) -> Reading:
    """A reading with these weights. ``pieces`` are the tokens of each side, separated by bars."""
    sides = []
    for text, cut in zip((source, target), pieces, strict=True):
        spans, words, start = [], [], 0
        for piece in [*cut.split("|"), ""]:
            spans.append((start, start + len(piece)))
            before = text[: start + len(piece) - len(piece.lstrip())]
            words.append(len(f"{before}.".split()) - 1 if piece.strip() else None)
            start += len(piece)
        sides.append(Side(text, spans, words, parts=True))
    return Reading(Output(target, (), 0.0, 0.0, ()), TokenAlignment(torch.tensor(weights), *sides))


def test_parts_of_a_word_are_read_together() -> None:
    weights = [[0.2, 0.2, 0.3, 0.3], [0.1, 0.1, 0.5, 0.3], [0.0, 0.3, 0.1, 0.6], [0.0, 0.0, 0.0, 1.0]]
    found = reading_of("ab c", "xy z", weights, ["a|b| c", "x|y| z"])
    # "xy" attends 0.4 + 0.2 to "ab" and 0.3 + 0.5 to "c". "z" attends 0.3 to "ab" and 0.1 to "c".
    assert found.alignment == ((1, 0), (0, 1))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), source=st.text("ab .", min_size=1, max_size=7), target=st.text("ab .", min_size=1, max_size=7))
def test_words_by_a_second_road(data: st.DataObject, source: str, target: str) -> None:
    vocabulary = Bpe(size=30, minimum_count=1).learn([source, target, "ab ab a. b a"])
    sides = []
    for text in (source, target):
        ids = vocabulary.encode([text])[0]
        ends = [len(vocabulary.decode(ids[: place + 1])) for place in range(len(ids))]
        sides.append((vocabulary.decode(ids), [*zip([0, *ends], ends, strict=False)]))
    shares = st.floats(0, 1, allow_subnormal=False)
    weights = [[data.draw(shares) for _ in sides[0][1]] for _ in sides[1][1]]

    def word(text: str, span: tuple[int, int]) -> int | None:
        inside = text[slice(*span)]
        before = text[: span[1] - len(inside.lstrip())]
        return len(f"{before}.".split()) - 1 if inside.strip() else None

    total: dict[tuple[int, int], float] = {}
    for t, target_span in enumerate(sides[1][1]):
        for s, source_span in enumerate(sides[0][1]):
            link = word(sides[0][0], source_span), word(sides[1][0], target_span)
            if link[0] is not None and link[1] is not None:
                total[link[0], link[1]] = total.get((link[0], link[1]), 0.0) + weights[t][s]

    made = [Side(text, spans, words_of(text, spans), parts=True) for text, spans in sides]
    alignment = TokenAlignment(torch.tensor(weights).double(), *made).links
    written = sorted({t for _, t in total})
    assert [t for _, t in alignment] == written
    for s, t in alignment:
        assert total[s, t] == pytest.approx(max(each for (_, other), each in total.items() if other == t), abs=1e-9)


# ------------------------------------------------------------------ where tokens stand


@pytest.mark.parametrize("unit", [Characters(), Words(), Words(lowercase=True), Bpe(40, minimum_count=1), Symbols()])
@settings(max_examples=60, deadline=None)
@given(text=st.text("abA .,é\t", max_size=10))
def test_a_span_is_its_token(unit: Unit, text: str) -> None:
    tokenizer = unit.learn(["ab A. é,", "b a é \t", "aA b"])
    (ids,) = tokenizer.encode([text])
    spans = tokenizer.spans(text)
    assert len(spans) == len(ids)
    assert spans[-1] == (len(text), len(text))
    assert all(before[1] <= behind[1] for before, behind in pairwise(spans))
    for token, i, (start, end) in zip(tokenizer.tokens(ids)[:-1], ids, spans, strict=False):
        written = text[start:end].lower() if getattr(unit, "lowercase", False) else text[start:end]
        if i != UNK and token != "▁":
            assert written.strip(" ") == token.strip("▁")


def test_bytes_of_a_character_share_its_span() -> None:
    assert Bytes().learn([]).spans("aé") == [(0, 1), (1, 2), (1, 2), (2, 2)]


LETTERS = Characters().learn(["abc"])


@pytest.mark.parametrize(
    ("tokenizer", "line", "expected"),
    [
        (LabelledTokenizer([["4"], ["de"]], LETTERS), "4\tde\tab", ["", "", "a", "b", ""]),
        (LabelledTokenizer([["4"]], LETTERS, with_text=False), "4", ["", ""]),
        (FeaturesTokenizer(["V", "PL"], ";", LETTERS), "V;PL\tab", ["", "", "a", "b", ""]),
        (FactoredTokenizer([["do"], ["V"]], "|"), "do|V  x|V", ["do", "V", "x", "V", ""]),
    ],
)
def test_what_stands_beside_a_text_has_no_span(tokenizer: Tokenizer, line: str, expected: list[str]) -> None:
    spans = tokenizer.spans(line)
    assert [line[start:end] for start, end in spans] == expected
    assert len(spans) == len(tokenizer.encode([line])[0])


# ------------------------------------------------------------------ unknowns


def test_unknowns_become_what_they_were_read_from() -> None:
    model = transducer("luong, dot", Words(), " ")
    source = "a Straße, b é!"
    (ids,) = model.target_tokenizer.encode(["t q, u r"])
    assert ids.count(UNK) == 3  # q, the comma, r
    output = Output(model.target_tokenizer.decode(ids), (), 0.0, 0.0, (), ids=tuple(ids))
    assert output.text == "t <unk> <unk> u <unk>"
    ((reading,),) = readings(model, [Answer(Request(source), [output])])
    assert [reading.tokens.source.spelling(place) for place in reading.tokens.source.places] == [
        "a",
        "Straße",
        ",",
        "b",
        "é",
        "!",
    ]
    weights_TS = torch.eye(7)[[0, 1, 2, 3, 4, 6]]
    by_hand = replace(reading, tokens=replace(reading.tokens, weights_TS=weights_TS))
    assert by_hand.replaced().output.text == "t Straße, u é"  # the comma touches its word, as in the source
    assert by_hand.replaced({"Straße": "street", "b": "never"}).output.text == "t street, u é"
    # the alignment is between the words of the output that is returned: "t <unk> <unk> u <unk>" has five
    assert (by_hand.alignment, by_hand.replaced().alignment) == (
        ((0, 0), (1, 1), (1, 2), (2, 3), (3, 4)),
        ((0, 0), (1, 1), (2, 2), (3, 3)),
    )
    # EOS is no word: if most of the attention is on EOS, the word with the most attention is taken
    to_the_end = torch.zeros(6, 7) + torch.tensor([0.0, 0.1, 0, 0.2, 0, 0, 0.7])
    assert replace(reading, tokens=replace(reading.tokens, weights_TS=to_the_end)).replaced().output.text == "t b b u b"


def test_all_of_a_word_that_was_read_in_parts() -> None:
    side = Side("(Münch|en_x 2.)", [(0, 1), (1, 3), (3, 6), (7, 9)], [0, 0, 0, 0], parts=True)
    assert [side.spelling(place) for place in side.places] == ["(", "Münch", "Münch", "en_x"]
    assert Side("e\u0301te\u0301", [(2, 3)], [0], parts=True).spelling(0) == "e\u0301te\u0301"
    assert Side("don't", [(0, 5)], [0], parts=False).spelling(0) == "don't"


def test_without_a_source_word_the_unknown_stays() -> None:
    model = transducer("luong, dot", Words(), " ")
    (ids,) = model.target_tokenizer.encode(["q"])
    output = Output("<unk>", (), 0.0, 0.0, (), ids=tuple(ids))
    ((reading,),) = readings(model, [Answer(Request(""), [output])])
    assert (reading.replaced().output.text, reading.alignment) == ("<unk>", ())


def test_unknown_parts_of_words_are_not_replaced() -> None:
    check_unknowns(Characters().learn(["ab"]))
    with pytest.raises(ValueError, match=r'characters within words.*"words", "symbols" or "characters"'):
        check_unknowns(Bpe(size=30, minimum_count=1).learn(["ab ab"]))
    check_unknowns(Words().learn(["ab"]))


@pytest.mark.parametrize(
    ("table", "message"),
    [(FAMILIES["lstm, no attention"], "has no attention"), (PARALLEL["instant, lstm to dense"], "has no attention")],
)
def test_a_model_without_attention_says_so(table: Any, message: str) -> None:
    model = replace(transducer("luong, dot"), model=build(table))
    with pytest.raises(ValueError, match=message):
        readings(model, [Answer(Request("abc"), [Output("v", (), 0.0, 0.0, (), ids=(4, 2))])])
