"""``transduce serve``: trained runs behind HTTP, with a page for the browser."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from transduce.cli.options import LoadingOptions
from transduce.core.errors import MissingPackageError, UserError
from transduce.core.files import is_engine_file
from transduce.core.text_files import read_text

if TYPE_CHECKING:
    from transduce.wings.serving.answerer import Answerer
    from transduce.wings.serving.keys import Keys
    from transduce.wings.serving.limits import Limits

KEY = "TRANSDUCE_KEY"  # an environment variable
READABLE = 0o027  # bits of a file's mode: others may read it, or others and the group may change it
LEVELS, FORMATS = ("debug", "info", "warning", "error"), ("text", "json")


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options for the limits of a server."""

    batch_size: Annotated[int, typer.Option(min=1, help="Sentences searched at a time, for each run.")] = 64
    queue: Annotated[int, typer.Option(min=1, help="Sentences that may wait; more get status 429.")] = 256
    seconds: Annotated[float, typer.Option(help="The most time for a request.")] = 60.0
    headers: Annotated[int, typer.Option(min=1, help="The most bytes of the headers of a request.")] = 65_536
    body: Annotated[int, typer.Option(min=1, help="The most bytes of a request.")] = 1_000_000
    upload: Annotated[int, typer.Option(min=1, help="The most bytes of a request with files.")] = 20_000_000
    characters: Annotated[int, typer.Option(min=1, help="The most characters of a text.")] = 10_000
    texts: Annotated[int, typer.Option(min=1, help="The most texts in one request.")] = 128
    nbest: Annotated[int, typer.Option(min=1, help="The most outputs for a source.")] = 50
    tokens: Annotated[int, typer.Option(min=1, help="The most tokens that a language model writes.")] = 1000
    loaded: Annotated[
        int | None, typer.Option(min=1, help="The most runs in memory; others are loaded when they are asked for.")
    ] = None

    @property
    def limits(self) -> Limits:
        from transduce.wings.serving.limits import Limits

        return Limits(
            batch_size=self.batch_size,
            queue=self.queue,
            seconds=self.seconds,
            headers=self.headers,
            body=self.body,
            upload=self.upload,
            characters=self.characters,
            texts=self.texts,
            nbest=self.nbest,
            tokens=self.tokens,
        )


@dataclass(frozen=True, kw_only=True)
class OperatorOptions:
    """Options for the address of a server, for who may ask it, and for its log."""

    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 is every network.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 8000
    key_file: Annotated[
        Path | None,
        typer.Option(
            help=f"A file with the key that clients must send, or a line NAME KEY for each client; or set {KEY}.",
            metavar="FILE",
        ),
    ] = None
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name under which clients may ask for a server without a key, such as that of a proxy."),
    ] = None
    cors: Annotated[
        list[str] | None,
        typer.Option(
            help="Pages of this site may ask the server, such as https://example.org; '*' is every site.",
            metavar="ORIGIN",
        ),
    ] = None
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="A proxy whose X-Forwarded headers are true, by its address or network, such as 127.0.0.1.",
            metavar="ADDRESS",
        ),
    ] = None
    log_level: Annotated[
        str, typer.Option(help=f"{', '.join(LEVELS)}; info has a line for each request.", metavar="LEVEL")
    ] = "warning"
    log_format: Annotated[str, typer.Option(help="text, or json: an object on each line.", metavar="FORMAT")] = "text"
    drain: Annotated[
        float, typer.Option(min=0, help="Seconds after SIGTERM in which /ready has status 503 and all else goes on.")
    ] = 0.0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("--log-level", self.log_level, LEVELS),
            ("--log-format", self.log_format, FORMATS),
        ):
            if value not in known:
                raise UserError(f"{name} {value}: {', '.join(known)} was expected")
        for origin in self.cors or ():
            check_origin(origin)

    @property
    def open_to_network(self) -> bool:
        """True if other machines can reach the server."""
        return self.host != "localhost" and not self.host.startswith("127.") and self.host != "::1"

    def names(self) -> frozenset[str]:
        """The names under which clients may ask for the server, in lower case."""
        return frozenset(
            name.lower() for name in ("localhost", self.host, socket.gethostname(), *(self.allow_host or ()))
        )

    def keys(self) -> Keys | None:
        """The keys of the file, otherwise of the environment; None if neither is given. Warns if others can read the
        file. Raises UserError for a wrong key.
        """
        from transduce.wings.serving.keys import Keys

        given = os.environ.get(KEY) if self.key_file is None else read_text(self.key_file)
        if given is None:
            return None
        if self.key_file is not None and (mode := self.key_file.stat().st_mode) & READABLE:
            typer.echo(
                f"warning: other users can read or change {self.key_file} (mode {mode & 0o777:o}): "
                f"chmod 600 {self.key_file}",
                err=True,
            )
        return Keys.of(given, str(self.key_file or KEY))


def serve(
    loading: LoadingOptions,
    server: ServerOptions,
    operator: OperatorOptions,
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run directories, or files of `transduce export --to engine`; NAME=RUN gives one a name, by default "
            "its folder's.",
            metavar="RUN...",
        ),
    ],
) -> None:
    """Answer requests over HTTP with trained runs, and show them in the browser.

    \b
    Examples:
      transduce serve runs/g2p
      transduce serve runs/de-en runs/en-de --port 8001
      transduce serve g2p.engine
    """
    try:
        from transduce.wings.serving.app import application
        from transduce.wings.serving.catalogue import Catalogue
        from transduce.wings.serving.logs import logging_to_stderr
        from transduce.wings.serving.proxies import Proxies
        from transduce.wings.serving.server import address, bound, run
    except ImportError as error:
        raise MissingPackageError(
            f"a server needs {error.name}, which is not installed: pip install 'transduce[serve]'"
        ) from error
    if loading.workers > 1:
        raise UserError("--workers is for long inputs; a server has one batch for all clients: leave it out")
    named = names_of(runs)
    keys, proxies = operator.keys(), Proxies(operator.trust_proxy or ())
    catalogue = Catalogue({name: _loader(loading, path) for name, path in named.items()}, server.limits, server.loaded)
    with (
        bound(operator.host, operator.port) as listening,  # before the models are loaded, which takes longer
        logging_to_stderr(operator.log_level, operator.log_format),
    ):
        url = address(listening)
        if operator.open_to_network and keys is None:
            typer.echo(
                f"warning: every machine that reaches {url} can use these runs: set a key (--key-file FILE or {KEY}), "
                "or listen at 127.0.0.1",
                err=True,
            )
        line = f"serves {', '.join(named)} at {url} (the studio: {url}/)"
        hosts = operator.names() if keys is None else None
        app = application(catalogue, keys, hosts, operator.cors or (), proxies)
        run(app, catalogue, listening, lambda: typer.echo(line, err=True), operator.drain)


def _loader(loading: LoadingOptions, path: Path) -> Callable[[], Answerer]:
    """What loads a run, or the file of an engine. Raises UserError for options that such a file does not have."""
    if not is_engine_file(path):
        return partial(_loaded, loading, path)
    if loading != LoadingOptions(threads=loading.threads):
        raise UserError(
            f"{path} is the file of an engine, which has its own weights, search and precision: leave out "
            "--checkpoint, --device, --engine, --plugin, --precision, --set, --shortlist and --workers, or serve the "
            "run itself"
        )
    from transduce.wings.serving.engine_file import open_file

    return partial(open_file, path, loading.threads or 1)


def _loaded(loading: LoadingOptions, path: Path) -> Answerer:
    from transduce.wings.serving.loaded_run import LoadedRun

    return LoadedRun(loading.of(path))


def check_origin(origin: str) -> None:
    """Raises UserError unless ``origin`` is one that a browser sends: a scheme and a host, perhaps a port, or "*"."""
    parts = urlsplit(origin)
    if origin != "*" and (not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}" or origin != origin.lower()):
        raise UserError(
            f"--cors {origin}: the origin of a page was expected, without a path, such as https://example.org; or '*'"
        )


def names_of(runs: Sequence[str]) -> dict[str, Path]:
    """The runs by name, from RUN or NAME=RUN; without a name, the name of the folder. Raises UserError for a name that
    is used twice.
    """
    named: dict[str, Path] = {}
    for each in runs:
        name, equals, path = each.partition("=")
        if not equals or "/" in name:
            path, name = each, Path(each).resolve().name.removesuffix(".engine")
        if not name or not path:
            raise UserError(f"{each!r}: RUN or NAME=RUN was expected")
        if name in named:
            raise UserError(f"two runs have the name {name!r}: give one another name, such as second={path}")
        named[name] = Path(path)
    return named
