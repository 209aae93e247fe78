"""Features before a text, and words in pieces: the engine reads them as the tokenizers of training do."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import torch
from test_engine_file import content, needs_engine, resolved, tokenizer
from test_engine_strangers import TRIES, WAYS, changed, joined, parts, tried
from test_engine_texts import TEXTS, random_texts

import transduce_engine
from families import FACTS, attending, recurrent, spelled
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model, Search
from transduce.core.types import BOS, EOS, Facts, Padded
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import Bpe, Bytes, Characters, Symbols, Words
from transduce.wings.engines.engine_files import open_file
from transduce.wings.engines.export.engine import tokenizer_notes
from transduce.wings.engines.native.content import model_content
from transduce.wings.engines.native.conversion.converting import check
from transduce.wings.labels.phrase_lists import PhraseLists
from transduce.wings.labels.spelled import Spelled, SpelledTokenizer
from transduce.wings.syntax.tokenizers.features import Features

pytestmark = needs_engine

LSTM = recurrent("plain")["encoder"]
OF_KERNELS = {"type": "spelled", "encoder": {"type": "multi-kernel", "kernels": [3, 5], "layers": 1, "width": 6}}
KNOWN = Facts(source_vocabulary=9, target_vocabulary=11, source_words=3)
PLAIN = Facts(source_vocabulary=9, target_vocabulary=11)
TABLES: dict[str, tuple[config.Table, Facts]] = {
    "tagger, known words": ({"type": "tagger", "encoder": spelled(LSTM, word_width=3)}, KNOWN),
    "tagger, means of pieces": ({"type": "tagger", "encoder": spelled(LSTM | {"cell": "gru"}, pooling="mean")}, PLAIN),
    "tagger, kernels over pieces": ({"type": "tagger", "encoder": LSTM | {"embedding": OF_KERNELS}}, PLAIN),
    "luong over words": (recurrent(attending("luong", "dot")) | {"encoder": spelled(LSTM, pooling="max")}, PLAIN),
}
SEARCHES: dict[str, config.Table] = {
    "tagger": {"type": "labels", "nbest": 3},
    "encoder-decoder": {"type": "beam", "size": 4, "nbest": 2, "max_length": 8},
}
ROWS = [
    [BOS, 5, 6, 7, BOS, 4, EOS],
    [EOS],
    [BOS, 8, EOS],
    [BOS, 5, 6, 7, BOS, BOS, 5, 5, 5, 5, BOS, 3, EOS],
]
WHOLE = [[9, 5, 6, 11, 4, BOS, 7, 7, EOS], [10, EOS], *ROWS]


def searched(name: str) -> config.Table:
    return SEARCHES[str(TABLES[name][0]["type"])]


def content_of(name: str, precision: str = "float32") -> tuple[Any, bytes]:
    """A small random model of words in pieces, and the file of an engine with it."""
    table, facts = TABLES[name]
    torch.manual_seed(0)
    model: Any = config.build(table, Model, facts, "model").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(1.7)
    known = {"known": tokenizer_notes(Symbols().learn(["ab b cd"]), "source")} if facts is KNOWN else {}
    size = facts.source_vocabulary + (facts.source_words or 0)
    source = tokenizer_notes(tokenizer(9), "source") | {"size": size, "spelled": known}
    texts = {
        "source": json.dumps(source),
        "target": json.dumps(tokenizer_notes(tokenizer(11), "target")),
        "search": json.dumps(resolved(searched(name))),
        "limits": json.dumps({"max_source_length": 100, "keeps_empty": False}),
        "settings": "{}",
    }
    return model, model_content(model, config.resolve(table, Model, facts, "model"), precision, texts)


@pytest.mark.parametrize("name", TABLES)
def test_the_engine_finds_and_scores_what_pytorch_does(name: str) -> None:
    model, file = content_of(name)
    engine, rows = transduce_engine.load(file), WHOLE if "known" in name else ROWS
    searching: Any = config.build(resolved(searched(name)), Search, FACTS, "search")
    source = Padded.of(rows)
    ours, theirs = searching(model, source), engine.answer_ids(rows)
    for found, answer in zip(ours, theirs, strict=True):
        assert [each.tokens for each in found] == [each.ids for each in answer.outputs]
        for one, two in zip(found, answer.outputs, strict=True):
            assert two.token_log_probs == pytest.approx(one.token_log_probs, abs=5e-5)
    last = [found[-1].tokens for found in ours]
    for one, scored in zip(searching.force(model, source, Padded.of(last)), engine.score_ids(rows, last), strict=True):
        assert scored.best.token_log_probs == pytest.approx(one.token_log_probs, abs=5e-5)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_no_number_depends_on_the_company(name: str, precision: str) -> None:
    engine = transduce_engine.load(content_of(name, precision)[1])
    alone = [engine.answer_ids([row])[0] for row in ROWS]
    order = random.Random(3).sample(range(len(ROWS)), len(ROWS))
    assert engine.answer_ids([ROWS[n] for n in order], batch=3) == [alone[n] for n in order]


def test_a_row_that_does_not_mark_its_words_is_refused() -> None:
    with pytest.raises(transduce_engine.EngineError, match=r"^the source does not say where its words begin$"):
        transduce_engine.load(content_of("luong over words")[1]).answer_ids([[5, 6, EOS]])


# ---------------------------------------------------------------- tokens


LEARNED = [text for text in [*TEXTS, *random_texts(20)] if text.strip()]
UNITS: dict[str, Tokenizer] = {
    "features": Features(Characters(lowercase=True)).learn([f"N;SG;é\t{text}" for text in LEARNED[::2]]),
    "features, words": Features(Words(), "+ ").learn([f"a+ b c+ d\t{text}" for text in LEARNED[::2]]),
    "words in characters": Spelled(Characters(), Symbols(minimum_count=1)).learn(LEARNED[::2]),
    "words in bytes": Spelled(Bytes()).learn(LEARNED[::2]),
    "words with shapes": Spelled(Characters(), Symbols(minimum_count=1), shapes=True).learn(LEARNED[::2]),
    "words in bytes with shapes": Spelled(Bytes(), shapes=True).learn(LEARNED[::2]),
    "words in words": Spelled(Words(), Symbols(lowercase=True)).learn(LEARNED[::2]),
}


def reading(own: Tokenizer) -> bytes:
    """The file of an engine whose source tokenizer is this one. Its model reads ids of that many."""
    _, file = content({"type": "encoder-decoder", **recurrent(attending("luong", "dot"))}, {"type": "greedy"})
    header, rest = parts(file)
    header["__metadata__"]["source"] = json.dumps(tokenizer_notes(own, "source"))
    table = header["encoder.embedding"]
    at, end = table["data_offsets"]
    width = table["shape"][1]
    grown = bytes(4 * width * len(own))
    table["shape"] = [len(own), width]
    for each in header.values():
        for n, offset in enumerate(each.get("data_offsets", ())):
            if offset >= end:
                each["data_offsets"][n] = offset + len(grown) - (end - at)
    return joined(header, rest[:at] + grown + rest[end:])


@pytest.mark.parametrize("name", UNITS)
def test_texts_become_the_ids_of_training(name: str) -> None:
    own, file = UNITS[name], reading(UNITS[name])
    texts = [
        *TEXTS,
        *random_texts(60),
        "Ab AB A aB Ab1 A1 1a a1 \u01c5x A\u01c5 \u00df \u00c9 \u2167 x\u0663 \u00b2 A-B A\u4e00",
    ]
    if own.columns > 1:
        texts = [f"{features}\t{text}" for text in texts for features in ("N;SG", "", ";;X;e\u0301;", "a+ b c+ N")]
    expected = [tuple(row) for row in own.encode(texts)]
    assert transduce_engine.load(file).source_ids(texts) == expected
    model = open_file(file)
    found = model.source_tokenizer
    assert found.entries == own.entries
    assert [found.columns, found.words, len(found)] == [own.columns, own.words, len(own)]
    for text, row in zip(texts, expected, strict=True):
        assert found.length(row) == own.length(row)
        assert found.tokens(row) == own.tokens(row)
        if "bytes" not in name and text.isascii() and "\t " not in text:
            assert found.spans(text) == own.spans(text)


def test_a_line_without_features_is_told_by_its_number() -> None:
    engine = transduce_engine.load(reading(UNITS["features"]))
    with pytest.raises(
        transduce_engine.EngineError, match=r"^input 2: it has no tab: expected features, a tab and the"
    ):
        engine.answer(["N\tab", "ab"])


def test_units_that_need_the_library_inside_are_refused() -> None:
    for own in (Features(Bpe(60)).learn(["N\tlow lower"]), Spelled(Bpe(60)).learn(["low lower"])):
        with pytest.raises(
            UserError, match="the source side has features or words of library units: the native engine"
        ):
            tokenizer_notes(own, "source")
    listed = SpelledTokenizer(Characters().learn(["a"]), lists=PhraseLists({"city": ["New York"]}))
    with pytest.raises(UserError, match="the source's words have lists of phrases: the native engine reads none"):
        tokenizer_notes(listed, "source")
    asking = SpelledTokenizer(Characters().learn(["a"]), about_passages=True)
    with pytest.raises(UserError, match="sources ask about a passage: the native engine reads none"):
        tokenizer_notes(asking, "source")
    inner = {"type": "tagger", "encoder": spelled(LSTM | {"cell": "mut1"})}
    with pytest.raises(UserError, match=r"model\.encoder\.embedding\.encoder\.cell = 'mut1': the native engine runs"):
        check(config.resolve(inner, Model, PLAIN, "model"))


# ---------------------------------------------------------------- files from strangers


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("speed", ["fast", pytest.param("slow", marks=(pytest.mark.slow, pytest.mark.hostile))])
def test_a_wrong_file_is_refused_in_a_line_or_answers(speed: str, name: str, way: Any) -> None:
    numbers = random.Random(f"{name} {way.__name__} {speed}")
    _, file = content_of(name, numbers.choice(["float32", "int8"]))
    for _ in range(TRIES[speed]):
        tried(way(file, numbers))


@pytest.mark.parametrize("name", UNITS)
def test_wrong_tokens_are_refused_in_a_line_or_read(name: str) -> None:
    numbers, (header, rest) = random.Random(name), parts(reading(UNITS[name]))
    for _ in range(5 * TRIES["fast"]):
        source = json.loads(header["__metadata__"]["source"])
        key = numbers.choice([each for each in ("features", "spelled", "size") if each in source])
        source = changed({key: source[key]}, numbers) | {name: own for name, own in source.items() if name != key}
        tried(joined({**header, "__metadata__": header["__metadata__"] | {"source": json.dumps(source)}}, rest))
