"""All rows of a table take turns, A B C A B C, so that other work of the machine slows all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from peers.base import Column, Family, Peer, PeerError, Speed, Task


@dataclass(frozen=True)
class Row:
    """A row of a table: the peer, and its precision or its way to predict."""

    peer: Peer
    way: str

    @property
    def name(self) -> str:
        return f"{self.peer.name}, {self.way}"


@dataclass
class Measured:
    """The speeds of each row in each round, by column. ``failed`` has the reason of each row that did not run; such a
    row has no speeds.
    """

    speeds: dict[Row, list[dict[str, Speed]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def take_turns(rows: Sequence[Row], rounds: int, measure: Callable[[Row], Mapping[str, Speed]]) -> Measured:
    """Measures each row once a round. A row that fails is left out of the later rounds."""
    found = Measured({row: [] for row in rows})
    for number in range(rounds):
        for row in list(found.speeds):
            try:
                speeds = dict(measure(row))
            except PeerError as error:
                del found.speeds[row]
                found.failed[row.name] = str(error)
                print(f"{row.name}: {error}", flush=True)
                continue
            found.speeds[row].append(speeds)
            told = "   ".join(f"{name} {speed.rate:,.1f}" for name, speed in speeds.items())
            print(f"round {number + 1} of {rounds}, {row.name}: {told}", flush=True)
    return found


def training(peers: Sequence[Peer], family: Family, task: Task, rounds: int) -> Measured:
    """Target tokens per second of all peers that train this model. The column is "tokens/s"."""
    rows = [Row(peer, precision) for peer in peers for trained, precision in peer.trains if trained == family]
    return take_turns(rows, rounds, lambda row: {"tokens/s": row.peer.train(task, family, row.way)})


def prediction(peers: Sequence[Peer], columns: Sequence[Column], task: Task, rounds: int) -> Measured:
    """Sentences per second of all peers that predict, by the names of the columns."""
    rows = [Row(peer, way) for peer in peers for way in peer.predicts]

    def measure(row: Row) -> dict[str, Speed]:
        return {column.name: speed for column, speed in row.peer.predict(task, row.way, columns).items()}

    return take_turns(rows, rounds, measure)


def ratios(speeds: Sequence[Mapping[str, Speed]], base: Sequence[Mapping[str, Speed]], column: str) -> list[float]:
    """The ratio of the two rates of a column in each round."""
    return [one[column].rate / other[column].rate for one, other in zip(speeds, base, strict=True)]


def training_lines(heading: str, measured: Measured, shares: Mapping[str, float]) -> list[str]:
    """A table for training. It compares the other rows with the first one. ``shares`` has, for some rows, the share of
    the machine's fastest products.
    """
    if not measured.speeds:
        return []
    first = next(iter(measured.speeds))
    head = ["", "parameters", "tokens/s, median", "least to most", f"times {first.name}", "least to most"]
    lines = _head(heading, [*head, "share of the limit", "memory, MiB"])
    for row, found in measured.speeds.items():
        speeds = [each["tokens/s"] for each in found]
        rates = [each.rate for each in speeds]
        pairs = ratios(found, measured.speeds[first], "tokens/s")
        share = shares.get(row.name)
        cells = [
            row.name,
            f"{speeds[0].parameters:,}" if speeds[0].parameters else "",
            f"{median(rates):,.0f}",
            f"{min(rates):,.0f} to {max(rates):,.0f}",
            f"{median(pairs):.2f}",
            f"{min(pairs):.2f} to {max(pairs):.2f}",
            "" if share is None else f"{100 * share:.0f} %",
            f"{median(each.memory for each in speeds):,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def prediction_lines(measured: Measured) -> list[str]:
    """Two tables for prediction: sentences a second with the memory, and the ratios to the first row."""
    if not measured.speeds:
        return []
    first, speeds = next(iter(measured.speeds.items()))
    columns = list(speeds[0])
    lines = _head("Sentences a second", ["", *columns, "memory, MiB"])
    for row, found in measured.speeds.items():
        rates = [f"{median(each[column].rate for each in found):,.1f}" for column in columns]
        memory = median(max(speed.memory for speed in each.values()) for each in found)
        lines.append(f"| {row.name} | {' | '.join(rates)} | {memory:,.0f} |")
    lines += _head(f"Times {first.name}", ["", *columns])
    for row, found in measured.speeds.items():
        medians = [f"{median(ratios(found, speeds, column)):.2f}" for column in columns]
        lines.append(f"| {row.name} | {' | '.join(medians)} |")
    return lines


def failure_lines(failed: Mapping[str, str]) -> list[str]:
    """A table of the peers and rows that did not install or run, with the last line of each reason."""
    if not failed:
        return []
    lines = _head("Not measured", ["", "reason"])
    return lines + [f"| {name} | {_reason(text)} |" for name, text in failed.items()]


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].replace("|", "/")[:200] if lines else "no reason given"


def _head(heading: str, columns: Sequence[str]) -> list[str]:
    return ["", f"## {heading}", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
