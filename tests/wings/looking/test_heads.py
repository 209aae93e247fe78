"""Attention heads: their roles, with weights made for a rule, and their importance, against weights without them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
import transduce.wings.looking.inspection.unattended as unattending
from families import build, sources, stacked, targets
from transduce import api
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.types import Example
from transduce.layers.modules.attention.pruning import keep_heads
from transduce.metrics.base import metric
from transduce.search.greedy import Greedy
from transduce.wings.looking.inspection.heads import _Sums, attention_maps, head_roles
from transduce.wings.looking.inspection.pruned import first_heads, save_without
from transduce.wings.looking.inspection.pruning import gated, importances, pruning_curve
from transduce.wings.looking.inspection.unattended import unattended

PAIRS = [("abca", "acba"), ("bb", "bb"), ("cabac", "cabac"), ("aabb", "bbaa")]


@pytest.fixture(scope="module")
def run(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("heads") / "run"
    layers = {"positions": "sinusoidal", "width": 8, "layers": 2, "heads": 2, "feedforward": 16}
    table = {key: value for key, value in tiny.items() if not key.startswith("model.")} | {
        "model.encoder": {"type": "transformer", **layers},
        "model.decoder": {"type": "transformer", **layers},
    }
    api.train("reverse", path, table, device="cpu", progress=False)
    return path


@pytest.fixture
def transducer(run: Path) -> Transducer:
    return transduce.load(run, device="cpu")


def looks(key_T: list[int], keys: int) -> torch.Tensor:
    """Weights [1, T, keys], with most of the weight on one key for each query."""
    weights = torch.full((1, len(key_T), keys), 0.2 / keys, dtype=torch.double)
    weights[0, range(len(key_T)), key_T] += 0.8
    return weights


@pytest.mark.parametrize(
    ("kind", "keys", "role"),
    [
        ("source", [0, 0, 1, 2, 3, 4], "place -1"),
        ("output", [0, 1, 2, 3, 4, 5], "place +0"),
        ("across", [0, 1, 2, 3, 4, 5], "diagonal"),
        ("source", [6, 6, 6, 6, 6, 6], "end"),
        ("source", [3, 3, 3, 0, 3, 5], "rarest token"),
        ("source", [1, 5, 0, 4, 2, 2], "none"),
    ],
)
def test_roles_of_heads_that_follow_a_rule(kind: Any, keys: list[int], role: str) -> None:
    sums = _Sums(kind, 1)
    sums.add(looks(keys, 7), rarest=3)
    (found,) = sums.roles("x")
    assert found.role == role
    assert found.peak == pytest.approx(0.8 + 0.2 / 7)


def test_equal_weights_have_all_the_entropy() -> None:
    sums = _Sums("across", 1)
    sums.add(torch.full((1, 4, 5), 0.2, dtype=torch.double), rarest=0)
    (found,) = sums.roles("x")
    assert found.entropy == pytest.approx(1)
    sums = _Sums("output", 1)  # the first query of a decoder has one key
    sums.add(torch.tril(torch.ones(4, 4)).div(torch.arange(1, 5)[:, None])[None].double(), rarest=0)
    (found,) = sums.roles("x")
    assert found.entropy == pytest.approx(0.75)


def test_maps_are_shares_without_padding(transducer: Transducer) -> None:
    maps = attention_maps(transducer, PAIRS)
    kinds = [kind for kind, _ in maps.heads.values()]
    assert sorted(kinds) == ["across"] * 2 + ["output"] * 2 + ["source"] * 2
    for kind, weights in maps.heads.values():
        side = maps.target if kind == "output" else maps.source
        queries = maps.source if kind == "source" else maps.target
        for row, (S, T) in enumerate(zip(side.lengths.tolist(), queries.lengths.tolist(), strict=True)):
            assert weights[row, :, :T, :S].sum(-1) == pytest.approx(1, abs=1e-5)
            assert weights[row, :, :T, S:].abs().sum() == 0
    assert [role.head for role in head_roles(transducer, PAIRS, batch_size=3)] == [0, 1] * 6
    alone, together = head_roles(transducer, PAIRS, batch_size=1), head_roles(transducer, PAIRS, batch_size=4)
    for one, other in zip(alone, together, strict=True):  # padding does not count
        assert one.entropy == pytest.approx(other.entropy, abs=1e-5)


def test_tokens_that_no_head_attends(transducer: Transducer, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = attention_maps(transducer, PAIRS)
    across = {name: (kind, weights.clone()) for name, (kind, weights) in whole.heads.items()}
    for kind, weights in across.values():
        if kind == "across":
            weights[:] = 0.0
            weights[:, 1, :, 0] = 0.9  # one head looks at the first token, and its padding rows look at the second
            weights[1, 0, int(whole.target.lengths[1]) :, 1] = 1.0
    monkeypatch.setattr(unattending, "attention_maps", lambda *_: whole._replace(heads=across))
    found = unattended(transducer, PAIRS)
    assert found is not None
    assert found.tokens == Counter("bca" + "b" + "abac" + "abb")
    assert (found.count, found.all_tokens) == (15, Counter("abca" + "bb" + "cabac" + "aabb"))
    assert "11 of 15 source tokens (73.3 %)" in found.lines()[0]


def silenced(run: Path, name: str, head: int) -> Transducer:
    """A transducer whose output projection ignores the head."""
    other = transduce.load(run, device="cpu")
    out = other.model.get_submodule(name.rpartition(".")[0]).out
    with torch.no_grad():
        out.weight[:, 4 * head : 4 * head + 4] = 0
    return other


def test_a_gate_of_0_is_a_head_that_is_not_read(run: Path, transducer: Transducer) -> None:
    for name, (_, weights) in attention_maps(transducer, PAIRS).heads.items():
        other = silenced(run, name, 1)
        with gated(transducer.model, {name: torch.tensor([1.0, 0.0])}):
            found = [next(transducer.predict([source], Greedy(max_length=6)))[0] for source, _ in PAIRS]
            scores = [each.log_prob for each in transducer.score(PAIRS)]
        assert weights.shape[1] == 2
        expected = [next(other.predict([source], Greedy(max_length=6)))[0] for source, _ in PAIRS]
        assert [each.text for each in found] == [each.text for each in expected]
        assert scores == pytest.approx([each.log_prob for each in other.score(PAIRS)], abs=1e-5)


def test_importance_is_the_change_of_the_loss(run: Path, transducer: Transducer) -> None:
    found = {each.head: each for each in importances(transducer, PAIRS, batch_size=3)}
    assert len(found) == 12
    tokens = sum(len(each.tokens) for each in transducer.score(PAIRS))
    for name in ("encoder.layers.0.mixer.heads", "decoder.layers.1.memory.heads"):

        def losses(model: Transducer) -> list[float]:
            return [-float(each.log_prob) for each in model.score(PAIRS)]

        rise = sum(losses(silenced(run, name, 0))) - sum(losses(transducer))
        assert found[name, 0].alone == pytest.approx(rise / tokens, abs=1e-5)
        ends = []
        for gate in (0.99, 1.01):
            with gated(transducer.model, {name: torch.tensor([gate, 1.0])}):
                ends.append(losses(transducer))
        slopes = [abs(high - low) / 0.02 for low, high in zip(*ends, strict=True)]
        assert found[name, 0].gradient == pytest.approx(sum(slopes) / len(PAIRS), rel=0.05, abs=1e-4)


def test_the_curve_silences_the_first_heads_of_the_order(transducer: Transducer) -> None:
    names = list(attention_maps(transducer, PAIRS).heads)
    order = [(name, head) for name in names for head in (0, 1)]
    examples = [Example(source, (target,)) for source, target in PAIRS]
    curve = pruning_curve(transducer, examples, metric("perplexity"), order, (0, 0.25, 1))
    whole = transducer.evaluate(examples, [metric("perplexity")]).scores["perplexity"]
    gates = {names[0]: torch.zeros(2), names[1]: torch.tensor([0.0, 1.0])}
    with gated(transducer.model, gates):
        some = transducer.evaluate(examples, [metric("perplexity")]).scores["perplexity"]
    assert [count for count, _ in curve] == [0, 3, 12]
    assert [score for _, score in curve[:2]] == pytest.approx([whole, some])
    assert transducer.evaluate(examples, [metric("perplexity")]).scores["perplexity"] == whole  # the gates are removed


@pytest.mark.parametrize("relative", ["none", "t5", "alibi", "shaw", "rotary"])
def test_a_pruned_model_is_the_model_with_silenced_heads(relative: str) -> None:
    mixer = {"type": "attention", "relative": relative}
    stack = {"mixer": mixer, "heads": 4, "width": 16}
    table = stacked(stack, stack)
    model, source, target = build(table), sources([3, 5]), targets(2, 4)
    kept = {"encoder.layers.1.mixer": [1, 3], "decoder.layers.0.mixer": [2], "decoder.layers.1.memory": [0, 1, 3]}
    gates = {}
    for name, heads in kept.items():
        gates[f"{name}.heads"] = torch.zeros(4, dtype=torch.double)
        gates[f"{name}.heads"][heads] = 1.0
    with torch.no_grad():
        with gated(model, gates):
            silent = model.readout(model.extend(target, model.start(source))[0])
        pruned = build(table | {"kept_heads": kept})
        keep_heads(model, kept)
        pruned.load_state_dict(model.state_dict())
        assert pruned.encoder.layers[1].mixer.out.weight.shape == (16, 8)
        found = pruned.readout(pruned.extend(target, pruned.start(source))[0])
    torch.testing.assert_close(found, silent)


def test_a_pruned_run_answers_as_the_silenced_one(run: Path, transducer: Transducer, tmp_path: Path) -> None:
    order = [each.head for each in sorted(importances(transducer, PAIRS), key=lambda each: each.gradient)]
    removed = first_heads(order, 0.4)
    assert len(removed) == 5
    assert all(count == 1 for count in Counter(name for name, _ in removed).values())
    with gated(
        transducer.model, {name: torch.tensor([float(head != each) for each in (0, 1)]) for name, head in removed}
    ):
        expected = [next(transducer.predict([source], Greedy(max_length=6)))[0].text for source, _ in PAIRS]
        scores = [each.log_prob for each in transducer.score(PAIRS)]
    save_without(run, transducer, removed, tmp_path / "pruned")
    pruned = transduce.load(tmp_path / "pruned", device="cpu")
    assert [next(pruned.predict([source], Greedy(max_length=6)))[0].text for source, _ in PAIRS] == expected
    assert [each.log_prob for each in pruned.score(PAIRS)] == pytest.approx(scores, abs=1e-4)
    other = next(each for each in order if each[0] not in dict(removed))
    save_without(tmp_path / "pruned", pruned, [other], tmp_path / "twice")
    again = transduce.load(tmp_path / "twice", device="cpu")
    assert len(again.settings["model"]["kept_heads"]) == 6
    assert sum(p.numel() for p in again.model.parameters()) < sum(p.numel() for p in pruned.model.parameters())
    with pytest.raises(UserError, match="exists and is not empty"):
        save_without(run, transducer, removed, tmp_path / "pruned")


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ({"encoder.layers.7.mixer": [0]}, "'encoder.layers.7.mixer' is no attention of this model that can lose heads"),
        ({"encoder.layers.0.mixer": []}, r"encoder.layers.0.mixer = \[\]: at least one number from 0 to 1"),
        ({"encoder.layers.0.mixer": [1, 0]}, r"\[1, 0\]: at least one number from 0 to 1 .* in increasing order"),
        ({"encoder.layers.0.mixer": [2]}, r"\[2\]: at least one number from 0 to 1"),
    ],
)
def test_heads_that_cannot_be_kept(kept: dict[str, list[int]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        keep_heads(build(stacked({}, {})), kept)


def test_heads_on_the_command_line(run: Path, trained: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    asked = "heads", run, "--limit=8", "--device=cpu"
    status, out, _ = call(*asked, "--prune", "--metric=perplexity", "--out", tmp_path / "curve.svg")
    assert status == 0
    assert "12 heads silenced: perplexity" in out.replace("of 12", "12")
    assert (tmp_path / "curve.svg").exists()
    record = json.loads(call(*asked, "--json", "--importance")[1])
    assert len(record["heads"]) == len(record["importance"]) == 12
    status, _, err = call(*asked, "--out=x.svg")
    assert status == 2
    assert "--out x.svg: without --prune there is no curve to draw" in err
    assert "--metric is for the curve of --prune" in call(*asked, "--metric=bleu")[2]
    assert call(*asked, "--prune", "--out", tmp_path / "page.html", "--save", tmp_path / "pruned")[0] == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('class="head"') == 12
    assert page.count('class="mark"') == len(record["heads"]) // 2  # a point for each of six shares
    assert "Source tokens that no head attends" in page
    assert "kept_heads" in (tmp_path / "pruned" / "config.toml").read_text()
    with pytest.raises(UserError, match="no attention with several heads"):
        head_roles(transduce.load(trained, device="cpu"), PAIRS)
