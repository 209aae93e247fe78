"""How near states come to rank one: known matrices, and an encoder written out without its parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from transduce import api
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.wings.looking.inspection.rank import rank_residuals, residual

SOURCE = "abcab"


@pytest.fixture(scope="module")
def run(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("rank") / "run"
    layers = {"positions": "sinusoidal", "width": 8, "layers": 2, "heads": 2, "feedforward": 16}
    table = {key: value for key, value in tiny.items() if not key.startswith("model.")} | {
        "model.encoder": {"type": "transformer", **layers},
        "model.decoder": {"type": "transformer", **layers},
    }
    api.train("reverse", path, table, device="cpu", progress=False)
    return path


@pytest.fixture(scope="module")
def transducer(run: Path) -> Transducer:
    return transduce.load(run, device="cpu")


def test_the_residual_of_known_matrices() -> None:
    assert residual(torch.ones(4, 3)) == 0
    assert residual(torch.zeros(4, 3)) == 0
    assert residual(torch.eye(2)) == pytest.approx((0.5) ** 0.5)  # four halves squared, of a square of 2


@torch.no_grad()
def test_curves_are_those_of_an_encoder_written_out(transducer: Transducer) -> None:
    found = rank_residuals(transducer, SOURCE).curves
    encoder = transducer.model.encoder
    source = transducer.padded([transducer.read_one(SOURCE)])
    places = torch.arange(source.values.shape[1])[None]
    start = encoder.embedding.embed(source).values + encoder.positions(places)
    for name, skips, feedforward in (
        ("attention alone", 0, False),
        ("with feed-forward", 0, True),
        ("with skips", 1, False),
        ("with both", 1, True),
    ):
        x, expected = start, [residual(start[0])]
        for layer in encoder.layers:
            attended = layer.mixer(type(source)(layer.mixer_residual.norm(x), source.lengths))
            x = skips * x + attended
            if feedforward:
                x = skips * x + layer.feedforward(layer.feedforward_residual.norm(x))
            expected.append(residual(x[0]))
        assert found[name] == pytest.approx(expected, rel=1e-4)
    assert found["untrained, with both"] != found["with both"]


def test_the_model_is_not_changed(transducer: Transducer) -> None:
    before = transducer(SOURCE), {name: each.clone() for name, each in transducer.model.state_dict().items()}
    rank_residuals(transducer, SOURCE)
    after = transducer.model.state_dict()
    assert transducer(SOURCE) == before[0]
    assert after.keys() == before[1].keys()
    assert all(torch.equal(after[name], each) for name, each in before[1].items())


def test_inspect_shows_the_rank(run: Path, trained: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    status, out, _ = call("inspect", run, SOURCE, "--rank", "--device=cpu")
    assert status == 0
    assert out.splitlines()[1].startswith("attention alone")
    assert call("inspect", run, SOURCE, "--rank", "--out", tmp_path / "rank.json")[0] == 0
    assert len(json.loads((tmp_path / "rank.json").read_text())["with both"]) == 3
    assert call("inspect", run, SOURCE, "--rank", "--out", tmp_path / "rank.svg")[0] == 0
    with pytest.raises(UserError, match="has no Transformer's layers"):
        rank_residuals(transduce.load(trained, device="cpu"), SOURCE)
