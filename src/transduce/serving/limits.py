"""The limits of a server: how much one client, and all clients together, may ask for."""

from __future__ import annotations

from dataclasses import dataclass, fields

from transduce.errors import RequestError, UserError


@dataclass(frozen=True)
class Limits:
    """The limits of a server. Each is more than 0; otherwise UserError is raised.

    ``batch_size``: sentences searched at a time, for each run. ``queue``: sentences of a run that may wait; more get
    status 429. ``side_work``: requests for streams, alignments, completions and views that are worked on at a time, for
    each run; ``side_queue`` of them may wait.

    ``seconds``: the most time for a request, from its headers to the end of its answer. ``body_seconds``: the most time
    for the headers of a request, and again for its body. ``connections``: open connections.

    ``body``: bytes of a body. ``upload``: bytes of a body with files. ``characters``: characters of each text of a
    request. ``texts``: texts or pairs in one request; never more than ``queue``. ``nbest``: outputs for a source,
    completions for a prefix, and the beam of a tree. ``tokens``: tokens that a language model writes for a prompt.
    """

    batch_size: int = 64
    queue: int = 256
    side_work: int = 2
    side_queue: int = 32
    seconds: float = 60.0
    body_seconds: float = 10.0
    connections: int = 1024
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
