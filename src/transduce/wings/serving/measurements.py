"""Counts requests, seconds and queues of a server, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from transduce.wings.serving.catalogue import ServedRun
from transduce.wings.serving.visit import Visit

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds


class Measurements:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
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
        status = str(visit.status)
        self._requests.labels(visit.route, status).inc()
        self._seconds.labels(visit.route).observe(visit.seconds)
        self._bytes.labels(visit.route).inc(visit.bytes)
        if visit.key is not None:
            self._of_keys.labels(visit.key, status).inc()
        if visit.model is not None:
            self._of_runs.labels(visit.model, status).inc()

    def text(self, runs: Iterable[ServedRun]) -> bytes:
        """All measurements in Prometheus' text format, with the current queues of the runs."""
        for each in runs:
            service = each.service
            self._loaded.labels(each.name).set(service is not None)
            self._waiting.labels(each.name).set(0 if service is None else service.scheduler.waiting)
            self._active.labels(each.name).set(0 if service is None else service.scheduler.active)
        return generate_latest(self.registry)
