"""n-gram language models: their distribution word by word, and a run from text to what comes next."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transduce
from families import FACTS, paired
from transduce.core import config
from transduce.core.config.user_data import Merged
from transduce.core.protocols import Model
from transduce.core.types import BOS, EOS, UNK, Padded
from transduce.models.weights import set_weights, weights
from transduce.training.begin import train
from transduce.training.job import Job
from transduce.wings.counted.kneser_ney import estimate
from transduce.wings.counted.models.ngram import Ngram
from transduce.wings.counted.ngram_lookup import NgramLookup

Call = Callable[..., tuple[int, str, str]]
LINES = [[4, 5, 6], [4, 5], [7, 5, 6, 6], [], [4, 5, 6, 9]]


@pytest.fixture(scope="module")
def model() -> Any:
    found: Any = config.build({"type": "ngram", "order": 3}, Model, FACTS, "model")
    counts = found.double().counts(paired([([EOS], [*line, EOS]) for line in LINES]))
    alike = counts.reestimate()
    assert alike == pytest.approx(-counts.tokens * math.log(FACTS.target_vocabulary - EOS))
    assert alike < counts.reestimate() == counts.reestimate() < 0
    counts.store()
    return found


def test_a_line_is_as_probable_as_its_n_grams(model: Any) -> None:
    """Every token that could stand there, the end among them, after every beginning of some lines; together they are
    certain."""
    ngrams = NgramLookup().double()
    words = FACTS.target_vocabulary - UNK
    ngrams.learn(estimate([np.array(line, np.int64) - UNK for line in LINES], words, 3))
    for line in [[4, 5, 6, 9, 8], [7, 5, 5], [], [UNK, 4, 5]]:
        output, _ = model.extend(torch.tensor([[BOS, *line]]), model.start(Padded.of([[EOS]])))
        found = model.readout(output)[0]
        history = ngrams.begun
        for place, following in enumerate([*line, EOS]):
            asked, after = ngrams(torch.full((words + 1,), history), torch.arange(words + 1))
            assert found[place, UNK:].tolist() == pytest.approx(asked[:words].tolist(), abs=1e-12)
            assert float(found[place, EOS]) == pytest.approx(float(asked[words]), abs=1e-12)
            assert found[place].exp().sum() == pytest.approx(1.0)
            history = int(after[following - UNK]) if following != EOS else 0
    assert found[0, :EOS].tolist() == [-math.inf, -math.inf]


def test_what_is_measured_is_what_the_model_says(model: Any) -> None:
    counts = model.counts(paired([([EOS], [*line, EOS]) for line in [[4, 5, 8], []]]))
    target = Padded.of([[BOS, 4, 5, 8], [BOS]])
    output, _ = model.extend(target.values, model.start(target))
    log_probs = model.readout(output)
    wanted = [log_probs[0, place, token] for place, token in enumerate([4, 5, 8, EOS])] + [log_probs[1, 0, EOS]]
    assert counts.log_prob() == pytest.approx(float(sum(wanted)))


def test_what_cannot_be_counted_says_so() -> None:
    with pytest.raises(ValueError, match="order = 0: at least 1"):
        Ngram(9, 0)
    empty: Any = config.build({"type": "ngram"}, Model, FACTS, "model")
    with pytest.raises(ValueError, match="has not been counted, or not with this vocabulary: train it by itself"):
        empty.start(Padded.of([[EOS]]))
    empty.counts(paired([([EOS], [4, EOS])])).store()
    other = Ngram(FACTS.target_vocabulary + 1)
    set_weights(other, weights(empty), "elsewhere")
    with pytest.raises(ValueError, match="or not with this vocabulary"):
        other.start(Padded.of([[EOS]]))
    pairs = paired([([EOS], [4, EOS])])
    pairs.target.ids = pairs.target.ids.astype(np.float32)
    with pytest.raises(ValueError, match="an n-gram model counts tokens, and the data has numbers"):
        empty.counts(pairs)


# ------------------------------------------------------------------------- a run

TEXT = ["the dog barks", "the cat sleeps", "a dog sleeps", "the dog sleeps", "a cat barks at the dog"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe, of one's own text."""
    folder = tmp_path_factory.mktemp("ngram")
    (folder / "a.txt").write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    files = {f"data.{split}.path": str(folder / "a.txt") for split in ("train", "valid", "test")}
    transduce.train("ptb-ngram", folder / "run", files | {"model.order": 3}, device="cpu", progress=False)
    return folder / "run"


def test_from_text_to_what_comes_next(run: Path, call: Call, tmp_path: Path) -> None:
    status, out, err = call("predict", run, "--prefix", "the cat", stdin=b"\n")
    assert (status, out) == (0, "the cat sleeps\n"), err
    status, out, _ = call("predict", run, "--set", "search.type=sampling", "--prefix", "a", stdin=b"\n")
    assert status == 0
    assert out.startswith("a ")
    status, out, _ = call("evaluate", run, "--json")
    perplexity = json.loads(out)["metrics"]["perplexity"]
    assert (status, 1 < perplexity < 6) == (0, True)
    (tmp_path / "lines.txt").write_text("the dog sleeps\nsleeps dog the\n", encoding="utf-8")
    status, out, _ = call("score", run, tmp_path / "lines.txt")
    likely, unlikely = map(float, out.split())
    assert 0 > likely > unlikely
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert events[1]["loss"] == pytest.approx(math.log(perplexity), rel=1e-4)


def test_it_is_mixed_with_a_trained_one(run: Path, tmp_path: Path, call: Call) -> None:
    settings = config.read(run / "config.toml")
    lstm = {"type": "recurrent", "cell": "lstm", "embedding_width": 4, "width": 4, "bridge": "zero", "wiring": "plain"}
    trained = settings | {"model": {"type": "language-model", "decoder": lstm}, "training": {"steps": 2}}
    train(Job(tmp_path / "lstm", Merged(trained)))
    (tmp_path / "line.txt").write_text("dogs\n", encoding="utf-8")  # a word that is unknown, and the end
    alone, mixed = [], f"{run}+{tmp_path / 'lstm'}"
    for each in (run, tmp_path / "lstm", mixed):
        status, out, err = call("score", each, tmp_path / "line.txt", "--format", "jsonl")
        assert status == 0, err
        alone.append(math.exp(json.loads(out)["token_log_probs"][0]))
    assert alone[2] == pytest.approx((alone[0] + alone[1]) / 2, rel=1e-4)


def test_a_step_asks_for_one_token_alone(model: Any) -> None:
    line = [4, 5, 8, 6, EOS]
    output, _ = model.extend(torch.tensor([[BOS, *line[:-1]]]), model.start(Padded.of([[EOS]])))
    wanted, state = model.readout(output)[0], model.start(Padded.of([[EOS]]))
    for place, token in enumerate(line):
        log_prob, state = model.step(state, torch.tensor([token]))
        assert float(log_prob) == pytest.approx(float(wanted[place, token]))
