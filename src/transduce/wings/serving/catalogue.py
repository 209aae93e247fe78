"""The runs that a server serves, by name. A limit keeps only some of them in memory."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from transduce.core.errors import RequestError, StoppedError, UserError
from transduce.core.registry import alternatives
from transduce.wings.serving.answerer import Answerer
from transduce.wings.serving.limits import Limits
from transduce.wings.serving.service import Languages, Service
from transduce.wings.serving.visit import current

if TYPE_CHECKING:  # it imports PyTorch
    from transduce.answers.transducer import Transducer

log = logging.getLogger("transduce.wings.serving")

T = TypeVar("T")
Loader = Callable[[], Answerer]


class UnknownModelError(RequestError):
    """A request names a run that the server does not have."""


class ServedRun:
    """A run of a catalogue. It has a ``service`` while it is in memory. Its ``description`` and ``languages`` are known
    after it has been loaded once.
    """

    def __init__(self, name: str, loader: Loader) -> None:
        self.name, self.loader = name, loader
        self.service: Service | None = None
        self.description: dict[str, object] = {"name": name}
        self.languages: Languages | None = None


class _Seat:
    """A run's place in memory. ``leases`` are the requests that use it; ``free`` is set while there are none."""

    def __init__(self) -> None:
        self.leases, self.free = 0, asyncio.Event()
        self.free.set()
        self.filling: asyncio.Task[Service] | None = None

    def lease(self) -> None:
        self.leases += 1
        self.free.clear()

    def release(self) -> None:
        self.leases -= 1
        if not self.leases:
            self.free.set()


class Catalogue:
    """The runs of a server by name, each with the function that loads it. The first one answers requests that name no
    run.

    There are at most ``most`` runs in memory; None has no limit. A request for another run loads it. The run whose last
    request is the oldest leaves, as soon as its requests are answered. Each run is loaded once at the start, so that a
    broken one is noticed then. Raises UserError if there are no runs, or if ``most`` is below 1.
    """

    def __init__(self, loaders: Mapping[str, Loader], limits: Limits, most: int | None = None) -> None:
        if not loaders:
            raise UserError("there is no run to serve: name at least one")
        if most is not None and most < 1:
            raise UserError(f"--loaded {most}: at least one run was expected")
        self.limits, self.most, self.draining = limits, most, False
        self._runs = {name: ServedRun(name, loader) for name, loader in loaders.items()}
        self._seats: OrderedDict[str, _Seat] = OrderedDict()  # the least used first
        self._turn = asyncio.Lock()  # one run is loaded at a time
        self._opening: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, transducers: Mapping[str, Transducer], limits: Limits | None = None) -> Catalogue:
        """A catalogue of models that are in memory already."""
        from transduce.wings.serving.loaded_run import LoadedRun

        return cls({name: partial(LoadedRun, each) for name, each in transducers.items()}, limits or Limits())

    def __iter__(self) -> Iterator[ServedRun]:
        return iter(self._runs.values())

    @property
    def problem(self) -> str | None:
        """Why no client should be sent to this server now; None if it is ready."""
        if self.draining:
            return "the server stops"
        opening = self._opening
        opened = opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None
        return None if opened else "the runs are not loaded yet"

    def opened(self) -> asyncio.Future[None]:
        """Ends when each run has been loaded once. Raises the error of a run that cannot be loaded."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        return asyncio.shield(self._opening)

    async def find(self, name: str | None) -> Service:
        """The service with this name; the first one for None. It stays in memory until the current request is answered.
        Raises UnknownModelError if there is no such run, and UnloadedError if it cannot be loaded.
        """
        run = self.run(name)
        seat = self._seat(run)
        seat.lease()
        visit = current()
        assert visit is not None, "a run is found for a request"
        visit.model = run.name
        visit.ends.append(seat.release)
        assert seat.filling is not None
        if seat.filling.done():
            return seat.filling.result()
        try:
            return await asyncio.shield(seat.filling)
        except Exception as error:
            log.error("%s cannot be loaded: %s", run.name, error, exc_info=not isinstance(error, UserError))
            raise UnloadedError(f"{run.name} cannot be loaded now; the server's log says why") from error

    async def close(self) -> None:
        """Answers the requests that the services have received, then stops all services."""
        if self._opening is not None:
            self._opening.cancel()
        async with self._turn:
            for run in self:
                if run.service is not None:
                    await _in_thread(run.service.close)

    def run(self, name: str | None) -> ServedRun:
        """The run with this name; the first one for None. Raises UnknownModelError if there is no such run."""
        if name is None:
            return next(iter(self))
        if name not in self._runs:
            raise UnknownModelError(f"model = {name[:60]!r} is not served here{alternatives(name[:60], self._runs)}")
        return self._runs[name]

    async def _open(self) -> None:
        """Loads each run once. The first runs stay in memory."""
        for run in reversed(list(self)):
            filling = self._seat(run).filling
            assert filling is not None
            await asyncio.shield(filling)

    def _seat(self, run: ServedRun) -> _Seat:
        """The run's place in memory, which begins to be filled if it is new. It is the most used one now."""
        if (seat := self._seats.get(run.name)) is None:
            seat = self._seats[run.name] = _Seat()
            seat.filling = asyncio.get_running_loop().create_task(self._fill(run, seat))
        self._seats.move_to_end(run.name)
        return seat

    async def _fill(self, run: ServedRun, seat: _Seat) -> Service:
        try:
            async with self._turn:
                while self.most is not None and sum(each.service is not None for each in self) >= self.most:
                    await self._make_room()
                log.info("loads %s", run.name)
                answerer = await _in_thread(run.loader)
                run.service = service = Service(run.name, answerer, self.limits)
                run.description, run.languages = service.describe(), service.languages
                return service
        except BaseException:
            if self._seats.get(run.name) is seat:
                del self._seats[run.name]
            raise

    async def _make_room(self) -> None:
        """Takes the least used run out of memory, after its requests are answered. Later requests load it again."""
        name = next(name for name in self._seats if self._runs[name].service is not None)
        seat, run = self._seats.pop(name), self._runs[name]
        await seat.free.wait()
        log.info("unloads %s", name)
        assert run.service is not None
        await _in_thread(run.service.close)
        run.service = seat.filling = None
        await _in_thread(gc.collect)  # the parts of a model refer to each other


class UnloadedError(StoppedError):
    """A run cannot be loaded."""


async def _in_thread(function: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, function)
