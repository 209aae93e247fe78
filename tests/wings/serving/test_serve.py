"""The server in one process: its routes, clients' mistakes, and each limit. test_serve_connections.py has sockets."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("PIL")

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import PlainTextResponse
from fastapi.testclient import TestClient
from PIL import Image
from test_cli import Call
from test_scheduler import PATIENCE, Gate
from test_streams import PAIRS
from test_streams import SETTINGS as LANGUAGE

import transduce
from transduce import api
from transduce.answers.answer_values import answer_values
from transduce.core import config, recipes
from transduce.core.errors import UserError
from transduce.wings.serving.about import about
from transduce.wings.serving.app import Shortcut, application
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.keys import Keys
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.loaded_run import LoadedRun

LIMITS = Limits(body=2000, upload=3000, characters=40, texts=3, nbest=5, tokens=20, seconds=20)


@pytest.fixture(scope="module")
def model(trained: Path) -> transduce.Transducer:
    return transduce.load(trained, device="cpu")


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> transduce.Transducer:
    """A language model of characters after a few updates."""
    folder = tmp_path_factory.mktemp("language")
    (folder / "text.toml").write_text(config.write(LANGUAGE))
    return api.train(folder / "text.toml", folder / "run", pairs=PAIRS, device="cpu", progress=False)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> transduce.Transducer:
    """A model that reads pictures, after two updates."""
    folder = tmp_path_factory.mktemp("pictures")
    pairs = []
    for number in range(12):
        (folder / f"{number}.png").write_bytes(picture(number))
        pairs.append((str(folder / f"{number}.png"), "ab"[number % 2]))
    settings = {"training.steps": 2, "training.validation.every": 2, "training.precision": "float32"}
    return api.train("ocr-handwriting", folder / "run", settings, pairs, device="cpu", progress=False)


def picture(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 255, (28, 40), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


@pytest.fixture(scope="module")
def client(
    model: transduce.Transducer, language: transduce.Transducer, pictures: transduce.Transducer
) -> Iterator[TestClient]:
    models = {"first": model, "de-en": model, "language": language, "pictures": pictures}
    with TestClient(application(Catalogue.of(models, LIMITS)), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def gate(model: transduce.Transducer) -> Iterator[Gate]:
    gate = Gate(model.model)
    yield gate
    gate.open.set()


def told(model: transduce.Transducer, *requests: transduce.Request) -> list[Any]:
    """The answers of the model itself, as values of JSON."""
    return [json.loads(json.dumps(answer_values(each))) for each in model.answer(requests)]


def same(found: Any, expected: Any) -> bool:
    """True if two values of JSON are equal, numbers up to rounding."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == (pytest.approx(expected, abs=1e-4) if isinstance(expected, float) else expected))


# -------------------------------------------------------------------- routes


def test_predict_answers_as_the_command_line_does(client: TestClient, model: transduce.Transducer) -> None:
    asked = client.post("/predict", json={"source": ["abc", "cab"], "alignments": True})
    extras = transduce.Extras(alignments=True)
    assert asked.status_code == 200
    assert asked.json()["model"] == "first"
    expected = told(model, *(transduce.Request(each, extras=extras) for each in ("abc", "cab")))
    assert same(asked.json()["answers"], expected)


def test_prefixes_phrases_and_nbest(client: TestClient, model: transduce.Transducer) -> None:
    body = {"source": "abc", "prefix": "b", "required": ["c"], "forbidden": ["a a"], "nbest": 2, "model": "de-en"}
    asked = client.post("/n-best", json=body).json()
    constraints = transduce.Constraints(["c"], ["a a"])
    assert asked["model"] == "de-en"
    (expected,) = told(model, transduce.Request("abc", "b", constraints, 2))
    asked["answers"][0].pop("warnings", None)
    assert same(asked["answers"], [expected])


def test_a_warning_is_in_the_answer(client: TestClient) -> None:
    found = client.post("/predict", json={"source": "ab", "required": ["ccc", "bbb"]}).json()
    assert "answers" in found, found
    (answer,) = found["answers"]
    assert "no output with" in answer["warnings"][0]


def test_score_and_align(client: TestClient, model: transduce.Transducer) -> None:
    pairs = [("abc", "cba"), ("ab", "ba")]
    body = {"source": [source for source, _ in pairs], "target": [target for _, target in pairs]}
    scored = client.post("/score", json=body).json()["answers"]
    assert same(scored, told(model, *(transduce.Request(each, target=target) for each, target in pairs)))
    aligned = client.post("/align", json=body).json()["answers"]
    found = model.align(pairs)
    assert same(aligned, [json.loads(json.dumps(found.record(pair))) for pair in (0, 1)])


def test_unknown_tokens_are_fields_of_the_answers(client: TestClient) -> None:
    one = {"count": 1, "tokens": 2, "first": ["к"]}
    for route, body in (("predict", {}), ("score", {"target": "кb"}), ("align", {"target": "кb"}), ("n-best", {})):
        (found,) = client.post(f"/{route}", json={"source": "aк", **body}).json()["answers"]
        assert found["unknown"] == one, route
        assert found.get("unknown_target") == (one if body else None)
    assert "unknown" not in client.post("/predict", json={"source": "ab"}).json()["answers"][0]
    last = client.post("/stream", json={"source": "aк"}).text.strip().splitlines()[-1]
    assert json.loads(last.removeprefix("data: "))["unknown"] == one


def test_a_language_model_scores_and_completes(client: TestClient, language: transduce.Transducer) -> None:
    scored = client.post("/score", json={"target": ["ab"], "model": "language"}).json()["answers"]
    assert scored[0]["log_prob"] == pytest.approx(next(language.score([("", "ab")])).log_prob, abs=1e-4)
    answer = client.post("/complete", json={"prefix": ["ab", ""], "k": 2, "model": "language"})
    expected = language.complete(["ab", ""], 2)
    assert [[word["text"] for word in each["words"]] for each in answer.json()["answers"]] == [
        [word.text for word in words] for words in expected
    ]


def test_the_next_words_of_an_output(client: TestClient, model: transduce.Transducer) -> None:
    """They are given the source: their probabilities are sums over the model's own log-probabilities."""
    (answer,) = client.post("/complete", json={"source": "abc", "prefix": "", "k": 4}).json()["answers"]
    other = client.post("/complete", json={"source": "cc", "prefix": "", "k": 4}).json()["answers"][0]
    assert answer["words"] != other["words"]
    text = answer["words"][0]["text"]
    best = next(model.score([("abc", text)]))
    assert 0 < answer["words"][0]["probability"] < 1
    assert best.log_prob is not None


@pytest.mark.parametrize("prefix", ["", "b"])
def test_a_stream_is_the_best_output(client: TestClient, model: transduce.Transducer, prefix: str) -> None:
    answer = client.post("/stream", json={"source": "abc", "prefix": prefix})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
    assert events[-1] == {"done": True}
    assert "".join(event["text"] for event in events[:-1]) == next(model.predict(["abc"], prefix=prefix))[0].text


def test_attention_and_the_tree_of_a_beam(client: TestClient) -> None:
    found = client.post("/attention", json={"source": "abc", "target": "cb"}).json()
    assert (len(found["weights"]), len(found["weights"][0])) == (len(found["target"]), len(found["source"]))
    assert [sum(row) for row in found["weights"]] == pytest.approx([1.0] * len(found["weights"]), abs=0.01)
    tree = client.post("/tree", json={"source": "abc", "beam": 3}).json()
    assert len(tree["texts"]) >= 1
    assert [node["parent"] is None for node in tree["nodes"]].count(True) == 1
    assert {node["rank"] for node in tree["nodes"]} >= {None, 0}
    begun = client.post("/tree", json={"source": "abc", "prefix": "b"}).json()
    assert all(text.startswith("b") for text in begun["texts"])
    assert not tree["texts"][0].startswith("b")


def test_health_models_metrics_and_the_page(client: TestClient) -> None:
    assert client.get("/health").json() == {
        "status": "ok",
        "models": ["first", "de-en", "language", "pictures"],
    }
    kinds = {each["name"]: (each["reads"], each["source_language"]) for each in client.get("/models").json()["models"]}
    assert kinds == {
        "first": ("text", None),
        "de-en": ("text", "de"),
        "language": ("nothing", None),
        "pictures": ("picture", None),
    }
    told = {each["name"]: (each["rate"], each["dark_ink"]) for each in client.get("/models").json()["models"]}
    assert (told["first"], told["pictures"]) == ((None, False), (None, True))
    client.post("/predict", json={"source": 1})
    text = client.get("/metrics").text
    assert 'transduce_requests_total{route="/predict",status="400"}' in text
    assert 'transduce_waiting{model="first"} 0.0' in text
    assert "default-src 'self'" in client.get("/").headers["content-security-policy"]


def test_a_run_that_pronounces_says_so() -> None:
    settings = recipes.read("g2p-small")
    assert about(settings, (), "PyTorch", (), None)["title"] == "Words to pronunciations"


def test_models_are_told_in_words_and_have_cards(client: TestClient, model: transduce.Transducer) -> None:
    told = {each["name"]: each for each in client.get("/models").json()["models"]}
    assert {name: each["title"] for name, each in told.items()} == {
        "first": "Text to text",
        "de-en": "German to English",
        "language": "Text that goes on",
        "pictures": "Pictures to text",
    }
    kinds = {name: (each["engine"], each["attends"], each["labels"], each["beam"]) for name, each in told.items()}
    assert kinds == {
        "first": ("PyTorch", True, None, 2),
        "de-en": ("PyTorch", True, None, 2),
        "language": ("PyTorch", False, None, told["language"]["beam"]),
        "pictures": ("PyTorch", False, None, 1),
    }
    assert ".docx" in told["first"]["documents"]
    assert told["language"]["documents"] == told["pictures"]["documents"] == []
    card = client.get("/card", params={"model": "first"}).json()["card"]
    assert "## Data" in card
    assert str(model.folder.parent) not in card  # no folder of this machine
    assert client.get("/card", params={"model": "x"}).status_code == 404


def test_the_engine_is_told(trained: Path, model: transduce.Transducer) -> None:
    native = transduce.load(trained, device="cpu", engine="native")
    assert [LoadedRun(each).describe(None)["engine"] for each in (model, native)] == ["PyTorch", "native"]


def test_a_model_in_memory_has_a_card(model: transduce.Transducer) -> None:
    text = LoadedRun(replace(model, folder=None)).card("mine")
    assert text.index("# mine") < text.index("## Model")


def test_the_pieces_of_an_output(client: TestClient) -> None:
    (answer,) = client.post("/predict", json={"source": "abc", "pieces": True}).json()["answers"]
    assert "".join(text for text, _ in answer["pieces"]) == answer["text"]
    assert [log for _, log in answer["pieces"]] == answer["token_log_probs"][: len(answer["pieces"])]
    assert "pieces" not in client.post("/predict", json={"source": "abc"}).json()["answers"][0]


def test_one_attention_of_several(client: TestClient) -> None:
    every = client.post("/attention", json={"source": "abc"}).json()
    assert every["heads"] == [1]
    one = client.post("/attention", json={"source": "abc", "attention": every["attentions"][0], "head": 0}).json()
    assert one["weights"] == every["weights"]
    for body, line in (
        ({"attention": "x"}, f"attention = 'x': there is {every['attentions'][0]}"),
        ({"head": 1}, "head = 1: there are 1, numbered from 0"),
    ):
        answer = client.post("/attention", json={"source": "abc", **body})
        assert (answer.status_code, answer.json()["error"]) == (400, line)


def test_labels_and_what_speaks_for_them(client: TestClient, tmp_path: Path) -> None:
    settings = {"training.precision": "float32"}
    moods = [("good fun", "happy"), ("bad day", "sad")] * 6
    words = [("the dog barks", "DET NOUN VERB"), ("dogs bark", "NOUN VERB")] * 6
    found = {
        "moods": api.train("classification-linear", tmp_path / "moods", settings, moods, device="cpu", progress=False),
        "tags": api.train("tagging-hmm", tmp_path / "tags", settings, words, device="cpu", progress=False),
    }
    with TestClient(application(Catalogue.of(found))) as labelling:

        def labels(**body: Any) -> Any:
            return labelling.post("/labels", json=body).json()

        told = {each["name"]: (each["labels"], each["title"]) for each in labelling.get("/models").json()["models"]}
        assert told == {
            "moods": ("text", "Text: one of 2 labels"),
            "tags": ("words", "Text: a label for each word"),
        }
        reading = labels(model="moods", source="bad day")
        assert sum(each["probability"] for each in reading["classes"]) == pytest.approx(1)
        assert all(each["effect"] > 0 for each in reading["words"])
        assert all(each["effect"] < 0 for each in labels(model="moods", source="bad day", target="happy")["words"])
        assert "no class" in labels(model="moods", source="bad day", target="grey")["error"]
        tagged = labels(model="tags", source="the dog barks", place=1)
        assert [each["label"] for each in tagged["places"]] == ["DET", "NOUN", "VERB"]
        assert [each["word"] for each in tagged["words"]] == ["the", "barks"]
        assert "words" not in labels(model="tags", source="the dog barks")
        assert labels(model="tags", source="the dog", place=2)["error"] == "place = 2: there are 2, numbered from 0"
        assert "no label of this model" in labels(model="tags", source="the dog", place=1, target="X")["error"]
    answer = client.post("/labels", json={"source": "abc"})
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "first gives no labels that can be looked into: ask /predict",
    )


# ------------------------------------------------------------------- uploads


def test_a_picture_is_uploaded(client: TestClient, pictures: transduce.Transducer, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_bytes(picture(3))
    files = [("file", ("../../mine.png", picture(3))), ("file", ("other.png", picture(4)))]
    answer = client.post("/n-best", files=files, data={"model": "pictures", "nbest": "1"}).json()["answers"]
    assert [each["source"] for each in answer] == ["../../mine.png", "other.png"]
    assert answer[0]["text"] == next(pictures.predict([str(tmp_path / "mine.png")]))[0].text


def test_a_path_on_the_server_is_never_read(client: TestClient, tmp_path: Path) -> None:
    path = tmp_path / "mine.png"
    path.write_bytes(picture(3))
    for route in ("/predict", "/score", "/align", "/stream", "/attention", "/complete", "/tree"):
        body = {"source": str(path), "model": "pictures"} | ({"target": "a"} if route in ("/score", "/align") else {})
        answer = client.post(route, json=body)
        assert answer.status_code == 400, route
        assert "reads files" in answer.json()["error"], route


def test_a_full_disk_is_told_and_ends_nothing(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    upload: Any = {"files": {"file": ("mine.png", picture(3))}, "data": {"model": "pictures"}}

    def full(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        answer = client.post("/predict", **upload)
    assert (answer.status_code, answer.json()) == (507, {"error": "the disk of the server is full: try again later"})
    assert client.post("/predict", **upload).status_code == 200


def test_a_broken_upload_is_named_as_the_client_names_it(client: TestClient) -> None:
    answer = client.post("/predict", files={"file": ("mine.png", b"nothing")}, data={"model": "pictures"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("input 1: mine.png is not a picture that can be read")
    assert "/tmp" not in answer.text.replace("mine.png", "")
    answer = client.post("/predict", files={"file": ("mine.png", picture(1))})
    assert answer.json() == {"error": "first reads text: send the source as text, not as a file"}


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("path", "body", "line"),
    [
        ("/predict", {"source": "a", "nbset": 2}, "'nbset' is not a key of this request; did you mean \"nbest\"?"),
        ("/predict", {"source": 3}, "source = '3'"),
        ("/predict", {}, "source has no text: give at least one"),
        ("/predict", {"source": []}, "source has no text: give at least one"),
        ("/predict", {"source": "a\ud800"}, "half of a surrogate pair"),
        ("/predict", {"source": "a", "required": [" "]}, "a phrase is ' ': some text was expected"),
        ("/predict", {"source": ["a", "b"], "prefix": "b" * 9}, "do not fit max_length = 6"),
        ("/n-best", {"source": "a", "nbest": 0}, "nbest = '0': input should be greater than or equal to 1"),
        ("/score", {"source": "a"}, "there is no target"),
        ("/score", {"source": ["a", "b"], "target": "a"}, "there are 2 sources and 1 targets"),
        ("/align", {"source": "a", "target": "a", "direction": "up"}, "direction = 'up'"),
        ("/complete", {"prefix": "a"}, "the model has sources"),
        ("/predict", {"source": "a", "model": "language"}, "a language model has no source"),
        ("/attention", {"source": "a", "head": 99}, "99"),
        ("/tree", {"source": "a", "model": "language"}, "a language model has no source"),
    ],
)
def test_a_mistake_has_the_line_of_the_command_line(client: TestClient, path: str, body: Any, line: str) -> None:
    answer = client.post(path, content=json.dumps(body))
    assert answer.status_code == 400
    assert line in answer.json()["error"]


@pytest.mark.parametrize("value", ["yes", "true", 1, ["x", 1]])
@pytest.mark.parametrize(
    ("path", "key"),
    [
        *(("/predict", key) for key in ("alignments", "frames", "replace_unknowns", "protect", "pieces")),
        ("/align", "after"),
        *(("/v1/completions", key) for key in ("stream", "echo")),
        *(("/v1/chat/completions", key) for key in ("stream", "logprobs")),
    ],
)
def test_only_true_and_false_are_a_yes_and_a_no(client: TestClient, path: str, key: str, value: object) -> None:
    asked: dict[str, Any] = {"source": "a", "target": "a"} if path == "/align" else {"source": "a"}
    if path.startswith("/v1"):
        asked = {"messages": [{"role": "user", "content": "a"}]} if "chat" in path else {"prompt": "a"}
    answer = client.post(path, json={**asked, key: value})
    assert answer.status_code == 400
    assert f"{key} = " in answer.text
    assert "boolean" in answer.text


def test_protect_is_true_or_a_list(client: TestClient) -> None:
    answer = client.post("/predict", json={"source": "a", "protect": "markup"})
    assert answer.json() == {"error": "protect = 'markup': input should be a valid boolean or a valid list"}
    asked = {"prompt": "a", "stream": True, "stream_options": {"include_usage": "no"}}
    answer = client.post("/v1/completions", json=asked)
    assert (answer.status_code, "stream_options = 'no'" in answer.text) == (400, True)


def test_a_form_has_texts_for_a_yes_and_a_no(client: TestClient) -> None:
    for protect in ({"protect": "true"}, {"protect": "markup"}, {"protect": ["markup", "url"]}):
        answer = client.post("/predict", data={"source": "<b>abc</b>", **protect})
        assert answer.json()["answers"][0]["text"].startswith("<b>"), protect
    assert client.post("/predict", data={"source": "abc", "protect": "false"}).status_code == 200
    answer = client.post("/predict", data={"source": "abc", "alignments": "on"})
    assert answer.json() == {"error": "alignments = 'on': input should be a valid boolean"}


@pytest.mark.parametrize(
    ("content", "kind", "status", "line"),
    [
        (b"[]", "application/json", 400, "the body is not an object"),
        (b"{", "application/json", 400, "the body is not JSON"),
        (b"[" * 1900, "application/json", 400, "the body is not JSON"),
        (b"\xff", "application/json", 400, "the body is not JSON"),
        (b"a", "text/plain", 415, "a body of type 'text/plain'"),
        (b"x", "multipart/form-data; boundary=b", 400, ""),
        (b"x", "multipart/form-data", 400, ""),
    ],
)
def test_a_body_that_cannot_be_read(client: TestClient, content: bytes, kind: str, status: int, line: str) -> None:
    answer = client.post("/predict", content=content, headers={"content-type": kind})
    assert answer.status_code == status
    assert line in answer.json()["error"]


def test_what_is_not_there(client: TestClient) -> None:
    answer = client.post("/predict", json={"source": "a", "model": "frist"})
    assert (answer.status_code, 'did you mean "first"?' in answer.json()["error"]) == (404, True)
    assert client.get("/nothing").json() == {"error": "GET /nothing: not found"}
    assert client.get("/predict").status_code == 405
    assert client.get("/studio/../app.py").status_code == 404


def test_the_input_of_a_mistake_has_its_number(client: TestClient, language: transduce.Transducer) -> None:
    answer = client.post("/predict", json={"source": ["", "a"], "model": "language"})
    assert answer.json()["error"].startswith("input 2: 'a'")


def test_a_bug_reveals_nothing(model: transduce.Transducer, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    gate.broken = True
    gate.open.set()
    broken: Any = replace(model, model=gate)
    with TestClient(application(Catalogue.of({"m": broken})), raise_server_exceptions=False) as client:
        for path in ("/predict", "/stream"):
            answer = client.post(path, json={"source": "abc"})
            line = answer.json()["error"]
            assert (answer.status_code, "bug" in answer.text) == (500, False)
            assert line.rpartition(" ")[2] in caplog.text
    assert "ZeroDivisionError: a bug" in caplog.text


# -------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("path", "body", "line"),
    [
        ("/predict", {"source": "a" * 41}, "source has 41 characters, and the server takes 40"),
        ("/predict", {"source": "a", "prefix": "a" * 41}, "has 41 characters"),
        ("/predict", {"source": "a", "forbidden": ["a" * 41]}, "has 41 characters"),
        ("/predict", {"source": ["a"] * 4}, "source has 4 texts, and the server takes 3"),
        ("/predict", {"source": "a", "required": ["a"] * 4}, "required and forbidden has 5 texts"),
        ("/predict", {"source": "a", "nbest": 6}, "nbest = 6: 1 to 5 was expected"),
        ("/score", {"source": ["a"] * 4, "target": ["a"] * 4}, "target has 4 texts"),
        ("/score", {"source": "a", "target": "a" * 41}, "target has 41 characters"),
        ("/align", {"source": "a", "target": "a" * 41}, "target has 41 characters"),
        ("/complete", {"prefix": "a" * 41, "model": "language"}, "prefix has 41 characters"),
        ("/complete", {"prefix": ["a"] * 4, "model": "language"}, "prefix has 4 texts"),
        ("/complete", {"prefix": "a", "k": 6, "model": "language"}, "k = 6: 1 to 5 was expected"),
        ("/stream", {"source": "a" * 41}, "source has 41 characters"),
        ("/stream", {"source": "a", "prefix": "a" * 41}, "prefix has 41 characters"),
        ("/attention", {"source": "a" * 41}, "source has 41 characters"),
        ("/attention", {"source": "a", "target": "a" * 41}, "target has 41 characters"),
        ("/tree", {"source": "a" * 41}, "source has 41 characters"),
        ("/tree", {"source": "a", "prefix": "a" * 41}, "prefix has 41 characters"),
        ("/tree", {"source": "a", "beam": 6}, "beam = 6: 1 to 5 was expected"),
        ("/v1/completions", {"prompt": "a" * 41}, "prompt has 41 characters"),
        ("/v1/completions", {"prompt": ["a"] * 4}, "prompt has 4 texts"),
        ("/v1/completions", {"prompt": "a", "n": 6}, "n = 6: 1 to 5 was expected"),
        ("/v1/completions", {"prompt": "a", "max_tokens": 21}, "max_tokens = 21: 1 to 20 was expected"),
        ("/translate", {"q": "a" * 41, "target": "en"}, "a line of q has 41 characters"),
        ("/translate", {"q": ["a"] * 4, "target": "en"}, "q has 4 texts"),
        ("/translate", {"q": "a\n" * 4, "target": "en"}, "the lines of q has 4 texts"),
        ("/translate", {"q": "a", "target": "en", "alternatives": 5}, "alternatives = 5: 0 to 4 was expected"),
    ],
)
def test_a_request_is_limited(client: TestClient, path: str, body: Any, line: str) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert line in (error["message"] if path.startswith("/v1") else error)


@pytest.mark.parametrize("whole", [True, False])
def test_a_body_is_limited(client: TestClient, whole: bool) -> None:
    body = json.dumps({"source": "a", "prefix": "b" * 2000}).encode()
    answer = client.post("/predict", content=body if whole else iter([body[:1500], body[1500:]]))
    assert (answer.status_code, answer.json()) == (413, {"error": "the body has more than 2,000 bytes"})
    assert answer.headers["connection"] == "close"


def test_an_upload_is_limited(client: TestClient) -> None:
    answer = client.post("/predict", files={"file": ("mine.png", bytes(3000))}, data={"model": "pictures"})
    assert (answer.status_code, answer.json()) == (413, {"error": "the body has more than 3,000 bytes"})
    many = [("file", (f"{number}.png", b"")) for number in range(4)]
    answer = client.post("/predict", files=many, data={"model": "pictures"})
    assert answer.json() == {"error": "source has 4 texts, and the server takes 3: send several requests"}


@pytest.mark.parametrize("path", ["/predict", "/stream"])
def test_time_is_limited(model: transduce.Transducer, gate: Gate, path: str) -> None:
    slow: Any = replace(model, model=gate)
    with TestClient(application(Catalogue.of({"m": slow}, Limits(seconds=0.2)))) as client:
        answer = client.post(path, json={"source": "abc"})
        gate.open.set()
    assert (answer.status_code, answer.json()) == (504, {"error": "the request was not answered before its deadline"})


def test_a_full_queue_refuses_and_recovers(model: transduce.Transducer, gate: Gate) -> None:
    slow: Any = replace(model, model=gate)
    answers: list[Any] = []
    with TestClient(application(Catalogue.of({"m": slow}, Limits(queue=2, batch_size=1)))) as client:

        def ask(count: int) -> Callable[[], None]:
            return lambda: answers.append(client.post("/predict", json={"source": ["abc"] * count}))

        first, second = threading.Thread(target=ask(1)), threading.Thread(target=ask(2))
        first.start()
        assert gate.asked.wait(PATIENCE)
        second.start()
        scheduler_is_full(client, 2)
        busy = client.post("/predict", json={"source": ["a"]})
        assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
        assert busy.json() == {"error": "2 requests wait already (queue = 2): try again later"}
        assert client.get("/health").status_code == 200
        gate.open.set()
        first.join()
        second.join()
        assert [each.status_code for each in answers] == [200, 200]
        assert client.post("/predict", json={"source": ["a", "b"]}).status_code == 200


def test_a_refusal_waits_so_that_clients_that_ask_again_at_once_leave_time_for_answers(
    model: transduce.Transducer, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.wings.serving.app.REFUSAL_SECONDS", 3600)  # then the deadline comes first
    slow: Any = replace(model, model=gate)
    with TestClient(application(Catalogue.of({"m": slow}, Limits(queue=1, batch_size=1, seconds=0.5)))) as client:
        assert client.post("/predict", json={"source": ["abc"] * 2}).status_code == 504
        gate.open.set()


def scheduler_is_full(client: TestClient, count: int) -> None:
    """Waits until ``count`` sentences are in the queue."""
    for _ in range(PATIENCE * 100):
        if f'transduce_waiting{{model="m"}} {count}.0' in client.get("/metrics").text:
            return
        threading.Event().wait(0.01)
    pytest.fail(f"{count} sentences do not wait")


def test_side_work_is_limited(model: transduce.Transducer, gate: Gate) -> None:
    slow: Any = replace(model, model=gate)
    with TestClient(application(Catalogue.of({"m": slow}, Limits(side_work=1, side_queue=1)))) as client:
        threads = [threading.Thread(target=lambda: client.post("/stream", json={"source": "a"})) for _ in range(3)]
        for each in threads:
            each.start()
        assert gate.asked.wait(PATIENCE)
        for _ in range(PATIENCE * 100):
            if 'status="429"' in (text := client.get("/metrics").text):
                break
        gate.open.set()
        for each in threads:
            each.join()
    assert 'transduce_requests_total{route="/stream",status="429"} 1.0' in text


@pytest.mark.parametrize("name", ["queue", "seconds", "body", "connections"])
def test_a_limit_is_more_than_nothing(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} = 0: more than 0 was expected"):
        Limits(**{name: 0})  # type: ignore[arg-type]


# ----------------------------------------------------------------------- key


def test_a_key_is_needed(model: transduce.Transducer) -> None:
    with TestClient(application(Catalogue.of({"de-en": model}), Keys.of("secret", "here"))) as client:
        for path in ("/predict", "/score", "/v1/completions", "/attention", "/nothing"):
            answer = client.post(path, json={"source": "a"})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
        assert client.get("/metrics").status_code == client.get("/models").status_code == 401
        assert client.get("/openapi.json").status_code == 401
        assert client.get("/health").status_code == client.get("/").status_code == 200
        asked = [{"authorization": "Bearer secret"}, {"x-api-key": "secret"}]
        assert [client.post("/predict", json={"source": "a"}, headers=each).status_code for each in asked] == [200, 200]
        wrong = [{"authorization": "Bearer secret2"}, {"x-api-key": "ö"}, {"authorization": "secret"}]
        for each in wrong:
            assert (
                client.post(
                    "/predict", json={"source": "a"}, headers={k: v.encode() for k, v in each.items()}
                ).status_code
                == 401
            )
        body = {"q": "a", "target": "en"}
        assert client.post("/translate", json=body).status_code == 401
        assert client.post("/translate", json=body | {"api_key": "no"}).status_code == 401
        assert client.post("/translate", json=body | {"api_key": "secret"}).status_code == 200
        assert client.get("/languages").status_code == 401


def test_a_key_that_no_header_can_have_is_refused_at_the_start() -> None:
    for key in ("geheimnüss", "a\x00b", ""):
        with pytest.raises(UserError, match=r"a header cannot have|is empty"):
            Keys.of(key, "here")


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:8000", 200), ("Proxy.example", 200), ("evil.example", 421)],
)
def test_without_a_key_other_names_of_the_server_are_refused(
    model: transduce.Transducer, host: str, status: int
) -> None:
    with TestClient(application(Catalogue.of({"m": model}), hosts={"localhost", "proxy.example"})) as client:
        answer = client.post("/predict", json={"source": "a"}, headers={"host": host})
        assert answer.status_code == status
        assert (status == 200) == ("answers" in answer.text)


def test_every_number_has_its_range(client: TestClient) -> None:
    far = 10**22
    for path, body in {
        "/v1/completions": {"model": "language", "prompt": "a", "seed": far},
        "/n-best": {"source": "a", "nbest": far},
        "/align": {"source": "a", "target": "b", "head": far},
        "/complete": {"model": "language", "prefix": "a", "k": -far},
        "/attention": {"source": "a", "head": -1},
        "/tree": {"source": "a", "beam": far},
        "/translate": {"q": "a", "target": "en", "alternatives": far},
    }.items():
        assert client.post(path, json=body).status_code == 400, path
    for key in ("temperature", "top_p", "presence_penalty"):
        text = f'{{"model": "language", "prompt": "a", "{key}": NaN}}'
        answer = client.post("/v1/completions", content=text, headers={"content-type": "application/json"})
        assert answer.status_code == 400, key


def test_json_with_the_content_type_of_a_form_is_told(client: TestClient) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}  # what curl --data sends
    answer = client.post("/predict", content=b'{"source": "abc"}', headers=headers)
    assert answer.status_code == 415
    assert "send Content-Type: application/json" in answer.json()["error"]


# ---------------------------------------------------------- other interfaces


def test_translate(client: TestClient, model: transduce.Transducer) -> None:
    best = model(["abc", "cab"])
    answer = client.post("/translate", data={"q": "abc", "source": "de", "target": "en", "format": "text"})
    assert answer.json() == {"translatedText": best[0]}
    body = {"q": ["abc\n\ncab", ""], "source": "auto", "target": "en", "alternatives": 1}
    answer = client.post("/translate", json=body)
    assert answer.json()["translatedText"] == [f"{best[0]}\n\n{best[1]}", ""]
    assert answer.json()["detectedLanguage"][0]["language"] == "de"
    answer = client.post("/translate", json={"q": "abc", "source": "fr", "target": "en"})
    assert answer.json() == {"error": "fr to en is not translated here. Known: de to en"}
    answer = client.post("/translate", json={"q": "<b>abc</b>", "target": "en", "format": "html"})
    assert answer.json()["translatedText"] == f"<b>{best[0]}</b>"
    answer = client.post("/translate", json={"q": "abc", "target": "en", "format": "docx"})
    assert "format = 'docx'" in answer.json()["error"]
    (source, target) = client.get("/languages").json()
    assert (source["code"], source["targets"], target["targets"]) == ("de", ["en"], [])


def test_completions_of_a_model_with_sources(client: TestClient, model: transduce.Transducer) -> None:
    answer = client.post("/v1/completions", json={"model": "first", "prompt": ["abc", "cab"]}).json()
    assert [each["text"] for each in answer["choices"]] == model(["abc", "cab"])
    assert answer["usage"]["prompt_tokens"] == 6
    streamed = client.post("/v1/completions", json={"prompt": "abc", "stream": True}).text.split("\n\n")
    assert streamed[-2] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in streamed[:-2]]
    assert "".join(event["choices"][0]["text"] for event in events) == model("abc")


def test_completions_of_a_language_model(client: TestClient, language: transduce.Transducer) -> None:
    body = {"model": "language", "prompt": "ab", "max_tokens": 6, "n": 2, "seed": 3}
    answer = client.post("/v1/completions", json=body).json()
    expected = language.generate("ab", 6, 2, seed=3)
    assert ["ab" + each["text"] for each in answer["choices"]] == expected
    body = {"model": "language", "prompt": "ab", "max_tokens": 6, "seed": 3}
    (choice,) = client.post("/v1/completions", json=body | {"echo": True}).json()["choices"]
    assert choice["text"] == expected[0]
    streamed = client.post("/v1/completions", json=body | {"stream": True}).text.split("\n\n")[:-2]
    assert "ab" + "".join(json.loads(line[6:])["choices"][0]["text"] for line in streamed) == expected[0]
    greedy = [client.post("/v1/completions", json=body | {"temperature": 0, "seed": seed}).json() for seed in (1, 2)]
    assert greedy[0]["choices"][0]["text"] == greedy[1]["choices"][0]["text"]
    stopped = client.post("/v1/completions", json=body | {"echo": True, "stop": expected[0][2:3] or "a"}).json()
    assert stopped["choices"][0]["text"] == "ab"
    refused = client.post("/v1/completions", json=body | {"logprobs": 21})
    assert refused.json()["error"]["message"] == "logprobs = 21: 1 to 20 was expected"
    assert client.get("/v1/models/language").json()["id"] == "language"
    assert client.get("/v1/models/x").status_code == 404


# -------------------------------------------------------------- command line


def test_serve_says_what_it_cannot_do(call: Call, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    cases = [
        ([trained, f"{trained.name}={trained}"], f"two runs have the name '{trained.name}'"),
        ([f"={trained}"], "RUN or NAME=RUN was expected"),
        ([trained, "--key-file", tmp_path / "key"], "is empty: a key was expected"),
        ([trained, "--host", "192.0.2.1"], "--host 192.0.2.1 --port 8000"),
        ([trained, "--workers", 2], "--workers is for long inputs"),
        ([trained, "--seconds", 0], "seconds = 0.0: more than 0 was expected"),
        ([tmp_path / "nothing", "--port", 0], "nothing"),
    ]
    for arguments, line in cases:
        status, _, err = call("serve", *arguments)
        assert (status, line in err) == (2, True), err


@pytest.mark.parametrize(
    ("method", "path", "kind", "answer"),
    [
        ("POST", "/known", "application/json", "short"),
        ("POST", "/known", "", "short"),
        ("POST", "/known", "multipart/Form-data", "long"),
        ("GET", "/known", "application/json", "long"),
        ("POST", "/other", "application/json", "long"),
    ],
)
def test_only_json_for_the_known_paths_goes_past_the_routing(method: str, path: str, kind: str, answer: str) -> None:
    router, said = APIRouter(), list[Any]()

    @router.post("/known")
    async def known(request: Request) -> PlainTextResponse:
        return PlainTextResponse("short")

    async def send(message: Any) -> None:
        said.append(message.get("body"))

    async def receive() -> Any:
        raise AssertionError("nobody reads the body")

    headers = [(b"content-type", kind.encode())] if kind else []
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
    asyncio.run(Shortcut(PlainTextResponse("long"), router)(scope, receive, send))
    assert said == [None, answer.encode()]


def test_a_request_with_json_does_not_wait_for_fastapi(
    model: transduce.Transducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise AssertionError("FastAPI routes this request")

    with TestClient(application(Catalogue.of({"m": model}, LIMITS))) as client:
        monkeypatch.setattr(FastAPI, "__call__", refuse)
        assert client.post("/predict", json={"source": "ab"}).status_code == 200
