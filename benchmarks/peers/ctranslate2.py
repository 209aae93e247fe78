"""CTranslate2 by its own Python API, with our weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peers.base import Column, Environment, Family, PeerError, Speed, Task, program
from peers.sizes import LONGEST


@dataclass(frozen=True)
class CTranslate2:
    environment: Environment
    name: str = "CTranslate2"
    trains: Sequence[tuple[Family, str]] = ()
    predicts: Sequence[str] = ("float32", "int8")

    def install(self) -> str:
        self.environment.install()
        return self.environment.version("ctranslate2")

    def train(self, task: Task, family: Family, precision: str) -> Speed:
        raise PeerError("CTranslate2 does not train")

    def predict(self, task: Task, way: str, columns: Sequence[Column]) -> dict[Column, Speed]:
        options = {
            "folder": task.data.exports / f"ctranslate2-{way}",
            "precision": way,
            "sources": task.data.test_pieces,
            "threads": task.threads,
            "columns": [(each.beam, each.batch, each.count) for each in columns],
            "longest": LONGEST,
        }
        found = program(self.environment.python, "translator", options, task.threads)
        pairs = zip(columns, found.answer["rates"], strict=True)
        return {column: Speed(rate, found.memory) for column, rate in pairs}
