"""The limits of a server for one client, and for all clients together."""

from __future__ import annotations

from dataclasses import dataclass, fields

from transduce.core.errors import RequestError, UserError


@dataclass(frozen=True)
class Limits:
    """The limits of a server. Each is more than 0; otherwise UserError is raised.

    For each run:

    - ``batch_size``: sentences in the search at a time.
    - ``queue``: sentences that may wait. Further sentences get status 429.
    - ``side_work``: streams, alignments, completions and views that are computed at a time.
    - ``side_queue``: streams, alignments, completions and views that may wait.

    For each client or request:

    - ``seconds``: time for a request, from its headers to the end of its answer.
    - ``body_seconds``: time for the headers of a request, and again for its body.
    - ``headers``: bytes of the headers of a request.
    - ``body``: bytes of a body.
    - ``upload``: bytes of a body with files.
    - ``characters``: characters of each text of a request.
    - ``texts``: texts or pairs in one request. It is never more than ``queue``.
    - ``nbest``: outputs for a source, completions for a prefix, and the beam of a tree.
    - ``tokens``: tokens that a language model writes for a prompt.

    ``connections`` is the number of open connections of the server.
    """

    batch_size: int = 64
    queue: int = 256
    side_work: int = 2
    side_queue: int = 32
    seconds: float = 60.0
    body_seconds: float = 10.0
    connections: int = 1024
    headers: int = 65_536
    body: int = 1_000_000
    upload: int = 20_000_000
    characters: int = 10_000
    texts: int = 128
    nbest: int = 50
    tokens: int = 1000

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value > 0:  # False for nan
                raise UserError(f"{each.name} = {value}: more than 0 was expected")

    def check_text(self, name: str, text: str) -> None:
        """Raises RequestError if a text is too long. ``name`` is the text's key in the request."""
        if len(text) > self.characters:
            raise RequestError(
                f"{name} has {len(text):,} characters, and the server takes {self.characters:,}: divide it"
            )

    def check_texts(self, name: str, count: int) -> None:
        """Raises RequestError unless a request may have ``count`` texts. ``name`` is their key in the request."""
        if count > self.texts:
            raise RequestError(
                f"{name} has {count:,} texts, and the server takes {self.texts:,}: send several requests"
            )
        if not count:
            raise RequestError(f"{name} has no text: give at least one")

    def check_number(self, name: str, value: int, most: int) -> None:
        """Raises RequestError unless ``value`` is 1 to ``most``. ``name`` is its key in the request."""
        if not 1 <= value <= most:
            raise RequestError(f"{name} = {value}: 1 to {most} was expected")
