"""``transduce serve``: trained runs behind HTTP, with a page for the browser."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import LoadingOptions
from transduce.core.errors import MissingPackageError, UserError
from transduce.core.text_files import read_text

if TYPE_CHECKING:
    from transduce.wings.serving.limits import Limits

KEY = "TRANSDUCE_KEY"  # an environment variable


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options for the address of a server and for its limits."""

    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 is every network.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 8000
    key_file: Annotated[
        Path | None, typer.Option(help=f"A file with the key that clients must send; or set {KEY}.", metavar="FILE")
    ] = None
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences searched at a time, for each run.")] = 64
    queue: Annotated[int, typer.Option(min=1, help="Sentences that may wait; more get status 429.")] = 256
    seconds: Annotated[float, typer.Option(help="The most time for a request.")] = 60.0
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name under which clients may ask for a server without a key, such as that of a proxy."),
    ] = None
    headers: Annotated[int, typer.Option(min=1, help="The most bytes of the headers of a request.")] = 65_536
    body: Annotated[int, typer.Option(min=1, help="The most bytes of a request.")] = 1_000_000
    upload: Annotated[int, typer.Option(min=1, help="The most bytes of a request with files.")] = 20_000_000
    characters: Annotated[int, typer.Option(min=1, help="The most characters of a text.")] = 10_000
    texts: Annotated[int, typer.Option(min=1, help="The most texts in one request.")] = 128
    nbest: Annotated[int, typer.Option(min=1, help="The most outputs for a source.")] = 50
    tokens: Annotated[int, typer.Option(min=1, help="The most tokens that a language model writes.")] = 1000

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

    @property
    def open_to_network(self) -> bool:
        """True if other machines can reach the server."""
        return self.host != "localhost" and not self.host.startswith("127.") and self.host != "::1"

    def names(self) -> frozenset[str]:
        """The names under which clients may ask for the server, in lower case."""
        return frozenset(
            name.lower() for name in ("localhost", self.host, socket.gethostname(), *(self.allow_host or ()))
        )

    def key(self) -> str | None:
        """The key: the file's text without white space around it, or the environment's; None if neither is given.
        Raises UserError for an empty key.
        """
        given = os.environ.get(KEY) if self.key_file is None else read_text(self.key_file)
        if given is not None and not given.strip():
            raise UserError(f"{self.key_file or KEY} is empty: a key was expected; leave it out to serve everybody")
        return None if given is None else given.strip()


def serve(
    loading: LoadingOptions,
    server: ServerOptions,
    runs: Annotated[
        list[str],
        typer.Argument(help="Run directories; NAME=RUN gives one a name, by default its folder's.", metavar="RUN..."),
    ],
) -> None:
    """Answer requests over HTTP with trained runs, and show them in the browser.

    \b
    Examples:
      transduce serve runs/g2p
      transduce serve runs/de-en runs/en-de --port 8001
    """
    try:
        from transduce.wings.serving.app import application
        from transduce.wings.serving.server import address, bound, run
    except ImportError as error:
        raise MissingPackageError(
            f"a server needs {error.name}, which is not installed: pip install 'transduce[serve]'"
        ) from error
    if loading.workers > 1:
        raise UserError("--workers is for long inputs; a server has one batch for all clients: leave it out")
    named = names_of(runs)
    limits, key = server.limits, server.key()
    with bound(server.host, server.port) as listening:  # before the models are loaded, which takes longer
        models = {name: loading.of(path) for name, path in named.items()}
        url = address(listening)
        if server.open_to_network and key is None:
            typer.echo(
                f"warning: every machine that reaches {url} can use these runs: set a key (--key-file FILE or {KEY}), "
                "or listen at 127.0.0.1",
                err=True,
            )
        line = f"serves {', '.join(models)} at {url} (the studio: {url}/)"
        hosts = server.names() if key is None else None
        run(application(models, limits, key, hosts), listening, limits, lambda: typer.echo(line, err=True))


def names_of(runs: Sequence[str]) -> dict[str, Path]:
    """The runs by name, from RUN or NAME=RUN; without a name, the name of the folder. Raises UserError for a name that
    is used twice.
    """
    named: dict[str, Path] = {}
    for each in runs:
        name, equals, path = each.partition("=")
        if not equals or "/" in name:
            path, name = each, Path(each).resolve().name
        if not name or not path:
            raise UserError(f"{each!r}: RUN or NAME=RUN was expected")
        if name in named:
            raise UserError(f"two runs have the name {name!r}: give one another name, such as second={path}")
        named[name] = Path(path)
    return named
