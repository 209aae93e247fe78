"""Counts requests, seconds and queues of a server, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from transduce.wings.serving.service import Service

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds


class Measurements:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "transduce_requests", "Requests by route and HTTP status.", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "transduce_request_seconds", "Seconds of a request.", ["route"], registry=self.registry, buckets=BUCKETS
        )
        self._waiting = Gauge("transduce_waiting", "Sentences in the queue.", ["model"], registry=self.registry)
        self._active = Gauge("transduce_active", "Sentences in the running batch.", ["model"], registry=self.registry)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Counts a finished request. Status 499 means that the client has gone before its answer."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, services: Iterable[Service]) -> bytes:
        """All measurements in Prometheus' text format, with the current queues of the services."""
        for each in services:
            self._waiting.labels(each.name).set(each.scheduler.waiting)
            self._active.labels(each.name).set(each.scheduler.active)
        return generate_latest(self.registry)
