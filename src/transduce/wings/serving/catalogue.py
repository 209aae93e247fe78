"""The runs that a server serves, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from transduce.answers.transducer import Transducer
from transduce.core.errors import RequestError, UserError
from transduce.core.registry import alternatives
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.service import Service


class UnknownModelError(RequestError):
    """A request names a run that the server does not have."""


class Catalogue:
    """The services of a server. The first of ``transducers`` answers requests that name no run.

    Raises UserError if there are no transducers.
    """

    def __init__(self, transducers: Mapping[str, Transducer], limits: Limits) -> None:
        if not transducers:
            raise UserError("there is no run to serve: name at least one")
        self.limits = limits
        self._services = {name: Service(name, each, limits) for name, each in transducers.items()}

    def __iter__(self) -> Iterator[Service]:
        return iter(self._services.values())

    def find(self, name: str | None) -> Service:
        """The service with this name; the first one for None. Raises UnknownModelError if there is no such run."""
        if name is None:
            return next(iter(self))
        if name not in self._services:
            raise UnknownModelError(
                f"model = {name[:60]!r} is not served here{alternatives(name[:60], self._services)}"
            )
        return self._services[name]

    def close(self) -> None:
        """Answers the requests that the services have received, then stops all services."""
        for each in self:
            each.close()
