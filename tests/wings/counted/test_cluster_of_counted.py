"""What the wing counted adds to test_cluster.py."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from test_cluster import PARTS, Fake, Future, counted, run  # noqa: F401

from selection import mostly_slow
from transduce import api
from transduce.training.callbacks import Callback, Started
from transduce.training.request import TrainingRequest


class Workers(Fake):
    """Stands for ``distributed.Client``. Its jobs are functions with arguments."""

    def submit(self, function: Any, *arguments: Any, pure: bool, retries: int) -> Future:  # type: ignore[override]
        assert not pure
        assert retries > 0
        sent = pickle.loads(pickle.dumps((function, arguments)))
        self.futures.append(Future(lambda: pickle.loads(pickle.dumps(sent[0](*sent[1])))))
        return self.futures[-1]

    def close(self) -> None:
        self.keys.append("closed")


class Reports(Callback):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_start(self, started: Started) -> None:
        self.lines += started.report


@pytest.mark.parametrize(
    ("recipe", "connections"),
    mostly_slow([("ptb-ngram", 1), ("tagging-hmm", 2), ("phrase-based", 1)], fast=[("tagging-hmm", 2)]),
)
def test_a_cluster_prepares_and_counts_the_same_bytes(
    recipe: str, connections: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[Workers] = []

    def connect(address: str) -> Workers:
        assert address == "tcp://there:1"
        clients.append(Workers(threads=2))
        return clients[-1]

    for place in ("transduce.data.encoding.connect", "transduce.compute.cluster.connect"):
        monkeypatch.setattr(place, connect)
    alone = counted(recipe, tmp_path / "alone")
    assert not clients
    for name, value in PARTS.items():
        monkeypatch.setattr(name, value)
    assert counted(recipe, tmp_path / "together", "data.cluster='tcp://there:1'") == alone
    assert len(clients) == 2 + connections  # training pairs, validation pairs, and counts
    assert all(len(each.futures) > 1 and each.keys == ["closed"] for each in clients)


@pytest.mark.parametrize("recipe", ["g2p-joint", "tagging-hmm"])
def test_a_model_that_is_not_counted_in_parts_says_where_it_is_counted(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.data.encoding.connect", lambda address: Workers(threads=2))
    lines = "".join(f"{word}\t{' '.join(word)}\n" for word in ("ab", "ba", "aab", "abb"))
    labels = "a b\t_ B\nb a\tB A\n"  # one is missing
    (tmp_path / "pairs.tsv").write_text(lines if recipe == "g2p-joint" else labels)
    splits = [f"data.{split}.path='{tmp_path / 'pairs.tsv'}'" for split in ("train", "valid", "test")]
    more = ["data.cluster='tcp://there:1'", f"data.cache='{tmp_path / 'cache'}'"]
    reports = Reports()
    api.train_run(
        TrainingRequest(recipe, tmp_path / "run", [*splits, *more]), device="cpu", progress=False, callbacks=[reports]
    )
    assert "counted on this machine: tcp://there:1 only encodes the data" in reports.lines
