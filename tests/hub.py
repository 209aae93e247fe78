"""A local stand-in for the Hugging Face hub, with the parts of its API that uploading and downloading use."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub:
    """Repositories of models. Each has a list of commits, and a commit is a table of files. ``seen`` lists all
    requests.
    """

    def __init__(self) -> None:
        self.commits: dict[str, list[dict[str, bytes]]] = {}
        self.private: set[str] = set()
        self.seen: list[str] = []
        self.url = ""

    def put(self, name: str, files: dict[str, bytes]) -> None:
        """Adds a commit that has only these files."""
        self.commits.setdefault(name, [{}]).append(files)

    def revision(self, name: str) -> str:
        return hashlib.sha1(f"{name} {len(self.commits[name])}".encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: Any) -> None:
        return

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def missing(self) -> None:
        self.answer(404, {"error": "not found"}, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "not found"})

    def do_POST(self) -> None:
        body = self.body()
        path = self.path.partition("?")[0]
        self.hub.seen.append(f"POST {path}")
        if path == "/api/repos/create":
            table = json.loads(body)
            name = f"{table.get('organization') or 'me'}/{table['name']}"
            self.hub.commits.setdefault(name, [{}])
            if table.get("private") or table.get("visibility") == "private":
                self.hub.private.add(name)
            self.answer(200, {"url": f"{self.hub.url}/{name}", "id": name})
        elif path.startswith("/api/models/") and "/preupload/" in path:
            files = json.loads(body)["files"]
            self.answer(200, {"files": [{**each, "uploadMode": "regular", "shouldIgnore": False} for each in files]})
        elif path.startswith("/api/models/") and "/commit/" in path:
            name = path.removeprefix("/api/models/").partition("/commit/")[0]
            lines = [json.loads(line) for line in body.splitlines() if line.strip()]
            added = {
                line["value"]["path"]: base64.b64decode(line["value"]["content"])
                for line in lines
                if line["key"] == "file"
            }
            self.hub.put(name, {**self.hub.commits[name][-1], **added})
            revision = self.hub.revision(name)
            page = f"{self.hub.url}/{name}/commit/{revision}"
            self.answer(200, {"commitUrl": page, "commitOid": revision, "pullRequestUrl": None})
        else:
            self.answer(200, {})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.hub.seen.append(f"{self.command} {path}")
        if path.startswith("/api/models/"):
            owner, model, *rest = path.removeprefix("/api/models/").split("/")
            self.information(f"{owner}/{model}", rest)
        elif "/resolve/" in path:
            name, _, rest = path.lstrip("/").partition("/resolve/")
            files = self.hub.commits.get(name, [{}])[-1]
            file = rest.partition("/")[2]
            if file not in files:
                self.answer(404, {}, {"X-Error-Code": "EntryNotFound"})
                return
            tag = hashlib.sha1(files[file]).hexdigest()
            headers = {"ETag": f'"{tag}"', "X-Repo-Commit": self.hub.revision(name), "Accept-Ranges": "bytes"}
            self.answer(200, files[file], headers)
        else:
            self.missing()

    def information(self, name: str, rest: list[str]) -> None:
        if name not in self.hub.commits:
            self.missing()
            return
        files = self.hub.commits[name][-1]
        if rest[:1] == ["tree"]:
            tree = [
                {"type": "file", "path": file, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for file, content in files.items()
            ]
            self.answer(200, tree)
            return
        siblings = [{"rfilename": file, "size": len(content)} for file, content in files.items()]
        self.answer(
            200, {"id": name, "modelId": name, "sha": self.hub.revision(name), "siblings": siblings, "tags": []}
        )


@contextmanager
def served() -> Iterator[Hub]:
    """Serves a hub at its ``url`` until the context ends."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
