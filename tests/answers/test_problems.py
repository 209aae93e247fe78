"""One bad line in a long call: it is found before the work, or told as its own problem. The others are answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import transduce
from transduce.answers.answer import Answer, Output
from transduce.answers.batches import windows
from transduce.answers.problems import HOPELESS, in_windows, settled
from transduce.answers.request import Request
from transduce.core.errors import RequestError, UserError

Call = Callable[..., tuple[int, str, str]]


class Model:
    """Answers a source with itself; raises an error for the whole batch if one is "bad". Counts its calls."""

    calls = 0

    def __call__(self, requests: Sequence[Request], first: int) -> list[Answer]:
        self.calls += 1
        if any(request.source == "bad" for request in requests):
            raise UserError("too bad")
        return [Answer(each, [Output(each.source, (), 0.0, 0.0, ())]) for each in requests]


def texts(sources: Sequence[str], tolerant: bool = True, size: int = 8) -> Iterator[str]:
    for answer in settled(in_windows(map(Request, sources), size, Model()), tolerant):
        yield answer.problem or answer.best.text


def test_a_problem_is_told_and_all_others_are_answered() -> None:
    sources = [str(number) for number in range(1, 40)]
    for places in ([0], [38], [7, 8], [3, 4, 5, 20], list(range(HOPELESS - 1))):
        mixed = ["bad" if place in places else text for place, text in enumerate(sources)]
        expected = [f"input {text}: too bad" if place in places else text for place, text in enumerate(sources)]
        assert list(texts(mixed)) == expected


def test_one_problem_costs_few_calls() -> None:
    model = Model()
    sources = ["bad" if number == 700 else "x" for number in range(1024)]
    assert len(list(in_windows(map(Request, sources), 1024, model))) == 1024
    assert model.calls <= 21


def test_settings_that_answer_nothing_end_the_call() -> None:
    for count in (1, 3, 1000):
        with pytest.raises(RequestError, match="input 1: too bad"):
            list(texts(["bad"] * count))


def test_without_tolerance_the_answers_before_a_problem_come_first() -> None:
    found = []
    with pytest.raises(RequestError, match="input 4: too bad"):
        found.extend(texts(["a", "b", "c", "bad", "d"], tolerant=False))
    assert found == ["a", "b", "c"]


def test_what_is_read_before_an_error_is_answered() -> None:
    def broken() -> Iterator[int]:
        yield from range(5)
        raise UserError("line 6")

    found = []
    with pytest.raises(UserError, match="line 6"):
        found.extend(windows(broken(), 3))
    assert found == [[0, 1, 2], [3, 4]]


# ------------------------------------------------------------- the commands


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """Requests of which the third requires what the model cannot write."""
    path = tmp_path / "in.jsonl"
    required: list[list[str]] = [[], ["b"], ["é"], ["ab"], []]
    asked = ({"source": "abc", "required": each, "forbidden": ["b"] * (each == ["ab"])} for each in required)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in asked))
    return path


def test_a_phrase_that_cannot_be_written_is_the_problem_of_its_line(
    trained: Path, objects: Path, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    out = objects.with_name("out")
    for arguments in ([], ["--out", str(out), "--window", "2"]):
        caplog.clear()
        status, printed, _ = call("predict", trained, "--constraints", objects, *arguments)
        assert status == 1
        assert "input 3: the required 'é' cannot be written" in caplog.text
        assert "input 4: the required 'ab' has the forbidden 'b' in it" in caplog.text
        assert "input: 2 of 5 could not be answered" in caplog.text
        lines = (printed or out.read_text()).split("\n")
        assert [bool(line) for line in lines] == [True, True, False, False, True, False]
    _, printed, _ = call("predict", trained, "--constraints", objects, "--format=jsonl")
    third = json.loads(printed.splitlines()[2])
    assert sorted(third) == ["error", "source"]
    _, printed, _ = call("predict", trained, "--constraints", objects, "--format=tsv")
    assert printed.splitlines()[2] == "abc\t\t"


def test_from_python_the_answers_before_it_come_first(trained: Path) -> None:
    requests = [Request("abc"), Request("ab"), Request("b", constraints=transduce.Constraints(["é"])), Request("c")]
    model, found = transduce.load(trained, device="cpu"), list[Answer]()
    with pytest.raises(RequestError, match="input 3: the required 'é'"):
        found.extend(model.answer(requests))
    assert [answer.request for answer in found] == requests[:2]
    assert [bool(answer.problem) for answer in model.answer(requests, tolerant=True)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("arguments", "content", "message"),
    [
        (["predict", "RUN", "in"], "ab\nab\n" + "x" * 2_000_000, "in:3: the line has more than"),
        (["predict", "RUN", "--constraints", "in"], '{"source": "ab"}\n{"source": "a"', "in, line 2: Expecting"),
        (["predict", "RUN", "two", "--prefixes", "in"], "a\n", "input 2 has no prefix"),
        (["score", "RUN", "in"], "ab\tab\nab\n", "in, line 2 has one column"),
    ],
)
def test_malformed_files_are_refused_before_the_first_answer(
    trained: Path,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    content: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text(content)
    (tmp_path / "two").write_text("ab\nab\n")
    words = [word.replace("RUN", str(trained)) for word in arguments]
    status, printed, err = call(*words, "--batch-size=1")
    assert (status, printed) == (2, "")
    assert message in err
