"""The engine cuts and joins text as the tokenizers that the model learned with."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from test_engine_file import SEARCHES, TABLES, content, needs_engine

import transduce_engine
import transduce_engine.engine
from selection import mostly_slow
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Symbols, TextTokenizer, Words
from transduce.data.unknown import unknown_in
from transduce.wings.engines.engine_files import open_file
from transduce.wings.engines.engine_tokens import EngineTokens
from transduce.wings.engines.export.engine import tokenizer_notes
from transduce.wings.labels.tokenizer import Labels

pytestmark = needs_engine

TEXTS = [
    "",
    "a b  c",
    " leading and trailing ",
    "Ünïcödé, straße; don't!",
    "e\u0301 \u1100\u1161\u11a8 ﬁ ① İI ẞ Σς",
    "▁ ▁a ▁▁ ,.;  ▁",
    "a</s>b <unk> <s> <pad><pad> <s",
    "línea\u2028otra\u00a0vez\u3000\u200b",
    "日本語 テキスト 한국어 中文。",
    "q\u0307\u0323 q\u0323\u0307 \u0344 \u0958 \u212b \u2126",
    "👩‍👩‍👧 🇩🇪 x²_y",
    "\tcolumn\tcolumn\x1c",
]
UNITS = {
    "characters": Characters,
    "words": Words,
    "symbols": Symbols,
    "bytes": Bytes,
}


def engine_with(tokenizer: TextTokenizer) -> transduce_engine.Engine:
    """An engine whose source and target are read by this tokenizer."""
    return transduce_engine.load(file_with(tokenizer))


def file_with(tokenizer: TextTokenizer) -> bytes:
    from families import transformer

    notes = json.dumps(tokenizer_notes(tokenizer, "source"), ensure_ascii=False)
    return _file(len(tokenizer), notes, transformer())


def _file(size: int, notes: str, table: Any) -> bytes:
    """The file of a tiny model whose vocabularies have this size."""
    import torch

    from transduce.core import config
    from transduce.core.protocols import Model
    from transduce.core.types import Facts
    from transduce.wings.engines.native.content import model_content

    known = Facts(source_vocabulary=size, target_vocabulary=size)
    torch.manual_seed(1)
    model: Any = config.build(table, Model, known, "model").eval()
    from test_engine_file import resolved

    texts = {
        "source": notes,
        "target": notes,
        "search": json.dumps(resolved(SEARCHES["greedy"])),
        "limits": json.dumps({"max_source_length": 1000, "keeps_empty": True}),
        "settings": "{}",
    }
    return model_content(model, config.resolve(table, Model, known, "model"), "float32", texts)


def read(engine: transduce_engine.Engine, texts: list[str]) -> list[tuple[int, int]]:
    return [(answer.source_tokens, answer.unknown) for answer in engine.answer(texts)]


def random_texts(count: int) -> list[str]:
    numbers = random.Random(3)
    kinds = [range(0x20, 0x7F), range(0xA0, 0x250), range(0x300, 0x370), range(0xAC00, 0xAC80), range(0x1100, 0x1200),
             range(0x1E00, 0x1F00), range(0x900, 0x9FF), range(0x2000, 0x2600), range(0xF900, 0xFFE0)]  # fmt: skip
    return ["".join(chr(numbers.choice(numbers.choice(kinds))) for _ in range(12)) for _ in range(count)]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("form", ["none", "NFC", "NFD", "NFKC"])
@pytest.mark.parametrize("unit", UNITS)
def test_texts_become_the_ids_of_the_tokenizer_and_text_again(unit: str, form: Any, lowercase: bool) -> None:
    texts = TEXTS + random_texts(60)
    tokenizer = UNITS[unit](normalisation=form, lowercase=lowercase).learn(texts[::2])
    notes = tokenizer_notes(tokenizer, "source")
    assert (notes["unit"], notes["form"], notes["lowercase"]) == (unit, form, lowercase)
    engine = engine_with(tokenizer)
    rows = tokenizer.encode(texts)
    assert read(engine, texts) == [(len(row), row.count(3)) for row in rows]
    # the model's numbers show the ids themselves: equal rows have equal scores
    assert engine.answer(texts) == engine.answer_ids(rows)
    # given outputs are written as the tokenizer writes them
    targets = [row for row in rows if len(row) < 200]
    written = engine.score_ids([rows[0]] * len(targets), targets)
    assert [each.best.text for each in written] == [tokenizer.decode(row) for row in targets]


@pytest.mark.parametrize(("form", "lowercase"), [("none", False), ("NFKC", True)])
@pytest.mark.parametrize("unit", UNITS)
def test_tokens_without_the_library_are_those_of_the_library(unit: str, form: Any, lowercase: bool) -> None:
    texts = TEXTS + random_texts(20)
    tokenizer = UNITS[unit](normalisation=form, lowercase=lowercase).learn(texts[::2])
    engine = engine_with(tokenizer)
    for ids in (engine.source_ids, engine.target_ids):
        own = EngineTokens(tokenizer_notes(tokenizer, "source"), ids, engine.decode)
        assert (own.entries, len(own)) == (tokenizer.entries, len(tokenizer))
        rows = tokenizer.encode(texts)
        assert own.encode(texts) == rows
        assert [own.decode(row) for row in rows] == [tokenizer.decode(row) for row in rows]
        assert [own.tokens(row) for row in rows] == [tokenizer.tokens(row) for row in rows]
        for text, row in zip(TEXTS, rows, strict=False) if form == "none" else ():
            assert unknown_in(own, row, text) == unknown_in(tokenizer, row, text)  # type: ignore[arg-type]
    with pytest.raises(transduce_engine.EngineError, match=f"id {len(own)} is outside a vocabulary of {len(own)}"):
        engine.decode([4, len(own)])


def test_labels_are_tokens_without_the_library() -> None:
    tokenizer = Labels().learn(["yes", "no", "a b"])
    own = EngineTokens(tokenizer_notes(tokenizer, "target"), [].extend, str)  # type: ignore[arg-type]
    assert own.entries == tokenizer.entries
    rows = tokenizer.encode(["no", "a b", "perhaps"])
    assert own.encode(["no", "a b", "perhaps"]) == rows
    assert [own.tokens(row) for row in rows] == [tokenizer.tokens(row) for row in rows]
    assert unknown_in(own, rows[2], "perhaps") == unknown_in(tokenizer, rows[2], "perhaps")  # type: ignore[arg-type]


def test_bytes_that_are_no_text_are_repaired() -> None:
    tokenizer = Bytes().learn([])
    engine = engine_with(tokenizer)
    numbers = random.Random(5)
    rows = [
        [*(numbers.choice([0xC3, 0xA9, 0xE2, 0x82, 0xF0, 0x9F, 0x41, 0xED, 0xFF]) + 4 for _ in range(9)), 2]
        for _ in range(40)
    ]
    found = engine.score_ids([[2]] * len(rows), rows)
    assert [each.best.text for each in found] == [tokenizer.decode(row) for row in rows]


def test_subwords_are_read_in_python() -> None:
    tokenizer = Bpe(size=60, minimum_count=1).learn(["low lower lowest new newer newest wide"])
    engine = engine_with(tokenizer)
    assert not engine.reads_text
    texts = ["lower newest", "wider </s>", ""]
    assert engine.answer(texts) == engine.answer_ids(tokenizer.encode(texts))
    written = engine.score_ids(tokenizer.encode(["low"]), tokenizer.encode(["newer"]))
    assert written[0].best.text == "newer"


def test_equal_sides_share_a_tokenizer_and_the_file_is_free_when_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a process never has the file, the packed weights and several tokenizers in memory at once."""
    path = tmp_path / "some.engine"
    path.write_bytes(file_with(Bpe(size=60, minimum_count=1).learn(["low lower lowest"])))
    made, make = [], transduce_engine.engine._library_tokenizer

    def noted(described: Any) -> Any:
        maps = Path("/proc/self/maps")
        assert not maps.exists() or str(path) not in maps.read_text()
        made.append(described)
        return make(described)

    monkeypatch.setattr("transduce_engine.engine._library_tokenizer", noted)
    engine = transduce_engine.load(path)
    assert len(made) == 1
    assert engine.target_ids(["low"]) == engine.source_ids(["low"])
    model = open_file(path)
    assert model.source_tokenizer is model.target_tokenizer


@pytest.mark.parametrize("form", mostly_slow(["NFC", "NFD", "NFKC"], fast=["NFKC"]))
def test_every_character_is_normalised_as_by_the_library(form: Any) -> None:
    """Each character of Unicode in one text, whose bytes the model reads."""
    every = [chr(c) for c in range(0x20, 0x110000) if not 0xD800 <= c < 0xE000 and chr(c).isprintable()]
    texts = ["".join(every[first : first + 200]) for first in range(0, 30_000, 200)]
    tokenizer = Bytes(normalisation=form, lowercase=True).learn([])
    engine = engine_with(tokenizer)
    assert read(engine, texts) == [(len(row), 0) for row in tokenizer.encode(texts)]


def test_half_of_a_surrogate_pair_is_told() -> None:
    _, file = content(TABLES["convs2s"], SEARCHES["greedy"])
    with pytest.raises(transduce_engine.EngineError, match=r"^input 2: half of a surrogate pair; write both halves"):
        transduce_engine.load(file).answer(["a", "b\ud800"])
