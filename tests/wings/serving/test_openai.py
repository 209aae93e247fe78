"""OpenAI's interface with OpenAI's own client: completions, chats, streams, reasons of an end and log-probabilities."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from test_chat import SHORT, chatting  # noqa: F401
from test_serve import language  # noqa: F401
from test_serve_connections import model, running  # noqa: F401

import transduce
from transduce.core.errors import RequestError
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.loaded_run import LoadedRun
from transduce.wings.serving.streams import before_stop
from transduce.wings.serving.writing import Written


def openai() -> Any:
    """The library of the clients. Its import takes two seconds, which the collection of tests spares."""
    return pytest.importorskip("openai")


@pytest.fixture(scope="module")
def talker(chatting: Path) -> transduce.Transducer:
    return transduce.load(chatting, device="cpu").changed(SHORT[1::2])


@pytest.fixture(scope="module")
def client(
    model: transduce.Transducer,
    language: transduce.Transducer,
    talker: transduce.Transducer,
) -> Iterator[Any]:
    models = {"reverse": model, "language": language, "talker": talker}
    with running(Catalogue.of(models, Limits(tokens=50))) as (host, port, _):
        client = openai().OpenAI(base_url=f"http://{host}:{port}/v1", api_key="none", max_retries=0)
        yield client
        client.close()


def user(*texts: str) -> list[Any]:
    """Messages of a chat that begin with the user."""
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]


def test_a_chat_with_a_run_that_translates(client: Any, model: transduce.Transducer) -> None:
    answer = client.chat.completions.create(model="reverse", messages=user("abc"))
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", model("abc"))
    best = next(model.predict(["abc"]))[0]
    assert choice.finish_reason == ("stop" if best.cut_at is None else "length")
    assert answer.usage.total_tokens == 3 + len(best.tokens)
    assert "warnings" not in answer.model_extra
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "bc"}]
    messages = [{"role": "system", "content": "Reverse."}, *user("cab", "bac"), {"role": "user", "content": parts}]
    answer = client.chat.completions.create(model="reverse", messages=messages, n=2)
    outputs = next(model.predict(["abc"], model.search.resized(nbest=2)))
    assert [each.message.content for each in answer.choices] == [each.text for each in outputs]
    told = answer.model_extra["warnings"]
    assert told[:2] == [
        "messages of the system, not read because reverse has no instructions: 1",
        "messages before the last one, not read because reverse has no turns: 2",
    ]


def test_a_dialogue_has_its_last_turns_as_the_source(client: Any, talker: transduce.Transducer) -> None:
    labels = {"labels": ["music"]}
    answer = client.chat.completions.create(model="talker", messages=user("hi"), extra_body=labels)
    assert answer.choices[0].message.content == talker("music\thi")
    messages = user("hi", "you", "go on")
    answer = client.chat.completions.create(model="talker", messages=messages, extra_body=labels)
    assert answer.choices[0].message.content == talker("music\tyou | go on")
    with pytest.raises(openai().BadRequestError, match="labels is given 0 times; known: music"):
        client.chat.completions.create(model="talker", messages=messages)
    with pytest.raises(openai().BadRequestError, match="labels are for a run of dialogues"):
        client.chat.completions.create(model="reverse", messages=messages, extra_body=labels)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"model": "language", "messages": user("a")}, "use /v1/completions"),
        ({"messages": user("a", "b")}, "the last of the messages"),
        ({"messages": []}, "the last of the messages"),
        ({"messages": [{"role": "tool", "content": "a", "tool_call_id": "1"}]}, "messages"),
        ({"messages": user("a" * 10_001)}, "a message has 10,001 characters"),
        ({"messages": user("a"), "n": 51}, "n = 51"),
        ({"messages": user("a"), "logprobs": True, "top_logprobs": 21}, "top_logprobs = 21: 1 to 20 was expected"),
        ({"messages": user("a"), "top_logprobs": 2}, "give logprobs = true with it"),
        ({"messages": user("a"), "tools": []}, "'tools' is not a key of this request"),
    ],
)
def test_what_a_chat_does_not_have_is_told(client: Any, given: dict[str, Any], line: str) -> None:
    with pytest.raises(openai().BadRequestError, match=line):
        client.chat.completions.create(**{"model": "reverse", **given})


@pytest.mark.parametrize("source", ["abc", "aaaaaaaaaa"])
def test_a_stream_ends_with_its_reason(client: Any, model: transduce.Transducer, source: str) -> None:
    options: dict[str, Any] = {"model": "reverse", "stream": True, "stream_options": {"include_usage": True}}
    best = next(model.predict([source]))[0]
    reason = "stop" if best.cut_at is None else "length"
    chunks = list(client.chat.completions.create(messages=user(source), **options))
    *texts, last, usage = chunks
    assert "".join(each.choices[0].delta.content for each in texts) == best.text
    assert [each.choices[0].finish_reason for each in texts] == [None] * len(texts)
    assert (last.choices[0].finish_reason, usage.choices) == (reason, [])
    whole = client.chat.completions.create(model="reverse", messages=user(source))
    assert (whole.choices[0].finish_reason, whole.usage) == (reason, usage.usage)
    *texts, last, usage = client.completions.create(prompt=source, **options)
    assert "".join(each.choices[0].text for each in texts) == best.text
    assert (last.choices[0].text, last.choices[0].finish_reason) == ("", reason)


def test_an_engine_that_searches_by_itself_streams_one_piece(model: transduce.Transducer) -> None:
    held = replace(model)
    held.__dict__["searching"] = True  # as an export for CTranslate2
    with running(Catalogue.of({"whole": held})) as (host, port, _):
        client = openai().OpenAI(base_url=f"http://{host}:{port}/v1", api_key="none", max_retries=0)
        asked: dict[str, Any] = {"model": "whole", "messages": user("abc")}
        whole = client.chat.completions.create(**asked)
        text, last, usage = client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked)
        client.close()
    assert text.choices[0].delta.content == whole.choices[0].message.content == model("abc")
    assert last.choices[0].finish_reason == whole.choices[0].finish_reason
    assert usage.usage == whole.usage


def test_a_stream_of_a_language_model_ends_with_its_reason(client: Any) -> None:
    asked: dict[str, Any] = {"model": "language", "prompt": "ab", "seed": 3}
    for most in (1, 50):
        whole = client.completions.create(max_tokens=most, **asked).choices[0]
        *texts, last = client.completions.create(max_tokens=most, stream=True, **asked)
        assert "".join(each.choices[0].text for each in texts) == whole.text
        assert last.choices[0].finish_reason == whole.finish_reason
    assert whole.finish_reason == "stop"


def test_log_probabilities_of_the_written_tokens(
    client: Any,
    model: transduce.Transducer,
    language: transduce.Transducer,
) -> None:
    best = next(model.predict(["abc"]))[0]
    for found in (
        client.chat.completions.create(model="reverse", messages=user("abc"), logprobs=True)
        .choices[0]
        .logprobs.content,
    ):
        assert "".join(each.token for each in found) == best.text
        assert [each.logprob for each in found] == pytest.approx(best.token_log_probs[:-1], abs=1e-4)
        assert bytes(found[0].bytes).decode() == found[0].token
    (choice,) = client.completions.create(model="reverse", prompt="abc", logprobs=1).choices
    assert "".join(choice.logprobs.tokens) == best.text
    assert choice.logprobs.token_logprobs == pytest.approx(best.token_log_probs[:-1], abs=1e-4)
    first, *_ = choice.logprobs.top_logprobs
    assert first[choice.logprobs.tokens[0]] == pytest.approx(choice.logprobs.token_logprobs[0])
    (choice,) = client.completions.create(model="language", prompt="ab", max_tokens=6, seed=3, logprobs=0).choices
    assert "".join(choice.logprobs.tokens) == choice.text
    places = choice.logprobs.text_offset
    assert [choice.text[begin:end] for begin, end in zip(places, [*places[1:], None])] == choice.logprobs.tokens  # noqa: B905
    scored = next(iter(language.score([("", "ab" + choice.text)])))
    expected = scored.token_log_probs[2 : 2 + len(choice.logprobs.tokens)]
    assert choice.logprobs.token_logprobs == pytest.approx(expected, abs=1e-4)
    for wrong, line in ({"logprobs": 21}, "1 to 20 was expected"), ({"logprobs": 1, "echo": True}, "leave out echo"):
        with pytest.raises(openai().BadRequestError, match=line):
            client.completions.create(model="language", prompt="ab", **wrong)


def test_tokens_end_where_the_text_is_stopped(client: Any, model: transduce.Transducer) -> None:
    text = model("abc")
    asked: dict[str, Any] = {"model": "reverse", "messages": user("abc"), "logprobs": True, "stop": text[-1:]}
    (choice,) = client.chat.completions.create(**asked).choices
    assert choice.message.content == text[: text.index(text[-1])]
    assert "".join(each.token for each in choice.logprobs.content) == choice.message.content
    assert choice.finish_reason == "stop"


def test_the_most_probable_tokens_at_each_position(client: Any, model: transduce.Transducer) -> None:
    from transduce.wings.looking.inspection.sentence import read_sentence

    asked: dict[str, Any] = {"model": "reverse", "messages": user("abc"), "logprobs": True}
    tokens = client.chat.completions.create(top_logprobs=3, **asked).choices[0].logprobs.content
    steps = read_sentence("reverse", model, "abc").steps
    for token, step in zip(tokens, steps[:-1], strict=True):  # the last step is the end
        found = {each.token: each.logprob for each in token.top_logprobs}
        assert len(found) == 3
        assert [each.logprob for each in token.top_logprobs] == sorted(found.values(), reverse=True)
        named = {name: math.log(p) for name, p in step.runners if name in found}
        assert len(named) >= 2
        assert {name: found[name] for name in named} == pytest.approx(named, abs=1e-4)
    (choice,) = client.completions.create(model="language", prompt="ab", max_tokens=4, seed=3, logprobs=5).choices
    for text, log_prob, best in zip(
        choice.logprobs.tokens, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs, strict=True
    ):
        assert best[text] == pytest.approx(log_prob, abs=1e-4)
        assert len(best) == 3  # a, b and the end


def test_a_chain_shows_no_other_tokens() -> None:
    model: Any = SimpleNamespace(model=object(), search=None)
    with pytest.raises(RequestError, match="the model does not show the tokens that it did not choose"):
        LoadedRun(model).likely("a", [4], 2)


def joined(chunks: Any, text: Any) -> dict[int, tuple[str, str]]:
    """For each output of a stream its text and the reason of its end."""
    texts, reasons = defaultdict[int, str](str), dict[int, str]()
    for choice in (each.choices[0] for each in chunks):
        texts[choice.index] += text(choice) or ""
        if choice.finish_reason is not None:
            reasons[choice.index] = choice.finish_reason
    return {index: (texts[index], reason) for index, reason in reasons.items()}


@pytest.mark.parametrize(
    "asks", [{"n": 3}, {"logprobs": True, "top_logprobs": 2}, {"stop": ["zz", "c"]}, {"n": 2, "stop": "b"}]
)
def test_a_stream_of_a_chat_has_what_the_whole_answer_has(client: Any, asks: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"model": "reverse", "messages": user("abcab"), **asks}
    whole = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(stream=True, **asked))
    expected = {each.index: (each.message.content, each.finish_reason) for each in whole.choices}
    assert joined(chunks, lambda choice: choice.delta.content) == expected
    if "logprobs" in asks:
        streamed = [each.choices[0].logprobs.content for each in chunks if each.choices[0].logprobs]
        assert [token for row in streamed for token in row] == whole.choices[0].logprobs.content
        assert {len(row) for row in streamed} == {1}


@pytest.mark.parametrize("asks", [{"n": 3}, {"stop": ["a"]}, {"echo": True, "n": 2}, {"logprobs": 2, "stop": "b"}])
def test_a_stream_of_a_language_model_has_what_the_whole_answer_has(client: Any, asks: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"model": "language", "prompt": "ab", "seed": 5, "max_tokens": 20, **asks}
    whole = client.completions.create(**asked)
    chunks = list(client.completions.create(stream=True, **asked))
    expected = {each.index: (each.text, each.finish_reason) for each in whole.choices}
    assert joined(chunks, lambda choice: choice.text) == expected


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.data())
def test_a_stop_is_found_in_any_pieces(text: str, stops: list[str], data: st.DataObject) -> None:
    given, stopped = 0, False
    for end in [*sorted(data.draw(st.sets(st.integers(0, len(text))))), len(text)]:
        sure, stopped = before_stop(text[:end], stops)
        assert sure >= given  # nothing that was sent is taken back
        given = sure
        if stopped:
            break
    if not stopped:
        given, stopped = before_stop(text, stops, ended=True)
    expected = Written(text, "length", 0).before(stops)
    assert (text[:given], stopped) == (expected.text, expected.reason == "stop")
