"""The speeds of a run on a machine, as lines for people and as values for JSON."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from transduce.wings.lab.speed.prediction import Latency, Throughput
from transduce.wings.lab.speed.training import TrainingSpeed
from transduce.wings.records.machine import Machine
from transduce.wings.records.record import PrintedTable

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class SpeedReport:
    """The speeds of a run on a machine; None for each part that was not measured.

    ``name`` is the run's name. ``precision`` is the precision of the answers. ``memory`` is the largest resident memory
    of this process so far, in MiB. ``limits`` has the GFLOP/s of the machine's fastest products, by precision
    (``speed.limit.fastest_products``).
    """

    name: str
    machine: Machine
    precision: str
    throughput: Throughput | None
    latency: Latency | None
    training: TrainingSpeed | None
    memory: float
    limits: Mapping[str, float]

    def lines(self) -> list[str]:
        """The report as lines of text."""
        rows = self.table().rows
        width = max(len(name) for name, _ in rows)
        return [f"{name:<{width}}  {value}" for name, value in rows]

    def table(self) -> PrintedTable:
        """The report as a table with the columns measure and value."""
        return PrintedTable(f"Speed of {self.name}", ("measure", "value"), tuple(self._rows()))

    def as_record(self) -> dict[str, object]:
        """The report as values for JSON."""
        found: dict[str, object] = {"run": self.name, "machine": asdict(self.machine), "memory_mib": round(self.memory)}
        if self.throughput is not None:
            found["predict"] = {
                "sentences_per_second": self.throughput.sentences_per_second,
                "tokens_per_second": self.throughput.tokens_per_second,
                "gflops": self.throughput.gflops,
                "seconds": self.throughput.seconds,
            }
        if self.latency is not None:
            found["latency_ms"] = {str(share): self.latency.percentile(share) for share in PERCENTILES}
        if self.training is not None:
            found["train"] = asdict(self.training) | {"gflops": self.training.gflops}
        return found

    def _rows(self) -> list[tuple[str, str]]:
        machine = self.machine
        cores = f"{machine.processor}, {machine.threads} of {machine.cores} cores"
        speeds = [f"{gflops:,.0f} GFLOP/s in {precision}" for precision, gflops in self.limits.items()]
        rows = [("machine", ", ".join([cores, *speeds]))]
        if self.throughput is not None:
            found = self.throughput
            rows += [
                (
                    "predict, in batches",
                    f"{found.sentences_per_second:,.1f} sentences/s, median of {len(found.seconds)}",
                ),
                ("", f"{found.tokens_per_second:,.0f} target tokens/s"),
                *self._share(found.gflops, self.precision),
            ]
        if self.latency is not None:
            times = ", ".join(f"{share} % within {self.latency.percentile(share):.1f} ms" for share in PERCENTILES)
            rows.append(("predict, one by one", times))
        if self.training is not None:
            rows += [
                ("train", f"{self.training.tokens_per_second:,.0f} target tokens/s in {self.training.precision}"),
                *self._share(self.training.gflops, self.training.precision),
            ]
        return [*rows, ("memory", f"{self.memory:,.0f} MiB at most")]

    def _share(self, gflops: float | None, precision: str) -> list[tuple[str, str]]:
        """A row that compares the products with the machine's fastest ones; no row if they were not counted.

        A run that is faster than each product alone was measured in a quieter moment. It is the fastest work then.
        """
        if not gflops:
            return []
        limit = max(gflops, self.limits["bfloat16" if precision == "bfloat16" else "float32"])
        return [("", f"{gflops:,.1f} GFLOP/s in products: {100 * gflops / limit:.0f} % of the machine's {limit:,.0f}")]


def peak_memory() -> float:
    """The largest resident memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, KiB elsewhere
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
