"""A sentence's page: probabilities and weights against the model's own, and what the page shows of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from transduce.answers.transducer import Transducer
from transduce.wings.alignment.attention_weights import attention_weights
from transduce.wings.looking.inspection.sentence import read_sentence
from transduce.wings.looking.reports.sentence import heat_map, links, sentence_page

SOURCE, TARGET = "abca", "acb a"


@pytest.fixture(scope="module")
def transducer(trained: Path) -> Transducer:
    return transduce.load(trained, device="cpu")


def test_probabilities_are_those_of_the_score(transducer: Transducer) -> None:
    found = read_sentence("run", transducer, SOURCE, TARGET)
    (scored,) = transducer.score([(SOURCE, TARGET)])
    assert [step.token for step in found.steps] == list(scored.tokens)
    assert [math.log(step.probability) for step in found.steps] == pytest.approx(scored.token_log_probs, abs=1e-5)
    assert [math.log(step.runners[0][1]) for step in found.steps] == pytest.approx(scored.best_log_probs, abs=1e-5)
    for step, right in zip(found.steps, scored.right, strict=True):
        assert (step.runners[0][0] == step.token) == right
        assert [p for _, p in step.runners] == sorted((p for _, p in step.runners), reverse=True)
    assert found.tree is None  # nothing was searched for
    assert read_sentence("run", transducer, SOURCE).tree is not None


def test_weights_are_those_of_the_model_and_keep_their_mass(transducer: Transducer) -> None:
    found = read_sentence("run", transducer, SOURCE, TARGET)
    (ids,) = transducer.target_tokenizer.encode([TARGET])
    expected = attention_weights(transducer, [transducer.read_one(SOURCE)], [ids])
    for name, heads_HTS in found.heads.items():
        assert heads_HTS.shape[1:] == (len(found.steps), len(found.source_tokens))
        assert torch.equal(heads_HTS, expected.heads[name][0, :, : len(ids), : len(found.source_tokens)])
        assert heads_HTS.sum(-1) == pytest.approx(1, abs=1e-5)
    assert found.words is not None
    on_words_T = found.mean()[:-1, :-1].sum(1)  # all but the end; here each token is a word
    assert found.words.weights_VW.sum(1) == pytest.approx(on_words_T, abs=1e-5)
    (entropy,) = found.entropies().values()
    mean_TS = next(iter(found.heads.values()))[0]
    by_hand = [-sum(float(w) * math.log(w) for w in row if w > 0) / math.log(len(row)) for row in mean_TS]
    assert entropy == pytest.approx([sum(by_hand) / len(by_hand)])


def test_drawings_show_each_weight_once() -> None:
    weights_TS = torch.tensor([[0.7, 0.3, 0.0], [0.04, 0.005, 0.955]])
    grid = heat_map(["a", "<b", "c"], ["x", "y"], weights_TS).alone()
    assert grid.count("<title>") == 4  # not the zero, and not the one below a hundredth
    assert "x ← &lt;b: 0.300" in grid
    assert links(["a", "<b", "c"], ["x", "y"], weights_TS).alone().count("<title>") == 3


def test_inspect_writes_the_page(
    trained: Path, sister: Path, tmp_path: Path, call: Callable[..., Any], transducer: Transducer
) -> None:
    out = tmp_path / "page.html"
    assert call("inspect", trained, SOURCE, "--out", out, "--device=cpu")[0] == 0
    page = out.read_text(encoding="utf-8")
    assert "Output</h2>" in page
    assert "Attention</h2>" in page
    assert "Search</h2>" in page
    assert "Each head alone" not in page  # one head is the mean of all
    assert re.search(r"a probability of \d.*It was least sure of “.+” \(.+ %\); “", page)
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert call("inspect", trained, SOURCE, "--out", out, "--against", sister, "--device=cpu")[0] == 0
    page = out.read_text(encoding="utf-8")
    assert f"Output: {trained}" in page
    assert f"Output: {sister}" in page
    assert call("inspect", trained, SOURCE, "--out", tmp_path / "x.json", "--device=cpu")[0] == 0
    assert json.loads((tmp_path / "x.json").read_text())["text"] == transducer(SOURCE)
    for options, message in (
        (("--against", str(sister)), "is for the page of a sentence: add --out page.html"),
        (("--head=0", "--out", str(out)), "--head 0: the page shows every head"),
    ):
        status, _, err = call("inspect", trained, SOURCE, *options)
        assert status == 2
        assert message in err


def test_a_model_without_attention_has_a_page_without_it(transducer: Transducer) -> None:
    from dataclasses import replace

    found = replace(read_sentence("run", transducer, SOURCE), heads={}, words=None, tree=None)
    assert "Attention" not in sentence_page([found])
