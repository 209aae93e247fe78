"""Counts requests, seconds and queues of a server, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from transduce.wings.serving.catalogue import ServedRun
from transduce.wings.serving.visit import Visit

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds

Measured = tuple[Counter, Histogram, Counter, list[Counter]]


class Measurements:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._counters = lru_cache(1024)(self._found)  # to find them by their labels takes as long as to count
        self._requests = Counter(
            "transduce_requests", "Requests by route and HTTP status.", ["route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "transduce_request_seconds", "Seconds of a request.", ["route"], registry=registry, buckets=BUCKETS
        )
        self._bytes = Counter("transduce_response_bytes", "Bytes of answers.", ["route"], registry=registry)
        self._of_keys = Counter(
            "transduce_key_requests", "Requests by the name of the key.", ["key", "status"], registry=registry
        )
        self._of_runs = Counter("transduce_model_requests", "Requests by run.", ["model", "status"], registry=registry)
        self._waiting = Gauge("transduce_waiting", "Sentences in the queue.", ["model"], registry=registry)
        self._active = Gauge("transduce_active", "Sentences in the running batch.", ["model"], registry=registry)
        self._loaded = Gauge("transduce_loaded", "1 if the run is in memory.", ["model"], registry=registry)

    def count(self, visit: Visit) -> None:
        """Counts a finished request. Status 499 means that the client has gone before its answer."""
        requests, seconds, volume, others = self._counters(visit.route, str(visit.status), visit.key, visit.model)
        requests.inc()
        seconds.observe(visit.seconds)
        volume.inc(visit.bytes)
        for each in others:
            each.inc()

    def _found(self, route: str, status: str, key: str | None, model: str | None) -> Measured:
        """The counters with these labels: requests, seconds and bytes, then those of the key and of the run."""
        others = [] if key is None else [self._of_keys.labels(key, status)]
        others += [] if model is None else [self._of_runs.labels(model, status)]
        return self._requests.labels(route, status), self._seconds.labels(route), self._bytes.labels(route), others

    def text(self, runs: Iterable[ServedRun]) -> bytes:
        """All measurements in Prometheus' text format, with the current queues of the runs."""
        for each in runs:
            service = each.service
            self._loaded.labels(each.name).set(service is not None)
            self._waiting.labels(each.name).set(0 if service is None else service.queue.waiting)
            self._active.labels(each.name).set(0 if service is None else service.queue.active)
        return generate_latest(self.registry)
