"""The benchmark of peers: the turns, the tables, the reasons, and the programs' answers. Nothing is installed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def main() -> Iterator[ModuleType]:
    """The command, with its package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.syspath_prepend(str(BENCHMARKS))
        import toolkits as module

        yield module


@dataclass(frozen=True, eq=False)
class Stub:
    """A peer with given rates, one a round; a rate of 0 fails."""

    name: str
    rates: Sequence[float]
    calls: list[str]
    trains: Sequence[Any] = (("transformer", "float32"),)
    predicts: Sequence[str] = ("float32",)
    made: list[Any] = field(default_factory=list)

    def install(self) -> str:
        from peers.base import PeerError

        if not self.rates:
            raise PeerError("pip said\nno | such thing\n")
        return "1.0"

    def train(self, task: Any, family: str, precision: str) -> Any:
        from peers.base import PeerError, Speed

        self.calls.append(self.name)
        self.made.append(self.rates[len(self.made)])
        if not self.made[-1]:
            raise PeerError("it fell over")
        return Speed(self.made[-1], 100 * self.made[-1], 7)

    def predict(self, task: Any, way: str, columns: Sequence[Any]) -> dict[Any, Any]:
        speed = self.train(task, way, way)
        return dict.fromkeys(columns, speed)


def test_rows_take_turns_and_compare_with_the_first_round_by_round(main: ModuleType) -> None:
    from peers.turns import failure_lines, training, training_lines

    calls: list[str] = []
    stubs = [Stub("a", (1, 4, 2), calls), Stub("b", (3, 4, 10), calls), Stub("c", (1, 0), calls)]
    measured = training(stubs, "transformer", None, 3)  # type: ignore[arg-type]
    assert calls == ["a", "b", "c", "a", "b", "c", "a", "b"]
    lines = training_lines("Speed", measured, {"b, float32": 0.5})
    assert lines[-2:] == [
        "| a, float32 | 7 | 2 | 1 to 4 | 1.00 | 1.00 to 1.00 |  | 200 |",
        "| b, float32 | 7 | 4 | 3 to 10 | 3.00 | 1.00 to 5.00 | 50 % | 400 |",
    ]
    assert failure_lines(measured.failed)[-1] == "| c, float32 | it fell over |"
    assert training(stubs, "recurrent", None, 1).speeds == {}  # type: ignore[arg-type]


def test_prediction_has_a_column_for_each_search_and_the_ratios_to_the_first_row(main: ModuleType) -> None:
    from peers.base import Column
    from peers.turns import prediction, prediction_lines

    stubs = [Stub("a", (2.0,), []), Stub("b", (3.0,), [])]
    lines = prediction_lines(prediction(stubs, [Column(1, 64, 9), Column(5, 1, 9)], None, 1))  # type: ignore[arg-type]
    assert "|  | greedy, batches | beam 5, in sequence | memory, MiB |" in lines
    assert "| b, float32 | 3.0 | 3.0 | 300 |" in lines
    assert lines[-1] == "| b, float32 | 1.50 | 1.50 |"


def test_a_peer_that_does_not_install_is_listed_with_the_reason(main: ModuleType) -> None:
    from peers.turns import failure_lines

    found, failed, versions = main.installed({"a": Stub("a", (1,), []), "b": Stub("b", (), [])})
    assert [peer.name for peer in found] == ["a"]
    assert versions == ["a 1.0"]
    assert failure_lines(failed)[-1] == "| b | no / such thing |"


def test_a_speed_is_the_median_of_the_reports_after_the_first_and_then_the_process_ends(
    main: ModuleType, tmp_path: Path
) -> None:
    from peers.base import PeerError, Task, trained_by_log
    from peers.joeynmt import REPORTED as JOEYNMT
    from peers.opennmt import REPORTED as OPENNMT

    task = Task(None, 1, 0.0)  # type: ignore[arg-type]
    reports = (
        (OPENNMT, "Step {0}0/1000000; acc: 1.1; bsz: 1/2/3; 50/ {0}00 tok/s;     3 sec;"),
        (JOEYNMT, "Epoch   1, Step:       {0}0, Tokens per Sec:      {0}00, Lr: 0.1"),
    )
    for pattern, line in reports:
        code = f"import time; print('start'); [print({line!r}.format(i)) or i == 2 and time.sleep(60) for i in (9, 2)]"
        speed = trained_by_log([sys.executable, "-c", code], task, pattern, tmp_path)
        assert speed.rate == 200
        assert speed.memory > 1
    with pytest.raises(PeerError, match="ended with 3"):
        trained_by_log([sys.executable, "-c", "exit(3)"], task, OPENNMT, tmp_path)
    with pytest.raises(PeerError, match="no two reports"):
        trained_by_log([sys.executable, "-c", "print('done')"], task, OPENNMT, tmp_path)


def test_the_configuration_of_joeynmt_has_its_order_of_tokens_and_numbers_that_yaml_reads(
    main: ModuleType, tmp_path: Path
) -> None:
    from peers.data import Data
    from peers.joeynmt import _configuration

    setting: Any = SimpleNamespace(seed=1)
    for family in main.FAMILIES:
        written = json.dumps(_configuration(Data(tmp_path, setting), family, "run"))
        assert not re.search(r"\de-?\d", written)  # YAML reads "1e-09" as text
        tokens = json.loads(written)["data"]["special_symbols"]
        ids = {tokens[f"{name}_id"]: tokens[f"{name}_token"] for name in ("unk", "pad", "bos", "eos")}
        assert ids == {0: SPECIALS[UNK], 1: SPECIALS[PAD], 2: SPECIALS[BOS], 3: SPECIALS[EOS]}


def test_a_record_names_the_command(main: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from report import command  # type: ignore[import-not-found]

    monkeypatch.setattr(sys, "argv", ["x/benchmarks", "toolkits", "/home/me/HOME"])
    assert command() == "python benchmarks toolkits HOME"


def test_an_environment_is_made_once_and_again_when_other_packages_are_asked(
    main: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import peers.base as base

    commands: list[str] = []
    monkeypatch.setattr(base, "run", lambda command, *_: commands.append(" ".join(map(str, command[1:]))))
    asked = base.Environment(tmp_path, "torch==9", ("some",), ("pinned",))
    asked.install()
    asked.install()
    assert [each.split(" install ")[-1] for each in commands] == [
        f"-m venv --clear {tmp_path}",
        "--quiet torch==9",
        "--quiet some",
        "--quiet --no-deps pinned",
    ]
    base.Environment(tmp_path, "torch==9", ("another",)).install()
    assert len(commands) == 7


def test_pieces_are_the_engines_names_and_rows_lose_padding_and_end(main: ModuleType, tmp_path: Path) -> None:
    import numpy as np
    import peers.data as data

    from transduce.data.pairs import Ragged

    rows = Ragged(np.array([7, EOS, 9, 3, EOS]), np.array([0, 2, 5]))
    assert data._lines(rows) == ["7\n", "9 <unk>\n"]
    assert data._unpadded([[7, EOS, PAD]]) == [[7, EOS]]


def test_the_plain_loop_reads_shifted_targets_and_learns(main: ModuleType) -> None:
    from peers.programs import marian

    assert (marian.PAD, marian.BOS, marian.EOS) == (PAD, BOS, EOS)
    read: list[Any] = []

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(6))

        def forward(self, source: torch.Tensor, attention_mask: torch.Tensor, decoder_input_ids: torch.Tensor) -> Any:
            read.append((attention_mask.tolist(), decoder_input_ids.tolist()))
            return type("Output", (), {"logits": self.weight.expand(*decoder_input_ids.shape, 6)})

    pair = marian.padded([[5, EOS], [4, 5, EOS]]), marian.padded([[4, EOS], [EOS]])
    losses = [loss.item() for loss in marian.updates(Model(), [pair] * 3, "float32")]
    assert read[0] == ([[1, 1, 0], [1, 1, 1]], [[BOS, 4], [BOS, EOS]])
    assert losses[0] > losses[2]


def test_the_rate_of_the_plain_loop_rises_and_falls(main: ModuleType) -> None:
    from peers.programs.marian import Plan

    assert [Plan(2.0, 2, 6).at(step) for step in range(1, 7)] == pytest.approx([1.0, 2.0, 1.5, 1.0, 0.5, 0.0])
    assert [Plan(2.0, 4).at(step) for step in (2, 4, 16)] == pytest.approx([1.0, 2.0, 1.0])


def test_answers_are_read_from_the_last_line_of_a_program(main: ModuleType) -> None:
    from peers.base import Finished

    assert Finished(["a warning", json.dumps({"rates": [1.5]})]).answer == {"rates": [1.5]}
