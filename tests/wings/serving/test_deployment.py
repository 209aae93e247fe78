"""The examples of docs/serve.md for operators, run as they stand there: nginx with TLS, and a unit of systemd."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from test_engine_file import SEARCHES, TABLES, content
from test_scheduler import PATIENCE

import transduce
import transduce_engine

PAGE = (Path(__file__).parents[3] / "docs" / "serve.md").read_text(encoding="utf-8")
# Nothing is measured: the compiler need not optimise, and pip need not compile the many modules that nobody imports.
QUICK = os.environ | {"CFLAGS": "-O0", "CXXFLAGS": "-O0", "PIP_NO_COMPILE": "no"}
QUICK |= {"TRANSDUCE_VARIANTS": "portable", "CMAKE_ARGS": "-DVARIANTS=portable"}
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def example(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def command_of_unit(unit: str, run: Path, keys: Path, port: int) -> list[str]:
    """The command of ExecStart, with the paths and the port of this test."""
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words = [word.replace("%d/keys", str(keys)).replace("/srv/runs/de-en", str(run)) for word in line.split()]
    assert words[0] == "/opt/transduce/bin/transduce"
    words[words.index("--port") + 1] = str(port)
    return [sys.executable, "-m", "transduce", *words[1:], "--device", "cpu"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def waited(port: int) -> None:
    for _ in range(PATIENCE * 10):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"nothing listens at {port}")


@contextmanager
def nginx(folder: Path, upstream: int, port: int) -> Iterator[None]:
    """nginx with the example, with other ports and files, and a certificate of its own."""
    certificate, key = folder / "own.pem", folder / "own.key"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    site = example("nginx").replace("127.0.0.1:8000", f"127.0.0.1:{upstream}").replace("listen 443", f"listen {port}")
    site = site.replace("/etc/ssl/certs/example.org.pem", str(certificate))
    site = site.replace("/etc/ssl/private/example.org.key", str(key))
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"daemon off; pid {folder}/pid; error_log {folder}/errors; events {{}}\n"
    whole += f"http {{ access_log off; {temporary}\n{site} }}"
    (folder / "nginx.conf").write_text(whole, encoding="utf-8")
    process = subprocess.Popen([str(NGINX), "-c", str(folder / "nginx.conf"), "-p", str(folder)])
    try:
        waited(port)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx-light")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed, which makes the certificate")
def test_nginx_with_tls_before_the_command_of_the_unit(trained: Path, tmp_path: Path) -> None:
    keys, log = tmp_path / "keys", tmp_path / "log"
    keys.write_text("alice wonder\n", encoding="utf-8")
    keys.chmod(0o600)
    upstream, port = free_port(), free_port()
    base = f"https://localhost:{port}/transduce"

    def curl(*arguments: str) -> str:
        whole = ["curl", "-sS", "--cacert", str(tmp_path / "own.pem"), "--max-time", "60", *arguments]
        return subprocess.run(whole, capture_output=True, text=True, check=True).stdout

    with log.open("w") as written:
        server = subprocess.Popen(command_of_unit(example("ini"), trained, keys, upstream), stderr=written)
    try:
        waited(upstream)
        with nginx(tmp_path, upstream, port):
            for _ in range(PATIENCE * 10):
                if curl(f"{base}/ready") == '{"status": "ready"}':
                    break
                time.sleep(0.1)
            asked = ["-H", "Authorization: Bearer wonder", "-H", "content-type: application/json"]
            asked += ["--interface", "127.0.0.2", "-H", "X-Forwarded-For: 6.6.6.6", "-d", '{"source": "abc"}']
            answer = curl("-i", *asked, f"{base}/predict")
            model = transduce.load(trained, device="cpu")
            assert json.loads(answer.split("\n\n")[-1].split("\r\n\r\n")[-1])["answers"][0]["text"] == model("abc")
            (given,) = re.findall(r"(?i)x-request-id: (\w{32})", answer)
            assert curl(*asked, f"{base}/stream").endswith('data: {"done": true}\n\n')
            described = json.loads(curl("-H", "Authorization: Bearer wonder", f"{base}/openapi.json"))
            assert described["servers"] == [{"url": base}]
            assert f"curl {base}/predict" in curl(f"{base}/docs")
            assert "transduce studio" in curl(f"{base}/")
            assert "403 Forbidden" in curl("-H", "Authorization: Bearer wonder", f"{base}/metrics")
            assert '"error": "the key is missing' in curl("-d", "{}", f"{base}/predict")
    finally:
        server.terminate()
        assert server.wait(PATIENCE) == 0
    records = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    (found,) = [each for each in records if each.get("id") == given]
    assert (found["client"], found["key"], found["path"], found["status"]) == ("127.0.0.2", "alice", "/predict", 200)


def index_is_there() -> bool:
    try:
        urllib.request.urlopen("https://pypi.org/simple/pip/", timeout=10).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed, which compiles the native engine")
def test_the_commands_of_the_container_make_a_server(trained: Path) -> None:
    if not index_is_there():
        pytest.skip("the package index cannot be reached, from which the container installs")
    script = Path(__file__).parents[3] / "scripts" / "container"
    done = subprocess.run([sys.executable, str(script), str(trained)], capture_output=True, text=True, env=QUICK)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == transduce.load(trained, device="cpu", engine="native")("abc")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed, which compiles the engine")
def test_the_commands_of_the_container_without_pytorch_make_a_server(tmp_path: Path) -> None:
    if not index_is_there():
        pytest.skip("the package index cannot be reached, from which the container installs")
    file = tmp_path / "m.engine"
    file.write_bytes(content(TABLES["transformer, pre-norm"], SEARCHES["greedy"])[1])
    script = Path(__file__).parents[3] / "scripts" / "container"
    command = [sys.executable, str(script), str(file), "--keep", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, env=QUICK)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == transduce_engine.load(file)("abc")
    (place,) = (tmp_path / "kept" / "1" / "venv" / "lib").glob("python3*/site-packages")
    installed = {path.name for path in place.iterdir()}
    assert {"transduce", "transduce_engine", "fastapi"} <= installed
    assert not installed & {"torch", "numpy"}
    (folder,) = {each.parent for each in (place / "transduce").rglob("engine_file.py")}
    assert folder == place / "transduce" / "wings" / "serving"
    left_out = {"pip", "setuptools", "pkg_resources", "_distutils_hack", "tokenizers", "huggingface_hub", "hf_xet"}
    size = sum(path.stat().st_size for path in place.rglob("*") if path.relative_to(place).parts[0] not in left_out)
    assert size < 60e6


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    unit = tmp_path / "transduce.service"
    unit.write_text(example("ini").replace("/opt/transduce/bin/transduce", sys.executable), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    problems = [line for line in done.stderr.splitlines() if "transduce.service" in line]
    assert problems == []
    assert done.returncode == 0, done.stderr


def test_the_command_of_the_unit_has_options_that_exist(
    tmp_path: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    command = command_of_unit(example("ini"), tmp_path / "none", tmp_path / "keys", free_port())
    (tmp_path / "keys").write_text("alice wonder\n", encoding="utf-8")
    assert command[1:3] == ["-m", "transduce"]
    status, _, err = call(*command[3:])
    assert status == 2
    assert "No such option" not in err
    assert str(tmp_path / "none") in err
