"""Code from descriptions: tokens, placeholders, the filter against brute force, metrics, and a whole model."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_constituents import Tables, _never
from test_origins import pairs, shared
from test_search import Lookup

from transduce import api, load
from transduce.core.errors import UserError
from transduce.core.types import EOS, UNK, Example, Padded, Prediction
from transduce.data.corpora import DataError, present
from transduce.data.tokenizers.storage import from_record, record_of
from transduce.metrics.base import evaluate, metric
from transduce.search.base import with_run
from transduce.search.beam import Beam
from transduce.wings.recipes.origins.python_code import Conala, Django
from transduce.wings.syntax import code_tokens
from transduce.wings.syntax.code_tokens import cut, joined, kind, tokens
from transduce.wings.syntax.filters.python import Python
from transduce.wings.syntax.metrics.code import parses
from transduce.wings.syntax.tokenizers.code import Code

CODE = "self.x[0] = call('a b', r\"\\d+\", 3.5) ** 2"
pieces = st.sampled_from(["x", "call", "'a b'", "r'\\d'", '"""it\'s"""', "(", ")", "[", "]", "**=", "3.5", "é"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("self.x[0] = call('a b')", ["self", ".", "x", "[", "0", "]", "=", "call", "(", "'a b'", ")"]),
        ("f(r\"\\d+\", 3.5) ** 2", ["f", "(", "r", '"\\d+"', ",", "3.5", ")", "**", "2"]),
        ("don't take 'x y' or isn't", ["don", "'", "t", "take", "'x y'", "or", "isn", "'", "t"]),
        ("'it\\'s' '''it's''' \"\"\"a \"q\" b\"\"\"", ["'it\\'s'", "'''it's'''", '"""a "q" b"""']),
        ("x**=2 if a!=b else c//d", ["x", "**=", "2", "if", "a", "!=", "b", "else", "c", "//", "d"]),
    ],
)  # fmt: skip
def test_tokens_of_code_and_of_text(text: str, expected: list[str]) -> None:
    assert cut(text) == expected
    assert [text[slice(*span)] for span in code_tokens.spans(text)] == expected


@given(st.lists(pieces).map(" ".join))
def test_joined_tokens_are_the_same_tokens(text: str) -> None:
    assert cut(joined(cut(text))) == cut(text)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("if x is 'a'", ["name"] * 3 + ["string"]),
        ("3rd 07 1 0x1f ? **", ["other"] * 2 + ["number"] * 2 + ["other"] * 2),
    ],
)
def test_kinds_of_tokens(text: str, kinds: list[str]) -> None:
    assert [kind(token) for token in cut(text)] == kinds


def test_a_rare_token_is_copied_by_its_placeholder() -> None:
    units = Code(minimum_count=2, slots=50).learn(["call x with 'a'", "call x with 'b'"])
    assert set(units.entries[4 + 4 * 50 :]) == {"call", "x", "with"}
    description, code = "call frobnicate with 'new one' and 42", "frobnicate ( 'new one' , 42 )"
    source, target = units.encode([description, code])
    assert [i in source for i in target] == [True, False, True, False, True, False, True]
    text = units.decode(target)
    assert text.startswith("<name ")
    # "(", "," and ")" have placeholders that no token of the source has.
    assert units.with_source(text, description) == "frobnicate <unk> 'new one' <unk> 42 <unk>"
    assert units.with_source("r <string 1>", "nothing") == "r <unk>"
    assert UNK not in source + target
    assert Code(minimum_count=2, slots=0).learn(["a a b"]).encode(["a b"]) == [[4, UNK, EOS]]


def test_the_tokenizer_is_saved_and_grows() -> None:
    units = Code(minimum_count=1, slots=3).learn([CODE])
    assert units.decode(units.encode([CODE])[0]) == units.normalize(CODE)
    assert 'r"\\d+"' in units.normalize("  " + CODE)
    again = from_record(record_of(units))
    assert (again.fingerprint, again.encode([CODE])) == (units.fingerprint, units.encode([CODE]))
    more = units.extended(Code(minimum_count=1, slots=3).learn(["brand new"]))
    assert more.encode([CODE]) == units.encode([CODE])
    assert more.decode(more.encode(["brand new"])[0]) == "brand new"
    assert [CODE[slice(*span)] for span in units.spans(CODE)][:-1] == cut(CODE)
    with pytest.raises(DataError, match="as many placeholders"):
        units.extended(Code(slots=4).learn([]))
    for wrong in ({"minimum_count": 0}, {"slots": -1}):
        with pytest.raises(DataError, match="minimum_count = "):
            Code(**wrong)


# -------------------------------------------------------------------- filter

ENTRIES = ["x", "'s'", "(", ")", "[", "]", "$", "#", "07"]


def accepted(items: tuple[str, ...], nested: int) -> bool:
    """Returns whether Python's tokenizer reads exactly these tokens, with at most ``nested`` open brackets."""
    read = tokens(" ".join(items))
    depth = itertools.accumulate((item in "([") - (item in ")]") for item in items)
    return read is not None and [each.string for each in read] == list(items) and max(depth, default=0) <= nested


@pytest.mark.parametrize("nested", [1, 2])
def test_a_beam_with_room_for_all_writes_all_code_that_the_tokenizer_accepts(nested: int) -> None:
    """The outputs are exactly the accepted ones among all outputs of up to 4 tokens and EOS."""
    units = Code(minimum_count=1, slots=0).learn([" ".join(ENTRIES)])
    longest = 5
    beam = Beam(size=2000, nbest=2000, max_length=longest, filters=(Python(nested),))
    source = Padded(torch.tensor([[4, EOS]]), torch.tensor([2]))
    (found,) = with_run(beam, _never, units, units)(Tables(1, vocabulary=len(units)), source)
    written = {tuple(units.tokens(each.tokens[:-1])) for each in found}
    ended = {items for items in written if len(items) < longest - 1 or accepted(items, nested)}
    every = (items for size in range(longest) for items in itertools.product(ENTRIES, repeat=size))
    assert ended == {items for items in every if accepted(items, nested)}
    assert all(len(items) == longest - 1 for items in written - ended)  # the end at max_length is forced


def test_the_filter_allows_placeholders_that_the_source_has() -> None:
    units = Code(minimum_count=2, slots=7).learn(["x x ( ("])
    rule = with_run(Beam(filters=(Python(),)), _never, units, units).filters[0]
    source = "alpha 'beta' 3rd ?"
    (ids,) = units.encode([source])
    padded = Padded(torch.tensor([[*ids, *units.encode(["gamma 77"])[0]]]), torch.tensor([len(ids)]))
    scores_NV = rule(torch.zeros(1, len(units)), rule.start(padded))
    allowed = {units.entries[i] for i in range(len(units)) if scores_NV[0, i] == 0}
    name, string = (units.entries[i] for i in ids[:2])
    assert allowed == {"</s>", "x", "(", name, string}  # "3rd" and "?" are no tokens, and the rest is padding
    assert units.with_source(f"{name} {string}", source) == "alpha 'beta'"


def test_the_filter_needs_code_and_its_vocabulary() -> None:
    words = Code(minimum_count=1, slots=0).learn(["no brackets"])
    with pytest.raises(UserError, match=r'needs outputs of code: set data.units.joint or data.units.target to "code"'):
        with_run(Beam(filters=(Python(),)), _never, words, words)
    with pytest.raises(UserError, match="does not know its vocabulary yet"):
        Beam(filters=(Python(),))(Lookup(1), torch.zeros(1, 1))
    for nested in (0, 31):
        with pytest.raises(UserError, match=f"nested = {nested}"):
            Python(nested)


# ------------------------------------------------------------------- metrics


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        *((line, True) for line in ["x = 1", "  return x", "if x :", "elif x :", "else :", "try :", "except E as e :"]),
        *((line, True) for line in ["finally :", "@ wraps ( f )", "def f ( ) :", "with a as b : pass", "elif x : y"]),
        *((line, False) for line in ["", "x = = 1", "f ( x", ") (", "else", "if x", "x :", "raise from"]),
    ],
)
def test_what_parses(line: str, expected: bool) -> None:
    assert parses(line) == expected


def test_scores_of_code() -> None:
    predictions = [Prediction("f ( 'a  b' )"), Prediction("f ( 'a b' )"), Prediction("f (")]
    examples = [Example("", ("  f('a  b')",)), Example("", ("f('a  b')", "g()")), Example("", ("f(x)",))]
    found = evaluate([metric("code_exact"), metric("parses")], predictions, examples)
    assert found == {"code_exact": pytest.approx(100 / 3), "parses": pytest.approx(200 / 3)}


def test_bleu_of_code_counts_tokens() -> None:
    written, given_text = ["x [ : : - 1 ] . y", "f(a)"], ["x[::-1].z", "f ( a )"]
    bleu = metric("bleu:code")
    found = evaluate([bleu], [Prediction(text) for text in written], [Example("", (text,)) for text in given_text])
    expected = sacrebleu.BLEU(tokenize="none")
    score = expected.corpus_score(["x [ : : - 1 ] . y", "f ( a )"], [["x [ : : - 1 ] . z", "f ( a )"]])
    assert found == {"bleu:code": pytest.approx(score.score)}
    assert "tok:code" in bleu.signature


# --------------------------------------------------------------- whole models


@pytest.mark.slow
def test_a_model_copies_names_that_it_has_never_seen(tmp_path: Path) -> None:
    draw = random.Random(1)

    def name() -> str:
        return "".join(draw.choices("abcdefgh", k=6))

    lines = [(f"call {one} with {two}", f"{one}({two})") for one, two in ((name(), name()) for _ in range(300))]
    data = "\n".join(json.dumps({"source": source, "target": target}) for source, target in lines)
    (tmp_path / "a.jsonl").write_text(data + "\n", encoding="utf-8")
    small = {f"{part}.{key}": 24 for part in ("model.encoder", "model.decoder.decoder") for key in ("width",)}
    settings: dict[str, Any] = {f"data.{split}.path": str(tmp_path / "a.jsonl") for split in ("train", "valid", "test")}
    settings |= small | {"data.cache": str(tmp_path / "cache"), "training.steps": 90, "training.precision": "float32"}
    settings |= {"training.optimizer.rate": 0.01, "training.validation.every": 90, "training.schedule.warmup": 5}
    settings |= {"data.units.joint.minimum_count": 50, "data.units.joint.slots": 40, "search.max_length": 12}
    trained = api.train("code-django", tmp_path / "run", settings, device="cpu", progress=False)
    assert trained("call brand_new with other") == "brand_new ( other )"
    again = load(tmp_path / "run")
    assert list(again.stream("call brand_new with other")) == ["brand_new ( other )"]


@pytest.mark.parametrize(("origin", "folder", "sizes"), [
    (Django, "code_django", [16_000, 1_000, 1_805]), (Conala, "code_conala", [2_167, 211, 500])
])  # fmt: skip
def test_an_origin_reads_and_checks_a_copy(origin: Any, folder: str, sizes: list[int], tmp_path: Path) -> None:
    splits = present(origin(str(shared(folder))).prepare(tmp_path))
    found = [pairs(files) for files in splits.values()]
    assert [len(split) for split in found] == sizes
    assert all(target and target == target.strip() for split in found for _, target in split)


def test_another_text_is_refused(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").write_text("a line\tx = 1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"django.train is not the text expected: its lines have SHA-256"):
        Django(str(tmp_path)).prepare(tmp_path / "made")
    assert not list((tmp_path / "made").rglob("*.jsonl"))


@pytest.mark.slow
def test_the_published_django_gives_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = [pairs(files) for files in present(Django(str(shared("code_django"))).prepare(tmp_path / "copy")).values()]
    lines = [pair for split in local for pair in split]
    served(
        monkeypatch,
        {
            "all.anno": "".join(f"  {source}\n" for source, _ in lines),
            "all.code": "".join(f"\t\t{target}\n" for _, target in lines),
        },
    )
    assert [pairs(files) for files in present(Django().prepare(tmp_path / "fetched")).values()] == local


def test_the_published_conala_is_divided_by_a_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"intent": f"question  {n}", "code": f"f({n})"} for n in range(100)]
    served(monkeypatch, {"train.json": json.dumps(records), "test.json": json.dumps(records[:2])})
    monkeypatch.setattr("transduce.wings.recipes.origins.python_code._check", lambda name, lines: None)
    train, valid, test = (pairs(files) for files in present(Conala().prepare(tmp_path)).values())
    assert test == [("question 0", "f(0)"), ("question 1", "f(1)")]
    assert sorted(train + valid) == sorted((f"question {n}", f"f({n})") for n in range(100))
    assert 0 < len(valid) < 25


def served(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    """Replaces downloads by these files."""
    monkeypatch.setattr(
        "transduce.wings.recipes.origins.python_code.download", lambda url: files[url.rpartition("/")[2]].encode()
    )
