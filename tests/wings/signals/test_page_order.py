"""Lines in the order of a page: against Unicode's algorithm in another library, and as tokens of a reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from bidi import get_display
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.corpora import DataError
from transduce.data.tokenizers.storage import load
from transduce.data.tokenizers.text import Characters, Words
from transduce.wings.labels.tokenizer import Labels
from transduce.wings.recipes.origins import text_lines
from transduce.wings.recipes.origins.text_lines import TextLines
from transduce.wings.signals import page_order
from transduce.wings.signals.page_order import Direction, as_read, on_page, opposite
from transduce.wings.signals.tokenizers.page_order import PageOrder

LETTERS = "אבגדابتabcXYZ0123٠١٢ .,-+$%/:()[]<>!?«»\u05b0\u200f"
LINES = [
    ("שלום עולם", "םלוע םולש"),
    ("מחיר: 12.50 (Python)", "(Python) 12.50 :ריחמ"),
    ("א abc (def) ב", "ב abc (def) א"),  # both brackets follow the Latin words
    ("12 34 שלום", "םולש 34 12"),
    ("בשנת 1948-1950 היו", "ויה 1948-1950 תנשב"),
    ("ابت 50% (3-4)", "(4-3) %50 تبا"),  # a number after Arabic letters: its signs run with the letters
    ("בְּ", "בְּ"),  # marks stay after their letter
]


@pytest.mark.parametrize(("text", "line"), LINES)
def test_a_text_stands_on_a_page_as_people_print_it_and_is_read_back(text: str, line: str) -> None:
    assert on_page(text, "rtl") == line
    assert as_read(line, "rtl") == text


@given(st.text(LETTERS, max_size=16), st.sampled_from(["rtl", "ltr"]))
def test_the_order_is_that_of_the_bidirectional_algorithm(text: str, direction: Direction) -> None:
    """The other library leaves brackets as they are, and marks before their letter."""
    plain = text.replace("\u05b0", "").replace("\u200f", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_order, "_mirrored", lambda cell: cell)
        assert on_page(plain, direction) == get_display(plain, base_dir=direction[0].upper())


@given(st.text("אבג 0123.,-%()abc", max_size=14))
def test_what_is_read_stands_on_the_page_as_before(text: str) -> None:
    line = on_page(text, "rtl")
    read = as_read(line, "rtl")
    assert sorted(read.translate({ord(")"): "("})) == sorted(text.translate({ord(")"): "("}))
    assert text.count("(") > 1 or text.count(")") > 1 or on_page(read, "rtl") == line


def test_only_signs_with_a_side_have_an_opposite() -> None:
    assert [opposite(sign) for sign in "([{<«≤‹a/%"] == [*")]}>»≥›a/%"]


def test_tokens_have_the_order_of_the_page_and_outputs_that_of_reading(tmp_path: Path) -> None:
    text = "קנה 12 (לחם)"
    tokenizer = PageOrder(Characters()).learn([text, "ab"])
    assert tokenizer.direction == "rtl"
    (ids,) = tokenizer.encode([text])
    assert "".join(tokenizer.tokens(ids)[:-1]).replace("▁", " ") == "(םחל) 12 הנק"
    assert tokenizer.decode(ids) == tokenizer.normalize(text) == text
    assert [text[start:end] for start, end in tokenizer.spans(text)][:5] == [")", "ם", "ח", "ל", "("]
    tokenizer.save(tmp_path / "saved.json")
    again = load(tmp_path / "saved.json")
    assert again.encode([text]) == [ids]
    assert again.fingerprint == tokenizer.fingerprint


def test_the_direction_is_that_of_most_letters_unless_it_is_set() -> None:
    mixed = ["the word שלום", "and more"]
    assert PageOrder(Words()).learn(mixed).direction == "ltr"
    assert PageOrder(Words(), direction="rtl").learn(mixed).direction == "rtl"
    with pytest.raises(DataError, match="direction = 'up': expected auto, rtl or ltr"):
        PageOrder(Words(), direction="up")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the unit page-order changes plain texts: set its text to characters"):
        PageOrder(Labels()).learn(["a"])


def test_lines_that_run_from_right_to_left_are_drawn_so_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text("12 שלום עולם " * 3 + "אבגדהוז חטיכ למנס", encoding="utf-8")
    origin = TextLines(pairs=1, words=1, text=str(tmp_path / "text.txt"))
    words = origin._words()
    assert text_lines._direction(set("שלום"), words) == "rtl"
    assert text_lines._direction(set("word 12"), words) is None
    monkeypatch.setattr("PIL.features.check", lambda name: False)
    with pytest.raises(DataError, match="libfribidi0 on Debian"):
        text_lines._direction(set("שלום"), words)
