"""The lanes of a scheduler: requests that are searched together, and the turns that the lanes take."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic

from transduce.answers.answer import Answer
from transduce.answers.request import Request
from transduce.wings.serving.work import R, Running

SLICE = 0.1  # seconds that a fixed batch should take, because nothing interrupts it
FIRST = 4  # requests of a lane's first fixed batch, before its time is known
SHARES = {True: 3, False: 1}  # of the time, for express lanes and for all others
TURN = 16  # requests of one client in a row: with single ones, equal clients would all wait until all are answered


@dataclass(eq=False)
class Waiting(Generic[R]):
    """A request that is not answered yet. ``deadline`` is a time of the scheduler's clock; None is no deadline.
    ``client`` is whoever sent it.
    """

    request: Request
    deadline: float | None
    client: Hashable = None
    future: Future[Answer] = field(default_factory=Future)
    source: R | None = field(default=None, init=False, repr=False)  # what ``Work.read`` returns; None before


class FairQueue(Generic[R]):
    """Waiting requests. The clients take turns of at most ``TURN`` requests; those of one client keep their order."""

    def __init__(self) -> None:
        self._of: OrderedDict[Hashable, deque[Waiting[R]]] = OrderedDict()
        self._taken = 0  # in this turn

    def add(self, each: Waiting[R]) -> None:
        self._of.setdefault(each.client, deque()).append(each)

    def pop(self) -> Waiting[R]:
        """Removes and returns the oldest request of the client whose turn it is."""
        client, own = next(iter(self._of.items()))
        each = own.popleft()
        self._taken += 1
        if not own:
            del self._of[client]
            self._taken = 0
        elif self._taken == TURN:
            self._of.move_to_end(client)
            self._taken = 0
        return each

    @property
    def clients(self) -> set[Hashable]:
        return set(self._of)

    def forget(self, is_over: Callable[[Waiting[R]], bool]) -> None:
        """Removes the requests of which ``is_over`` is True."""
        left = {client: deque(each for each in own if not is_over(each)) for client, own in self._of.items()}
        self._of = OrderedDict((client, own) for client, own in left.items() if own)
        self._taken = 0

    def __iter__(self) -> Iterator[Waiting[R]]:
        return (each for own in self._of.values() for each in own)

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))


class Lane(Generic[R]):
    """Requests that are searched together: in a running ``batch``, or in fixed batches if it is None.

    ``express`` is True for the requests of clients that have asked for little. ``nbest`` is the number of outputs for
    each request; None is the search's own. ``seconds`` is the time that each of its clients has used.
    """

    def __init__(self, express: bool, nbest: int | None, batch: Running[R] | None) -> None:
        self.express, self.nbest, self.batch = express, nbest, batch
        self.waiting, self.active = FairQueue[R](), dict[int, Waiting[R]]()
        self.seconds, self._slice = 0.0, FIRST

    @property
    def busy(self) -> bool:
        return bool(self.active or len(self.waiting))

    @property
    def clients(self) -> int:
        return len(self.waiting.clients | {each.client for each in self.active.values()})

    @property
    def room(self) -> int:
        """The number of requests that may enter now: places in the running batch, or a fixed batch of ``SLICE``."""
        if self.batch is None:
            return self._slice
        return self.batch.free if self.batch.has_room else 0

    def fit(self, requests: int, seconds: float, most: int) -> None:
        """Chooses the size of the next fixed batch, at most ``most``, after one of ``requests`` took ``seconds``."""
        self._slice = max(1, min(int(SLICE / max(seconds / requests, 1e-9)), 2 * self._slice, most))


class Turns:
    """Chooses the lane that is next. There are two classes, the express lanes and all others. If both have work, the
    express lanes get three quarters of the time. Within a class, each client has an equal part, and a lane the parts of
    its clients.
    """

    def __init__(self) -> None:
        self._used = {True: 0.0, False: 0.0}  # seconds of each class, divided by its share

    def join(self, lane: Lane[R], busy: Sequence[Lane[R]]) -> None:
        """Call it before an idle lane gets its first request, with the lanes that are ``busy``. Time without work earns
        no turns.
        """
        same = [each.seconds for each in busy if each.express == lane.express]
        lane.seconds = max([lane.seconds, *([min(same)] if same else [])])
        if not same:
            self._used[lane.express] = max(self._used.values())

    def next(self, busy: Sequence[Lane[R]]) -> Lane[R]:
        """The lane whose turn it is."""
        classes = {each.express for each in busy}
        chosen = min(classes, key=lambda express: (self._used[express], not express))
        return min((each for each in busy if each.express == chosen), key=lambda each: each.seconds)

    def charge(self, lane: Lane[R], seconds: float, clients: int) -> None:
        """Call it after a lane has worked for this many clients."""
        lane.seconds += seconds / max(1, clients)
        self._used[lane.express] += seconds / SHARES[lane.express]
