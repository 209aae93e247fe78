"""Prefixes and phrases as people give them: text, from Python and on the command line."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_cli import told
from test_constraints import stands

import transduce
from families import FAMILIES
from selection import mostly_slow
from transduce import Constraints, Extras, Request
from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.protocols import Model
from transduce.core.types import Facts
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Bpe, Unigram, Words
from transduce.search.beam import Beam
from transduce.search.sampling import Sampling

Call = Callable[..., tuple[int, str, str]]
TEXTS = ["a black cat sat on a mat, the cat sat", "the catalogue was black (on the mat)", "cats sat at that mat."]
LINES = ["the cat", "a mat", "on", "sat at that", "black"]


def written(unit: Any, search: Any) -> Transducer:
    """A model that has learned nothing, of words that mean something."""
    tokenizer = unit.learn(TEXTS)
    facts = Facts(len(tokenizer), len(tokenizer))
    torch.manual_seed(0)
    model: Any = config.build(FAMILIES["transformer, pre-norm"], Model, facts, "model")
    return Transducer(model.double().eval(), search, Tokenizers(tokenizer, tokenizer))


UNITS = {"words": Words(), "bpe": Bpe(50, minimum_count=1), "unigram": Unigram(60)}


@pytest.fixture(params=mostly_slow(UNITS, fast=["bpe"]))
def model(request: pytest.FixtureRequest) -> Transducer:
    return written(UNITS[request.param], Beam(8, 3, 40))


def test_each_source_has_its_own(model: Transducer) -> None:
    """Each source satisfies its own constraints in any order and batch. A source without constraints is unaffected."""
    asked = [
        transduce.Constraints(["cat"], ["sat", "at"]),
        transduce.Constraints([["cats", "black cat"], "mat"]),
        None,
        transduce.Constraints(["on the mat", "(", "sat."]),
        transduce.Constraints(forbidden=["a", "the", "on"]),
    ]
    found = list(model.predict(LINES, constraints=asked, batch_size=2))
    assert all(found)
    for outputs, each in zip(found, asked, strict=True):
        for text in (output.text for output in outputs if each is not None):
            assert each is not None
            assert all(any(stands(phrase, text) for phrase in some) for some in each.alternatives)
            assert not any(stands(phrase, text) for phrase in each.forbidden)
            assert all(output.missing == () for output in outputs)
    assert [o.text for o in found[2]] == [o.text for o in next(model.predict(LINES[2:3]))]
    again = list(model.predict(LINES[::-1], constraints=asked[::-1]))[::-1]
    assert [[o.text for o in outputs] for outputs in again] == [[o.text for o in outputs] for outputs in found]


def test_what_is_forbidden_never_comes_in_whatever_tokens(model: Transducer) -> None:
    """The words that come by themselves are forbidden, one after the other, so that others come."""
    forbidden = list[str]()
    for _ in range(3):
        found = model.predict(LINES, Beam(8, 1, 30), constraints=transduce.Constraints(forbidden=forbidden))
        words = {word for outputs in found for word in re.findall(r"\w+", outputs[0].text.replace("<unk>", ""))}
        assert not words & set(forbidden)
        forbidden += sorted(words)[:3]
    assert len(forbidden) > 1


def test_what_is_not_found_is_told(caplog: pytest.LogCaptureFixture) -> None:
    model = written(Words(), Beam(4, 2, 3))
    with caplog.at_level(logging.WARNING):
        (outputs,) = model.predict(["a"], constraints=transduce.Constraints(["cat", ["mat", "mat,"], "black"]))
    assert len(outputs) == 1
    assert len(outputs[0].missing) == 1
    assert "input 1: no output with " in caplog.text


# --------------------------------------------------------------- command line


def test_predict_with_constraints(trained: Path, tmp_path: Path, call: Call) -> None:
    lines = [
        {"source": "abc", "required": ["zz"], "forbidden": ["a"]},
        {"source": "", "prefix": "cb", "required": [["xyx", "yxy"], "b"]},
        {"source": "zé", "prefix": "q"},
    ]
    file = tmp_path / "asked.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = ("predict", trained, "--device=cpu", "--beam=10", "--constraints", file, "--set=search.max_length=12")
    status, out, err = call(*run, "--forbid=e")
    assert (status, err) == (0, "")
    one, two, three = out.splitlines()
    assert "zz" in one
    assert "a" not in one
    assert two.startswith("cb")
    assert "xyx" in two or "yxy" in two
    assert three.startswith("q")
    assert "e" not in out
    model = transduce.load(trained, device="cpu", settings={"search.size": 10, "search.max_length": 12})
    every = transduce.Constraints(["zz"], ["a", "e"])
    assert next(model.predict(["abc"], constraints=every))[0].text == one
    records = [json.loads(line) for line in call(*run, "--format=jsonl", "--nbest=2")[1].splitlines()]
    assert [record["source"] for record in records] == ["abc", "", "zé"]
    assert all("zz" in each["text"] for each in records[0]["nbest"])


def test_what_lacks_something_says_so_in_json(trained: Path, tmp_path: Path, call: Call) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text('{"source": "abc", "required": ["xyx", "zzz"]}\n')
    status, out, err = call("predict", trained, "--device=cpu", "--constraints", file, "--format=jsonl", "--beam=10")
    assert status == 0
    assert json.loads(out)["missing"] in ([["xyx"]], [["zzz"]])
    assert "larger beam" in err or err == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"source": "a", "forbiden": []}',
            r"line 2: 'forbiden' is not a key of a request; did you mean \"forbidden\"",
        ),
        ('{"prefix": "a"}', r"line 2: there is no source"),
        ('{"source": ["a"]}', r"line 2: source = \['a'\]: a text was expected"),
        ('{"source": "a", "required": "b"}', r"line 2: required = 'b': a list was expected"),
        ('{"source": "a", "required": [7]}', r"line 2: required = 7: a list of phrases was expected"),
        ('["a"]', r"line 2: '\[\"a\"\]': an object was expected"),
        ("{", r"line 2: Expecting property name"),
        (r'{"source": "a\ud800"}', r"asked.jsonl, line 2: '{.*a\\ud800\"}': '\\ud800' is half of a surrogate pair"),
        (r'{"source": "a", "prefix": "\udc00"}', r"line 2: .* '\\udc00' is half"),
        (r'{"source": "a", "required": ["\ud800"]}', r"line 2: .* '\\ud800' is half"),
    ],
)
def test_bad_lines_are_told(line: str, message: str, trained: Path, tmp_path: Path, call: Call) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text('{"source": "a"}\n' + line + "\n")
    assert re.search(message, told(call("predict", trained, "--device=cpu", "--constraints", file)))


@pytest.mark.parametrize("option", ["--constraints", "--prefixes"])
def test_the_runs_own_limit_of_a_line_holds_for_every_file(
    option: str, own_run: Path, tmp_path: Path, call: Call
) -> None:
    config = own_run / "config.toml"
    config.write_text(re.sub(r"max_bytes = \d+", "max_bytes = 30", config.read_text()))
    file = tmp_path / "long.jsonl"
    file.write_text('{"source": "a", "required": ["' + "b" * 40 + '"]}\n')
    message = told(call("predict", own_run, "--device=cpu", option, file, stdin=b"abc\n"))
    assert "long.jsonl:1: the line has more than 30 bytes" in message


@pytest.mark.parametrize(
    "command",
    [
        "predict --replace-unk --dictionary FILE",
        "score FILE",
        "score --source FILE --target FILE",
        "evaluate --pairs FILE",
    ],
)
def test_the_runs_own_limit_of_a_line_holds_for_pairs(command: str, own_run: Path, tmp_path: Path, call: Call) -> None:
    config, file = own_run / "config.toml", tmp_path / "long.tsv"
    config.write_text(re.sub(r"max_bytes = \d+", "max_bytes = 30", config.read_text()))
    file.write_text("a\t" + "b" * 40 + "\n")
    name, *options = command.replace("FILE", str(file)).split()
    message = told(call(name, own_run, "--device=cpu", *options, stdin=b"abc\n"))
    assert "long.tsv:1: the line has more than 30 bytes" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--constraints=x.jsonl", "--prefix=a"], "has the sources and prefixes too"),
        (["--constraints=x.jsonl", "words.txt"], "has the sources and prefixes too"),
        (["--prefix=a", "--prefixes=x.txt"], "has one for each: give one"),
        (
            ["--stream", "--forbid=a"],
            "leave out --nbest, --format, --out, --alignments and the like, --workers, --window and phrases",
        ),
        (["--forbid= "], "a phrase is ' ': some text was expected"),
        (["--forbid=a", "--set=search.type=exact"], "Exact cannot obey phrases: use a beam"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], message: str, trained: Path, call: Call) -> None:
    assert message in told(call("predict", trained, "--device=cpu", *options, stdin=b"abc\n"))


# ------------------------------------------------------------ from Python


def test_an_answer_carries_its_question(model: Transducer) -> None:
    """Answers follow the order of the requests, even if a batch mixes different kinds of requests."""
    questions = [
        transduce.Request("the cat", nbest=2),
        transduce.Request("a mat", target="black cat"),
        transduce.Request("on", prefix="a"),
        transduce.Request("the cat", constraints=transduce.Constraints(["mat"]), nbest=1),
        transduce.Request("a mat", target="the"),
        transduce.Request("black"),
    ]
    answers = [*model.answer(questions, batch_size=2)]
    assert [answer.request for answer in answers] == questions
    assert [len(answer.outputs) for answer in answers] == [2, 1, 3, 1, 1, 3]
    assert "mat" in answers[3].best.text
    assert answers[2].best.text.startswith("a")
    scored = [*model.score([("a mat", "black cat"), ("a mat", "the")])]
    assert [answers[1].best.log_prob, answers[4].best.log_prob] == pytest.approx([one.log_prob for one in scored])
    (alone,) = model.answer([questions[0]])
    assert [one.tokens for one in alone.outputs] == [one.tokens for one in answers[0].outputs]


def test_constraints_that_are_not_met_are_in_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    model = written(Words(), Beam(4, 2, 3))
    asked = transduce.Constraints(["cat", ["mat", "mat,"], "black"])
    met, answer = model.answer([transduce.Request("a"), transduce.Request("a", constraints=asked)])
    assert met.unsatisfied is None
    assert answer.unsatisfied is not None
    assert answer.unsatisfied.missing == answer.best.missing != ()
    assert not caplog.records
    (message,) = answer.warnings(2)
    assert message.startswith("input 2: no output with ")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source": None}, "source = None: a text was expected"),
        ({"source": "a", "prefix": 3}, "prefix = 3: a text was expected"),
        ({"source": "a", "nbest": 0}, "nbest = 0: at least one output was expected"),
        ({"source": "a", "target": ["b"]}, "target = \\['b'\\]: a text was expected"),
        ({"source": "a", "target": "b", "nbest": 2}, "target = 'b' is scored and not searched for"),
    ],
)
def test_requests_that_are_none(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(transduce.RequestError, match=message):
        transduce.Request(**wrong)


@pytest.mark.parametrize(
    ("source", "message"), [(None, "source = None: a text or a list"), (["a", 3], "input 2: source = 3: a text")]
)
def test_sources_that_are_no_texts(source: Any, message: str, model: Transducer) -> None:
    with pytest.raises(transduce.RequestError, match=message):
        model(source)


def test_a_transducer_is_a_value(model: Transducer) -> None:
    with pytest.raises(AttributeError):
        model.search = Beam(2)  # type: ignore[misc]


def test_what_a_search_refuses_is_the_requests_mistake(model: Transducer) -> None:
    short = dataclasses.replace(model, search=Beam(4, 2, 3))
    with pytest.raises(transduce.RequestError, match="do not fit max_length = 3"):
        next(short.answer([transduce.Request("the cat", prefix="a black cat sat on a mat")]))


SOURCES = ["".join("abc"[(row + place) % 3] for place in range(1 + 3 * row % 11)) for row in range(48)]
OF_ROWS = {  # what belongs to one row of a batch
    "nothing": lambda row: {},
    "prefixes": lambda row: {"prefix": "cba"[: row % 4]},
    "phrases": lambda row: {"constraints": Constraints([["ab", "c", "bb"][row % 3]], ["cba"[row % 3]])},
    "alignments": lambda row: {"extras": Extras(alignments=True), "nbest": 2},
    "given outputs": lambda row: {"target": "abc"[: row % 4]},
}


@pytest.mark.parametrize(
    ("kind", "search"), [*((kind, None) for kind in OF_ROWS), ("prefixes", Sampling(2, seed=3, max_length=12))]
)
def test_a_large_batch_of_different_lengths_has_the_answers_of_single_requests(
    kind: str, search: Any, trained: Path
) -> None:
    """An encoder reads such a batch in parts, so its rows change their places."""
    model = transduce.load(trained, device="cpu")
    requests = [Request(source, **OF_ROWS[kind](row)) for row, source in enumerate(SOURCES)]
    together = list(model.answer(requests, search, batch_size=64))
    for request, answer in zip(requests, together, strict=True):
        (alone,) = model.answer([request], search)
        assert [(each.text, each.alignment) for each in answer.outputs] == [
            (each.text, each.alignment) for each in alone.outputs
        ]
        assert answer.best.log_prob == pytest.approx(alone.best.log_prob, abs=1e-4)
