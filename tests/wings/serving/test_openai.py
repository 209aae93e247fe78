"""OpenAI's interface with OpenAI's own client: completions, chats, streams, reasons of an end and log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("openai")

import openai
from test_chat import SHORT, chatting  # noqa: F401
from test_serve import language  # noqa: F401
from test_serve_connections import model, running  # noqa: F401

import transduce
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.limits import Limits


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
        client = openai.OpenAI(base_url=f"http://{host}:{port}/v1", api_key="none", max_retries=0)
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
    with pytest.raises(openai.BadRequestError, match="labels is given 0 times; known: music"):
        client.chat.completions.create(model="talker", messages=messages)
    with pytest.raises(openai.BadRequestError, match="labels are for a run of dialogues"):
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
        ({"messages": user("a"), "logprobs": True, "top_logprobs": 2}, "top_logprobs = 2: the server does not have it"),
        ({"messages": user("a"), "stream": True, "stop": "x"}, "stream writes one output"),
        ({"messages": user("a"), "tools": []}, "'tools' is not a key of this request"),
    ],
)
def test_what_a_chat_does_not_have_is_told(client: Any, given: dict[str, Any], line: str) -> None:
    with pytest.raises(openai.BadRequestError, match=line):
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
        client = openai.OpenAI(base_url=f"http://{host}:{port}/v1", api_key="none", max_retries=0)
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
    assert choice.logprobs.top_logprobs[0] == {choice.logprobs.tokens[0]: choice.logprobs.token_logprobs[0]}
    (choice,) = client.completions.create(model="language", prompt="ab", max_tokens=6, seed=3, logprobs=0).choices
    assert "".join(choice.logprobs.tokens) == choice.text
    places = choice.logprobs.text_offset
    assert [choice.text[begin:end] for begin, end in zip(places, [*places[1:], None])] == choice.logprobs.tokens  # noqa: B905
    scored = next(iter(language.score([("", "ab" + choice.text)])))
    expected = scored.token_log_probs[2 : 2 + len(choice.logprobs.tokens)]
    assert choice.logprobs.token_logprobs == pytest.approx(expected, abs=1e-4)
    for wrong, line in ({"logprobs": 5}, "give 0 or 1"), ({"logprobs": 1, "echo": True}, "leave out echo"):
        with pytest.raises(openai.BadRequestError, match=line):
            client.completions.create(model="language", prompt="ab", **wrong)


def test_tokens_end_where_the_text_is_stopped(client: Any, model: transduce.Transducer) -> None:
    text = model("abc")
    asked: dict[str, Any] = {"model": "reverse", "messages": user("abc"), "logprobs": True, "stop": text[-1:]}
    (choice,) = client.chat.completions.create(**asked).choices
    assert choice.message.content == text[: text.index(text[-1])]
    assert "".join(each.token for each in choice.logprobs.content).startswith(choice.message.content)
    assert len(choice.logprobs.content) <= len(text)
    assert choice.finish_reason == "stop"
