"""Phrases as automata over tokens. They find a phrase where a regular expression finds it, however the text is cut."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.core.types import EOS, UNK
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Symbols, TextTokenizer, Unigram, Words
from transduce.search.constraints.automata import Automata, Borders
from transduce.search.constraints.forbidden import Forbidden
from transduce_engine.phrases import Lexicon

TEXTS = ['a cat, a "cat" (cats) sat. at', "the cat sat at a tac, tac", "aa a aaa 猫 猫a cät_a cät", "sat-at; a.b. a"]
TOKENIZERS = {
    "words": Words().learn(TEXTS),
    "bpe": Bpe(45, minimum_count=1).learn(TEXTS),
    "unigram": Unigram(45).learn(TEXTS),
    "characters": Characters().learn(TEXTS),
    "bytes": Bytes().learn(TEXTS),
    "symbols": Symbols().learn(TEXTS),
}
LEXICONS = {unit: Lexicon(tokenizer) for unit, tokenizer in TOKENIZERS.items()}
PHRASES = ["cat", "a", "at a", "sat.", ", a", '"cat"', "(", "aa", "cät", "tac, tac", "猫", "a.b", "a cat, a", "c"]


def stands(unit: str, phrase: str, text: str) -> bool:
    """Returns whether a phrase is in the text, by the definition for the unit."""
    if unit == "symbols":
        return f" {phrase} " in f" {text} "
    if unit in ("characters", "bytes"):
        return phrase in text
    joined = r"(?:(?<=[^\W猫])(?=[^\W猫]))"
    return re.search(rf"(?!{joined}){re.escape(phrase)}(?!{joined})", text) is not None


def finished(unit: str, phrases: Sequence[str], ids: Sequence[int]) -> list[bool]:
    """Which phrases are finished after these ids, the end included. Each phrase has its own automaton."""
    patterns = [LEXICONS[unit].pattern(phrase) for phrase in phrases]
    automata = Automata.of([[[pattern]] for pattern in patterns])
    tokens_BT = torch.tensor([ids] * len(phrases))
    borders = Borders.of(LEXICONS[unit].borders())
    active_BQ = automata.extend(tokens_BT, automata.start(tokens_BT), borders)
    found: list[bool] = (active_BQ & automata.finished_BQ).any(1).tolist()
    return found


def known(unit: str) -> list[str]:
    return [phrase for phrase in PHRASES if LEXICONS[unit].pattern(phrase).own]


@pytest.mark.parametrize("unit", TOKENIZERS)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_phrase_is_found_in_any_tokens_that_spell_it(unit: str, data: st.DataObject) -> None:
    """The tokens are random, and many of them come from phrases. A tokenizer would rarely cut a text like this."""
    tokenizer, lexicon = TOKENIZERS[unit], LEXICONS[unit]
    phrases = known(unit)
    likely = sorted({edge[1] for phrase in phrases for edge in lexicon.pattern(phrase).edges if edge[1] >= 0})
    anything = [UNK, *range(4, len(tokenizer))] if unit != "bytes" else likely
    ids = data.draw(st.lists(st.sampled_from(likely) | st.sampled_from(anything), max_size=8))
    text = "".join(lexicon._pieces[i] for i in ids)
    expected = [stands(unit, lexicon.text(phrase), text) for phrase in phrases]
    assert finished(unit, phrases, [*ids, EOS]) == expected
    assert [lexicon.written(phrase, [*ids, EOS]) for phrase in phrases] == expected


@pytest.mark.parametrize("unit", TOKENIZERS)
def test_text_as_it_is_cut(unit: str) -> None:
    tokenizer: TextTokenizer = TOKENIZERS[unit]
    assert len(known(unit)) >= 6
    for text in [*TEXTS, *PHRASES]:
        (ids,) = tokenizer.encode([text])
        expected = [stands(unit, phrase, text) for phrase in known(unit)]
        if UNK not in ids:
            assert finished(unit, known(unit), ids) == expected


@pytest.mark.parametrize(
    ("tokenizer", "open_"),
    [(TOKENIZERS["symbols"], False), (Words().learn(["a cat sat at a cat"]), False), (TOKENIZERS["bpe"], True)],
    ids=["symbols", "words", "bpe"],
)
def test_a_word_waits_only_for_tokens_that_can_go_on_with_it(tokenizer: TextTokenizer, open_: bool) -> None:
    """If every token begins a word, the last token of a forbidden word is ruled out. Otherwise, a later token may still
    make it another word.
    """
    lexicon = Lexicon(tokenizer)
    pattern = lexicon.pattern("cat")
    assert (pattern.waiting is not None) is open_
    forbidden = Forbidden(Automata.of([[[pattern]]]), Borders.of(lexicon.borders()), max_length=9)
    *before, last = tokenizer.encode(["cat"])[0][:-1]
    state = forbidden.start(torch.zeros(1, 1))
    if before:
        state = forbidden.extend(torch.tensor([before]), state)
    scores_V = forbidden(torch.zeros(1, len(tokenizer)), state)[0]
    assert bool(scores_V[last].isinf()) is not open_
    assert scores_V[EOS].isfinite()


def test_what_a_tokenizer_makes_nothing_of_is_no_phrase() -> None:
    assert TOKENIZERS["bpe"].encode(["▁"])[0][:-1]  # a space mark with nothing behind it
    for ask in (LEXICONS["bpe"].pattern, LEXICONS["bpe"].text):
        with pytest.raises(ValueError, match="a phrase is '▁': some text was expected, and the tokenizer finds none"):
            ask("▁")
