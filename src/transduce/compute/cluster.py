"""The workers of a Dask cluster, which replace the worker processes of this machine."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import transduce
from transduce.compute.workers import AHEAD, Workers
from transduce.core.errors import MissingPackageError, UserError

if TYPE_CHECKING:
    from distributed import Client, Future

RETRIES = 3  # further tries of a batch that fails; if a worker dies, another one computes its batch again
M = TypeVar("M")  # a model
B = TypeVar("B")
R = TypeVar("R")


def connect(address: str) -> Client:
    """A ``distributed.Client`` of the scheduler at this address, such as tcp://host:8786. Raises UserError if there is
    no scheduler, and MissingPackageError if Dask is not installed.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingPackageError("a cluster needs Dask: pip install 'transduce[cluster]'") from error
    try:
        return Client(address, timeout="20s")
    except (OSError, ValueError) as error:
        raise UserError(f"no Dask scheduler answers at {address} ({error}): start one with `dask scheduler`") from error


class ClusterWorkers(Generic[M]):
    """``Workers`` on a cluster. A call yields the results in the order of the batches, like a single process.

    ``load`` is called once in each worker. The folders that it reads must be the same on all machines. If a worker
    dies, another one computes its batches again. Raises UserError if a worker has another version of transduce.
    """

    def __init__(self, load: Callable[[], M], client: Client) -> None:
        self._load, self._client = pickle.dumps(load), client

    def __call__(self, work: Callable[[M, B], R], batches: Iterable[B]) -> Iterator[R]:
        results: deque[Future] = deque()
        try:
            for batch in batches:
                job = work, batch, transduce.__version__
                results.append(self._client.submit(_call, self._load, *job, pure=False, retries=RETRIES))
                if len(results) > AHEAD * max(1, sum(self._client.nthreads().values())):
                    yield results.popleft().result()
            while results:
                yield results.popleft().result()
        finally:
            for result in results:
                result.cancel()

    def close(self) -> None:
        """Closes the connection to the scheduler."""
        self._client.close()


def _call(load: bytes, work: Callable[[object, B], R], batch: B, version: str) -> R:
    """Calls ``work`` with the model and the batch. Runs in a worker."""
    if transduce.__version__ != version:
        raise UserError(f"a worker has transduce {transduce.__version__}, and this program {version}: install the same")
    return work(_loaded(load), batch)


@lru_cache(2)
def _loaded(load: bytes) -> object:
    return pickle.loads(load)()  # this program made the pickle; it does not come from a file


AnyWorkers = Workers[Any] | ClusterWorkers[Any]


def plain_workers(address: str) -> ClusterWorkers[None]:
    """The workers of the scheduler at this address, for work that needs no model."""
    return ClusterWorkers(_nothing, connect(address))


def _nothing() -> None:
    return None
