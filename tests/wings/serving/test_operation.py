"""What an operator of a server needs: log, health, readiness, keys, proxies, other sites, and runs in little memory."""

from __future__ import annotations

import io
import json
import logging
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from test_cli import Call
from test_scheduler import PATIENCE, Gate
from test_serve_connections import connected, gate, model, received, request, running  # noqa: F401

import transduce
from transduce.core.errors import UserError
from transduce.wings.serving.app import application
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.keys import Keys
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.loaded_run import LoadedRun
from transduce.wings.serving.logs import Lines, logging_to_stderr
from transduce.wings.serving.proxies import Proxies
from transduce.wings.serving.visit import Visit, current_visit

ORIGIN = "https://page.example"
NAMED = "# who may ask\nalice wonder\nbob builder\nalice wonder2\n"


@pytest.fixture(scope="module")
def client(model: transduce.Transducer) -> Iterator[TestClient]:
    app = application(
        Catalogue.of({"de-en": model}), Keys.of(NAMED, "keys"), origins=[ORIGIN], proxies=Proxies(["10.0.0.0/8"])
    )
    with TestClient(app, headers={"x-api-key": "wonder"}, raise_server_exceptions=False) as client:
        client.get("/models")  # waits until all is loaded
        yield client


def curl(*arguments: str) -> str:
    return subprocess.run(["curl", "-sS", "--max-time", "60", *arguments], capture_output=True, text=True).stdout


@contextmanager
def serving(*arguments: Any) -> Iterator[tuple[str, Callable[[], str]]]:
    """A server as a process of its own: its address, and a function that stops it and returns the rest of its log."""
    command = [sys.executable, "-m", "transduce", "serve", *map(str, arguments), "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    before: list[str] = []
    try:
        while (found := re.search(r" at (http://\S+)", line := process.stderr.readline())) is None:
            before.append(line)
            assert line, "".join(before)

        def stop() -> str:
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=PATIENCE)
            return "".join(before) + rest

        yield found.group(1), stop
    finally:
        process.kill()
        process.wait()


# ----------------------------------------------------------------------- log


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_log_has_an_object_for_each_request_and_no_key(trained: Path, tmp_path: Path) -> None:
    """With curl: ids, names of keys, HEAD, and a client that tries to write a line of its own."""
    keys = tmp_path / "keys"
    keys.write_text(NAMED, encoding="utf-8")
    keys.chmod(0o644)
    with serving(f"m={trained}", "--key-file", keys, "--log-level", "info", "--log-format", "json") as (url, stop):
        data = ["-H", "content-type: application/json", "-d", '{"source": "abc"}', f"{url}/predict"]
        asked = curl("-i", "-H", "X-Request-ID: mine-1", "-H", "Authorization: Bearer builder", *data)
        assert "x-request-id: mine-1" in asked
        curl("-H", "X-Request-ID: two\\nlines {", "-H", "X-API-Key: wonder2", *data)
        assert curl("-i", "-H", "X-API-Key: wrong", *data).startswith("HTTP/1.1 401 ")
        head = curl("-I", f"{url}/health")
        assert head.startswith("HTTP/1.1 200 ")
        assert "content-length: " in head
        curl("--path-as-is", f"{url}/a%0A2026%20error%20lie?wonder")
        log = stop()
    warning, *lines = log.splitlines()
    assert warning == f"warning: other users can read or change {keys} (mode 644): chmod 600 {keys}"
    records = [json.loads(line) for line in lines]
    visits = [each for each in records if each["logger"].endswith(".access")]
    shown = [(each["method"], each["path"], each["route"], each["key"], each["status"]) for each in visits]
    assert shown == [
        ("POST", "/predict", "/predict", "bob", 200),
        ("POST", "/predict", "/predict", "alice", 200),
        ("POST", "/predict", "other", None, 401),
        ("HEAD", "/health", "/health", None, 200),
        ("GET", "/a\n2026 error lie", "other", None, 401),
    ]
    assert visits[0]["id"] == "mine-1"
    assert re.fullmatch("[0-9a-f]{16}", visits[1]["id"])
    assert (visits[0]["model"], visits[0]["client"]) == ("m", "127.0.0.1")
    assert visits[0]["bytes"] > 50
    assert not any(key in log for key in ("wonder", "builder", "wrong"))


def test_lines_of_text_are_one_for_each_request(client: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr("info", "text"):
        client.get("/a%0Ab", headers={"x-request-id": "a b"})
        client.get("/health", headers={"x-request-id": "c/1"})
    first, second = capsys.readouterr().err.splitlines()
    assert "GET '/a\\nb'" in first
    assert re.search(r"id=[0-9a-f]{16}$", first)
    assert re.fullmatch(
        r"\S+Z info testclient - GET '/health' - 200 \d+ bytes \d+\.\d ms id=c/1",
        second,
    )
    with logging_to_stderr("warning", "text"):
        client.get("/health")
    assert capsys.readouterr().err == ""


def test_a_reader_of_the_log_that_stops_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.wings.serving.logs.WAITING", 2)
    free, written = threading.Event(), io.StringIO()

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            assert free.wait(PATIENCE)
            return written.write(text)

    handler = Lines(Slow())
    handler.emit(logging.makeLogRecord({"msg": "first"}))
    time.sleep(0.3)  # the thread waits for the reader
    for number in range(5):
        handler.emit(logging.makeLogRecord({"msg": f"{number}"}))
    free.set()
    handler.stop()
    lines = written.getvalue().splitlines()
    assert lines == ["first", "0", "1", "3 lines of the log are lost: its reader is too slow"]


# --------------------------------------------------------- health, readiness


def test_head_is_answered_where_get_is(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    gets = [path for path, verbs in paths.items() if "get" in verbs and "{" not in path]
    assert {"/health", "/ready", "/models", "/metrics", "/v1/models", "/languages"} <= set(gets)
    for path in [*gets, "/", "/docs", "/openapi.json", "/studio/studio.js"]:
        whole, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == whole.headers["content-type"]
        if path != "/metrics":
            assert head.headers["content-length"] == str(len(whole.content)), path
    assert client.head("/predict").status_code == 405


def test_a_server_is_alive_before_it_is_ready(model: transduce.Transducer) -> None:
    free = threading.Event()

    def load() -> LoadedRun:
        assert free.wait(PATIENCE)
        return LoadedRun(model)

    with TestClient(application(Catalogue({"m": load}, Limits()))) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/ready").json() == {"status": "not ready", "error": "the runs are not loaded yet"}
        assert client.get("/ready").status_code == 503
        free.set()
        assert client.post("/predict", json={"source": "abc"}).json()["answers"][0]["text"] == model("abc")
        assert client.get("/ready").json() == {"status": "ready"}


def test_a_server_that_stops_is_not_ready_but_answers(model: transduce.Transducer) -> None:
    catalogue = Catalogue.of({"m": model})
    with running(catalogue) as started:
        server = started[2]
        server._drain = 0.5
        server.handle_exit(signal.SIGTERM, None)
        with connected(started) as sock:
            sock.sendall(b"GET /ready HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
            answer = received(sock)
        assert b" 503 " in answer
        assert b"the server stops" in answer
        with connected(started) as sock:
            sock.sendall(request({"source": "abc"}))
            assert b" 200 " in received(sock)
        for _ in range(PATIENCE * 10):
            if server.should_exit:
                return
            time.sleep(0.1)
        pytest.fail("the server does not stop")


def test_a_run_that_cannot_be_loaded_ends_the_server(model: transduce.Transducer) -> None:
    def broken() -> LoadedRun:
        raise UserError("this run is broken")

    with running(Catalogue({"m": lambda: LoadedRun(model), "n": broken}, Limits()), wait=False) as started:
        for _ in range(PATIENCE * 10):
            if started[2].should_exit:
                break
            time.sleep(0.05)
        assert str(started[2].failure) == "this run is broken"


# ---------------------------------------------------------------------- docs


def test_the_page_of_the_interface_has_every_route_and_nothing_from_outside(client: TestClient) -> None:
    answer = client.get("/docs")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    paths = client.get("/openapi.json").json()["paths"]
    for path, verbs in paths.items():
        for verb, given in verbs.items():
            assert f">{verb.upper()}</span>{path}</code>" in answer.text
            assert given.get("description"), path
    assert "<script" not in answer.text
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", answer.text)
    assert "curl http://testserver/predict -H &#x27;content-type: application/json&#x27;" in answer.text
    evil = client.get("/docs", headers={"host": "a<script>"})
    assert "<script" not in evil.text
    assert TestClient(client.app).get("/docs").status_code == 200  # without a key


# ---------------------------------------------------------------- other sites


def test_pages_of_one_other_site_may_ask(client: TestClient) -> None:
    ask = {"access-control-request-method": "POST", "access-control-request-headers": "x-api-key,content-type"}
    bare = TestClient(client.app)  # a browser sends no key before it may
    allowed = bare.options("/predict", headers={"origin": ORIGIN, **ask})
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert bare.options("/predict", headers={"origin": "https://evil.example", **ask}).status_code == 400
    answer = client.post("/predict", json={"source": "abc"}, headers={"origin": ORIGIN})
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "x-request-id" in answer.headers["access-control-expose-headers"].lower()
    refused = bare.post("/predict", json={"source": "abc"}, headers={"origin": ORIGIN})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, ORIGIN)
    evil = client.post("/predict", json={"source": "abc"}, headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in evil.headers


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [True, False])
def test_a_browser_lets_a_page_of_another_site_ask(
    browser: Any,
    model: transduce.Transducer,
    allowed: bool,
) -> None:
    """Two servers are two sites. The page of one asks the other, with a header that needs a preflight."""
    asking = """async (url) => {
      const headers = {"content-type": "application/json", "x-api-key": "secret"};
      try { return await (await fetch(url, {method: "POST", headers, body: '{"source": "abc"}'})).json(); }
      catch (error) { return String(error); }
    }"""
    first = Catalogue.of({"m": model})
    with running(first) as (host, port, _):
        origins = [f"http://{host}:{port}"] if allowed else ["https://else.example"]
        second = Catalogue.of({"m": model})
        app = application(second, Keys.of("secret", "here"), origins=origins)
        with running(second, app) as (other_host, other_port, _):
            page = browser.new_page()
            page.goto(f"http://{host}:{port}/health")
            found = page.evaluate(asking, f"http://{other_host}:{other_port}/predict")
            page.close()
    if allowed:
        assert found["answers"][0]["text"] == model("abc")
    else:
        assert "TypeError" in found


def test_without_the_option_no_other_site_may_ask(model: transduce.Transducer) -> None:
    with TestClient(application(Catalogue.of({"m": model}))) as client:
        answer = client.get("/health", headers={"origin": ORIGIN})
        assert "access-control-allow-origin" not in answer.headers


# -------------------------------------------------------------------- proxies


@pytest.mark.parametrize(
    ("peer", "headers", "client", "base"),
    [
        ("10.1.1.1", {"x-forwarded-for": "1.2.3.4"}, ("1.2.3.4", 0), "http://h"),
        ("11.1.1.1", {"x-forwarded-for": "1.2.3.4", "x-forwarded-proto": "https"}, ("11.1.1.1", 9), "http://h"),
        ("10.1.1.1", {"x-forwarded-for": "6.6.6.6, 1.2.3.4, 10.0.0.2"}, ("1.2.3.4", 0), "http://h"),
        ("10.1.1.1", {"x-forwarded-for": "[2001:db8::1]:443"}, ("2001:db8::1", 0), "http://h"),
        ("10.1.1.1", {"x-forwarded-for": "1.2.3.4:55"}, ("1.2.3.4", 0), "http://h"),
        ("10.1.1.1", {"x-forwarded-for": "lie\n"}, ("10.1.1.1", 9), "http://h"),
        ("::ffff:10.1.1.1", {"x-forwarded-proto": "https"}, ("::ffff:10.1.1.1", 9), "https://h"),
        ("10.1.1.1", {"x-forwarded-proto": "javascript"}, ("10.1.1.1", 9), "http://h"),
        ("10.1.1.1", {"x-forwarded-prefix": "/a/b/"}, ("10.1.1.1", 9), "http://h/a/b"),
        ("10.1.1.1", {"x-forwarded-prefix": "//evil.org"}, ("10.1.1.1", 9), "http://h"),
        ("10.1.1.1", {"host": "a b"}, ("10.1.1.1", 9), ""),
        ("testclient", {"x-forwarded-for": "1.2.3.4"}, ("testclient", 9), "http://h"),
    ],
)
def test_headers_of_a_trusted_proxy(peer: str, headers: dict[str, str], client: Any, base: str) -> None:
    sent = [(name.encode(), value.encode()) for name, value in ({"host": "h"} | headers).items()]
    scope = {"client": (peer, 9), "scheme": "http", "headers": sent}
    proxies = Proxies(["10.0.0.0/8", "::1"])
    visit = Visit("1", "-", "GET", "/", scope)
    assert proxies.client(scope) == client
    assert Context().run(lambda: (current_visit.set(visit), proxies.base())[1]) == base
    assert Proxies().client(scope) == (peer, 9)


# ----------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("text", "names", "problem"),
    [
        ("secret", {"secret": "default", "other": None, "": None}, ""),
        (NAMED, {"wonder": "alice", "wonder2": "alice", "builder": "bob", "alice": None}, ""),
        ("a b c", {}, "here: line 1 has 3 words: NAME KEY was expected"),
        ("a one\ntwo", {}, "here: line 2 has 1 words"),
        ("a one\nb one", {}, "here: the key b is the same as another one"),
        ("a/b one", {}, "here: 'a/b' is no name of a key"),
        ("a öne", {}, "letters that a header cannot have"),
        ("# none\n", {}, "here is empty"),
    ],
)
def test_keys_have_names(text: str, names: dict[str, str | None], problem: str) -> None:
    if problem:
        with pytest.raises(UserError, match=re.escape(problem)) as told:
            Keys.of(text, "here")
        assert not any(word in str(told.value) for word in ("one ", "öne"))
    else:
        keys = Keys.of(text, "here")
        assert {key: keys.name_of(key) for key in names} == names
        assert keys.name_of(None) is None


def test_requests_are_counted_by_route_key_and_run(client: TestClient) -> None:
    client.post("/predict", json={"source": "abc"}, headers={"x-api-key": "builder"})
    client.post("/translate", json={"q": "abc", "target": "en", "api_key": "builder"}, headers={"x-api-key": "wonder2"})
    TestClient(client.app).post("/translate", json={"q": "abc", "target": "en", "api_key": "builder"})
    text = client.get("/metrics").text
    assert 'transduce_key_requests_total{key="bob",status="200"} 2.0' in text
    assert 'transduce_model_requests_total{model="de-en",status="200"}' in text
    assert 'transduce_request_seconds_count{route="/translate"} 2.0' in text
    assert 'transduce_response_bytes_total{route="/predict"}' in text
    assert 'transduce_loaded{model="de-en"} 1.0' in text
    families = {family.name for family in text_string_to_metric_families(text)}  # as Prometheus reads it
    assert {"transduce_requests", "transduce_request_seconds", "transduce_key_requests"} <= families
    assert "wonder" not in text


# ------------------------------------------------------- runs in little memory


def test_few_runs_are_in_memory_and_the_least_used_leaves(model: transduce.Transducer) -> None:
    loads: list[str] = []
    held: list[Any] = []

    def loader(name: str) -> Callable[[], LoadedRun]:
        def load() -> LoadedRun:
            loads.append(name)
            mine: Any = replace(model)
            held.append(weakref.ref(mine))
            return LoadedRun(mine)

        return load

    catalogue = Catalogue({name: loader(name) for name in "abc"}, Limits(), 2)
    with TestClient(application(catalogue)) as client:

        def ask(name: str) -> None:
            answer = client.post("/predict", json={"source": "abc", "model": name})
            assert answer.json()["answers"][0]["text"] == model("abc")

        described = client.get("/models").json()["models"]
        assert [(each["name"], each["reads"], each["loaded"]) for each in described] == [
            ("a", "text", True),
            ("b", "text", True),
            ("c", "text", False),
        ]
        assert loads == ["c", "b", "a"]
        ask("b")
        ask("c")  # a leaves: its last request is the oldest
        ask("b")
        assert loads == ["c", "b", "a", "c"]
        ask("a")
        assert loads[4:] == ["a"]
        assert 'transduce_loaded{model="c"} 0.0' in client.get("/metrics").text
        assert sum(each() is not None for each in held) == 2


def test_a_run_leaves_after_its_requests(model: transduce.Transducer, gate: Gate) -> None:
    gate.open.clear()
    slow: Any = replace(model, model=gate)
    catalogue = Catalogue({"slow": lambda: LoadedRun(slow), "quick": lambda: LoadedRun(model)}, Limits(), 1)
    found: dict[str, Any] = {}
    with TestClient(application(catalogue)) as client:

        def ask(key: str, name: str) -> threading.Thread:
            def post() -> None:
                found[key] = client.post("/predict", json={"source": "abc", "model": name})

            thread = threading.Thread(target=post)
            thread.start()
            return thread

        client.get("/models")
        first = ask("first", "slow")
        assert gate.asked.wait(PATIENCE)
        others = [ask("second", "quick"), ask("third", "slow")]
        time.sleep(0.2)
        assert not found  # quick waits until slow has answered, and slow is loaded again after quick
        gate.open.set()
        for each in (first, *others):
            each.join(PATIENCE)
    assert {key: answer.json()["answers"][0]["text"] for key, answer in found.items()} == dict.fromkeys(
        ("first", "second", "third"), model("abc")
    )


def test_a_run_that_cannot_be_loaded_again_is_told(
    model: transduce.Transducer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = iter([model, UserError("/secret/run is gone"), model])

    def load() -> LoadedRun:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return LoadedRun(found)

    with TestClient(application(Catalogue({"b": lambda: LoadedRun(model), "a": load}, Limits(), 1))) as client:
        client.get("/models")
        answer = client.post("/predict", json={"source": "abc", "model": "a"})
        assert answer.status_code == 503
        assert answer.json() == {"error": "a cannot be loaded now; the server's log says why"}
        assert "/secret/run is gone" in caplog.text
        assert client.post("/predict", json={"source": "abc", "model": "a"}).status_code == 200


# --------------------------------------------------------------- command line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--cors", "https://a.org/x"], "--cors https://a.org/x: the origin of a page was expected"),
        (["--cors", "a.org"], "--cors a.org: the origin"),
        (["--trust-proxy", "nginx"], "--trust-proxy nginx: the address of a proxy was expected"),
        (["--log-level", "loud"], "--log-level loud: debug, info, warning, error was expected"),
        (["--log-format", "xml"], "--log-format xml: text, json was expected"),
        (["--loaded", "0"], "--loaded"),
    ],
)
def test_wrong_options_of_an_operator(call: Call, trained: Path, arguments: list[str], line: str) -> None:
    status, _, err = call("serve", trained, "--port", 0, *arguments)
    assert (status, line in err) == (2, True), err
