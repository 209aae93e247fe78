"""Several processes answer as one does."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import transduce
from transduce import Constraints, Transducer, Workers
from transduce.cli.options import RunOptions
from transduce.compute import workers as pool
from transduce.core.types import Hypothesis, Padded
from transduce.search.beam import Beam

SOURCES = ["abc", "", "ab" * 4, "c", "abcab", "ba", "cc", "bbb", "acacb"]


@pytest.fixture(scope="module")
def workers(trained: Path) -> Iterator[Workers[Transducer]]:
    workers = Workers(partial(transduce.load, trained, device="cpu"), 2)
    yield workers
    workers.close()


@pytest.fixture(scope="module")
def alone(trained: Path) -> Transducer:
    return transduce.load(trained, device="cpu")


@pytest.fixture(scope="module")
def together(trained: Path, workers: Workers[Transducer]) -> Transducer:
    return replace(transduce.load(trained, device="cpu"), workers=workers)


@pytest.mark.parametrize(
    "asked",
    [
        {"search": Beam(3, nbest=2), "prefix": "b"},
        *(pytest.param(each, marks=pytest.mark.slow) for each in ({}, {"prefix": "b"})),
    ],
)
def test_workers_predict_what_one_process_predicts(
    alone: Transducer, together: Transducer, asked: dict[str, object]
) -> None:
    one, several = (list(each.predict(SOURCES, batch_size=2, **asked)) for each in (alone, together))  # type: ignore[arg-type]
    assert one == several


def test_workers_know_phrases_and_a_changed_search(alone: Transducer, together: Transducer) -> None:
    wanted = Constraints(required=(("c",),))
    settings = {"search.size": 4}
    one, several = (
        list(each.changed(settings).predict(SOURCES, batch_size=2, constraints=wanted)) for each in (alone, together)
    )
    assert one == several
    assert all("c" in outputs[0].text for outputs in several)


def test_workers_score_what_one_process_scores(alone: Transducer, together: Transducer) -> None:
    pairs = [(source, source[::-1]) for source in SOURCES]
    assert list(alone.score(pairs, 2)) == list(together.score(pairs, 2))


def test_workers_score_by_a_changed_search(alone: Transducer, together: Transducer) -> None:
    pairs = [(source, "ab") for source in SOURCES]
    one = list(alone.score(pairs, 2))
    search = _Half()
    for each in (alone, together):
        changed = replace(each.changed((), 2), search=search)  # type: ignore[arg-type]
        assert [found.log_prob for found in changed.score(pairs, 2)] == [found.log_prob / 2 for found in one]


@dataclass(frozen=True)
class _Half:
    """A search that halves the log-probabilities of forced targets."""

    def force(self, model: Any, source: Any, target: Padded) -> list[Hypothesis]:
        return [replace(found, log_prob=found.log_prob / 2) for found in Beam(2).force(model, source, target)]


def _echo(transducer: Transducer, batch: int) -> int:
    return batch


def test_batches_are_read_a_few_at_a_time(workers: Workers[Transducer]) -> None:
    """A million batches would fill the memory with lines that wait."""
    read: list[int] = []
    results = workers(_echo, (read.append(number) or number for number in range(100)))
    assert next(results) == 0
    assert len(read) == 2 * pool.AHEAD + 1
    assert list(results) == list(range(1, 100))


def _fail(transducer: Transducer, batch: str) -> str:
    raise ValueError(f"{batch} cannot be read")


def test_an_error_in_a_worker_is_its_callers(workers: Workers[Transducer], together: Transducer) -> None:
    with pytest.raises(ValueError, match="abc cannot be read"):
        list(workers(_fail, ["abc", "abcd"]))
    assert together("abc") == together("abc")  # and the workers go on


def _vanish(transducer: None, batch: str) -> None:
    os._exit(9)


def _nobody() -> None:
    return None


@pytest.mark.parametrize(
    ("load", "work", "error", "message"),
    [
        pytest.param(
            partial(transduce.load, "no-such-run"),
            _fail,
            FileNotFoundError,
            "no-such-run is no run directory",
            marks=pytest.mark.slow,
        ),
        (_nobody, _vanish, RuntimeError, "a worker process has died"),
    ],
)
def test_what_ends_the_work_is_told(load: Any, work: Any, error: type[Exception], message: str) -> None:
    workers = Workers(load, 1)
    with pytest.raises(error, match=message):
        list(workers(work, ["abc"]))
    workers.close()


KILLED = """
import os, signal
from transduce.compute.workers import Workers

def load(): return None
def work(model, batch): return os.getpid()

if __name__ == "__main__":
    print(*Workers(load, 1)(work, [0]), flush=True)
    signal.pause()
"""


@pytest.mark.slow
def test_processes_end_with_a_program_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    with subprocess.Popen([sys.executable, str(tmp_path / "killed.py")], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        worker = int(program.stdout.readline())
        os.kill(worker, 0)  # it is there
        program.kill()
    for _ in range(600):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the worker lives on")


def test_a_process_ends_with_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sentinel, which can be read when the program has ended, and not before."""
    reading, writing = multiprocessing.Pipe(duplex=False)
    ended: list[int] = []
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(sentinel=reading))
    monkeypatch.setattr("os._exit", ended.append)
    waiting = threading.Thread(target=pool._end_with_the_program)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    writing.close()
    waiting.join(10)
    assert ended == [1]
    reading.close()


@pytest.mark.parametrize(("workers", "threads"), [(0, 1), (1, 0), (100_000, 1), (1, 100_000)])
def test_nobody_can_do_no_work(workers: int, threads: int) -> None:
    with pytest.raises(ValueError, match=r"(workers|threads) = \d+: a number from 1 to \d+ was expected"):
        Workers(partial(transduce.load, "run"), workers, threads)


def test_threads_have_a_bound(call: Callable[..., tuple[int, str, str]]) -> None:
    status, _, told = call("predict", "run", "--threads", 100_000)
    assert (status, told.count("\n")) == (2, 1)
    assert "threads = 100000: a number from 1 to" in told


@pytest.mark.slow
def test_the_command_line_has_workers(trained: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    asked = b"abc\nab\n\ncab\n"
    alone = call("predict", trained, "--batch-size", 2, stdin=asked)
    assert alone[0] == 0
    assert call("predict", trained, "--batch-size", 2, "--workers", 2, stdin=asked) == alone


class Inline:
    """A pool without processes: it does the work itself."""

    pools: list[tuple[int, int]]

    def __init__(self, load: Callable[[], Transducer], count: int, threads: int) -> None:
        self.pools.append((count, threads))
        self.model = load()

    def __call__(self, work: Callable[[Transducer, Any], Any], batches: Iterable[Any]) -> Iterator[Any]:
        return (work(self.model, batch) for batch in batches)

    def close(self) -> None:
        pass


def test_the_command_line_asks_for_workers(
    trained: Path, call: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inline, "pools", [], raising=False)
    monkeypatch.setattr("transduce.compute.workers.Workers", Inline)
    alone = call("predict", trained, "--batch-size", 2, stdin=b"abc\nab\n\ncab\n")
    asked = ["--batch-size", 2, "--workers", 3, "--threads", 1]
    assert call("predict", trained, *asked, stdin=b"abc\nab\n\ncab\n") == alone
    assert Inline.pools == [(3, 1)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not list the pages of a process")
def test_workers_share_the_pages_of_the_weights(trained: Path) -> None:
    loaded = RunOptions(run=trained, device="cpu", workers=2).load()
    assert loaded.workers is not None
    assert list(loaded.workers(weights_in_a_file, [0])) == [1.0]
    loaded.workers.close()


def weights_in_a_file(transducer: Transducer, _: int) -> float:
    """The share of this process' parameters whose memory is a mapped safetensors file."""
    fields = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if ".safetensors" in line]
    pages = [tuple(int(end, 16) for end in each[0].split("-")) for each in fields]
    places = [parameter.data_ptr() for parameter in transducer.model.parameters()]
    return sum(any(low <= place < high for low, high in pages) for place in places) / len(places)
