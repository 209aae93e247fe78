"""The server with files of the engine, in a process that has the packages of transduce-engine[serve] alone."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytest.importorskip("fastapi")

from test_engine_file import SEARCHES, TABLES, content, needs_engine
from test_engine_signals import TABLES as SIGNALS
from test_engine_signals import signal_content
from test_engine_texts_on import NAMES, language_model
from test_scheduler import PATIENCE

import transduce_engine
from transduce.answers.request import Request
from transduce.cli.options import LoadingOptions
from transduce.core.config import tables
from transduce.core.errors import UserError
from transduce.wings.engines.engine_files import EngineModel, open_file
from transduce.wings.serving.commands.serve import _loader, names_of
from transduce.wings.serving.engine_file import EngineFile
from transduce.wings.serving.request_queue import RequestQueue

pytestmark = needs_engine

ROOT = Path(__file__).parents[3]
UNIT = {"type": "picture", "height": 6, "width": 9, "invert": True}
PICTURES = signal_content(SIGNALS["perceptron"], {"type": "labels"}, unit=UNIT)[1]


def unneeded() -> set[str]:
    """The modules of all installed distributions that the extra "serve" of transduce-engine does not bring."""
    extra = tables.read(ROOT / "engine" / "pyproject.toml")["project"]["optional-dependencies"]["serve"]
    waiting, brought = list(map(Requirement, extra)), set[str]()
    while waiting:
        each = waiting.pop()
        if canonicalize_name(each.name) not in brought and (each.marker is None or each.marker.evaluate({"extra": ""})):
            brought.add(canonicalize_name(each.name))
            waiting += map(Requirement, metadata.requires(each.name) or ())
    owners = metadata.packages_distributions().items()
    others = {module for module, names in owners if not brought & set(map(canonicalize_name, names))}
    assert {"torch", "numpy", "tokenizers"} <= others
    return others - {"transduce", "transduce_engine"}


LISTS = dict(re.findall(r"^set\((\w+)\s+([^)]*)\)", (ROOT / "engine" / "CMakeLists.txt").read_text(), re.MULTILINE))
"""What the distribution transduce-engine has of the package: wings, and some files of other folders."""
PARTS = ("metrics", "search")  # folders of which it has some files
WINGS = {path.name for path in (ROOT / "src" / "transduce" / "wings").iterdir() if path.is_dir()}


@cache
def engine_alone() -> str:
    """A program: ``transduce`` where only the distribution transduce-engine with its server is installed."""
    wings, lacking, files = (set(LISTS[name].split()) for name in ("WINGS", "NEEDS_TORCH", "FILES"))
    lacking |= {f"wings/{wing}" for wing in WINGS - wings}
    package = ROOT / "src" / "transduce"
    every = {path.relative_to(package).as_posix() for folder in PARTS for path in (package / folder).rglob("*.py")}
    lacking |= {file.removesuffix(".py") for file in every - files if not file.endswith("__init__.py")}
    missing = unneeded() | {f"transduce.{each.replace('/', '.')}" for each in lacking}
    return f"""
import sys
sys.modules |= dict.fromkeys({missing})  # None: not installed
from transduce.__main__ import run
run()
"""


Found = tuple[int, Any]


def alone(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """A command of ``transduce`` in such an environment."""
    command = [sys.executable, "-c", engine_alone(), *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE * 4)


@pytest.fixture(scope="module")
def model() -> EngineModel:
    return open_file(content(TABLES["transformer, pre-norm"], SEARCHES["beam 5"])[1])


@pytest.fixture(scope="module")
def texts() -> EngineModel:
    return open_file(language_model(NAMES[0])[1])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("engines")
    found = [folder / "de-en.engine", folder / "lm.engine", folder / "digits.engine"]
    found[0].write_bytes(content(TABLES["transformer, pre-norm"], SEARCHES["beam 5"])[1])
    found[1].write_bytes(language_model(NAMES[0])[1])
    found[2].write_bytes(PICTURES)
    (folder / "keys").write_text("alice wonder\n")
    (folder / "keys").chmod(0o600)
    return found


@pytest.fixture(scope="module")
def address(files: list[Path]) -> Iterator[str]:
    """The address of a server in a process of its own."""
    keys = files[0].with_name("keys")
    words = ["serve", *map(str, files), "--port", "0", "--key-file", str(keys), "--characters", "50", "--loaded", "1"]
    with subprocess.Popen([sys.executable, "-c", engine_alone(), *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("serves de-en, lm, digits at "), line + process.stderr.read()
            yield line.split()[5]
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0


def ask(address: str, path: str, body: Any = None, key: str = "wonder", kind: str = "application/json") -> Found:
    """The status and the answer to a request: its values if it is JSON, otherwise its text."""
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {key}", "content-type": kind}
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, sent, headers), timeout=PATIENCE) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    return status, json.loads(text) if text.startswith(("{", "[")) else text


def form(name: str, text: str, **values: str) -> tuple[bytes, str]:
    """A form with a file, and its content type."""
    parts = [f'name="{key}"\r\n\r\n{value}' for key, value in values.items()]
    parts.append(f'name="file"; filename="{name}"\r\n\r\n{text}')
    whole = "".join(f"--x\r\ncontent-disposition: form-data; {part}\r\n" for part in parts)
    return f"{whole}--x--\r\n".encode(), "multipart/form-data; boundary=x"


def best(model: EngineModel, source: str) -> str:
    return model.answer_some([Request(source)])[0].best.text


def test_sources_are_answered(address: str, model: EngineModel) -> None:
    status, found = ask(address, "/predict", {"source": ["abc", "b a", ""], "model": "de-en", "pieces": True})
    assert status == 200
    assert [each["text"] for each in found["answers"]] == [best(model, each) for each in ("abc", "b a", "")]
    pieces = found["answers"][0]["pieces"]
    assert "".join(text for text, _ in pieces) == best(model, "abc")
    (expected,) = model.answer_some([Request("abc", nbest=3)])
    _, found = ask(address, "/n-best", {"source": "abc", "nbest": 3})
    outputs = found["answers"][0]["nbest"]
    assert [each["text"] for each in outputs] == [each.text for each in expected.outputs]
    assert len(outputs) == 3
    assert outputs[1]["token_log_probs"] == list(expected.outputs[1].token_log_probs)
    assert outputs[1]["tokens"] == list(expected.outputs[1].tokens)


def test_outputs_begin_with_a_prefix(address: str, model: EngineModel) -> None:
    expected = [
        each.best.text
        for each in model.answer_some([Request("abc", prefix="b"), Request("", prefix="b"), Request("b")])
    ]
    assert [text[0] for text in expected[:2]] == ["b", "b"]
    assert expected[0] != best(model, "abc")
    for source, prefix, text in (("abc", "b", expected[0]), ("", "b", expected[1]), ("b", "", expected[2])):
        _, found = ask(address, "/predict", {"source": source, "prefix": prefix})
        assert found["answers"][0]["text"] == text
    status, found = ask(address, "/stream", {"source": "abc", "prefix": "b"})
    assert (status, json.dumps({"text": expected[0]}) in found) == (200, True)


def test_given_outputs_are_scored(address: str, model: EngineModel, texts: EngineModel) -> None:
    _, found = ask(address, "/score", {"source": ["abc", "b"], "target": ["ab", "Q"]})
    expected = model.force(model.source_tokenizer.encode(["abc", "b"]), model.target_tokenizer.encode(["ab", "Q"]))
    assert [each["log_prob"] for each in found["answers"]] == [each.log_prob for each in expected]
    assert found["answers"][1]["unknown_target"] == {"count": 1, "tokens": 1, "first": ["Q"]}
    _, found = ask(address, "/score", {"target": "ab", "model": "lm"})
    assert found["answers"][0]["log_prob"] == texts.score_texts(["ab"])[0].best.log_prob


def test_a_stream_has_the_whole_output(address: str, model: EngineModel) -> None:
    status, found = ask(address, "/stream", {"source": "abc"})
    assert status == 200
    assert found.startswith("data: " + json.dumps({"text": best(model, "abc")}))


def test_documents_are_translated(address: str, model: EngineModel) -> None:
    sent, kind = form("new.txt", "abc\n\nb a\n")
    assert ask(address, "/document", sent, kind=kind) == (200, f"{best(model, 'abc')}\n\n{best(model, 'b a')}\n")


def test_pictures_are_uploaded_and_no_path_is_read(address: str, files: list[Path]) -> None:
    pgm = "P5 9 6 255\n" + "AZ!" * 18
    files[0].with_name("a.pgm").write_text(pgm)
    sent, kind = form("a.pgm", pgm, model="digits")
    status, found = ask(address, "/predict", sent, kind=kind)
    expected = transduce_engine.load(PICTURES)(files[0].with_name("a.pgm"))
    assert (status, found["answers"][0]["text"]) == (200, expected)
    status, found = ask(address, "/predict", {"source": str(files[0].with_name("a.pgm")), "model": "digits"})
    assert (status, "a path is not read" in found["error"]) == (400, True)
    sent, kind = form("a.jpg", "JFIF", model="digits")
    status, found = ask(address, "/predict", sent, kind=kind)
    assert (status, "a.jpg is no PNG, PGM or PPM file: convert it" in found["error"]) == (400, True)
    described = ask(address, "/models")[1]["models"][2]
    assert (described["reads"], described["dark_ink"], described["rate"]) == ("picture", True, None)


def test_libretranslate(address: str, model: EngineModel) -> None:
    both = {"source": "de", "target": "en"}
    _, found = ask(address, "/translate", {"q": "abc\nb", "alternatives": 0, **both})
    assert found == {"translatedText": f"{best(model, 'abc')}\n{best(model, 'b')}"}
    _, found = ask(address, "/translate", {"q": "abc", "alternatives": 2, **both})
    (expected,) = model.answer_some([Request("abc", nbest=3)])
    assert found["alternatives"] == [each.text for each in expected.outputs[1:]]
    status, found = ask(address, "/translate", {"q": "<b>abc</b>", "format": "html", **both})
    assert (status, found["error"].partition(",")[0]) == (400, "protect is asked for")
    sent, kind = form("new.txt", "abc\n", **both)
    _, found = ask(address, "/translate_file", sent, kind=kind)
    place = found["translatedFileUrl"].removeprefix(address)
    assert ask(address, place) == (200, f"{best(model, 'abc')}\n")
    assert place.startswith("/download_file/")
    _, found = ask(address, "/languages")
    assert [each["code"] for each in found] == ["de", "en"]
    _, found = ask(address, "/detect", {"q": "Das ist nicht der Name von einem Haus und auch"})
    assert found[0]["language"] == "de"


def test_openai(address: str, model: EngineModel, texts: EngineModel) -> None:
    chat = {"model": "de-en", "messages": [{"role": "user", "content": "abc"}], "logprobs": True, "n": 2}
    _, found = ask(address, "/v1/chat/completions", chat)
    (expected,) = model.answer_some([Request("abc", nbest=2)])
    assert [each["message"]["content"] for each in found["choices"]] == [each.text for each in expected.outputs]
    written = found["choices"][0]["logprobs"]["content"]
    assert "".join(each["token"] for each in written) == expected.best.text
    assert found["usage"]["prompt_tokens"] == 3
    _, found = ask(address, "/v1/chat/completions", {**chat, "stream": True})
    assert found.endswith("data: [DONE]\n\n")
    assert '"finish_reason": "stop"' in found or '"finish_reason": "length"' in found
    how = {"max_tokens": 6, "temperature": 0.7, "top_k": 5, "seed": 4, "n": 2}
    _, found = ask(address, "/v1/completions", {"model": "lm", "prompt": "ab", "logprobs": 0, **how})
    drawn = texts.generate("ab", 2, 6, 0.7, 5, 0.0, 4)
    assert ["ab" + each["text"] for each in found["choices"]] == [each.text for each in drawn]
    assert found["choices"][0]["logprobs"]["token_logprobs"] == pytest.approx(
        [p for i, p in zip(drawn[0].ids, drawn[0].token_log_probs, strict=True) if i != 2]
    )
    _, found = ask(address, "/v1/completions", {"model": "de-en", "prompt": "abc"})
    assert found["choices"][0]["text"] == best(model, "abc")
    _, found = ask(address, "/v1/models")
    assert [each["id"] for each in found["data"]] == ["de-en", "lm", "digits"]
    assert ask(address, "/v1/models/lm")[1]["id"] == "lm"


def test_operators(address: str, model: EngineModel) -> None:
    assert ask(address, "/health", key="") == (200, {"status": "ok", "models": ["de-en", "lm", "digits"]})
    assert ask(address, "/ready", key="") == (200, {"status": "ready"})
    assert ask(address, "/predict", {"source": "abc"}, key="wrong")[0] == 401
    status, found = ask(address, "/predict", {"source": "a" * 51})
    assert (status, "51 characters" in found["error"]) == (400, True)
    _, found = ask(address, "/models")
    described = found["models"][0]
    assert {key: described[key] for key in ("engine", "reads", "beam", "attends", "labels", "source_language")} == {
        "engine": "transduce-engine", "reads": "text", "beam": 5, "attends": False, "labels": None,
        "source_language": "de",
    }  # fmt: skip
    assert found["models"][1]["reads"] == "nothing"
    assert [each["loaded"] for each in found["models"]].count(True) == 1
    assert ask(address, "/card")[1] == {"model": "de-en", "card": model.engine.note("card")}
    assert 'transduce_requests_total{route="/predict"' in ask(address, "/metrics")[1]
    assert "transduce studio" in ask(address, "/")[1]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/align", {"source": "abc", "target": "ab"}),
        ("/complete", {"prefix": "a", "source": "b"}),
        ("/complete", {"prefix": "a", "model": "lm"}),
        ("/attention", {"source": "abc"}),
        ("/tree", {"source": "abc"}),
        ("/labels", {"source": "abc"}),
        *(("/predict", {"source": "abc", **each}) for each in (
            {"alignments": True}, {"frames": True}, {"replace_unknowns": True}, {"protect": True}, {"phrases": ["a"]},
        )),
        ("/predict", {"source": "abc", "model": "lm"}),
        ("/predict", {"source": "abc", "model": "lm", "forbidden": ["a"]}),
        ("/predict", {"source": "abc", "required": ["é"]}),
        ("/predict", {"source": "abc", "prefix": "x" * 12}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 2}),
    ],
)  # fmt: skip
def test_what_a_file_cannot_do_is_refused_in_a_line(address: str, path: str, body: Any) -> None:
    status, found = ask(address, path, body)
    assert status == 400
    line = found["error"]["message"] if path.startswith("/v1/") else found["error"]
    reasons = (
        "do not fit max_length",
        "the server has the file of an engine",
        "language model",
        "gives no labels",
        "cannot be written",
        "does not write token by token",
    )
    assert any(reason in line for reason in reasons)
    assert "\n" not in line


def test_each_route_is_asked_here(address: str) -> None:
    asked = re.findall(r'"(/[-a-z0-9_/.]*)', Path(__file__).read_text(encoding="utf-8"))
    _, described = ask(address, "/openapi.json")
    for path in described["paths"]:
        begin, name, _ = path.partition("{")
        assert any(each.startswith(begin) if name else each == path for each in asked), path


def test_phrases_and_terms_of_a_glossary_are_obeyed(address: str, model: EngineModel) -> None:
    sources = ["abc", "b a", ""]
    for asked, fits in (
        ({"forbidden": ["a"]}, lambda text: "a" not in text),
        ({"required": ["bb"]}, lambda text: "bb" in text),
        ({"glossary": [["abc", "cab"], ["b", "gg"], ["x", "y"]]}, lambda text: True),
    ):
        status, found = ask(address, "/predict", {"source": sources, "model": "de-en", **asked})
        assert (status, [fits(each["text"]) for each in found["answers"]]) == (200, [True] * 3), found
    texts = [each["text"] for each in found["answers"]]
    assert "cab" in texts[0]
    assert "gg" in texts[1]
    assert texts[2] == ""


def test_lines_are_predicted_without_large_libraries(files: list[Path], model: EngineModel) -> None:
    done = alone("predict", str(files[0]), "--nbest", "2", given="abc\nb a\n")
    expected = [
        each.text for one in model.answer_some([Request(x, nbest=2) for x in ("abc", "b a")]) for each in one.outputs
    ]
    assert (done.returncode, done.stdout.splitlines()) == (0, expected), done.stderr
    done = alone("predict", str(files[0]), "--forbid", expected[0][:1], given="abc\n")
    assert (done.returncode, expected[0][:1] in done.stdout) == (0, False), done.stderr


def test_a_command_that_needs_pytorch_says_so(trained: Path) -> None:
    for words in (("predict", str(trained)), ("serve", str(trained), "--port", "0")):
        done = alone(*words, given="abc\n")
        assert done.returncode == 2
        assert re.search("(torch|numpy) is not installed, which this needs: pip install transduce", done.stderr)
        assert "Traceback" not in done.stderr


class Stepped(RequestQueue[Any]):
    """A queue without a thread: ``step`` does one turn of a lane."""

    turns = 0

    def step(self) -> None:
        self.turns = 1
        self._answer_all()

    def _wait(self) -> Any:
        self.turns, now = self.turns - 1, self.turns
        busy = self._busy()
        return self._turns.next(busy) if now > 0 and busy else None


@pytest.mark.parametrize("seed", range(3))
def test_requests_that_come_at_any_time_are_answered_as_alone(model: EngineModel, seed: int) -> None:
    drawn, queue = random.Random(seed), Stepped(EngineFile(model), 3)
    asked = [Request(each) for each in ("abc", "b a", "", "zé", "b" * 9, "c", "ab", "cab", "bca", "a")]
    asked += [
        Request("abc", prefix="ba"),
        Request("", prefix="b"),
        Request("abc", nbest=3),
        Request("abc", target="ab"),
        Request("b", nbest=7),
    ]
    drawn.shuffle(asked)
    futures = []
    for each in asked:
        futures.append(queue.submit(each, client=drawn.randrange(3)))
        for _ in range(drawn.choice([0, 1, 4])):
            queue.step()
    while not all(each.done() for each in futures):
        queue.step()
    for each, future in zip(asked, futures, strict=True):
        assert future.result() == model.answer_some([each])[0]


def test_requests_enter_a_batch_that_runs(model: EngineModel) -> None:
    queue = Stepped(EngineFile(model), 4)
    first = queue.submit(Request("abcabc"))
    queue.step()
    second, third = queue.submit(Request("b a")), queue.submit(Request("c"))
    queue.step()
    assert (queue.active, queue.waiting, first.done()) == (3, 0, False)
    third.cancel()
    while not (first.done() and second.done()):
        queue.step()
    assert queue.active == 0


def test_a_wrong_file_ends_the_server_with_a_line(files: list[Path], tmp_path: Path) -> None:
    whole = files[0].read_bytes()
    wrong = tmp_path / "wrong.engine"
    for text, why in (
        (b"", "it is empty"),
        (b"no file of an engine" * 9, "wrong.engine: "),
        (whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], "checksum"),
        (whole[: len(whole) // 2], "wrong.engine: "),
    ):
        wrong.write_bytes(text)
        with pytest.raises(UserError, match=why):
            _loader(LoadingOptions(), wrong)()
    done = alone("serve", str(files[1]), str(wrong), "--port", "0")
    assert done.returncode == 2
    assert done.stderr.startswith(f"transduce: {wrong}: ")
    assert done.stderr.count("\n") == 1
    with pytest.raises(FileNotFoundError):
        _loader(LoadingOptions(), tmp_path / "none.engine")()
    with pytest.raises(UserError, match="leave out --checkpoint"):
        _loader(LoadingOptions(precision="int8"), files[0])


def test_a_file_has_the_name_of_its_model() -> None:
    assert names_of(["a/de-en.engine", "x=b.engine"]) == {"de-en": Path("a/de-en.engine"), "x": Path("b.engine")}
