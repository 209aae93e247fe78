"""Hugging Face: its Marian model in a plain training loop, and its ``generate`` with our weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peers.base import Column, Environment, Family, Finished, PeerError, Speed, Task, program
from peers.sizes import LONGEST


@dataclass(frozen=True)
class HuggingFace:
    environment: Environment
    name: str = "Hugging Face"
    trains: Sequence[tuple[Family, str]] = (("transformer", "float32"), ("transformer", "bfloat16"))
    predicts: Sequence[str] = ("float32",)

    def install(self) -> str:
        self.environment.install()
        return self.environment.version("transformers")

    def train(self, task: Task, family: Family, precision: str) -> Speed:
        options = {
            "do": "train",
            "batches": task.data.batches,
            "vocabulary": task.data.vocabulary,
            "precision": precision,
            "seconds": task.seconds,
            "seed": task.data.setting.seed,
        }
        found = self._run(options, task)
        return Speed(found.answer["rate"], found.memory, found.answer["parameters"])

    def predict(self, task: Task, way: str, columns: Sequence[Column]) -> dict[Column, Speed]:
        options = {
            "do": "generate",
            "folder": task.data.exports / "marian",
            "sources": task.data.test,
            "columns": [(each.beam, each.batch, each.count) for each in columns],
            "longest": LONGEST,
        }
        found = self._run(options, task)
        pairs = zip(columns, found.answer["rates"], strict=True)
        return {column: Speed(rate, found.memory) for column, rate in pairs}

    def _run(self, options: dict[str, object], task: Task) -> Finished:
        if not self.environment.python.exists():
            raise PeerError("it is not installed")
        return program(self.environment.python, "marian", {"threads": task.threads, **options}, task.threads)
