"""How fast is a server under load, compared with ``predict`` with the same engine and sentences?

RUN is a run directory or an export. With --file, a file of the engine that was made of RUN answers in its place. The
server, ``predict`` and the clients are three processes on this machine. All use the sentences of the run's test split.
Each client sends one sentence, waits for its answer, compares it with the answer of ``predict``, and sends the next.
The benchmark has five parts:

1. ``predict`` over all sentences, again and again for at least five seconds, without loading and the first pass, and
   the clients for a sixth of ``--seconds``: six turns of each, because machines change their speed within minutes. A
   turn of the clients is compared with the mean of the two turns of ``predict`` beside it.
2. The clients with mixed requests (predict, 5-best, score, stream, several sentences) for ``--seconds``. Compare the
   processor time of a sentence if the machine is busy.
3. The server's memory after each tenth of ``--requests`` requests, if this number is given.
4. An overload: 256 clients with 16 sentences each for 15 seconds. Then the time to the next answer of one client.
5. The seconds of one client with one sentence at a time: alone, and beside 8 clients with 128 sentences and 50 outputs
   for each.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from load_clients import Connection, Outcome, Question, load, question
from report import Report, columns, titled

import transduce
from transduce.core.protocols import Searching, can
from transduce.data.preparation import examples
from transduce.runs.manifest import find_export
from transduce.runs.run import Run

LEAST = 5.0  # seconds of a turn of predict
TURNS = 6  # of the clients, each between two of predict
CROWD, SENTENCES, OVERLOAD = 256, 16, 15.0  # of an overload: clients, sentences of a request, seconds
GREEDY, MANY, OUTPUTS, SHORT = 8, 128, 50, 200  # clients, sentences and outputs of a request; short requests
KINDS = ("predict", "5-best", "score", "stream", "4 sentences")


def main(
    report: Report,
    run: Path,
    *,
    engine: str | None = None,
    file: Annotated[Path | None, "of the engine, in place of the run"] = None,
    clients: int = 64,
    seconds: float = 60.0,
    requests: Annotated[int, "for the memory over time"] = 0,
    batch_size: int = 64,
) -> None:
    served = Served(run, engine, file, report.threads, batch_size)
    sentences = [example.source for example in _examples(run)]
    speed, cost, texts, scores = predicted(served, sentences)
    turns = Turns([speed], [cost])
    with server(served) as (address, pid):
        for _ in range(TURNS):
            outcome, took = asyncio.run(closed_loop(clients, seconds / TURNS, address, pid, plain(sentences, texts)))
            turns.add(outcome, took, *predicted(served, sentences)[:2])
        rate, (loop, model, rest) = statistics.fmean(turns.speeds), map(statistics.fmean, zip(*turns.took, strict=True))
        report.tell(
            *titled(f"Server under load: {run.name}, engine {'in one file' if file else engine or 'its own'}"),
            f"{clients} clients, {report.threads} threads, batches of {batch_size}, {len(sentences):,} "
            f"sentences; predict: {min(turns.speeds):.1f} to {max(turns.speeds):.1f} sentences a second",
            "",
            f"The server's share of `predict` in {TURNS} turns: {', '.join(f'{each:.0f}' for each in turns.shares)} %; "
            f"median {statistics.median(turns.shares):.0f} %.",
            "",
            runs=[run] if find_export(run, None) is None else [],
        )
        mixed_questions = mixed(sentences, texts, scores, _streams(served))
        different, _ = asyncio.run(closed_loop(clients, seconds, address, pid, mixed_questions))
        report.tell(
            *throughput([("predict only", turns.outcome), ("mixed", different)], rate),
            f"Milliseconds of the processor for a sentence: `predict` {1000 * statistics.fmean(turns.costs):.2f}; the "
            f"server's model {model:.2f}, its event loop {loop:.2f}, its other threads {rest:.2f}.",
            "",
        )
        if requests:
            report.tell(*asyncio.run(memory(clients, requests, address, pid, plain(sentences, texts))))
    with server(served) as (address, _):
        report.tell(*asyncio.run(overload(address, sentences)))
    with server(served) as (address, _):
        report.tell(*asyncio.run(fairness(address, sentences, texts)))


@dataclass(frozen=True)
class Served:
    """What the server and ``predict`` answer with: a run by an engine, or a file of the engine."""

    run: Path
    engine: str | None
    file: Path | None
    threads: int
    batch_size: int


@dataclass
class Turns:
    """Turns of ``predict``, its sentences a second and seconds of the processor, and of the clients between them: all
    outcomes as one, and what the server's threads took for a sentence.
    """

    speeds: list[float]
    costs: list[float]
    outcome: Outcome = field(default_factory=Outcome)
    took: list[list[float]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def add(self, outcome: Outcome, took: list[float], speed: float, cost: float) -> None:
        """Adds a turn of the clients, and the turn of ``predict`` after it."""
        self.outcome.add(outcome)
        self.took.append(took)
        self.speeds.append(speed)
        self.costs.append(cost)
        self.shares.append(100 * outcome.speed / statistics.fmean(self.speeds[-2:]))


def _examples(run: Path) -> Any:
    opened = Run.read(run)
    return examples(opened.data, "test", opened.cache)


def predicted(given: Served, sentences: list[str]) -> tuple[float, float, list[str], list[float]]:
    """Runs predict in its own process. Returns sentences per second, seconds of the processor for a sentence, the
    texts, and their log-probabilities.
    """
    run = f"""
import torch, transduce
torch.set_num_threads({given.threads})
model = transduce.load({str(given.run)!r}, device="cpu", engine={given.engine!r})
predict = lambda: [outputs[0] for outputs in model.predict(sentences, batch_size={given.batch_size})]
score = lambda texts: [each.log_prob for each in model.score(zip(sentences, texts))]
"""
    file = f"""
from pathlib import Path
from transduce.answers.request import Request
from transduce.wings.engines.engine_files import open_file
model = open_file(Path({str(given.file)!r}), {given.threads})
predict = lambda: [answer.best for answer in model.answer(map(Request, sentences), {given.batch_size})]
asked = lambda texts: [Request(source, target=text) for source, text in zip(sentences, texts)]
score = lambda texts: [answer.best.log_prob for answer in model.answer_some(asked(texts))]
"""
    program = f"""
import json, sys, time
sentences = json.load(sys.stdin)
{file if given.file else run}
texts = [each.text for each in predict()]
begun, spent, passes = time.perf_counter(), time.process_time(), 0
while time.perf_counter() - begun < {LEAST}:
    predict()
    passes += 1
count = passes * len(sentences)
rate, cost = count / (time.perf_counter() - begun), (time.process_time() - spent) / count
json.dump([rate, cost, texts, score(texts)], sys.stdout)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(sentences), capture_output=True, text=True, check=True
    )
    rate, cost, texts, scores = json.loads(done.stdout)
    return rate, cost, texts, scores


@contextmanager
def server(given: Served) -> Iterator[tuple[str, int]]:
    """A context with the address and the process id of a new server. Raises SystemExit if the server fails."""
    options = ["--port", "0", "--threads", str(given.threads), "--batch-size", str(given.batch_size)]
    options += [] if given.file else ["--device", "cpu"]
    options += ["--engine", given.engine] if given.engine else []
    command = [sys.executable, "-m", "transduce", "serve", f"model={given.file or given.run}", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"at (http://\S+)", line)
        if found is None:
            raise SystemExit(f"the server did not start: {line}{process.stderr.read()}")
        yield found.group(1), process.pid
    finally:
        process.terminate()
        status = process.wait(90)
    if status:
        raise SystemExit(f"the server ended with status {status}")


def plain(sentences: list[str], texts: list[str]) -> Iterator[Question]:
    """Requests for one sentence each, in an endless cycle."""
    return itertools.cycle([_predict([source], [text]) for source, text in zip(sentences, texts, strict=True)])


def mixed(sentences: list[str], texts: list[str], scores: list[float], streams: bool) -> Iterator[Question]:
    """Requests of several kinds, in an endless cycle. An engine that searches by itself has no streams."""
    kinds = [kind for kind in KINDS if kind != "stream" or streams]
    every = []
    for number, (source, text, score) in enumerate(zip(sentences, texts, scores, strict=True)):
        kind = kinds[number % len(kinds)]
        if kind == "predict":
            every.append(_predict([source], [text]))
        elif kind == "5-best":
            every.append(question(kind, "/n-best", {"source": source, "nbest": 5}, _has_five))
        elif kind == "score":
            every.append(question(kind, "/score", {"source": source, "target": text}, partial(_near, score)))
        elif kind == "stream":
            body = json.dumps({"source": source}).encode()
            every.append(Question(kind, "/stream", body, partial(_streamed, text)))
        else:
            every.append(_predict(sentences[number : number + 4], texts[number : number + 4]))
    return itertools.cycle(every)


def _streams(given: Served) -> bool:
    return bool(given.file) or not can(
        type(transduce.load(given.run, device="cpu", engine=given.engine).model), Searching
    )


def _predict(sentences: list[str], texts: list[str]) -> Question:
    kind = "predict" if len(sentences) == 1 else "4 sentences"
    return question(kind, "/predict", {"source": sentences}, partial(_same, texts), len(sentences))


def _same(texts: list[str], found: Any) -> bool:
    return [each["text"] for each in found["answers"]] == texts


def _has_five(found: Any) -> bool:
    return len(found["answers"][0]["nbest"]) == 5


def _near(score: float, found: Any) -> bool:
    return abs(float(found["answers"][0]["log_prob"]) - score) < 1e-3 * max(1.0, abs(score))


def _streamed(text: str, body: bytes) -> bool:
    events = [json.loads(line[6:]) for line in body.decode().split("\n\n") if line.startswith("data: ")]
    return "".join(event.get("text", "") for event in events) == text


def spent(pid: int) -> dict[str, float]:
    """The processor time of each thread of a server in seconds. The event loop is the thread with the name ``pid``."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return {each.name: int((each / "schedstat").read_text().split()[0]) / 1e9 for each in threads}


async def closed_loop(
    clients: int, seconds: float, address: str, pid: int, questions: Iterator[Question]
) -> tuple[Outcome, list[float]]:
    """The results of the clients for ``--seconds``, after a warm-up, and the milliseconds of the processor that each
    sentence takes: of the server's event loop, of its busiest other thread, and of the rest.
    """
    await load(address, questions, clients, lambda count: count < 2 * clients)  # the first batches
    end, before = time.perf_counter() + seconds, spent(pid)
    outcome = await load(address, questions, clients, lambda _: time.perf_counter() < end)
    took = {name: 1000 * (after - before.get(name, 0.0)) for name, after in spent(pid).items()}
    loop, *others = took.pop(str(pid)), *sorted(took.values(), reverse=True)
    return outcome, [each / max(1, outcome.sentences) for each in (loop, others[0], sum(others[1:]))]


def throughput(parts: list[tuple[str, Outcome]], rate: float) -> list[str]:
    """The table of the parts, and the seconds of each kind of request."""
    lines = [
        "| requests | answered | lost | other status | different from predict | sentences a second | of predict's "
        "| median ms | 95th | 99th |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines.append(f"| no server: `predict` in one process |  |  |  |  | {rate:.1f} | 100 % |  |  |  |")
    for name, outcome in parts:
        answered = outcome.statuses[200]
        others = sum(outcome.statuses.values()) - answered
        times = " | ".join(f"{1000 * each:.0f}" for each in outcome.percentiles())
        lines.append(
            f"| {name} | {answered:,} | {outcome.lost} | {others} | {outcome.different} | {outcome.speed:.1f} "
            f"| {100 * outcome.speed / rate:.0f} % | {times} |"
        )
        if len(outcome.seconds) > 1:
            for kind in sorted(outcome.seconds):
                times = " | ".join(f"{1000 * each:.0f}" for each in outcome.percentiles(kind))
                lines.append(f"| {name}: {kind} | {len(outcome.seconds[kind]):,} |  |  |  |  |  | {times} |")
    return [*lines, ""]


async def memory(clients: int, requests: int, address: str, pid: int, questions: Iterator[Question]) -> list[str]:
    """The resident memory of the server after each tenth of ``--requests``."""
    lines = ["## Memory", "", *columns("| requests | resident memory (MB) |")]
    places = {requests * tenth // 10 for tenth in range(1, 11)}

    async def measure(count: int) -> None:
        if count in places:
            places.remove(count)
            lines.append(f"| {count:,} | {resident(pid):,.0f} |")

    lines.append(f"| 0 | {resident(pid):,.0f} |")
    outcome = await load(address, questions, clients, lambda count: count < requests, measure)
    answered = outcome.statuses[200]
    lines.append(
        f"| {answered:,} answered, {outcome.lost} lost, {outcome.different} different | {resident(pid):,.0f} |"
    )
    return [*lines, ""]


def resident(pid: int) -> float:
    """The resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) / 1000


async def overload(address: str, sentences: list[str]) -> list[str]:
    """The table of an overload by many clients, with the time to the next answer after the clients have stopped."""
    some = sentences[:SENTENCES]
    crowd = itertools.repeat(question("predict", "/predict", {"source": some}, lambda _: True, SENTENCES))
    end = time.perf_counter() + OVERLOAD
    outcome = await asyncio.wait_for(_crowd(address, crowd, end), OVERLOAD + 60)
    begun = time.perf_counter()
    connection, tries, status = await Connection.open(address), 0, 0
    while status != 200:
        tries += 1
        status, _ = await connection.post("/predict", question("", "", {"source": sentences[0]}, bool).body)
    recovery = time.perf_counter() - begun
    statuses = outcome.statuses
    return [
        "## Overload",
        "",
        *columns(
            "| clients | sentences each | answered | status 429 | other status | seconds to the next answer | tries |"
        ),
        f"| {CROWD} | {SENTENCES} | {statuses[200]:,} | {statuses[429]:,} "
        f"| {sum(statuses.values()) - statuses[200] - statuses[429]} | {recovery:.2f} | {tries} |",
    ]


async def fairness(address: str, sentences: list[str], texts: list[str]) -> list[str]:
    """The table of one client's seconds, alone and beside clients with much work."""
    questions, alone = plain(sentences, texts), Outcome()
    for times in (20, SHORT):  # a warm-up, then what counts
        alone = await load(address, questions, 1, partial(int.__gt__, times))
    body = {"source": (sentences * MANY)[:MANY], "nbest": OUTPUTS}
    greedy = itertools.repeat(question("n-best", "/n-best", body, lambda _: True, MANY))
    going = True
    crowd = asyncio.create_task(load(address, greedy, GREEDY, lambda _: going))
    await asyncio.sleep(2)
    beside = await load(address, questions, 1, partial(int.__gt__, SHORT))
    going = False
    await crowd
    rows = [(name, outcome.percentiles(), outcome) for name, outcome in (("alone", alone), ("beside them", beside))]
    return [
        f"## One client beside {GREEDY} with {MANY} sentences and {OUTPUTS} outputs for each",
        "",
        *columns("| one sentence at a time | answered | other status | different | median ms | 95th | 99th |"),
        *(
            f"| {name} | {outcome.statuses[200]} | {sum(outcome.statuses.values()) - outcome.statuses[200]} "
            f"| {outcome.different} | {' | '.join(f'{1000 * each:.1f}' for each in found)} |"
            for name, found, outcome in rows
        ),
        f"| times | | | | {' | '.join(f'{two / one:.2f}' for one, two in zip(rows[0][1], rows[1][1], strict=True))} |",
        "",
    ]


async def _crowd(address: str, questions: Iterator[Question], end: float) -> Outcome:
    """The statuses of the crowd's requests until ``end``. Cancels the requests that are not answered by then."""
    outcome = Outcome()

    async def client() -> None:
        connection = await Connection.open(address)
        try:
            while True:
                status, _ = await connection.post(*_path_and_body(next(questions)))
                outcome.statuses[status] += 1
                if status == 429:
                    await asyncio.sleep(0.05)
        finally:
            connection.close()

    tasks = [asyncio.create_task(client()) for _ in range(CROWD)]
    await asyncio.sleep(end - time.perf_counter())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return outcome


def _path_and_body(asked: Question) -> tuple[str, bytes]:
    return asked.path, asked.body
