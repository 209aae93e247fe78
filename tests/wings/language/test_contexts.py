"""Scores given the text before a line: a carried state or a window against one pass, and the metrics."""

from __future__ import annotations

import json
import math
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from test_cli import Call, told
from test_streams import PAIRS, SETTINGS
from torch import Tensor
from torch.testing import assert_close

import transduce
from families import FACTS, build, count, language, recurrent, targets, transformer
from transduce import api
from transduce.core import config
from transduce.core.types import BOS, EOS, Example, Padded, Prediction
from transduce.metrics.base import metric
from transduce.wings.counted.models.ngram import Ngram
from transduce.wings.language import contexts
from transduce.wings.language.contexts import Carried, Window, context

LSTM = language(recurrent("plain", bridge="zero")["decoder"])
TRANSFORMER = language(transformer()["decoder"])
SOURCE = Padded.of([[EOS]])
LINES = [[*targets(1, length, seed=length)[0].tolist(), EOS] for length in (3, 0, 6, 2, 9)]


def joined(lines: Any) -> Tensor:
    return torch.tensor(list(chain.from_iterable(lines)))


TEXT = joined(LINES)


@torch.no_grad()
def one_pass(model: Any, tokens_M: Tensor, before: int = BOS) -> Tensor:
    """log p of each token given all tokens before it."""
    read_M = torch.cat([torch.tensor([before]), tokens_M[:-1]])
    output, _ = model.extend(torch.where(read_M == EOS, BOS, read_M)[None], model.start(SOURCE))
    found: Tensor = model.readout(output)[0].log_softmax(-1).gather(1, tokens_M[:, None])[:, 0]
    return found


@pytest.mark.parametrize("size", [1, 4, 100])
@torch.no_grad()
def test_a_carried_state_is_one_long_pass(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CHUNK", size)
    model = build(LSTM)
    found = Carried().force(model, SOURCE, LINES)
    assert [list(each.tokens) for each in found] == LINES
    own = torch.tensor([p for each in found for p in each.token_log_probs], dtype=torch.float64)
    assert_close(own, one_pass(model, TEXT))
    assert_close(torch.tensor([each.log_prob for each in found]).sum(), own.sum().float())
    alone = torch.tensor([float(one_pass(model, torch.tensor(line)).sum()) for line in LINES])
    assert (torch.tensor([each.log_prob for each in found]) - alone).abs().max() > 1e-3


@pytest.mark.parametrize(("size", "stride"), [(7, 3), (5, 5), (4, 1), (24, 2), (25, 1), (100, 7)])
@pytest.mark.parametrize("table", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
@torch.no_grad()
def test_a_window_is_a_pass_over_its_tokens(size: int, stride: int, table: Any) -> None:
    model = build(table)
    found = Window(size, stride).force(model, SOURCE, LINES)
    own = torch.tensor([p for each in found for p in each.token_log_probs], dtype=torch.float64)
    M, end, scored, expected = len(TEXT), min(size, len(TEXT)), 0, []
    while scored < M:
        first = end - min(size, M)
        before = BOS if first == 0 else int(TEXT[first - 1])
        expected.append(one_pass(model, TEXT[first:end], before)[scored - first :])
        scored, end = end, min(end + stride, M)
    assert_close(own, torch.cat(expected))


@torch.no_grad()
def test_an_ngram_model_knows_nothing_before_its_line() -> None:
    model = Ngram(FACTS.target_vocabulary, order=3)
    count(model, 0)
    alone = [one_pass(model, torch.tensor(line)).sum() for line in LINES]
    found = Carried().force(model, SOURCE, LINES)
    assert_close(torch.tensor([each.log_prob for each in found]), torch.stack(alone).float())


def test_what_has_no_such_context_is_refused() -> None:
    with pytest.raises(ValueError, match="the state of this model grows with each token"):
        Carried().force(build(TRANSFORMER), SOURCE, LINES)
    with pytest.raises(ValueError, match="size = 3, stride = 4: a stride from 1 to the size"):
        Window(3, 4)
    with pytest.raises(ValueError, match="context 'all': line, carried, or a window such as 256/128"):
        context("all")
    assert (context("line"), context("carried"), context("8/2")) == (None, Carried(), Window(8, 2))


def test_the_signature_says_what_was_read() -> None:
    example, perplexity = Example("", ("ab",)), metric("perplexity")
    perplexity.statistics(Prediction("", 0, -3.0, 3, 1), example)
    assert perplexity.signature == "unit:token|end:counted|refs:first"
    perplexity.statistics(Prediction("", 0, -3.0, 3, 1, forced_context="carried"), example)
    assert perplexity.signature == "unit:token|end:counted|refs:first|context:line,carried"
    bits = metric("bits_per_character")
    row = bits.statistics(Prediction("", 0, -3.0, 2, 1, forced_context="window-8/2"), example)
    assert bits.score(row) == pytest.approx(3 / 3 / math.log(2))
    assert bits.signature == "unit:character|end:counted|refs:first|context:window-8/2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model that is trained and evaluated on one document."""
    folder = tmp_path_factory.mktemp("contexts")
    validation = {"every": 6, "metrics": ["perplexity"], "examples": 3}
    table = SETTINGS | {"context": "carried", "training": {**SETTINGS["training"], "validation": validation}}
    (folder / "text.toml").write_text(config.write(table))
    api.train(folder / "text.toml", folder / "run", pairs=PAIRS, device="cpu", progress=False)
    return folder / "run"


def test_it_is_evaluated_in_its_context_or_in_another(run: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "text.txt").write_text("abab\nab\n\nbabab\n")
    model = transduce.load(run)

    def scores(*options: object) -> dict[str, Any]:
        status, out, _ = call("evaluate", run, "--target", tmp_path / "text.txt", "--json", *options)
        assert status == 0
        found: dict[str, Any] = json.loads(out)
        return found

    lines = model.target_tokenizer.encode(["abab", "ab", "", "babab"])
    carried = one_pass(model.model, joined(lines))
    own = scores("--metric", "perplexity", "--metric", "bits_per_character")
    assert own["metrics"]["perplexity"] == pytest.approx(math.exp(-float(carried.mean())), rel=1e-5)
    assert own["metrics"]["bits_per_character"] == pytest.approx(-float(carried.mean()) / math.log(2), rel=1e-4)
    assert own["signatures"]["perplexity"].endswith("|context:carried")
    alone = torch.cat([one_pass(model.model, torch.tensor(line)) for line in lines])
    assert scores("--context", "line")["metrics"]["perplexity"] == pytest.approx(
        math.exp(-float(alone.mean())), rel=1e-5
    )
    windows = scores("--context", "6/2", "--metric", "token_accuracy")
    assert windows["signatures"]["token_accuracy"].endswith("|context:window-6/2")
    assert "context 'all'" in told(call("evaluate", run, "--target", tmp_path / "text.txt", "--context", "all"))


def test_a_model_with_sources_has_no_text_before(trained: Path, call: Call) -> None:
    answer = call("evaluate", trained, "--metric", "perplexity", "--context", "carried")
    assert "the model has sources" in told(answer)
