"""The server over sockets: clients that are slow, that hang or that break off, clients of other packages, and the end.

A server runs in a thread, with a model that can be stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from asyncio import Transport
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("fastapi")

from test_scheduler import PATIENCE, Gate

import transduce
from transduce.wings.serving.app import application
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.connection import Together
from transduce.wings.serving.gate import Gate as Door
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.server import address, bound, new_server

LIMITS = Limits(body_seconds=0.3, connections=8, seconds=20, batch_size=2)
Started = tuple[str, int, Any]  # host, port, uvicorn's server


@pytest.fixture(scope="module")
def model(trained: Path) -> transduce.Transducer:
    return transduce.load(trained, device="cpu")


@pytest.fixture
def gate(model: transduce.Transducer) -> Iterator[Gate]:
    gate = Gate(model.model)
    gate.open.set()
    yield gate
    gate.open.set()


@contextmanager
def running(catalogue: Catalogue, app: Any = None, wait: bool = True) -> Iterator[Started]:
    """Runs a server in a thread, and stops it at the end. ``app`` is the application of the catalogue by default. Waits
    until all runs are loaded, unless ``wait`` is False.
    """
    listening, ready = bound("127.0.0.1", 0), threading.Event()
    server = new_server(app or application(catalogue), catalogue, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    host, port = listening.getsockname()
    assert address(listening) == f"http://{host}:{port}"
    thread.start()
    assert not wait or ready.wait(PATIENCE)
    yield host, port, server
    server.should_exit = True
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.fixture
def started(model: transduce.Transducer, gate: Gate) -> Iterator[Started]:
    held: Any = replace(model, model=gate)
    with running(Catalogue.of({"de-en": held}, LIMITS)) as place:
        yield place
        gate.open.set()


def request(body: Any, path: str = "/predict", more: str = "") -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{more}content-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def connected(started: Started) -> socket.socket:
    return socket.create_connection(started[:2], timeout=PATIENCE)


def received(sock: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    return b"".join(parts)


def ask(started: Started, body: Any, path: str = "/predict") -> bytes:
    with connected(started) as sock:
        sock.sendall(request(body, path))
        return received(sock)


def _flood(sock: socket.socket, content: bytes) -> None:
    """Sends the content again and again, until the server breaks off, and reads nothing."""
    sock.settimeout(PATIENCE)
    with suppress(ConnectionError):
        for _ in range(1000):
            sock.sendall(content)


HOSTILE: dict[str, Callable[[socket.socket], None]] = {
    "silent": lambda sock: None,
    "slow headers": lambda sock: sock.sendall(b"POST /predict HTTP/1.1\r\nhost:"),
    "slow body": lambda sock: sock.sendall(request({"source": "abc"})[:-3]),
    "no HTTP": lambda sock: sock.sendall(b"\x00\xff" * 50 + b"\r\n\r\n"),
    "endless headers": lambda sock: sock.sendall(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 1000),
    "requests without end": lambda sock: _flood(sock, b"GET /studio/panel.js HTTP/1.1\r\nhost: h\r\n\r\n" * 1000),
    "two lengths": lambda sock: sock.sendall(request({"source": "abc"}, more="content-length: 3\r\n")),
}


@pytest.mark.parametrize(
    "field", [b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 60_000, b"GET / HTTP/1.1\r\nx: " + b"y" * 400_000]
)
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_headers_have_a_limit(started: Started, field: bytes, end: bytes) -> None:
    with connected(started) as sock:
        with suppress(ConnectionError):
            sock.sendall(field + end)
        with suppress(ConnectionError):
            answer = received(sock)
            assert answer == b"" or (b" 431 " in answer and b"more than 65,536 bytes" in answer)
            return
    assert b" 200 " in ask(started, {"source": "abc"})


def test_headers_that_are_a_little_too_long_are_told(started: Started) -> None:
    with connected(started) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nx: " + b"y" * 65_600 + b"\r\n\r\n")
        assert b" 431 " in received(sock)
    with connected(started) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nconnection: close\r\nx: " + b"y" * 60_000 + b"\r\n\r\n")
        assert b" 200 " in received(sock)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_client_delays_nobody_and_is_left(started: Started, kind: str) -> None:
    with connected(started) as sock:
        HOSTILE[kind](sock)
        assert b" 200 " in ask(started, {"source": "abc"})
        try:
            answer = received(sock)  # the server closes it
        except ConnectionResetError:
            answer = b""
        if answer:
            assert re.match(rb"HTTP/1.1 4\d\d ", answer)
    if kind == "slow body":
        assert b"the body took more than 0.3 seconds" in answer
        assert b" 408 " in answer


def test_a_client_that_does_not_read_is_left(model: transduce.Transducer) -> None:
    """It asks for more than all buffers hold, one request at a time. The others are answered meanwhile."""
    with running(Catalogue.of({"m": model}, Limits(seconds=0.5))) as place, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(place[:2])
        sock.settimeout(0.05)
        left = False
        for number in range(PATIENCE * 20):
            try:
                sock.sendall(b"GET /studio/panel.js HTTP/1.1\r\nhost: h\r\n\r\n" * 4)
            except TimeoutError:
                continue  # the server does not read either, until it breaks off
            except ConnectionError:
                left = True
                break
            if number % 10 == 0:
                assert b" 200 " in ask(place, {"source": "abc"})
            time.sleep(0.01)
        assert left


@pytest.mark.parametrize("bug", [False, True])
def test_an_answer_that_is_cut_is_a_line_in_the_log(
    model: transduce.Transducer, caplog: pytest.LogCaptureFixture, bug: bool
) -> None:
    """An answer of a million bytes ends in its middle: at its deadline, or by a bug, which alone has a traceback."""

    async def half(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000000")]})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        if bug:
            raise ZeroDivisionError("a bug")
        await asyncio.sleep(PATIENCE)

    limits = Limits(seconds=0.2)
    catalogue = Catalogue.of({"m": model}, limits)
    with running(catalogue, Door(half, limits)) as place, connected(place) as sock:
        sock.sendall(b"GET /stream HTTP/1.1\r\nhost: h\r\n\r\n")
        with suppress(ConnectionResetError):
            assert received(sock).endswith(b"abc")
    (told,) = caplog.records if not bug else caplog.records[1:]
    reason = "an error inside the server" if bug else "the request was not answered before its deadline"
    assert told.getMessage().startswith(f"GET '/stream': the answer was cut, because {reason}")
    assert ("ZeroDivisionError" in caplog.text) == ("Traceback" in caplog.text) == bug


def test_what_is_written_in_one_turn_is_sent_together() -> None:
    """Nothing is lost or reordered if the connection ends in the same turn."""
    sent, turns = list[object](), list[Any]()
    transport = SimpleNamespace(
        write=sent.append, close=lambda: sent.append("closed"), abort=lambda: sent.append("aborted"), name="inner"
    )
    together = Together(cast(Transport, transport), turns.append)
    together.write(b"head")
    together.write(b"body")
    assert not sent
    assert len(turns) == 1
    turns.pop()()
    together.write(b"a")
    together.close()
    together.write(b"b")
    together.abort()
    for turn in turns:
        turn()
    assert sent == [b"headbody", b"a", "closed", b"b", "aborted"]
    assert together.name == "inner"


def test_a_second_request_may_not_hang_either(started: Started) -> None:
    with connected(started) as sock:
        sock.sendall(request({"source": "abc"}).replace(b"connection: close\r\n", b""))
        assert b" 200 " in sock.recv(65536)
        sock.sendall(b"POST /pre")
        begun = time.monotonic()
        with suppress(ConnectionResetError):
            received(sock)
        assert time.monotonic() - begun < 10


def test_a_client_that_has_gone_leaves_its_place(started: Started, gate: Gate) -> None:
    """Its request is cancelled: the next one is answered, and the metrics tell."""
    gate.open.clear()
    with connected(started) as first:
        first.sendall(request({"source": "abc"}))
        assert gate.asked.wait(PATIENCE)
    with connected(started) as half:
        half.sendall(request({"source": "cab"}))
        half.shutdown(socket.SHUT_WR)
        assert received(half) == b""
    gate.open.set()
    assert b" 200 " in ask(started, {"source": "cab"})
    with connected(started) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
        text = received(sock).decode()
    assert 'transduce_requests_total{route="/predict",status="499"} 2.0' in text


def test_answers_are_sent_at_once() -> None:
    with bound("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_connections_are_limited(started: Started) -> None:
    others = [connected(started) for _ in range(LIMITS.connections)]
    assert b" 503 " in ask(started, {"source": "abc"})
    for each in others:
        each.close()
    for _ in range(PATIENCE * 10):
        if b" 200 " in ask(started, {"source": "abc"}):
            return
        time.sleep(0.1)
    pytest.fail("the connections stay")


def test_a_stop_finishes_what_has_begun(started: Started, gate: Gate, model: transduce.Transducer) -> None:
    gate.open.clear()
    with connected(started) as begun:
        begun.sendall(request({"source": "abc"}))
        assert gate.asked.wait(PATIENCE)
        started[2].should_exit = True
        for _ in range(PATIENCE * 10):
            try:
                connected(started).close()
                time.sleep(0.1)
            except OSError:
                break
        else:
            pytest.fail("the server takes connections while it stops")
        gate.open.set()
        answer = received(begun)
    assert b" 200 " in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["answers"][0]["text"] == model("abc")


# --------------------------------------------------------- clients of others


def test_the_client_of_openai(started: Started, model: transduce.Transducer) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{started[1]}/v1", api_key="none", max_retries=0)
    assert [each.id for each in client.models.list()] == ["de-en"]
    assert client.completions.create(model="de-en", prompt="abc").choices[0].text == model("abc")
    with client.completions.create(model="de-en", prompt="abc", stream=True) as events:
        assert "".join(event.choices[0].text for event in events) == model("abc")
    with pytest.raises(openai.NotFoundError, match=r"model = 'x' is not served here\. Known: de-en"):
        client.completions.create(model="x", prompt="abc")
    client.close()


def test_the_client_of_libretranslate(started: Started, model: transduce.Transducer) -> None:
    libretranslatepy = pytest.importorskip("libretranslatepy")
    client = libretranslatepy.LibreTranslateAPI(f"http://127.0.0.1:{started[1]}")
    assert client.translate("abc", "de", "en") == model("abc")
    assert [(each["code"], each["name"]) for each in client.languages()] == [("de", "German"), ("en", "English")]
    assert client.translate("abc", "auto", "en") == model("abc")
    assert client.detect("Ein Hund läuft über die Straße.")[0]["language"] == "de"


# ------------------------------------------------------------------- process


def test_the_command_serves_and_stops(trained: Path, model: transduce.Transducer) -> None:
    command = [sys.executable, "-m", "transduce", "serve", f"mine={trained}", "--port", "0", "--device", "cpu"]
    environment = os.environ | {"TRANSDUCE_KEY": "secret"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"serves mine at http://127\.0\.0\.1:(\d+) ", line)
        assert found is not None, line + process.stderr.read()
        here = ("127.0.0.1", int(found.group(1)), None)
        assert b" 401 " in ask(here, {"source": "abc"})
        with connected(here) as sock:
            sock.sendall(request({"source": "abc"}, more="authorization: Bearer secret\r\n"))
            assert json.loads(received(sock).partition(b"\r\n\r\n")[2])["answers"][0]["text"] == model("abc")
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        process.stderr.close()
        status = process.wait(PATIENCE)
    assert (status, rest) == (0, "")
